"""Arista EOS by eAPI: changes in a configuration session, which is committed as a whole or aborted.

A `commit timer` isn't used: it would roll back what other sessions committed meanwhile, and no VLAN of a
host's port can cut off the switch's management.

Sources: Arista eAPI guide (runCmds, error codes 1000 to 1005); EOS manual, "Configure Session", "VLANs".
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from weft.drivers.switches.access import Api, UnheardError
from weft.drivers.switches.counters import eos_counters, some_port
from weft.drivers.switches.eosqos import eos_qos
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.linkstates import Links, eos_links
from weft.drivers.switches.parts import UndoneError
from weft.drivers.switches.switch import CONFIRM_SECONDS, SwitchSession
from weft.drivers.switches.vlans import EVERY, Batch, PortVlans, SwitchState, from_ranges, ranges, vlan_of
from weft.model.errors import OutsideError, PermanentError, UnknownError
from weft.model.fabrictypes import Level
from weft.model.portcounters import PortCounters
from weft.planning.fabric.qos import SwitchQos
from weft.planning.site.neighbours import LldpNeighbour, neighbour

INVALID = (1002, 1004)
"""eAPI's codes of an invalid and an incompatible command; other errors don't say what was done."""
SESSION = re.compile(r"weft-([0-9a-f]{8})-[0-9a-f]{6}")
LEFT_SECONDS = 600.0
"""Age, in seconds, from which a session of weft's counts as abandoned."""
LINK = re.compile(r"in Po(\d+)")
"""How `show interfaces status` says that a port is a link of an aggregation, whose VLANs are its own."""
READ = ["show interfaces switchport", "show interfaces status", "show vlan", "show version"]
"""The VLANs' members come last: otherwise a port that is removed meanwhile would still be in a VLAN by them alone."""
MODES = frozenset({"access", "trunk", "dot1q-tunnel", "dot1qTunnel"})
"""Switchport modes that define a port's VLANs; a tunnel's is its access VLAN. Mirrors (tap, tool) don't."""


