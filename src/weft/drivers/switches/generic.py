"""Any other switch that OpenStack's networking-generic-switch knows, by SSH, through that library's own device classes.

None of them reads a switch's configuration back. So for such a switch weft reports what its records want, as
far as the switch has accepted it; plans, audits and receipts say that nothing was read, and no receipt that
depends on it is clean.
A change is always sent as a whole, together with waiting changes of other VLANs, in one session that ends
with saving the configuration. What another worker has sent isn't known here. What a worker was sending when
it was killed may remain until the VLAN's next change.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from weft.drivers.switches.access import SwitchCredentials
from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.genericdevice import GenericDevice
from weft.drivers.switches.interface import Asked
from weft.drivers.switches.limits import SwitchLimits
from weft.drivers.switches.parts import ChangedTogether, SwitchPart
from weft.drivers.switches.turn import turn
from weft.drivers.switches.vlans import Batch, PortEdit, PortVlans, SwitchState
from weft.model.fabrictypes import Mode
from weft.model.site import SwitchAccess
from weft.model.specs import SegmentSpec

Segments = Mapping[int, tuple[str, SegmentSpec]]
"""VLAN -> its name, which identifies the owner, and its segment."""


class DesiredSegments(Protocol):
    """weft's records; `settled`: only segments known to be in their desired state."""

    def __call__(self, settled: bool = False) -> Segments: ...


Ever = Callable[[int], SegmentSpec | None]
"""VLAN -> its segment with every port that it may ever have had; None: as desired."""
Ports = Mapping[str, PortVlans]

REMEMBERED_SECONDS = 60.0
"""Seconds for which this process trusts its own record of what a switch accepted: another process may have changed the
switch since, and sending it again does no harm."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A VLAN's last change by this process.

    Attributes:
        by: the VLAN's name.
        ports: as accepted; None: nothing was accepted.
        at: monotonic seconds.
    """

    by: str
    ports: Ports | None
    at: float


@dataclass(frozen=True, slots=True)
class _Change:
    """The effect of a VLAN's change on this switch.

    Attributes:
        name: its new name; empty: none.
        into: ports that it must be on; `gone`: ports that weft may have put it on, and in which role.
    """

    number: int
    name: str
    batch: Batch
    into: Mapping[str, PortEdit]
    gone: Ports


