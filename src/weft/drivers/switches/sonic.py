"""SONiC through the management framework's RESTCONF: VLAN and VLAN_MEMBER of CONFIG_DB, as modeled by `sonic-vlan`.

The same tree has VLAN_MEMBER_TABLE of APPL_DB: what was passed on to the daemon that programs the chip. It proves
nothing about the chip, since a row disappears before its removal is programmed, and RESTCONF has nothing of ASIC_DB. So
a reading's level is the configuration; what was passed on but isn't configured counts as present.

There is no candidate configuration: each request is a transaction. So members are removed first (a port has one
untagged VLAN at a time), one PATCH adds everything, and VLANs are removed last; a failure in between is rolled back.
Sources: `sonicmodels`; sonic-mgmt-framework, rpc `sonic-config-mgmt:copy`; RFC 8040 section 7.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from weft.drivers.switches.access import Api, Reply, UnheardError
from weft.drivers.switches.counters import openconfig_counters, some_port
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.linkstates import Links, openconfig_links
from weft.drivers.switches.parts import UndoneError
from weft.drivers.switches.sonicmodels import (
    MEDIA,
    Leaf,
    is_busy,
    is_empty,
    is_refused,
    is_untagged,
    member,
    member_leaf,
    own_name,
)
from weft.drivers.switches.sonicqos import TABLES as TABLES_OF_QOS
from weft.drivers.switches.sonicqos import sonic_qos
from weft.drivers.switches.switch import CONFIRM_SECONDS, SwitchSession
from weft.drivers.switches.vlans import PARK, Batch, PortVlans, SwitchState, inverse
from weft.model.errors import OutsideError, PermanentError, UnknownError
from weft.model.portcounters import PortCounters
from weft.planning.fabric.qos import SwitchQos
from weft.planning.site.neighbours import LldpNeighbour, neighbour

DATA = "/restconf/data"
TREE = f"{DATA}/sonic-vlan:sonic-vlan"
MEMBERS = f"{TREE}/VLAN_MEMBER/VLAN_MEMBER_LIST"
TABLES = (("sonic-port:sonic-port", "PORT"), ("sonic-portchannel:sonic-portchannel", "PORTCHANNEL"))
LAG_MEMBERS = "sonic-portchannel:sonic-portchannel/PORTCHANNEL_MEMBER"
COPY = "/restconf/operations/sonic-config-mgmt:copy"
PORTS_SECONDS = 60.0
"""Seconds for which the list of ports is cached: a VLAN's member counts as a port in any case, and SONiC refuses
unknown ports."""
Membership = tuple[int, str]


class NotServedError(UnknownError):
    """The switch's RESTCONF doesn't serve the requested data: whether there is any isn't known."""


