"""VLANs of the site's own networks on switches: what to change, what a reading says of them, what is in the way. Pure.

Unlike a pod's VLAN, which has exactly the members that weft gives it, such a VLAN may be on ports that weft knows
nothing of: of the cloud's own hosts, of routers. Those are left as they are. weft sets the ports that the site's file
names, the links between switches on the way, and the VLAN itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.drivers.switches.cabling import Cabling, switch_of
from weft.drivers.switches.names import read_name
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import EVERY, KEEP, PARK, Batch, PortEdit, PortVlans, SwitchState
from weft.drivers.switches.wanted import DEFAULT
from weft.model.errors import PermanentError, UnknownError
from weft.model.fabric import Check, Clean, EvidenceItem
from weft.model.fabrictypes import Mode
from weft.model.owner import Owner
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import Difference, Observed, SegmentSpec, Status

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Own:
    """A wanted VLAN of the site's.

    Attributes:
        name: on switches that store names.
        ours: it was made, or adopted: whatever name it has by now, and whatever its ports have.
        shared: ports that weft knows nothing of are in it: it stays on the switches and links on the way between them.
    """

    spec: SegmentSpec
    name: str
    ours: bool
    shared: bool = False

    @property
    def number(self) -> int:
        return self.spec.number

    @property
    def ends(self) -> frozenset[str]:
        """Ports that weft may set for it, besides those of links."""
        return self.spec.ports | frozenset(self.spec.former)

    def ever(self, cabling: Cabling) -> Mapping[str, frozenset[str]]:
        """Switch -> ends of links, wherever weft has put it as long as it is there, as `Cabling.spread` has them."""
        known = [end for end in self.ends if switch_of(end) in cabling.switches]
        return cabling.spread(known) if known else {}


@dataclass(frozen=True, slots=True)
class InTheWay:
    """What somebody else has where the VLAN is to be.

    Attributes:
        what: VLAN or port; `has`: what it has.
        owner: another owner of weft's, whose the VLAN is.
        adoptable: it is the same VLAN, and could be weft's.
    """

    what: str
    has: str
    then: str
    owner: Owner | None = None
    adoptable: bool = False


# -- what is in the way --------------------------------------------------------------------------------------------


def in_the_way(own: Own, seen: EthernetSnapshot) -> Iterator[InTheWay]:
    """Once it is weft's, only what the site has wrong: what others change then is mended. Raises `UnknownError`."""
    _readable(own.spec, seen)
    for member in own.spec.members:
        if member.port in seen.cabling.member:
            then = "give the hardware another port, in the site"
            yield InTheWay(f"port {member.port}", "an adapter whose pods have it", then)
        elif why := seen.why_unread(member.port):
            yield InTheWay(f"port {member.port}", f"no place: {why}", "correct the site")
    if own.ours:
        return
    yield from _named(own, seen)
    for member in own.spec.members:
        now = seen.ends.get(member.port)
        if now is None:
            continue
        others = _others(now, own.number, member.mode)
        if others:
            then = "take it out of that, or correct the site"
            yield InTheWay(f"port {member.port}", others, then)


def _named(own: Own, seen: EthernetSnapshot) -> Iterator[InTheWay]:
    told = seen.configured.read
    names: dict[str, list[str]] = {}
    for switch in seen.cabling.spread(own.spec.ports):
        name = told.get(switch, {}).get(own.number, "")
        if name not in ("", own.name):
            names.setdefault(name, []).append(switch)
    for name, switches in names.items():
        named = read_name(name, seen.site.name)
        has = f"the name {name!r} on {', '.join(switches)}"
        then = "release that first" if named else "adopt it with --adopt, or remove it"
        owner = named.owner if named else None
        yield InTheWay(own.spec.named, has, then, owner, adoptable=named is None)


def _others(now: PortVlans, number: int, mode: Mode | None) -> str:
    """What a port has that it can't have beside this VLAN; empty: nothing."""
    if mode is Mode.TRUNK:
        return f"{number} as its VLAN without a tag" if now.untagged == number else ""
    if now.untagged not in (None, DEFAULT, number):
        return f"VLAN {now.untagged}, which isn't this network's"
    if (
        now.tagged == EVERY
    ):  # without a VLAN of its own: what Open vSwitch makes of a port that nobody has set
        return "" if now.untagged is None else "every VLAN, as a trunk"
    return f"VLAN {_listed(now.tagged)} with a tag" if now.tagged else ""


def _listed(numbers: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(numbers)[:_SHOWN])) + (" …" if len(numbers) > _SHOWN else "")


# -- what to change ------------------------------------------------------------------------------------------------


