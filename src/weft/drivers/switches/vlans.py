"""VLANs of a switch as values: what was read, what to change, and the expected result. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from weft.model.fabrictypes import Level, consecutive

EVERY = frozenset(range(1, 4095))
"""VLANs of a trunk without a list."""

DEFAULT = 1
"""Default VLAN of ports."""

KEEP, PARK = -1, 0
"""Values instead of an untagged VLAN: keep it unchanged; put the port into none."""


@dataclass(frozen=True, slots=True)
class PortVlans:
    """VLANs of one port.

    Attributes:
        untagged: VLAN of untagged frames; None: they aren't forwarded, as on a parked port.
        tagged: VLANs of tagged frames; `EVERY` for a trunk without a list.
        trunk: whether it is configured as a trunk, possibly without VLANs.
    """

    untagged: int | None = None
    tagged: frozenset[int] = frozenset()
    trunk: bool = False

    @property
    def numbers(self) -> frozenset[int]:
        return self.tagged if self.untagged is None else self.tagged | {self.untagged}


@dataclass(frozen=True, slots=True)
class SwitchState:
    """One switch, as read at one moment.

    Attributes:
        vlans: VLAN -> its name; empty if the switch stores no names.
        ports: the vendor's name of the port -> its VLANs. A link aggregation is a port; its member links aren't.
        serial: the switch's own clock or change counter: a lower one than before means an outdated answer.
        unsaved: whether weft's last change may not survive a restart of the switch.
        suspended: VLANs that are defined but forward nothing.
        exposed: ports in a parking VLAN that isn't isolated: their hosts reach each other.
        unfit: port -> why it can't be put into a VLAN; if it isn't among `ports`, it can't be read.
        coming: states that changes in progress, by anyone, will lead to, if the switch shows them.
        level: how close `ports` is to what is actually forwarded.
        beyond: port -> VLANs that it forwards beyond its configuration, if the switch shows them.
    """

    vlans: Mapping[int, str]
    ports: Mapping[str, PortVlans]
    serial: float = 0.0
    unsaved: bool = False
    suspended: frozenset[int] = frozenset()
    exposed: frozenset[str] = frozenset()
    unfit: Mapping[str, str] = field(default_factory=dict[str, str])
    coming: tuple[SwitchState, ...] = ()
    level: Level = Level.CONFIGURATION
    beyond: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])

    def forwards(self, number: int) -> bool:
        """Whether a VLAN is defined and not suspended."""
        return number in self.vlans and number not in self.suspended

    def has(self, number: int) -> bool:
        """Whether a VLAN is defined, or a port is in it."""
        return number in self.vlans or any(number in vlans.numbers for vlans in self.ports.values())

    def lacks(self, port: str) -> str:
        """Why a port can't be put into VLANs, such as "has no port …"; empty if it can."""
        if port in self.unfit:
            return f"has port {port} {self.unfit[port]}"
        return "" if port in self.ports else f"has no port {port}"