class Sonic(SwitchSession):
    """One switch. CONFIG_DB has no VLAN names; who owns one is in weft's own records."""

    keeps_names = False
    media = MEDIA

    def _replaces(self, batch: Batch, state: SwitchState) -> bool:
        """Never: each member of a VLAN is a row of its own."""
        return False

    def __init__(self, name: str, api: Api, limits: SwitchLimits, confirm: float = CONFIRM_SECONDS) -> None:
        super().__init__(name, limits, api.url, confirm)
        self._api = api
        self._there: tuple[tuple[str, ...], float] | None = None
        self._leaf: Leaf = "port"
        self._unfit: dict[str, str] = {}

    def close(self) -> None:
        self._api.close()

    def _read(self) -> SwitchState:
        known = self._there
        if known is None or self._monotonic() - known[1] > PORTS_SECONDS or self.limits.ports - {*known[0]}:
            return self._vlans(self._ports(), self._get(TREE))  # last, since its time counts as the reading's
        reply = self._get(TREE)
        # A server without this table may not be a SONiC switch: then it must list its ports.
        return self._vlans(known[0] if reply.body else self._ports(), reply)

    def _ports(self) -> tuple[str, ...]:
        there: list[str] = []
        aliases: dict[str, str] = {}
        with self.reading("read the configuration"):
            for model, table in TABLES:
                body = self._get(f"{DATA}/{model}/{table}").body
                for row in _inside(body, f"{model.partition(':')[0]}:{table}").get(f"{table}_LIST", []):
                    there.append(own_name(row))
                    aliases |= {str(row["alias"]): there[-1]} if "alias" in row else {}
                    self._leaf = member_leaf(row) if table == "PORT" else self._leaf
            body = self._get(f"{DATA}/{LAG_MEMBERS}").body
            rows = _inside(body, "sonic-portchannel:PORTCHANNEL_MEMBER").get("PORTCHANNEL_MEMBER_LIST", [])
            # Their VLANs are those of the link aggregation.
            self._unfit = {member(row): f"as a member of {row['name']}" for row in rows}
        for alias in self.limits.ports & aliases.keys() - {*there}:
            self._unfit[alias] = f"only as an alias (its name is {aliases[alias]})"
        if not there:  # 404 or an empty answer to everything: not set up, or not a SONiC switch
            raise self.unknown("read the configuration", "it names no port")
        self._there = (tuple(there), self._monotonic())
        return tuple(there)

    def _vlans(self, there: Sequence[str], reply: Reply) -> SwitchState:
        rows: dict[str, list[tuple[int, str]]] = {name: [] for name in there}
        passed: dict[str, set[int]] = {}
        with self.reading("read the configuration"):
            tree = _inside(reply.body, "sonic-vlan:sonic-vlan")
            vlans = {int(row["vlanid"]): "" for row in _listed(tree, "VLAN")}
            for row in _listed(tree, "VLAN_MEMBER"):
                port, number = member(row), int(str(row["name"]).removeprefix("Vlan"))
                self._leaf = member_leaf(row)
                rows.setdefault(port, []).append((number, "untagged" if is_untagged(row) else "tagged"))
            for row in _listed(tree, "VLAN_MEMBER_TABLE"):
                passed.setdefault(member(row), set()).add(int(str(row["name"]).removeprefix("Vlan")))
        parking = self.limits.parking  # it forwards: ports in it aren't isolated
        exposed = frozenset(name for name, mine in rows.items() if (parking, "untagged") in mine)
        ports = {name: _port(mine) for name, mine in rows.items() if name not in self._unfit}
        beyond = {p: frozenset(ns - {n for n, _ in rows.get(p, ())} - {parking}) for p, ns in passed.items()}
        return SwitchState(
            vlans,
            ports,
            reply.date,
            exposed=exposed,
            unfit=self._unfit,
            beyond={p: n for p, n in beyond.items() if n},
        )

    def qos(self) -> SwitchQos | str:
        tables: dict[str, list[Any]] = {}
        try:
            for table, model in TABLES_OF_QOS.items():
                body = self._get(f"{DATA}/{model}/{table}").body
                tables[table] = _inside(body, f"{model.partition(':')[0]}:{table}").get(f"{table}_LIST", [])
            return sonic_qos(tables)
        except NotServedError as error:
            return error.answer
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self.unknown("read the settings for RoCE", f"its answer can't be read: {error!r}") from None

    def neighbours(self, ports: Sequence[str]) -> Sequence[LldpNeighbour] | str:
        try:
            body = self._get(f"{DATA}/openconfig-lldp:lldp/interfaces").body or {}
        except NotServedError as error:
            return error.answer
        found: list[LldpNeighbour] = []
        with self.reading("read LLDP neighbours"):
            for row in body.get("openconfig-lldp:interfaces", {}).get("interface", ()):
                for one in (row.get("neighbors") or {}).get("neighbor", ()):
                    state = one["state"]
                    if state.get("system-name") and state.get("port-id"):
                        described = state.get("port-description")
                        heard = (str(row["name"]), state["system-name"], state["port-id"], described)
                        found.append(neighbour(*heard))
            return found

    def counters(self) -> Sequence[PortCounters] | str:
        try:
            body = self._get(f"{DATA}/openconfig-interfaces:interfaces").body or {}
        except NotServedError as error:
            return error.answer
        with self.reading("read the counters of ports"):
            return some_port(openconfig_counters(body["openconfig-interfaces:interfaces"]["interface"]))

    def links(self) -> Links | str:
        try:
            body = self._get(f"{DATA}/openconfig-interfaces:interfaces").body or {}
        except NotServedError as error:
            return error.answer
        with self.reading("read the states of links"):
            return openconfig_links(body["openconfig-interfaces:interfaces"]["interface"])

    def _get(self, path: str) -> Reply:
        reply = self._api.ask("GET", path)
        if is_empty(reply.status, reply.body):
            return Reply(reply.status, None, reply.date)
        if reply.status == 404:
            said = f"its RESTCONF has no {path.removeprefix(f'{DATA}/')}"
            raise NotServedError("read the configuration", f"switch {self.name}", said)
        if reply.status != 200:
            raise self.unknown("read the configuration", _said(reply))
        if reply.body is None:  # `{}` is an empty table
            raise self.unknown("read the configuration", "its answer can't be read: nothing is in it")
        return reply

    def _send(self, batch: Batch, before: SwitchState, after: SwitchState) -> float:
        date, made = 0.0, False
        for request in self._requests(batch, before, after):
            try:
                if made:
                    self._go_on()
                date, made = self._change(*request), True
            except UnheardError as error:
                if made:
                    raise
                raise UndoneError.of_error(error) from error
            except (PermanentError, UndoneError) as error:
                if made:
                    self._roll_back(batch, before, error)
                raise
        return date

    def _roll_back(self, batch: Batch, before: SwitchState, error: OutsideError) -> None:
        """Undo what was done of a batch before the part that failed."""
        back = inverse(batch, before)
        try:
            now = self._fresh()
            for request in self._requests(_only_different(back, now), now, before):
                self._go_on()
                self._change(*request)
        except OutsideError as worse:
            said = f"{error.answer}; and what was done before it can't be taken back: {worse.answer}"
            raise self.unknown("change VLANs", said) from error

    def _requests(
        self, batch: Batch, before: SwitchState, after: SwitchState
    ) -> Iterator[tuple[str, str, object]]:
        was, then = _rows(batch, before), _rows(batch, after)
        away = {row for row, mode in was.items() if then.get(row) != mode}
        away |= self._perhaps(batch, before) - then.keys()
        for number, port in sorted(away):
            yield "DELETE", f"{MEMBERS}=Vlan{number},{quote(port, safe='')}", None
        members = [
            {"name": f"Vlan{n}", self._leaf: p, "tagging_mode": mode}
            for (n, p), mode in sorted(then.items())
            if was.get((n, p)) != mode
        ]
        vlans = [{"name": f"Vlan{n}", "vlanid": n} for n in sorted(batch.define) if n not in before.vlans]
        tree: dict[str, Any] = {"VLAN": {"VLAN_LIST": vlans}} if vlans else {}
        tree |= {"VLAN_MEMBER": {"VLAN_MEMBER_LIST": members}} if members else {}
        if tree:
            yield "PATCH", TREE, {"sonic-vlan:sonic-vlan": tree}
        for number in sorted(batch.forget):
            yield "DELETE", f"{TREE}/VLAN/VLAN_LIST=Vlan{number}", None

    def _perhaps(self, batch: Batch, before: SwitchState) -> set[Membership]:
        """Members that a batch removes, and that may still appear though the reading doesn't show them."""
        said = {(n, p) for p, edit in batch.ports.items() for n in edit.remove}
        parked = {p for p, edit in batch.ports.items() if edit.untagged == PARK}
        doubted = (
            _rows(batch, b.on(before)) for b in self._doubted(before) if b.ports.keys() <= before.ports.keys()
        )
        return said | {
            row for rows in doubted for row, mode in rows.items() if mode == "untagged" and row[1] in parked
        }

    def _change(self, method: str, path: str, body: object) -> float:
        reply = self._api.ask(method, path, body, "change VLANs")
        if reply.status in (200, 201, 204) or (method == "DELETE" and is_empty(reply.status, reply.body)):
            return reply.date
        if is_busy(reply.status, reply.body):
            raise UndoneError("change VLANs", f"switch {self.name}", _said(reply))
        if is_refused(reply.status, reply.body):
            raise self.refused(_said(reply))
        raise self.unknown("change VLANs", _said(reply))

    def _keep(self) -> None:
        body = {"source": "running-configuration", "destination": "startup-configuration"}
        asked = "save the configuration"
        reply = self._api.ask("POST", COPY, {"sonic-config-mgmt:input": body}, asked)
        if reply.status in (404, 405):
            said, then = f"its RESTCONF has no {COPY}", "use an image that has it, or interface: generic"
            raise PermanentError(asked, f"switch {self.name}", said, then)
        with self.reading(asked):
            output = reply.body["sonic-config-mgmt:output"] if reply.status < 300 else {}
            good, said = output.get("status") == 0, str(output.get("status-detail") or _said(reply))
        if not good:
            raise self.unknown(asked, said)