def edit_for_own(switch: str, state: SwitchState, own: Own, cabling: Cabling) -> Batch:
    """Changes on one switch, if any. Raises `PermanentError` if a port isn't there, or the VLAN is somebody else's."""
    number, there = own.number, state.vlans.get(own.number)
    spread = cabling.spread(own.spec.ports)
    modes = {m.port: m.mode for m in own.spec.members}
    edits: dict[str, PortEdit] = {}
    for end in sorted(e for e in own.ends if switch_of(e) == switch):
        port, mode = end.partition("/")[2], modes.get(end)
        now = state.ports.get(port)
        if now is None and mode is not None:
            raise _refused(switch, own, f"it has no port {port}")
        if now is not None and (edit := _edit(now, mode, number)):
            edits[port] = edit
    if switch not in spread:
        if _is_needless(switch, there, own, cabling):
            edits |= _off_links(switch, state, number, cabling)
            return Batch({}, frozenset({number}), edits)
        return Batch({}, frozenset(), edits)
    if there not in (None, "", own.name) and not own.ours:
        raise _refused(switch, own, f"it is defined there by somebody else, as {there!r}")
    for end in sorted(spread[switch]):
        port = end.partition("/")[2]
        now = state.ports.get(port)
        if now is None:
            raise _refused(switch, own, f"it has no port {port}")
        if number not in now.tagged or now.untagged == number:
            untagged = PARK if now.untagged == number else KEEP
            edits[port] = PortEdit(untagged, add=frozenset({number}), trunk=True)
    for end in _needless_links(switch, own, cabling):
        port = end.partition("/")[2]
        if port in state.ports and number in state.ports[port].numbers:
            edits[port] = _off(state.ports[port], number)
    named = there == own.name or (there == "" and not any(state.vlans.values()))
    return Batch({} if named else {number: own.name}, frozenset(), edits)


def _is_needless(switch: str, there: str | None, own: Own, cabling: Cabling) -> bool:
    """Args: there: the VLAN's name on a switch that isn't on the way between its ports; None: the switch has none."""
    if own.shared or switch in cabling.spread(own.spec.ports):
        return False
    return there == own.name or (there == "" and switch in own.ever(cabling))


def _needless_links(switch: str, own: Own, cabling: Cabling) -> list[str]:
    """Ends on a switch that needs it, of links that don't any more."""
    if own.shared:
        return []
    needed = cabling.spread(own.spec.ports).get(switch, frozenset[str]())
    return sorted(own.ever(cabling).get(switch, frozenset[str]()) - needed)


def _edit(now: PortVlans, mode: Mode | None, number: int) -> PortEdit | None:
    """Args: mode: None: it isn't a member any more."""
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


def removal_of_own(switch: str, state: SwitchState, own: Own, cabling: Cabling) -> Batch:
    """Takes the VLAN off the ports that weft has set, and off the switch. Raises `PermanentError` while ports of others
    are in it: they would be in none."""
    number, there = own.number, state.vlans.get(own.number)
    if there not in (None, "", own.name) and not (own.ours and _inside(switch, state, own)):
        return Batch()  # it is somebody else's by now
    if there != own.name and switch not in own.ever(cabling):
        return Batch()  # weft has never set it there
    if foreign := _foreign(switch, state, own, cabling):
        raise in_use(own, f"switch {switch}", foreign)
    edits: dict[str, PortEdit] = {}
    for port in _inside(switch, state, own):
        if (edit := _edit(state.ports[port], None, number)) is not None:
            edits[port] = edit
    edits |= _off_links(switch, state, number, cabling)
    return Batch({}, frozenset() if there is None else frozenset({number}), edits)


def in_use(own: Own, of: str, foreign: Sequence[str]) -> PermanentError:
    """Why it isn't removed."""
    listed = ", ".join(foreign[:_SHOWN]) + (" …" if foreign[_SHOWN:] else "")
    said = f"ports that aren't weft's are in it: {listed}"
    return PermanentError(
        f"remove {own.spec.named}", of, said, "take them out of it, or name them in the network's trunks"
    )


def _inside(switch: str, state: SwitchState, own: Own) -> list[str]:
    """Its ports on a switch that are in it; those that carry every VLAN are in all."""
    ports = (e.partition("/")[2] for e in own.ends if switch_of(e) == switch)
    return sorted(p for p in ports if p in state.ports and _is_in(state.ports[p], own.number))


def _is_in(now: PortVlans, number: int) -> bool:
    return now.untagged == number or (number in now.tagged and now.tagged != EVERY)


def _foreign(switch: str, state: SwitchState, own: Own, cabling: Cabling) -> list[str]:
    """Ports in it that are neither its own nor ends of links."""
    ends = {f"{switch}/{p}": now for p, now in state.ports.items()}
    known = own.ends | cabling.uplinks
    return sorted(e for e, now in ends.items() if e not in known and _is_in(now, own.number))