class Eos(SwitchSession):
    """One switch."""

    def __init__(self, name: str, api: Api, limits: SwitchLimits, confirm: float = CONFIRM_SECONDS) -> None:
        super().__init__(name, limits, api.url, confirm)
        self._api = api

    def close(self) -> None:
        self._api.close()

    def _read(self) -> SwitchState:
        ports, status, vlans, version = self._run(READ)
        with self.reading("read the configuration"):
            defined = {int(n): row for n, row in vlans["vlans"].items()}
            if not defined or not ports["switchports"]:  # VLAN 1 is always there
                raise ValueError("no VLAN or no port is in it")
            suspended = frozenset(
                n for n, row in defined.items() if str(row["status"]).lower() == "suspended"
            )
            links = dict(_links(status["interfaceStatuses"], ports["switchports"].keys()))
            there, unfit = self._ports({p: row for p, row in ports["switchports"].items() if p not in links})
            unfit |= links
            open_parking = self.limits.parking in defined.keys() - suspended
            parked = frozenset(p for p, vlans in there.items() if vlans == PortVlans() and p not in unfit)
            return SwitchState(
                {n: _name(n, row["name"]) for n, row in defined.items()},
                there,
                float(version["bootupTimestamp"]) + float(version["uptime"]),
                suspended=suspended,
                exposed=parked if open_parking else frozenset(),
                unfit=unfit,
                level=Level.OPERATIONAL,
                beyond=self._beyond(defined, there),
            )

    def _beyond(
        self, vlans: dict[int, dict[str, Any]], there: dict[str, PortVlans]
    ) -> dict[str, frozenset[int]]:
        """Active members of VLANs that their switchport settings don't name, e.g. by 802.1X."""
        found: dict[str, set[int]] = {}
        for number, row in vlans.items():
            for port in row["interfaces"]:
                if port in there and number not in there[port].numbers and self._forwards(number):
                    found.setdefault(port, set()).add(number)
        return {port: frozenset(numbers) for port, numbers in found.items()}

    def _ports(self, rows: dict[str, Any]) -> tuple[dict[str, PortVlans], dict[str, str]]:
        """Ports, and ports named by the site that can't be put into a VLAN, with the reason. A port of
        unknown mode counts as unreadable if the site names it, since it may be in any VLAN. Otherwise it
        counts as in the VLAN that EOS reports, so that one port doesn't make the whole switch unreadable.
        """
        there: dict[str, PortVlans] = {}
        unfit: dict[str, str] = {}
        for port, row in rows.items():
            named = port in self.limits.ports
            if not isinstance(row["enabled"], bool):
                raise ValueError(f"port {port}: enabled {row['enabled']!r}")
            if not row["enabled"]:
                if named:
                    there[port], unfit[port] = PortVlans(), "as a routed one"
                continue
            mode = str(row["switchportInfo"]["mode"])
            if named and mode not in MODES:
                unfit[port] = f"in switchport mode {mode[:40]}, which weft doesn't know"
                continue
            there[port] = self._port(row["switchportInfo"])
        return there, unfit

    def _port(self, row: dict[str, Any]) -> PortVlans:
        if not str(row["mode"]).startswith("trunk"):
            return PortVlans(self._forwards(_number(row["accessVlanId"])))
        text = row["trunkAllowedVlans"].upper()
        tagged = EVERY if text == "ALL" else frozenset[int]() if text == "NONE" else from_ranges(text)
        native = _number(row["trunkingNativeVlanId"])
        # A native VLAN that isn't allowed forwards nothing; an allowed one is untagged.
        untagged = self._forwards(native) if native in tagged else None
        return PortVlans(untagged, tagged if tagged == EVERY else tagged - {native}, True)

    def qos(self) -> SwitchQos:
        (interfaces,) = self._run(["show interfaces"])
        _, running = self._run(["enable", "show running-config"], "read the settings for RoCE", "text")
        with self.reading("read the settings for RoCE"):
            return eos_qos(running["output"], interfaces["interfaces"])

    def neighbours(self, ports: Sequence[str]) -> Sequence[LldpNeighbour]:
        (answer,) = self._run(["show lldp neighbors detail"], "read LLDP neighbours")
        with self.reading("read LLDP neighbours"):
            return [
                neighbour(local, one["systemName"], *_port_of(one["neighborInterfaceInfo"]))
                for local, row in answer["lldpNeighbors"].items()
                for one in row["lldpNeighborInfo"]
                if one.get("systemName")
            ]

    def counters(self) -> Sequence[PortCounters]:
        asked = "read the counters of ports"
        (answer,) = self._run(["show interfaces"], asked)
        with self.reading(asked):
            return some_port(eos_counters(answer["interfaces"]))

    def links(self) -> Links:
        asked = "read the states of links"
        (answer,) = self._run(["show interfaces"], asked)
        with self.reading(asked):
            return eos_links(answer["interfaces"])

    def _forwards(self, number: int) -> int | None:
        return None if number == self.limits.parking else number

    def _send(self, batch: Batch, before: SwitchState, after: SwitchState) -> float:
        session = f"weft-{int(time.time()):x}-{secrets.token_hex(3)}"
        commands = ["enable", f"configure session {session}", *self._commands(batch, before, after)]
        try:
            self._run([*commands, "commit"], "change VLANs")
        except UnheardError as error:
            raise UndoneError.of_error(error) from error
        except (PermanentError, UnknownError) as error:
            if not self._aborted(session):
                self._tidy()
                raise
            if isinstance(error, PermanentError):
                raise
            raise UndoneError.of_error(error, "; the session was aborted") from error
        return float("-inf")

    def _aborted(self, session: str) -> bool:
        """Abort a session; returns whether that worked: such a session was not committed."""
        try:
            self._run(["enable", f"configure session {session} abort"], "abort a session")
        except OutsideError:
            return False
        return True

    def _tidy(self) -> None:
        """Abort weft's old sessions that no abort has reached, since EOS allows few, five by default. Younger
        ones may be another worker's, in progress."""
        try:
            _, listed = self._run(["enable", "show configuration sessions"], "list sessions")
            for name, one in listed["sessions"].items():
                began = SESSION.fullmatch(name)
                left = began is not None and time.time() - int(began[1], 16) > LEFT_SECONDS
                if left and one["state"] == "pending":
                    self._aborted(name)
        except (OutsideError, KeyError, TypeError, AttributeError):
            return  # the earlier failure is reported

    def _keep(self) -> None:
        self._run(["enable", "copy running-config startup-config"], "save the configuration")

    def _commands(self, batch: Batch, before: SwitchState, after: SwitchState) -> Iterator[str]:
        # Unused ports are in a VLAN that forwards nothing; VLAN 1 would connect them.
        yield from (f"vlan {self.limits.parking}", "state suspend", "exit")
        for number, name in batch.define.items():
            yield from (f"vlan {number}", f"name {name}", "state active", "exit")
        for port in batch.ports:
            yield f"interface {port}"
            yield from self._port_commands(before.ports[port], after.ports[port], batch.ports[port].remove)
            yield "exit"
        for number in sorted(batch.forget):
            yield f"no vlan {number}"

    def _port_commands(self, now: PortVlans, then: PortVlans, away: frozenset[int]) -> Iterator[str]:
        native = then.untagged or self.limits.parking
        if not then.trunk:
            yield from (f"switchport access vlan {native}", "switchport mode access")
            return
        yield f"switchport trunk native vlan {native}"
        allowed = then.tagged | ({then.untagged} if then.untagged else set())
        had = now.tagged | ({now.untagged} if now.untagged else set())
        if not now.trunk or not allowed:
            # The trunk list of an access port has no effect and may contain any VLANs; the default is ALL.
            yield f"switchport trunk allowed vlan {ranges(allowed) or 'none'}"
        else:
            if more := allowed - had:
                yield f"switchport trunk allowed vlan add {ranges(more)}"
            if fewer := (had | away) - allowed:
                yield f"switchport trunk allowed vlan remove {ranges(fewer)}"
        if not now.trunk:
            yield "switchport mode trunk"

    def _run(
        self, commands: Sequence[str], asked: str = "read the configuration", form: str = "json"
    ) -> list[Any]:
        """Results, one per command. Raises `PermanentError` for a command that EOS rejects.

        Args:
            form: `json`, or `text`: each result has what the switch would print as `output`.
        """
        params = {"version": 1, "cmds": list(commands), "format": form}
        body = {"jsonrpc": "2.0", "method": "runCmds", "params": params, "id": "weft"}
        reply = self._api.ask("POST", "/command-api", body, asked)
        try:
            if reply.status == 200 and "error" not in reply.body:
                found: list[Any] = reply.body["result"]
                if len(found) == len(commands):
                    return found
                raise ValueError("not one result a command")
            error = reply.body["error"]
            said = f"{error['message']} (code {error['code']})"
            details = [
                m for row in error.get("data", ()) if isinstance(row, dict) for m in row.get("errors", ())
            ]
            said += f": {'; '.join(map(str, details))}" if details else ""
            refused = error["code"] in INVALID
        except (KeyError, TypeError, ValueError) as error:
            raise self.unknown(asked, f"HTTP {reply.status}, {error!r}") from None
        if refused:
            raise PermanentError(asked, f"switch {self.name}", said, "see the switch's own log")
        raise self.unknown(asked, said)


