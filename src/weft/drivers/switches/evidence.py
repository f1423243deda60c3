"""Interprets a reading of an Ethernet fabric's switches for one VLAN. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from weft.drivers.switches.cabling import switch_of
from weft.drivers.switches.looks import SettingsSeen, Silent
from weft.drivers.switches.names import vlan_name
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import ranges
from weft.model.fabric import Clean, EvidenceItem, SegmentCheck
from weft.model.fabrictypes import Level, Mode
from weft.model.mark import Mark
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import Difference, Observed, Status
from weft.model.site import Qos
from weft.model.specs import SegmentSpec
from weft.planning.fabric.qos import SwitchQos, differences


def observe(mark: Mark, segment: SegmentSpec, seen: EthernetSnapshot) -> Observed:
    """What is observed of a pod's VLAN. Settled: the required switches have it under weft's name, and exactly the
    members are in it."""
    number, name = segment.number, vlan_name(mark)
    if seen.by_neutron:
        return _observe_neutrons(segment, name, seen)
    tables = seen.configured.read
    mine = {s for s, vlans in tables.items() if number in vlans and vlans[number] in (name, "")}
    others = any(vlans.get(number) not in (None, "", name) for vlans in tables.values())
    on_ports = seen.ports_in.get(number, frozenset()) or seen.carriers.get(number, frozenset())
    blind = sorted(m.port for m in segment.members if seen.why_unread(m.port))
    if not mine and (not on_ports or others):
        if blind:
            why = f"can't be proved absent: {', '.join(blind)} can't be read"
            return Observed(segment.text, Status.PENDING, why)
        if unsaved := _unsaved(segment, seen):
            why = f"gone, and {', '.join(unsaved)} would bring it back after a restart: not saved yet"
            return Observed(segment.text, Status.PENDING, why)
        return Observed.absent(f"on none of {len(tables)} switches and none of their ports")
    differences = tuple(_differences(segment, seen, mine))
    reason = "; ".join(f"{d.field} is {d.observed}, wanted {d.wanted}" for d in differences)
    status = Status.PENDING if differences else Status.SETTLED
    return Observed(segment.text, status, reason, differences, {"number": number})


def _observe_neutrons(segment: SegmentSpec, name: str, seen: EthernetSnapshot) -> Observed:
    """What is observed of a VLAN that Neutron sets. It exists while weft's records have it: members join as Neutron
    binds their ports, and `check` reports others. Afterwards it is gone once no port is in it.
    """
    number, recorded = segment.number, seen.names.get(segment.number)
    if recorded == name:
        return Observed(segment.text, Status.SETTLED, facts={"number": number})
    inside = seen.ports_in.get(number, frozenset[str]())
    if recorded is not None:  # another owner has the number by now
        inside &= segment.ports
    if inside:
        listed = ", ".join(sorted(inside))
        return Observed(segment.text, Status.PENDING, f"Neutron hasn't taken it off {listed} yet")
    if blind := sorted(m.port for m in segment.members if seen.why_unread(m.port)):
        why = f"can't be proved absent: {', '.join(blind)} can't be read"
        return Observed(segment.text, Status.PENDING, why)
    return Observed.absent(f"on none of the host ports of {len(seen.states)} switches")


def _differences(segment: SegmentSpec, seen: EthernetSnapshot, mine: set[str]) -> Iterator[Difference]:
    number, needed = segment.number, seen.cabling.spread(segment.ports)
    for switch in sorted(needed.keys() - mine):
        why = f"not readable: {seen.unread[switch]}" if switch in seen.unread else "without it"
        yield Difference(field=f"switch {switch}", wanted=segment.named, observed=why)
    for switch in sorted(mine - needed.keys()):
        yield Difference(field=f"switch {switch}", wanted=f"no {segment.named}", observed="with it")
    for switch in _unsaved(segment, seen):
        yield Difference(field=f"switch {switch}", wanted="saved", observed="not saved for its next start")
    for member in segment.members:
        how = seen.mode(member, number)
        if how != member.mode:
            yield Difference(field=f"port {member.port}", wanted=member.mode, observed=how)
    for port in seen.strangers(segment):
        yield Difference(field=f"port {port}", wanted="no member", observed="in the VLAN")
    for end in seen.lacking(segment):
        yield Difference(field=f"link {end}", wanted="the VLAN", observed="without it")
    for end in seen.needless(segment):
        yield Difference(field=f"link {end}", wanted="without the VLAN", observed="with it")


def check(segment: SegmentSpec, seen: EthernetSnapshot) -> SegmentCheck:
    """Check that exactly the members are in the VLAN, each as desired and in no other VLAN, and that every link on a
    path carries it."""
    problems: list[Problem] = []
    for member in segment.members:
        port, how = member.port, seen.mode(member, segment.number)
        if why := seen.why_unread(port):
            problems.append(_problem(ProblemKind.UNREAD, port, seen, why=f"{port} can't be read: {why}"))
            continue
        if how != member.mode:
            detail = {"segment": segment.named, "mode": str(member.mode), "limited": f": it is {how}"}
            problems.append(_problem(ProblemKind.NOT_MEMBER, port, seen, **detail))
        if others := seen.beside(member, segment.number):
            listed = f"VLAN {ranges(others)}"
            problems.append(_problem(ProblemKind.OTHER_SEGMENTS, port, seen, segments=listed))
    problems += [
        _problem(ProblemKind.SEGMENT_LEFT, port, seen, segment=segment.named)
        for port in seen.strangers(segment)
    ]
    # Where Neutron manages the link, extra VLANs are not weft's concern; missing ones are.
    problems += [_not_carried(segment, end, seen) for end in seen.lacking(segment)]
    looked = {
        f"switch ports of {seen.fabric}": sum(switch_of(end) not in seen.write_only for end in seen.ends)
    }
    wanted = seen.site.fabrics[seen.fabric].qos
    if wanted is None or seen.settings is None:
        return SegmentCheck(tuple(problems), looked)
    ends, unlike = _settings(segment, seen, wanted, seen.settings)
    looked[f"ports' settings for RoCE of {seen.fabric}"] = ends
    if wanted.policy == "refuse":
        return SegmentCheck((*problems, *unlike), looked)
    return SegmentCheck(tuple(problems), looked, unlike)


@dataclass(frozen=True, slots=True)
class _End:
    """A port whose settings for RoCE matter: that of a member, or the end of a link.

    Attributes:
        id: switch/port; `name`: for people.
        nodes: the member's.
    """

    id: str
    name: str
    nodes: tuple[str, ...]
    fabric: str

    def problem(self, kind: ProblemKind, **detail: str) -> Problem:
        return Problem(kind, self.name, self.fabric, id=self.id, nodes=self.nodes, detail=detail)

    def unread(self, what: str) -> Problem:
        return self.problem(ProblemKind.UNREAD, why=f"{self.name}: {what}")

    def unlike(self, wanted: Qos, settings: SwitchQos) -> Iterator[Problem]:
        """Differences at the port, and at the interface that it inherits settings from."""
        port = self.id.partition("/")[2]
        for where, one in settings.of(port).items():
            place = self.id if where == port else f"{self.id} ({where})"
            for why in one.unsure:
                yield self.unread(f"settings for RoCE of {place} are not all known: {why}")
            for d in differences(wanted, one):
                detail = {"port": place, "field": d.field, "observed": d.observed, "wanted": d.wanted}
                yield self.problem(ProblemKind.SETTING, **detail)


def _settings(
    segment: SegmentSpec, seen: EthernetSnapshot, wanted: Qos, answers: SettingsSeen
) -> tuple[int, tuple[Problem, ...]]:
    """Number of ports whose settings for RoCE are known, and differences: at members, and at links between
    them."""
    found: list[Problem] = []
    looked = 0
    for end in _ends(segment, seen):
        switch, _, port = end.id.partition("/")
        settings = answers.get(switch)
        if isinstance(settings, Silent) and settings.passing and wanted.policy == "warn":
            # A note that comes and goes with a switch's answers would be reported as new each time it comes.
            if settings.last is None:
                continue
            settings = settings.last
        if isinstance(settings, SwitchQos) and settings.of(port):
            looked += 1
            found += end.unlike(wanted, settings)
        else:
            why = settings.why if isinstance(settings, Silent) else "the switch says nothing of this port"
            found.append(end.unread(f"settings for RoCE of {end.id} are not known: {why}"))
    return looked, tuple(found)


def _ends(segment: SegmentSpec, seen: EthernetSnapshot) -> Iterator[_End]:
    links = {end for ends in seen.cabling.spread(segment.ports).values() for end in ends}
    for end in sorted({e for m in segment.members for e in seen.cabling.ends(m.port)} | links):
        name, node = (f"link {end}", "") if end in links else seen.named(seen.cabling.member.get(end, end))
        yield _End(end, name, (node,) if node else (), seen.fabric)


UNTRIED = "frames: not tested, since no adapter's node has a probe agent"

Accepted = Callable[[int, str], bool]


def _not_carried(segment: SegmentSpec, end: str, seen: EthernetSnapshot) -> Problem:
    """A link on a path doesn't carry the VLAN: members may not reach each other."""
    switch = switch_of(end)
    behind = [m.port for m in segment.members if switch in {switch_of(e) for e in seen.cabling.ends(m.port)}]
    nodes = tuple(sorted({node for port in behind if (node := seen.named(port)[1])}))
    detail = {"segment": segment.named, "mode": str(Mode.TRUNK), "limited": ": the link doesn't carry it"}
    return Problem(ProblemKind.NOT_MEMBER, f"link {end}", seen.fabric, id=end, nodes=nodes, detail=detail)