def _inside(body: Any, name: str) -> Mapping[str, Any]:
    """A table's contents; a missing table or an empty object is empty. Raises KeyError or TypeError for
    anything else."""
    return {} if body in (None, {}) else body[name]


def _listed(tree: Mapping[str, Any], table: str) -> Sequence[Mapping[str, Any]]:
    """Rows of a table of `sonic-vlan`; none if it isn't there. Raises ValueError for names that the models don't have:
    the rows may be below them.
    """
    inside: Mapping[str, Any] = tree.get(table, {})
    other = [name for name in tree if ":" in name] + [name for name in inside if name != f"{table}_LIST"]
    if other:
        raise ValueError(f"{other[0][:40]!r} in the answer")
    rows: Sequence[Mapping[str, Any]] = inside.get(f"{table}_LIST", [])
    return rows


def _port(rows: Sequence[tuple[int, str]]) -> PortVlans:
    """A port from its rows of VLAN_MEMBER: VLAN and tagging mode. Until 2024 the models allowed several
    untagged VLANs, each of which sends to the port. Such a port counts as in all of them, and as an access
    port of none.
    """
    bare = [number for number, mode in rows if mode == "untagged"]
    untagged = bare[0] if len(bare) == 1 else None
    tagged = frozenset(number for number, _ in rows) - {untagged}
    return PortVlans(untagged, tagged, bool(tagged))


def _rows(batch: Batch, state: SwitchState) -> dict[Membership, str]:
    """Rows of VLAN_MEMBER for the ports that a batch changes: (VLAN, port) -> tagging mode."""
    rows: dict[Membership, str] = {}
    for port in batch.ports:
        vlans = state.ports[port]
        rows |= {(n, port): "tagged" for n in vlans.tagged}
        if vlans.untagged is not None:
            rows[vlans.untagged, port] = "untagged"
    return rows


def _only_different(batch: Batch, now: SwitchState) -> Batch:
    """The batch without what is already in effect: a failed batch may have been applied in part."""
    return Batch(
        {n: name for n, name in batch.define.items() if n not in now.vlans},
        frozenset(n for n in batch.forget if n in now.vlans),
        batch.ports,
    )


def _said(reply: Reply) -> str:
    try:
        errors = reply.body["ietf-restconf:errors"]["error"]
        return f"HTTP {reply.status}: " + "; ".join(
            str(e.get("error-message") or e["error-tag"]) for e in errors
        )
    except (KeyError, TypeError, AttributeError):
        return f"HTTP {reply.status}"
