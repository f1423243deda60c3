"""NVIDIA Cumulus Linux through NVUE's REST API: a change is a revision, applied, followed to its end, and saved.

An unused port is in no bridge. A bridged port without a list carries every VLAN of the bridge, so the list of
a link between switches has the parking VLAN until there is another. The parking VLAN forwards: a port in it
isn't isolated, nor is a host's trunk that has it among others. A port with a list carries the VLANs in it,
whether the bridge has them or not. Sources: Cumulus Linux 5.x documentation, "NVUE API" and "VLAN-aware
Bridge Mode"; ifupdown2, addon `bridge`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import quote

from weft.drivers.switches.access import Api, Reply, UnheardError
from weft.drivers.switches.counters import nvue_counters
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.linkstates import Links, nvue_links
from weft.drivers.switches.nvueports import BRIDGE, singly, unfit_ports
from weft.drivers.switches.nvueqos import nvue_qos
from weft.drivers.switches.parts import UndoneError
from weft.drivers.switches.switch import CONFIRM_SECONDS, DOUBT_SECONDS, SwitchSession, pauses
from weft.drivers.switches.vlans import EVERY, Batch, PortVlans, SwitchState, from_ranges
from weft.model.errors import PermanentError, UnknownError
from weft.model.portcounters import PortCounters
from weft.planning.fabric.qos import SwitchQos
from weft.planning.site.neighbours import LldpNeighbour, neighbour

ROOT = "/nvue_v1"
YES = {"auto-prompt": {"ays": "ays_yes"}}
APPLIED = ("applied", "saved", "applied_and_saved")
INVALID = "invalid"
FAILED = re.compile(f"{INVALID}|ays_no|.*_(fail|error)")
NOT_BEGUN = ("pending", "inactive")
APPLY = "apply a revision"
APPLY_SECONDS = 60.0
PORTS_SECONDS = 60.0
"""Seconds for which the list of interfaces is cached."""


class Nvue(SwitchSession):
    """One switch. Its VLANs have no names; who owns one is in weft's own records."""

    keeps_names = False

    def __init__(
        self,
        name: str,
        api: Api,
        limits: SwitchLimits,
        confirm: float = CONFIRM_SECONDS,
        apply: float = APPLY_SECONDS,
    ) -> None:
        super().__init__(name, limits, api.url, confirm)
        self._api, self._apply_seconds = api, apply
        self.lands_seconds = DOUBT_SECONDS + apply
        self._none_coming = float("-inf")
        self._unfinished: dict[
            str, float
        ] = {}  # revision -> until when the request to apply it may still arrive
        self._there: tuple[frozenset[str], float] | None = None

    def close(self) -> None:
        self._api.close()

    def _read(self) -> SwitchState:
        for where in tuple(self._unfinished):
            if self._still_under_way(where):
                said = f"{where.removeprefix('/')} is still being applied"
                raise self.unknown("read the configuration", said)
        return self._tree_of("applied")

    def _coming(self) -> tuple[SwitchState, ...]:
        """States that revisions in progress will lead to. Another process may have started one and have ended
        before its outcome was known. A listing without any is trusted for a while: `OutsideError.lands`
        covers what was begun since.
        """
        asked, now = "list the revisions", self._monotonic()
        if now - self._none_coming < DOUBT_SECONDS:
            return ()
        found = self._ask("GET", "/revision", None, asked).body
        with self.reading(asked):
            going = [r for r, row in found.items() if not _is_over(row["state"])]
        self._none_coming = float("-inf") if going else now
        return tuple(self._tree_of(quote(revision, safe="")) for revision in going)

    def _tree_of(self, revision: str) -> SwitchState:
        reply = self._ask("GET", f"/?rev={revision}", None, "read the configuration")
        with self.reading("read the configuration"):
            tree = reply.body
            interfaces = singly(tree["interface"], self.limits.ports)
            if not interfaces:  # every switch has some: another server's answer, or incomplete
                raise ValueError("no interface is in it")
            own = tree.get("bridge", {}).get("domain", {}).get(BRIDGE, {})
            vlans = {n: "" for key in own.get("vlan", {}) for n in from_ranges(key)}
            rows = {p: _bridged(row) for p, row in interfaces.items()}
            there = {p: self._port(row, own) for p, row in rows.items()}
            unfit = unfit_ports(interfaces, self.limits.ports)
            exposed = frozenset(p for p, row in rows.items() if self._is_exposed(row))
        if bare := self.limits.ports - there.keys():  # an interface without configuration isn't in the tree
            there |= dict.fromkeys(bare & self._interfaces(), PortVlans())
        there = {p: vlans for p, vlans in there.items() if p not in unfit}
        return SwitchState(vlans, there, reply.date, exposed=exposed, unfit=unfit)

    def _interfaces(self) -> frozenset[str]:
        """Every interface that the switch has."""
        known = self._there
        if known is None or self._monotonic() - known[1] > PORTS_SECONDS:
            found = self._ask("GET", "/interface?rev=operational", None, "read the interfaces").body
            self._there = known = frozenset(found), self._monotonic()
        return known[0]

    def qos(self) -> SwitchQos:
        asked = "read the settings for RoCE"
        reply = self._ask("GET", "/?rev=applied", None, asked)
        with self.reading(asked):
            return nvue_qos(reply.body)

    def neighbours(self, ports: Sequence[str]) -> Sequence[LldpNeighbour]:
        """One request for each port: NVUE lists neighbours below the port."""
        found: list[LldpNeighbour] = []
        asked = "read LLDP neighbours"
        for port in ports:
            path = f"{ROOT}/interface/{quote(port, safe='')}/lldp/neighbor"
            reply = self._api.ask("GET", f"{path}?rev=operational", None, asked)
            if reply.status == 404:
                continue  # no neighbour there
            if reply.status != 200:
                raise self.unknown(asked, f"HTTP {reply.status}: {_words(reply.body)}")
            with self.reading(asked):
                for row in (reply.body or {}).values():
                    described = row["port"].get("description")
                    if heard := row["port"].get("name") or described:
                        found.append(neighbour(port, row["chassis"]["system-name"], heard, described))
        return found

    def counters(self) -> Sequence[PortCounters]:
        """Two requests a port that the site names; one if the first port has no counters of RoCE."""
        found: list[PortCounters] = []
        asked, has_roce = "read the counters of ports", None
        for port in sorted(self.limits.ports):
            path = f"{ROOT}/interface/{quote(port, safe='')}"
            stats = self._optional(f"{path}/link/stats", asked)
            if stats is None:
                continue  # it isn't there
            roce = self._optional(f"{path}/qos/roce/counters", asked) if has_roce is not False else None
            has_roce = roce is not None if has_roce is None else has_roce
            with self.reading(asked):
                found.append(nvue_counters(port, stats, roce or {}))
        if not found:
            raise self.unknown(asked, "it has none of the ports that the site names")
        return found

    def links(self) -> Links:
        asked = "read the states of links"
        found = self._ask("GET", "/interface?rev=operational", None, asked).body
        with self.reading(asked):
            return nvue_links(found)

    def _optional(self, path: str, asked: str) -> Mapping[str, Any] | None:
        """What is at a path; None: NVUE says that nothing is."""
        reply = self._api.ask("GET", f"{path}?rev=operational", None, asked)
        if reply.status == 404:
            return None
        if reply.status != 200 or not isinstance(reply.body, dict):
            raise self.unknown(asked, f"HTTP {reply.status}: {_words(reply.body)}")
        return cast(dict[str, Any], reply.body)

    def _port(self, mine: Mapping[str, Any] | None, bridge: Mapping[str, Any]) -> PortVlans:
        if mine is None:
            return PortVlans()
        access, untagged, listed = mine.get("access"), mine.get("untagged", "auto"), mine.get("vlan") or {}
        if access not in (None, "auto"):
            return PortVlans(self._forwards(int(access)))
        if untagged == "auto":
            untagged = bridge.get("untagged", 1)
        native = None if untagged == "none" else int(untagged)
        if not listed or "all" in listed:
            # This includes VLANs that the bridge gets later.
            return PortVlans(native, EVERY, True)
        return PortVlans(native, _listed(listed) - {native, self.limits.parking}, True)

    def _is_exposed(self, mine: Mapping[str, Any] | None) -> bool:
        if not mine:
            return False
        listed = mine.get("vlan") or {}
        also = (
            "all" not in listed and self.limits.parking in (numbers := _listed(listed)) and len(numbers) > 1
        )
        return also or mine.get("access") == self.limits.parking

    def _forwards(self, number: int) -> int | None:
        return None if number == self.limits.parking else number

    def _send(self, batch: Batch, before: SwitchState, after: SwitchState) -> float:
        try:
            where = self._begun(batch, before, after)
            self._go_on()
        except UnknownError as error:
            raise UndoneError.of_error(error) from error
        try:
            self._ask("PATCH", where, {"state": "apply", **YES}, APPLY)
        except UnheardError as error:
            raise UndoneError.of_error(error) from error
        except UnknownError:
            self._left(where)
            raise
        try:
            return self._applied(where)
        except UnknownError:
            self._left(where)
            raise

    def _left(self, where: str) -> None:
        """Remember a revision whose end isn't known: it may still be applied."""
        self._unfinished[where] = self._monotonic() + DOUBT_SECONDS

    def _begun(self, batch: Batch, before: SwitchState, after: SwitchState) -> str:
        """Create a revision with the change, not applied yet; returns its path."""
        revision = next(iter(self._ask("POST", "/revision", {}, "begin a revision").body), None)
        if revision is None:
            raise self.unknown("begin a revision", "its answer names none")
        name, tree = quote(revision, safe=""), self._tree(batch, before, after)
        self._ask("PATCH", f"/?rev={name}", tree, "change VLANs")
        return f"/revision/{name}"

    def _still_under_way(self, where: str) -> bool:
        """Whether a revision is still in progress. While it hasn't begun, the request to apply it may still arrive:
        then its change is doubted, and the revision is read again later.
        """
        try:
            state = str(self._ask("GET", where, None, "watch a revision").body.get("state"))
        except PermanentError:
            state = INVALID  # gone, as after a restart
        waits = state in NOT_BEGUN and self._monotonic() < self._unfinished.get(where, 0.0)
        over = _is_over(state)
        if over and not waits:
            self._unfinished.pop(where, None)
        return not over

    def _applied(self, where: str) -> float:
        end, between = self._monotonic() + self._apply_seconds, pauses()
        while True:
            try:
                reply = self._ask("GET", where, None, "watch a revision")
            except PermanentError as error:  # gone, as after a restart; it may have been applied or not
                raise self.unknown(APPLY, f"it isn't there any more: {error.answer}") from None
            state = str(reply.body.get("state"))
            if state in APPLIED:
                return reply.date
            if FAILED.fullmatch(state):
                raise self.refused(f"revision {state}: {_issues(reply.body)}")
            if self._monotonic() >= end:
                raise self.unknown(APPLY, f"still {state} after {self._apply_seconds:.0f} s")
            self._sleep(next(between))

    def _keep(self) -> None:
        asked, end, between = "save the configuration", self._monotonic() + self._apply_seconds, pauses()
        reply = self._ask("PATCH", "/revision/applied", {"state": "save", **YES}, asked)
        while (state := reply.body.get("state")) == "save":  # saving continues after the answer
            if self._monotonic() >= end:
                raise self.unknown(asked, f"still {state} after {self._apply_seconds:.0f} s")
            reply = self._ask("GET", "/revision/applied", None, asked)
            self._sleep(next(between) if reply.body.get("state") == "save" else 0)
        if state not in APPLIED:
            raise self.unknown(asked, f"revision {state}: {_issues(reply.body)}")

    def _tree(self, batch: Batch, before: SwitchState, after: SwitchState) -> dict[str, Any]:
        """Body of the PATCH that makes the change; `null` removes a setting."""
        vlans: dict[str, Any] = {str(n): {} for n in batch.define} | {str(n): None for n in batch.forget}
        ports = {
            p: self._interface(before.ports[p], after.ports[p], e.remove) for p, e in batch.ports.items()
        }
        tree: dict[str, Any] = {"bridge": {"domain": {BRIDGE: {"vlan": vlans}}}} if vlans else {}
        return tree | ({"interface": ports} if ports else {})

    def _interface(self, now: PortVlans, then: PortVlans, away: frozenset[int]) -> dict[str, Any]:
        if not then.trunk and then.untagged is None:
            return {"bridge": {"domain": {BRIDGE: None}}}
        if not then.trunk:
            return {"bridge": {"domain": {BRIDGE: {"access": then.untagged, "untagged": None, "vlan": None}}}}
        listed: dict[str, Any] = {str(n): {} for n in then.tagged - now.tagged}
        if now.tagged == EVERY:
            listed = {str(n): {} for n in then.tagged} | {"all": None}
        else:
            listed |= {str(n): None for n in (now.tagged | away) - then.tagged}
        if then.untagged is not None:
            listed[str(then.untagged)] = {}
        listed[str(self.limits.parking)] = None if then.numbers else {}
        mine = {"access": None, "untagged": then.untagged or "none", "vlan": listed}
        return {"bridge": {"domain": {BRIDGE: mine}}}

    def _ask(self, method: str, path: str, body: object, asked: str) -> Reply:
        """Send one request. Raises `PermanentError` for what NVUE rejects (400, 404, 409, 422), `UnknownError` for
        everything else."""
        reply = self._api.ask(method, ROOT + path, body, asked)
        if reply.status in (200, 201) and isinstance(reply.body, dict):
            return reply
        said = f"HTTP {reply.status}: {_words(reply.body)}"
        raise self.refused(said) if reply.status in (400, 404, 409, 422) else self.unknown(asked, said)


def _bridged(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A port's settings in the bridge; None if it isn't in the bridge."""
    domains = row.get("bridge", {}).get("domain", {})
    return dict(domains[BRIDGE]) if BRIDGE in domains else None


def _listed(listed: Mapping[str, Any]) -> frozenset[int]:
    return frozenset(n for key in listed for n in from_ranges(key))


def _is_over(state: str) -> bool:
    """Whether a revision in this state is finished; no document lists all other states."""
    return state in (*APPLIED, *NOT_BEGUN) or FAILED.fullmatch(state) is not None


def _issues(body: Mapping[str, Any]) -> str:
    issues = (body.get("transition") or {}).get("issue") or {}
    said = [str(row.get("message", row)) for row in issues.values() if isinstance(row, dict)]
    return "; ".join(said) or "no reason is given"


def _words(body: object) -> str:
    if isinstance(body, dict):
        return str(body.get("detail") or body.get("title") or body.get("message") or "")
    return ""