def clean(segment: SegmentSpec, seen: EthernetSnapshot, accepted: Accepted) -> Clean:
    """Evidence that no switch has the VLAN, and no port or link is in it. A former member's port that can't be read is
    never clean.

    Args:
        accepted: whether a switch that can't be read back has accepted the removal of a VLAN from a port.
    """
    behind = {s: f"it could not be read: {why}" for s, why in seen.unread.items()}
    items = [_switches(segment, seen), *_members(segment, seen, accepted), _elsewhere(segment, seen)]
    if seen.cabling.links and not seen.by_neutron:
        items.append(_links(segment, seen))
    if seen.site.fabrics[seen.fabric].traffic is None:
        items[-1] = replace(items[-1], unread=(*items[-1].unread, UNTRIED))
    return Clean(tuple(items), behind)


def _held(seen: EthernetSnapshot) -> tuple[str, ...]:
    """Unread switches, for receipts. Tenants read receipts, so switches' answers are only in events and the fabric's
    status."""
    unread = (
        f"{s} could not be read: the VLAN stays held until it was read without it"
        for s in sorted(seen.unread)
    )
    return (*unread, *(f"{s} can't be read back" for s in sorted(seen.write_only)))


def _unsaved(segment: SegmentSpec, seen: EthernetSnapshot) -> list[str]:
    """Switches on the paths between the segment's ports that would lose weft's last change in a restart."""
    unsaved = {s for s, state in seen.states.items() if state.unsaved}
    return sorted(unsaved & seen.cabling.spread(segment.ports).keys()) if unsaved else []


