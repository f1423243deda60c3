"""What to change on one switch for a VLAN of the site's own networks. Pure."""

from __future__ import annotations

from weft.drivers.switches.cabling import Cabling, switch_of
from weft.drivers.switches.own import Own, foreign_on, in_use, is_needless, needless_links, own_ports_in
from weft.drivers.switches.vlans import EVERY, KEEP, PARK, Batch, PortEdit, PortVlans, SwitchState
from weft.model.errors import PermanentError
from weft.model.fabrictypes import Mode


def edit_for_own(switch: str, state: SwitchState, own: Own, cabling: Cabling) -> Batch:
    """Changes on one switch, if any. Raises `PermanentError` if a port doesn't exist, or the VLAN is someone
    else's."""
    number, there = own.number, state.vlans.get(own.number)
    spread = cabling.spread(own.spec.ports)
    modes = {m.port: m.mode for m in own.spec.members}
    edits: dict[str, PortEdit] = {}
    for end in sorted(e for e in own.ends if switch_of(e) == switch):
        port, mode = end.partition("/")[2], modes.get(end)
        now = state.ports.get(port)
        if mode is not None and (why := state.lacks(port)):
            raise _refused(switch, own, f"it {why}")
        if now is not None and (edit := port_edit(now, mode, number)):
            edits[port] = edit
    if switch not in spread:
        if is_needless(switch, there, own, cabling):
            edits |= _off_links(switch, state, number, cabling)
            return Batch({}, frozenset({number}), edits)
        return Batch({}, frozenset(), edits)
    if there not in (None, "", own.name) and not own.ours:
        raise _refused(switch, own, f"it is defined there by someone else, as {there!r}")
    for end in sorted(spread[switch]):
        port = end.partition("/")[2]
        now = state.ports.get(port)
        if now is None or state.lacks(port):
            raise _refused(switch, own, f"it {state.lacks(port)}")
        if number not in now.tagged or now.untagged == number:
            untagged = PARK if now.untagged == number else KEEP
            edits[port] = PortEdit(untagged, add=frozenset({number}), trunk=True)
    for end in needless_links(switch, own, cabling):
        port = end.partition("/")[2]
        if port in state.ports and number in state.ports[port].numbers:
            edits[port] = _off(state.ports[port], number)
    named = there == own.name or (there == "" and not any(state.vlans.values()))
    return Batch({} if named and state.forwards(number) else {number: own.name}, frozenset(), edits)


def removal_of_own(switch: str, state: SwitchState, own: Own, cabling: Cabling) -> Batch:
    """The batch that removes the VLAN from the ports that weft has set, and from the switch. Raises `PermanentError`
    while others' ports are in it, since they would lose their VLAN."""
    number, there = own.number, state.vlans.get(own.number)
    if there not in (None, "", own.name) and not (own.ours and own_ports_in(switch, state, own)):
        return Batch()  # it is someone else's by now
    if there != own.name and switch not in own.ever(cabling):
        return Batch()  # weft has never set it there
    if foreign := foreign_on(switch, state, own, cabling):
        raise in_use(own, f"switch {switch}", foreign)
    edits: dict[str, PortEdit] = {}
    for port in own_ports_in(switch, state, own):
        if (edit := port_edit(state.ports[port], None, number)) is not None:
            edits[port] = edit
    edits |= _off_links(switch, state, number, cabling)
    return Batch({}, frozenset() if there is None else frozenset({number}), edits)


def port_edit(now: PortVlans, mode: Mode | None, number: int) -> PortEdit | None:
    """What to change on a port. Args: mode: None if it is no longer a member."""
    if mode is Mode.ACCESS:
        return (
            PortEdit(number, remove=now.tagged) if now.untagged != number or now.tagged or now.trunk else None
        )
    untagged = PARK if now.untagged == number else KEEP
    if mode is Mode.TRUNK:
        if number in now.tagged and untagged == KEEP:
            return None
        return PortEdit(untagged, add=frozenset({number}), trunk=True)
    tagged = frozenset({number}) & (now.tagged if now.tagged != EVERY else frozenset())
    if untagged == KEEP and not tagged:
        return None
    return PortEdit(untagged, remove=tagged, trunk=bool(now.tagged))


def _off_links(switch: str, state: SwitchState, number: int, cabling: Cabling) -> dict[str, PortEdit]:
    found: dict[str, PortEdit] = {}
    for end in sorted(e for e in cabling.uplinks if switch_of(e) == switch):
        port = end.partition("/")[2]
        now = state.ports.get(port)
        if now is not None and number in now.numbers:
            found[port] = _off(now, number)
    return found


def _off(now: PortVlans, number: int) -> PortEdit:
    """The edit that removes the VLAN from an end of a link."""
    return PortEdit(PARK if now.untagged == number else KEEP, remove=frozenset({number}), trunk=True)


def _refused(switch: str, own: Own, why: str) -> PermanentError:
    return PermanentError(f"set {own.spec.named}", f"switch {switch}", why, "correct the site, or the switch")
