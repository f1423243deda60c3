"""What to change on one switch, so that a VLAN has exactly its members there, or is gone. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from weft.drivers.switches.cabling import Cabling, switch_of
from weft.drivers.switches.names import read_name
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import (
    DEFAULT,
    EVERY,
    KEEP,
    PARK,
    Batch,
    PortEdit,
    PortVlans,
    SwitchState,
    ranges,
)
from weft.model.errors import PermanentError
from weft.model.fabrictypes import Mode
from weft.model.ranges import Range
from weft.model.specs import SegmentSpec


@dataclass(frozen=True, slots=True)
class WantedSegment:
    """A desired segment.

    Attributes:
        name: the VLAN's name on switches.
        spread: switch that needs it -> ends of links there that carry it.
        range: weft's VLANs.
        over: former names of the number to overwrite: those of this site's earlier pods, restored by a
        switch's old configuration.
    """

    spec: SegmentSpec
    name: str
    spread: Mapping[str, frozenset[str]]
    range: Range
    over: frozenset[str] = frozenset()

    @property
    def number(self) -> int:
        """The VLAN's number."""
        return self.spec.number


def refusal(order: WantedSegment, seen: EthernetSnapshot, site: str) -> str:
    """Why the VLAN can't be created, by a reading of all switches; empty if it can."""
    for switch, vlans in seen.configured.read.items():
        if why := _others(vlans.get(order.number, ""), order, site):
            return f"{why} (switch {switch})"
    for member in order.spec.members:
        for end in seen.cabling.ends(member.port):
            foreign = _foreign(seen.ends.get(end, PortVlans()), member.mode, order.range)
            if foreign:
                return f"{end} is in VLAN {ranges(foreign)}, which isn't weft's: take it out of it"
    return ""


def _foreign(now: PortVlans, mode: Mode, ours: Range) -> frozenset[int]:
    """VLANs of a port that weft didn't set and that prevent it from becoming a member. A trunk of every VLAN is a
    default, not a choice. A shared host may have other tagged VLANs.
    """
    tagged = now.tagged if mode is Mode.ACCESS and now.tagged != EVERY else frozenset[int]()
    untagged = {now.untagged} - {None, DEFAULT}
    return frozenset(n for n in (*tagged, *untagged) if n is not None and n not in ours)


def _others(name: str, order: WantedSegment, site: str) -> str:
    if name in ("", order.name) or name in order.over:
        return ""
    named = read_name(name, site)
    return f"taken: it is {named.owner}'s" if named else f"defined by someone else, as {name!r}"


def edit_for(switch: str, state: SwitchState, order: WantedSegment, cabling: Cabling) -> Batch:
    """Changes on one switch, if any. Raises `PermanentError` if the VLAN or a port can't be used."""
    number, there = order.number, state.vlans.get(order.number)
    if why := _others(there or "", order, ""):
        raise _refused(switch, number, why)
    modes = {m.port: m.mode for m in order.spec.members}
    edits: dict[str, PortEdit] = {}
    for end, port in _mine(switch, cabling.member.items()):
        now, mode = state.ports.get(end), modes.get(port)
        if mode is not None and (why := state.lacks(end)):
            raise _refused(switch, number, f"it {why}")
        edit = None if now is None else _host_edit(now, mode, number, order.range)
        if edit is not None:
            edits[end] = edit
    carry = {e.partition("/")[2] for e in order.spread.get(switch, ())}
    for end in sorted(e.partition("/")[2] for e in cabling.uplinks if switch_of(e) == switch):
        now = state.ports.get(end)
        if end in carry and (why := state.lacks(end)):
            raise _refused(switch, number, f"it {why}")
        if now is not None and (edit := _link_edit(now, end in carry, number)):
            edits[end] = edit
    if switch not in order.spread:
        return Batch({}, frozenset({number} if there is not None else ()), edits)
    named = state.forwards(number) and there in ("", order.name)
    keeps = named and not (there == "" and _keeps_names(state))
    return Batch({} if keeps else {number: order.name}, frozenset(), edits)


def _keeps_names(state: SwitchState) -> bool:
    """Whether the switch stores names at all: if so, a VLAN without a name has no owner yet."""
    return any(state.vlans.values())


def _mine(switch: str, ends: Collection[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Vendor's name of each of a switch's ports that is a member, with the member's id."""
    for end, port in sorted(ends):
        if switch_of(end) == switch:
            yield end.partition("/")[2], port


def _host_edit(now: PortVlans, mode: Mode | None, number: int, ours: Range) -> PortEdit | None:
    """What to change on a host's port; None if nothing. VLANs that aren't weft's stay, unless the port has no
    list; the default VLAN doesn't stay untagged, since it connects every unconfigured port.
    """
    unlimited = now.tagged == EVERY
    if mode is Mode.ACCESS:
        away = now.tagged if unlimited else frozenset(n for n in now.tagged if n in ours)
        return PortEdit(number, remove=away) if now.untagged != number or away else None
    if mode is Mode.TRUNK:
        away = EVERY - {number} if unlimited else frozenset[int]()
        untagged = PARK if now.untagged in (number, DEFAULT) else KEEP
        if number in now.tagged and untagged == KEEP and not away:
            return None
        return PortEdit(untagged, frozenset({number}), away)
    if number not in now.numbers:
        return None
    if unlimited:
        return PortEdit(PARK, remove=EVERY)
    return PortEdit(PARK if now.untagged in (number, DEFAULT) else KEEP, remove=now.tagged & {number})


def _link_edit(now: PortVlans, carry: bool, number: int) -> PortEdit | None:
    untagged = PARK if now.untagged == number else KEEP
    if carry and (number not in now.tagged or untagged == PARK):
        return PortEdit(untagged, add=frozenset({number}), trunk=True)
    if not carry and number in now.numbers:
        return PortEdit(untagged, remove=frozenset({number}), trunk=True)
    return None


def removal_for(
    switch: str,
    state: SwitchState,
    number: int,
    names: Collection[str],
    cabling: Cabling,
    nameless: bool = True,
) -> Batch:
    """The batch that removes a VLAN from a switch; empty if it is someone else's there.

    Args:
        names: names under which it may be removed.
        nameless: whether to remove it even without a name.
    """
    there = state.vlans.get(number)
    if there is not None and there not in names and (there != "" or not nameless):
        return Batch()
    edits: dict[str, PortEdit] = {}
    for end, _ in _mine(switch, cabling.member.items()):
        now = state.ports.get(end)
        edit = _host_edit(now, None, number, Range(first=number, last=number)) if now else None
        if edit is not None:
            edits[end] = edit
    for end in sorted(e.partition("/")[2] for e in cabling.uplinks if switch_of(e) == switch):
        now = state.ports.get(end)
        if now is not None and (edit := _link_edit(now, False, number)):
            edits[end] = edit
    return Batch({}, frozenset() if there is None else frozenset({number}), edits)


def _refused(switch: str, number: int, why: str) -> PermanentError:
    return PermanentError(f"set VLAN {number}", f"switch {switch}", why, "correct the site, or the switch")