def _off_links(switch: str, state: SwitchState, number: int, cabling: Cabling) -> dict[str, PortEdit]:
    found: dict[str, PortEdit] = {}
    for end in sorted(e for e in cabling.uplinks if switch_of(e) == switch):
        port = end.partition("/")[2]
        now = state.ports.get(port)
        if now is not None and number in now.numbers:
            found[port] = _off(now, number)
    return found


def _off(now: PortVlans, number: int) -> PortEdit:
    """For an end of a link."""
    return PortEdit(PARK if now.untagged == number else KEEP, remove=frozenset({number}), trunk=True)


def foreign_ports(own: Own, seen: EthernetSnapshot) -> list[str]:
    """Ports in it that weft knows nothing of, on all switches where weft has put it."""
    ever = own.ever(seen.cabling)
    where = [
        s
        for s, state in sorted(seen.states.items())
        if s in ever or state.vlans.get(own.number) == own.name != ""
    ]
    return [end for s in where for end in _foreign(s, seen.states[s], own, seen.cabling)]


def _refused(switch: str, own: Own, why: str) -> PermanentError:
    return PermanentError(f"set {own.spec.named}", f"switch {switch}", why, "correct the site, or the switch")


# -- what was read -------------------------------------------------------------------------------------------------


def observe_own(own: Own, seen: EthernetSnapshot, leaving: bool) -> Observed:
    """Settled: the switches that need it have it under weft's name, and its ports are as described.

    Raises `UnknownError` while a switch that needs it can't be read.

    Args:
        leaving: nobody wants it any more; under somebody else's name it is only weft's where weft's ports are in it.
    """
    _readable(own.spec, seen)
    own = replace(own, shared=bool(foreign_ports(own, seen)))
    number, told = own.number, seen.configured.read
    inside = sorted(f"{s}/{p}" for s, state in seen.states.items() for p in _inside(s, state, own))
    spread = seen.cabling.spread(own.spec.ports)
    having = {s for s, vlans in told.items() if vlans.get(number) in ("", own.name)}
    ever = own.ever(seen.cabling)
    having = {s for s in having if s in ever or told[s][number] == own.name}
    foreign = {s for s in spread if told.get(s, {}).get(number) not in (None, "", own.name)}
    if own.ours and not leaving:
        having |= foreign
    elif own.ours:
        having |= {s for s in foreign if any(switch_of(end) == s for end in inside)}
    if not having and (not inside or foreign):
        if unsaved := _unsaved(seen):
            why = f"gone, and {', '.join(unsaved)} would bring it back after a restart: not saved yet"
            return Observed(own.spec.text, Status.PENDING, why)
        return Observed.absent(f"on none of {len(told)} switches, and none of its ports is in it")
    differences = tuple(_differences(own, seen, having))
    reason = "; ".join(f"{d.field} is {d.observed}, wanted {d.wanted}" for d in differences)
    status = Status.PENDING if differences else Status.SETTLED
    return Observed(own.spec.text, status, reason, differences, {"number": number})


def _readable(spec: SegmentSpec, seen: EthernetSnapshot) -> None:
    """Raises `UnknownError`: every switch on which weft has set it must have said what it has."""
    own = Own(spec, "", ours=True)
    needed = {switch_of(end) for end in own.ends} | own.ever(seen.cabling).keys()
    for switch in sorted(needed):
        if why := _silent(switch, seen):
            raise UnknownError(f"look for {spec.named}", f"switch {switch}", why)


def _silent(switch: str, seen: EthernetSnapshot) -> str:
    """Why nobody knows what a switch has; empty: it was read."""
    if switch in seen.unread:
        return seen.unread[switch]
    if switch in seen.told:
        return "it can't be read back"
    return "" if switch in seen.states else f"the site has no such switch on fabric {seen.fabric}"


def _unsaved(seen: EthernetSnapshot) -> list[str]:
    return sorted(s for s, state in seen.states.items() if state.unsaved)


def _differences(own: Own, seen: EthernetSnapshot, having: set[str]) -> Iterator[Difference]:
    told, spread = seen.configured.read, seen.cabling.spread(own.spec.ports)
    for switch in sorted(spread):
        name = told.get(switch, {}).get(own.number)
        if switch not in having:
            yield Difference(field=f"switch {switch}", wanted=own.spec.named, observed="without it")
        elif name not in ("", own.name):
            yield Difference(field=f"name on {switch}", wanted="weft's", observed=str(name))
    for switch in sorted(having):
        if _is_needless(switch, told[switch].get(own.number), own, seen.cabling):
            yield Difference(field=f"switch {switch}", wanted="without it", observed=own.spec.named)
    for end in (e for s in sorted(spread) for e in _needless_links(s, own, seen.cabling)):
        if (now := seen.ends.get(end)) is not None and own.number in now.numbers:
            yield Difference(field=f"link {end}", wanted="without it", observed="the VLAN")
    for switch in _unsaved(seen):
        yield Difference(field=f"switch {switch}", wanted="saved", observed="not saved for its next start")
    for member in own.spec.members:
        now = seen.ends.get(member.port)
        how = "no port of its switch" if now is None else _how(now, own.number)
        if now is None or _edit(now, member.mode, own.number):
            yield Difference(field=f"port {member.port}", wanted=member.mode, observed=how)
    for port in own.spec.former:
        now = seen.ends.get(port)
        if now is not None and _is_in(now, own.number):
            yield Difference(field=f"port {port}", wanted="no member", observed=_how(now, own.number))
    for end in sorted(e for ends in spread.values() for e in ends):
        now = seen.ends.get(end)
        if now is None or own.number not in now.tagged or now.untagged == own.number:
            yield Difference(field=f"link {end}", wanted="the VLAN", observed="without it")