@dataclass(frozen=True, slots=True)
class PortEdit:
    """What to change on a port. Lists are changed, not replaced: another worker may be changing other VLANs in them.

    Attributes:
        untagged: VLAN, `PARK` or `KEEP`.
        add, remove: tagged VLANs.
        trunk: whether the port stays a trunk even if its list becomes empty (a link between switches).
    """

    untagged: int = KEEP
    add: frozenset[int] = frozenset()
    remove: frozenset[int] = frozenset()
    trunk: bool = False

    def on(self, now: PortVlans) -> PortVlans:
        """The port's VLANs after this edit."""
        untagged = now.untagged if self.untagged == KEEP else self.untagged or None
        tagged = (now.tagged | self.add) - self.remove
        return PortVlans(untagged, tagged, self.trunk or bool(tagged))

    def done(self, now: PortVlans) -> bool:
        """Whether the edit is already in effect."""
        untagged = self.untagged == KEEP or now.untagged == (self.untagged or None)
        return untagged and self.add <= now.tagged and not self.remove & (now.tagged - self.add)

    def overrides(self, other: PortEdit) -> bool:
        """Whether this edit undoes all of an earlier one."""
        tagged = other.add | other.remove <= self.add | self.remove
        return tagged and (other.untagged == KEEP or self.untagged != KEEP)


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes of one switch, applied together or not at all.

    Attributes:
        define: VLAN -> its new name; `forget`: VLANs to remove from the switch.
        ports: port -> what to change on it.
    """

    define: Mapping[int, str] = field(default_factory=dict[int, str])
    forget: frozenset[int] = frozenset()
    ports: Mapping[str, PortEdit] = field(default_factory=dict[str, PortEdit])

    @property
    def numbers(self) -> frozenset[int]:
        """VLANs that it adds to a port or removes from the switch."""
        placed = {n for e in self.ports.values() for n in (*e.add, e.untagged) if n not in (KEEP, PARK)}
        return frozenset({*self.define, *self.forget, *placed})

    def __bool__(self) -> bool:
        return bool(self.define or self.forget or self.ports)

    def on(self, state: SwitchState) -> SwitchState:
        """The switch's state after this batch."""
        vlans = {n: name for n, name in state.vlans.items() if n not in self.forget} | dict(self.define)
        ports = dict(state.ports) | {p: e.on(state.ports[p]) for p, e in self.ports.items()}
        return replace(
            state, vlans=vlans, ports=ports, suspended=state.suspended - {*self.define, *self.forget}
        )

    def overrides(self, other: Batch) -> bool:
        """Whether this batch undoes all of an earlier one."""
        defined = {*other.define, *other.forget} <= {*self.define, *self.forget}
        return defined and all(p in self.ports and self.ports[p].overrides(e) for p, e in other.ports.items())

    def done(self, state: SwitchState) -> bool:
        """Whether all of it is already in effect. Anything else on the ports may be another worker's."""
        for number, name in self.define.items():
            if not state.forwards(number) or state.vlans[number] not in ("", name):
                return False
        if any(number in state.vlans for number in self.forget):
            return False
        if any(e.untagged == PARK and p in state.exposed for p, e in self.ports.items()):
            return False
        return all(p in state.ports and e.done(state.ports[p]) for p, e in self.ports.items())


def joined(first: Batch, second: Batch) -> Batch:
    """One batch that does what the second does after the first."""
    define = {n: name for n, name in first.define.items() if n not in second.forget}
    forget = (first.forget - second.define.keys()) | second.forget
    ports = dict(first.ports)
    for port, edit in second.ports.items():
        was = ports.get(port, PortEdit())
        ports[port] = PortEdit(
            was.untagged if edit.untagged == KEEP else edit.untagged,
            (was.add - edit.remove) | edit.add,
            (was.remove - edit.add) | edit.remove,
            was.trunk or edit.trunk,
        )
    return Batch({**define, **second.define}, forget, ports)


def within(whole: Batch, part: Batch) -> Batch:
    """The part of a batch that is left in another batch composed of it and others."""
    ports: dict[str, PortEdit] = {}
    for port, edit in part.ports.items():
        all_, about = whole.ports[port], edit.add | edit.remove
        untagged = KEEP if edit.untagged == KEEP else all_.untagged
        ports[port] = PortEdit(untagged, all_.add & about, all_.remove & about, all_.trunk)
    numbers = {*part.define, *part.forget}
    define = {n: name for n, name in whole.define.items() if n in numbers}
    return Batch(define, whole.forget & numbers, ports)


def inverse(batch: Batch, before: SwitchState) -> Batch:
    """The batch that undoes this one; it removes only VLANs that weren't there before."""
    ports: dict[str, PortEdit] = {}
    for port, edit in batch.ports.items():
        was, now = before.ports[port], edit.on(before.ports[port])
        untagged = KEEP if was.untagged == now.untagged else was.untagged or PARK
        ports[port] = PortEdit(untagged, was.tagged - now.tagged, now.tagged - was.tagged, was.trunk)
    define = {n: before.vlans[n] for n in {*batch.define, *batch.forget} if n in before.vlans}
    return Batch(define, frozenset(n for n in batch.define if n not in before.vlans), ports)


def vlan_of(value: object) -> int:
    """A VLAN's number, which some versions write as text. Raises ValueError for anything else, such as null."""
    number = value if isinstance(value, int) else int(value) if isinstance(value, str) else 0
    if isinstance(value, bool) or not 1 <= number <= 4094:
        raise ValueError(f"{str(value)[:40]!r}: VLANs are 1 to 4094")
    return number


def ranges(numbers: Iterable[int]) -> str:
    """`11,13-15`, as switches write lists of VLANs."""
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in consecutive(numbers))


def from_ranges(text: str) -> frozenset[int]:
    """The inverse of `ranges`. Raises ValueError for anything that isn't a list of VLANs."""
    found: set[int] = set()
    for part in filter(None, (p.strip() for p in text.split(","))):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 1 <= low <= high <= 4094:
            raise ValueError(f"{part[:40]!r}: VLANs are 1 to 4094")
        found.update(range(low, high + 1))
    return frozenset(found)