def _links(rows: dict[str, Any], switchports: Collection[str]) -> Iterator[tuple[str, str]]:
    """Links of aggregations -> why they can't be put into VLANs. They may be among the switchports, with settings that
    have no effect. Raises KeyError for one of these of which it isn't said; interfaces of other types may lack it."""
    for port, row in rows.items():
        vlan = row["vlanInformation"] if port in switchports else row.get("vlanInformation", {})
        if match := LINK.fullmatch(vlan.get("vlanExplanation", "")):
            yield port, f"as a member of Port-Channel{match[1]}"
        elif vlan.get("interfaceForwardingModel") == "dataLink":
            yield port, "as a member of an aggregation"


def _port_of(port: dict[str, Any]) -> tuple[str, str | None]:
    """The neighbour's port id and its description; older releases have ids in quotes."""
    name = str(port.get("interfaceId_v2") or port["interfaceId"]).strip('"')
    described = port.get("interfaceDescription")
    return name, str(described).strip('"') if described else None


def _number(value: object) -> int:
    """Number of a VLAN, or 0. Raises ValueError for anything else: null doesn't mean a port without a VLAN."""
    return 0 if value == 0 and not isinstance(value, bool) else vlan_of(value)


def _name(number: int, name: str) -> str:
    """The VLAN's name; empty for the name that EOS itself assigns."""
    return "" if name == f"VLAN{number:04d}" else name