def _how(now: PortVlans, number: int) -> str:
    """A port's VLANs, in words."""
    if now.untagged == number:
        return f"access with VLAN {_listed(now.tagged)} besides" if now.tagged else "access"
    if number in now.tagged:
        return "trunk"
    return f"in VLAN {now.untagged}" if now.untagged is not None else "no member"


def check_own(spec: SegmentSpec, seen: EthernetSnapshot) -> Check:
    """What `observe_own` doesn't say: ports in the VLAN that weft knows nothing of. Nothing is wrong by that."""
    own, notes = Own(spec, "", ours=True), list[Problem]()
    for end in foreign_ports(own, seen):
        name, node = seen.named(end)
        detail = {"segment": own.spec.named}
        nodes = (node,) if node else ()
        notes.append(Problem(ProblemKind.SEGMENT_LEFT, name, seen.fabric, id=end, nodes=nodes, detail=detail))
    looked = {f"switch ports of the site's networks on {seen.fabric}": len(own.spec.members)}
    return Check((), looked, tuple(notes))


def clean_own(spec: SegmentSpec, seen: EthernetSnapshot) -> Clean:
    """Its ports are read without it, one by one; no switch defines it under weft's name, and no link carries it."""
    own = Own(spec, "", ours=True)
    return Clean((_on_switches(own, seen), *_on_ports(own, seen), _on_links(own, seen)))


def _on_switches(own: Own, seen: EthernetSnapshot) -> EvidenceItem:
    ever = own.ever(seen.cabling)
    told = seen.configured.read
    left = sorted(s for s, vlans in told.items() if _is_sites(vlans.get(own.number, ""), seen.site.name))
    left += sorted(s for s in ever if told.get(s, {}).get(own.number) == "" and s not in left)
    unsaved = _unsaved(seen)
    said = f"{own.spec.named} is on {', '.join(left)}" if left else f"on none of {', '.join(sorted(told))}"
    if unsaved:
        said += f"; what was changed on {', '.join(unsaved)} isn't saved for the next start"
    where = {*seen.unread, *seen.told, *ever, *map(switch_of, own.ends)}
    silent = tuple(f"{s}: {why}" for s in sorted(where) if (why := _silent(s, seen)))
    if silent:
        return EvidenceItem("switch", own.spec.named, "unknown", "; ".join(silent), whole=True)
    result = "not clean" if left or unsaved else "clean"
    return EvidenceItem("switch", own.spec.named, result, said, whole=True)


def _is_sites(name: str, site: str) -> bool:
    named = read_name(name, site)
    return named is not None and named.ours and named.owner.kind == "site"


def _on_ports(own: Own, seen: EthernetSnapshot) -> Iterator[EvidenceItem]:
    for end in sorted(own.ends):
        now, switch = seen.ends.get(end), switch_of(end)
        if why := _silent(switch, seen):
            yield EvidenceItem("switch port", end, "unknown", why)
        elif now is None:
            yield EvidenceItem("switch port", end, "clean", f"switch {switch} has no such port")
        else:
            result = "not clean" if _is_in(now, own.number) else "clean"
            has = "every VLAN" if now.tagged == EVERY else _listed(now.numbers) or "no VLAN"
            yield EvidenceItem("switch port", end, result, f"read from its switch: {has}")


def _on_links(own: Own, seen: EthernetSnapshot) -> EvidenceItem:
    ever, names = own.ever(seen.cabling), seen.configured.read

    def was_ours(switch: str) -> bool:
        return switch in ever or _is_sites(names.get(switch, {}).get(own.number, ""), seen.site.name)

    dirty = sorted(e for e in seen.carriers.get(own.number, frozenset()) if was_ours(switch_of(e)))
    told = f"{own.spec.named} is on {', '.join(dirty)}" if dirty else f"none carries {own.spec.named}"
    count = len(seen.cabling.uplinks & seen.ends.keys())
    result = "not clean" if dirty else "clean"
    return EvidenceItem(
        "link between switches", f"{count} ends of links of {seen.fabric}", result, told, whole=True
    )