class Generic(ChangedTogether):
    """One switch: `SwitchDriver` without reading back. Thread-safe; processes of one host take turns, too.

    Args:
        ever: what another process may have put into a VLAN; only called for changes.
        credentials: called when they are first needed.
        known_hosts: file with the switch's SSH host key; None: the user's own.
    """

    keeps_names = False

    def __init__(
        self,
        access: SwitchAccess,
        limits: SwitchLimits,
        cabling: Cabling,
        wanted: DesiredSegments,
        ever: Ever,
        credentials: Callable[[], SwitchCredentials],
        known_hosts: str | None,
    ) -> None:
        super().__init__(access.name, time.monotonic)
        self._limits, self._cabling = limits, cabling
        self._wanted, self._ever = wanted, ever
        bonds = self._mine(frozenset(cabling.bundles or ()))
        self._device = GenericDevice(access, limits.parking, bonds, credentials, known_hosts)
        self._changing = threading.Lock()
        self._lock = threading.Lock()
        self._sent: dict[int, _Sent] = {}
        self._out: dict[tuple[int, str], float] = {}
        self._owed: dict[tuple[int, str], PortVlans] = {}

    def read(self, since: float | None = None) -> SwitchState:
        """The state that weft's records want of the switch. A VLAN whose last change the switch didn't accept is on no
        port; one that it doesn't need is present only until its removal was accepted.
        """
        state, settled, wanted = self._empty(), self._wanted(settled=True), self._wanted()
        everyones = {number: self._desired(spec) for number, (_, spec) in wanted.items()}
        access = {p: n for n, ports in everyones.items() for p, vlans in ports.items() if not vlans.trunk}
        for number, (name, spec) in wanted.items():
            desired = everyones[number]
            with self._lock:
                sent = self._sent.get(number)
                for port in desired:
                    self._out.pop((number, port), None)
                owed = any(n == number == access.get(p, number) for n, p in self._owed)
            if self.name not in self._cabling.spread(spec.ports):
                state = _with(state, number, {}) if owed else state
            elif sent is not None and sent.by == name and sent.ports is None:
                continue  # its last change wasn't accepted
            elif settled.get(number) == (name, spec):  # its sender has recorded its acceptance
                state = _with(state, number, desired)
                # From now on the records have it; its former ports must still be removed some day.
                with self._lock:
                    if sent is not None and self._sent.get(number) is sent:
                        self._sent[number] = replace(sent, at=float("-inf"))
            elif sent is not None and sent.by == name and _is_remembered(sent.at):
                state = _with(state, number, sent.ports or {})
            else:
                state = _with(state, number, {})
        return state

    def _together(self, parts: Sequence[SwitchPart]) -> None:
        """Send everything that each VLAN must have here, and its removal from every port that weft had put it
        on."""
        with turn(self._changing, self.name):
            began, changes = self._monotonic(), dict[int, _Change]()
            for part in (p for p in parts if p.edit.about is not None):
                try:
                    change = self._change(part.edit)
                    if change.batch:
                        part.edit.fence()
                except Exception as error:  # the others are unaffected
                    part.error = error
                    continue
                if change.batch and change.number in changes:
                    part.apart = True  # it depends on the change before it
                elif change.batch:
                    part.batch, changes[change.number] = change.batch, change
            if self._is_old(began, parts):
                return
            try:
                self._made(tuple(changes.values()))
            except Exception as error:
                for part in (p for p in parts if p.batch):
                    part.fail(error, apart=len(changes) > 1)

    def _change(self, asked: Asked) -> _Change:
        assert asked.about is not None
        number, add = asked.about.number, asked.edit(self._empty())
        name = add.define.get(number, "")
        away = self._former(asked.about, name)
        remove = asked.edit(_with(self._empty(), number, away)) if away else Batch()
        gone = {p: e for p, e in remove.ports.items() if p not in add.ports}
        batch = Batch(add.define, frozenset() if add.define else remove.forget, {**gone, **add.ports})
        self._limits.check(batch, self.name)
        return _Change(number, name, batch, add.ports, {p: away[p] for p in gone})

    def _made(self, changes: Sequence[_Change]) -> None:
        """Send the changes, and record what was accepted."""
        if not changes:
            return
        with self._lock:
            for one in changes:
                self._sent[one.number] = _Sent(one.name, None, time.monotonic())  # until it is accepted
                for port in one.into:
                    self._out.pop((one.number, port), None)
                self._owed |= {(one.number, p): vlans for p, vlans in one.gone.items()}
        self._device.send([(one.number, one.batch) for one in changes])
        now = time.monotonic()
        with self._lock:
            for one in changes:
                into = {p: e.on(PortVlans()) for p, e in one.into.items()}
                self._sent[one.number] = _Sent(one.name, into, now)
                self._out |= {(one.number, p): now for p in one.gone if p not in into}
                self._owed = {(n, p): vlans for (n, p), vlans in self._owed.items() if n != one.number}

    def _former(self, about: SegmentSpec, name: str) -> dict[str, PortVlans]:
        """Ports of this switch that weft may have put a VLAN on. Those that are another VLAN's access ports
        by now are left out: some devices remove a port from any VLAN that it is in."""
        with self._lock:
            sent = self._sent.get(about.number)
            found = dict(sent.ports or {}) if sent is not None and name in ("", sent.by) else {}
            found |= {p: vlans for (n, p), vlans in self._owed.items() if n == about.number}
        if (ever := self._ever(about.number)) is not None:
            found |= self._desired(ever)
        found |= self._desired(about)
        taken = self._access_ports(self._wanted(), about.number)
        return {p: v for p, v in found.items() if p not in taken}

    def _access_ports(self, segments: Segments, except_for: int) -> set[str]:
        """Ports of this switch that are access ports of other VLANs than this one."""
        others = (self._desired(spec) for n, (_, spec) in segments.items() if n != except_for)
        return {p for ports in others for p, vlans in ports.items() if not vlans.trunk}

    def accepted_without(self, number: int, port: str) -> bool:
        """Whether it recently accepted from this process the removal of a VLAN from a port (by the vendor's
        name). If not, the VLAN is removed with its next change, which is due now; except from a port that is
        another VLAN's access port by now, since that can be in one VLAN only.
        """
        wanted = self._wanted()
        name, _ = wanted.get(number, ("", None))
        if port in self._access_ports(self._wanted(settled=True), number):
            return True
        if port in self._access_ports(wanted, number):
            return False
        with self._lock:
            if _is_remembered(self._out.get((number, port), float("-inf"))):
                return True
            self._owed.setdefault((number, port), PortVlans(number))
            self._sent[number] = _Sent(name, None, time.monotonic())
            return False

    def qos(self) -> str:
        return "it can't be read back"

    def counters(self) -> str:
        return "networking-generic-switch reads nothing"

    def links(self) -> str:
        return "networking-generic-switch reads nothing"

    def neighbours(self, ports: Sequence[str]) -> str:
        return "it can't be read back"

    def close(self) -> None:
        """Does nothing: no connection is kept open."""

    # -- what is wanted ---------------------------------------------------------------------------------------

    def _empty(self) -> SwitchState:
        return SwitchState({}, {p: PortVlans() for p in self._limits.ports})

    def _links(self) -> frozenset[str]:
        return self._mine(self._cabling.uplinks)

    def _mine(self, ends: Sequence[str] | frozenset[str]) -> frozenset[str]:
        """Vendor's names of those ends that are on this switch."""
        prefix = f"{self.name}/"
        return frozenset(e.removeprefix(prefix) for e in ends if e.startswith(prefix))

    def _desired(self, spec: SegmentSpec) -> Ports:
        """The segment's desired ports on this switch."""
        tagged = PortVlans(None, frozenset({spec.number}), True)
        found = {
            end: PortVlans(spec.number) if m.mode is Mode.ACCESS else tagged
            for m in spec.members
            for end in self._mine(self._cabling.ends(m.port))
        }
        carrying = self._cabling.spread(spec.ports).get(self.name, frozenset())
        return found | dict.fromkeys(self._mine(carrying), tagged)


def _is_remembered(at: float) -> bool:
    return time.monotonic() - at < REMEMBERED_SECONDS


def _with(state: SwitchState, number: int, ports: Ports) -> SwitchState:
    """The state with one VLAN more."""
    joined = dict(state.ports)
    for port, more in ports.items():
        now = joined.get(port, PortVlans())
        untagged = now.untagged if more.untagged is None else more.untagged
        joined[port] = PortVlans(untagged, now.tagged | more.tagged, now.trunk or more.trunk)
    return replace(state, vlans={**state.vlans, number: ""}, ports=joined)
