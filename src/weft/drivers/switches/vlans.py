"""VLANs of a switch as values: what was read, what is to be changed, and what must be read afterwards. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

EVERY = frozenset(range(1, 4095))
"""What a trunk without a list carries."""

KEEP, PARK = -1, 0
"""Instead of a VLAN without a tag: leave it as it is; put the port into none."""


@dataclass(frozen=True, slots=True)
class PortVlans:
    """VLANs of one port.

    Attributes:
        untagged: VLAN of frames without a tag; None: there is none that reaches anybody, as on a parked port.
        tagged: VLANs of frames with one; `EVERY` for a trunk that no list limits.
        trunk: it is configured as a trunk, perhaps of nothing.
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
        vlans: VLAN -> its name; empty where the switch keeps no names.
        ports: name of the port, in the vendor's words -> its VLANs. A link aggregation is a port; its links are not.
        serial: grows with time or with each change, as the switch itself tells it: a lower one than before is an old
            answer.
        unsaved: weft's last change may not outlive a restart of the switch.
    """

    vlans: Mapping[int, str]
    ports: Mapping[str, PortVlans]
    serial: float = 0.0
    unsaved: bool = False


@dataclass(frozen=True, slots=True)
class PortEdit:
    """What to change on a port. Lists are changed, not replaced: another worker may be changing others of their VLANs.

    Attributes:
        untagged: VLAN, `PARK` or `KEEP`.
        add, remove: VLANs with a tag.
        trunk: the port stays a trunk also if its list becomes empty: a link between switches.
    """

    untagged: int = KEEP
    add: frozenset[int] = frozenset()
    remove: frozenset[int] = frozenset()
    trunk: bool = False

    def on(self, now: PortVlans) -> PortVlans:
        """What the port has when it is done."""
        untagged = now.untagged if self.untagged == KEEP else self.untagged or None
        tagged = (now.tagged | self.add) - self.remove
        return PortVlans(untagged, tagged, self.trunk or bool(tagged))

    def done(self, now: PortVlans) -> bool:
        """Whether the port has it."""
        untagged = self.untagged == KEEP or now.untagged == (self.untagged or None)
        return untagged and self.add <= now.tagged and not self.remove & (now.tagged - self.add)


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes of one switch that are made together, or not at all.

    Attributes:
        define: VLAN -> name that it gets; `forget`: VLANs that the switch is to have no longer.
        ports: port -> what to change on it.
    """

    define: Mapping[int, str] = field(default_factory=dict[int, str])
    forget: frozenset[int] = frozenset()
    ports: Mapping[str, PortEdit] = field(default_factory=dict[str, PortEdit])

    @property
    def numbers(self) -> frozenset[int]:
        """VLANs that it puts anywhere or takes from the switch."""
        placed = {n for e in self.ports.values() for n in (*e.add, e.untagged) if n not in (KEEP, PARK)}
        return frozenset({*self.define, *self.forget, *placed})

    def __bool__(self) -> bool:
        return bool(self.define or self.forget or self.ports)

    def on(self, state: SwitchState) -> SwitchState:
        """The switch when it is done."""
        vlans = {n: name for n, name in state.vlans.items() if n not in self.forget} | dict(self.define)
        ports = dict(state.ports) | {p: e.on(state.ports[p]) for p, e in self.ports.items()}
        return replace(state, vlans=vlans, ports=ports)

    def done(self, state: SwitchState) -> bool:
        """Whether all of it is so. What else is on the ports may be another worker's."""
        for number, name in self.define.items():
            if number not in state.vlans or state.vlans[number] not in ("", name):
                return False
        if any(number in state.vlans for number in self.forget):
            return False
        return all(p in state.ports and e.done(state.ports[p]) for p, e in self.ports.items())


def inverse(batch: Batch, before: SwitchState) -> Batch:
    """What takes the batch back; a VLAN that was there is not taken away, one that was not is."""
    ports: dict[str, PortEdit] = {}
    for port, edit in batch.ports.items():
        was, now = before.ports[port], edit.on(before.ports[port])
        untagged = KEEP if was.untagged == now.untagged else was.untagged or PARK
        ports[port] = PortEdit(untagged, was.tagged - now.tagged, now.tagged - was.tagged, was.trunk)
    define = {n: before.vlans[n] for n in {*batch.define, *batch.forget} if n in before.vlans}
    return Batch(define, frozenset(n for n in batch.define if n not in before.vlans), ports)


def ranges(numbers: Iterable[int]) -> str:
    """`11,13-15`, as switches write lists of VLANs."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in found)


def from_ranges(text: str) -> frozenset[int]:
    """The other way. Raises ValueError for what is no list of VLANs."""
    found: set[int] = set()
    for part in filter(None, (p.strip() for p in text.split(","))):
        first, dash, last = part.partition("-")
        found.update(range(int(first), int(last if dash else first) + 1))
    if not found <= EVERY:
        raise ValueError(f"{text!r}: VLANs are 1 to 4094")
    return frozenset(found)