def _under_way(switches: list[str]) -> str:
    return f"; a change that is under way on {', '.join(switches)} has it" if switches else ""


def _switches(segment: SegmentSpec, seen: EthernetSnapshot) -> EvidenceItem:
    if seen.by_neutron:
        having = sorted(s for s, state in seen.states.items() if segment.number in state.vlans)
        detail = f"defined by Neutron on {', '.join(having) or 'none'}; what counts is that it is on no port"
        detail += (under_way := _under_way(seen.coming(segment.number)))
        result = "not clean" if under_way else "clean"
        return EvidenceItem("switch", segment.named, result, detail, unread=_held(seen), whole=True)
    there = sorted(s for s, vlans in seen.configured.read.items() if segment.number in vlans)
    detail = (
        f"{segment.named} is on {', '.join(there)}"
        if there
        else f"on none of {', '.join(sorted(seen.states))}"
    )
    detail += (under_way := _under_way(seen.coming(segment.number)))
    if unsaved := _unsaved(segment, seen):
        detail += f"; what was changed on {', '.join(unsaved)} isn't saved for the next start"
    result = "not clean" if there or unsaved or under_way else "clean"
    return EvidenceItem("switch", segment.named, result, detail, unread=_held(seen), whole=True)


def _members(segment: SegmentSpec, seen: EthernetSnapshot, accepted: Accepted) -> Iterator[EvidenceItem]:
    for member in segment.members:
        name, node = seen.named(member.port)
        nodes, subject = ((node,) if node else ()), f"{name} {member.port}"
        if why := seen.why_unread(member.port):
            yield EvidenceItem("switch port", subject, "unknown", why, nodes)
            continue
        if seen.is_write_only(member.port):
            yield _unproved(segment.number, member.port, subject, nodes, seen, accepted)
            continue
        numbers, level = seen.numbers(member.port), seen.level(member.port)
        # Tenants must not learn what others have on a shared port.
        shown = ranges(numbers) if segment.number in numbers else ""
        detail, unread = read_at(shown, "other VLANs only" if numbers else "no VLAN", level)
        exposed, unsaved = seen.exposed(member.port), seen.unsaved(member.port)
        detail += "; it is in the parking VLAN, and reaches others in it" if exposed else ""
        detail += (
            f"; what was changed on {', '.join(unsaved)} isn't saved for the next start" if unsaved else ""
        )
        # For a node that leaves a pod this suffices: the VLAN itself stays.
        detail += (under_way := _under_way(seen.coming(segment.number, member.port)))
        dirty = exposed or unsaved or under_way or segment.number in numbers
        result = "not clean" if dirty else "clean"
        yield EvidenceItem("switch port", subject, result, detail, nodes, unread, level=level)


CONFIGURED = "what it forwards: its switch shows only its configuration"


def read_at(numbers: str, without: str, level: Level) -> tuple[str, tuple[str, ...]]:
    """What was read of a port, and what remains unproved.

    Args:
        numbers: VLANs that it is in; `without`: text if it is in none that matters.
    """
    if level is Level.CONFIGURATION:
        return f"only its switch's configuration was read: {numbers or 'the VLAN is not on it there'}", (
            CONFIGURED,
        )
    return f"operational state read from its switch: {numbers or without}", ()


def _unproved(
    number: int, port: str, subject: str, nodes: tuple[str, ...], seen: EthernetSnapshot, accepted: Accepted
) -> EvidenceItem:
    """Evidence for a port that can't be read at all of its ends."""
    read, write_only = list[str](), list[str]()
    for end in seen.cabling.ends(port):
        (write_only if switch_of(end) in seen.write_only else read).append(end)
    dirty = [end for end in read if number in seen.ends[end].numbers]
    dirty += [end for end in write_only if not accepted(number, end)]
    if dirty:
        why = f"not known to be taken off {', '.join(dirty)}"
        return EvidenceItem("switch port", subject, "not clean", why, nodes)
    why = f"{', '.join(write_only)} can't be read back: the switch accepted that it is taken off"
    return EvidenceItem("switch port", subject, "accepted", why, nodes)


def _elsewhere(segment: SegmentSpec, seen: EthernetSnapshot) -> EvidenceItem:
    dirty = seen.strangers(segment)
    unread = Counter(switch_of(p.port) for p in seen.ports.values() if p.unread)
    unread.subtract(switch_of(p) for p in segment.ports if p in seen.ports and seen.ports[p].unread)
    detail = f"{segment.named} is on {', '.join(dirty)}" if dirty else f"none is in {segment.named}"
    others = sum(
        switch_of(e) not in seen.write_only for e in seen.ends.keys() - seen.cabling.uplinks - segment.ports
    )
    unread_back = tuple(f"{s} can't be read back" for s in sorted(seen.write_only))
    return EvidenceItem(
        "switch ports elsewhere",
        f"{others} other ports of {seen.fabric}",
        "not clean" if dirty else "clean",
        detail,
        tuple(sorted({node for port in dirty if (node := seen.named(port)[1])})),
        (*(f"{n} ports of {s} could not be read" for s, n in sorted(unread.items()) if n), *unread_back),
        whole=True,
    )


def _links(segment: SegmentSpec, seen: EthernetSnapshot) -> EvidenceItem:
    dirty = sorted(seen.carriers.get(segment.number, frozenset()))
    detail = f"{segment.named} is on {', '.join(dirty)}" if dirty else f"none carries {segment.named}"
    count = len(seen.cabling.uplinks & seen.ends.keys())
    result = "not clean" if dirty else "clean"
    subject = f"{count} ends of links of {seen.fabric}"
    return EvidenceItem("link between switches", subject, result, detail, unread=_held(seen), whole=True)


def _problem(kind: ProblemKind, port: str, seen: EthernetSnapshot, **detail: str) -> Problem:
    name, node = seen.named(port)
    nodes = (node,) if node else ()
    return Problem(kind, name, seen.fabric, id=port, nodes=nodes, detail=detail)
