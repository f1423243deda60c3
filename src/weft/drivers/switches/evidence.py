"""What a reading of an Ethernet fabric's switches says about a VLAN. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from weft.drivers.switches.cabling import Cabling, switch_of
from weft.drivers.switches.names import vlan_name
from weft.drivers.switches.vlans import PortVlans, SwitchState
from weft.model.fabric import Check, Clean, Configured, EvidenceItem, Membership, Place, PortSeen, Snapshot
from weft.model.fabrictypes import Mode
from weft.model.mark import Mark
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import Difference, Observed, SegmentSpec, Status
from weft.model.site import Site


class EthernetSnapshot(Snapshot):
    """Every switch's VLANs and ports.

    Attributes:
        states: switch -> what was read of it; `unread`: switch -> why it could not be.
        names: VLAN -> name from weft's records, for switches that store none.
    """

    def __init__(
        self,
        site: Site,
        fabric: str,
        began: float,
        cabling: Cabling,
        states: Mapping[str, SwitchState],
        unread: Mapping[str, str],
        names: Mapping[int, str],
    ) -> None:
        self.site, self.cabling, self.states, self.unread, self.names = site, cabling, states, unread, names
        self._range = site.fabrics[fabric].segments
        told = {
            s: {n: name or names.get(n, "") for n, name in state.vlans.items()} for s, state in states.items()
        }
        super().__init__(fabric, began, Configured("", told, unread), self._ports)

    @property
    def segments(self) -> Mapping[int, str]:
        found: dict[int, str] = {}
        for told in self.configured.read.values():
            for number, name in told.items():
                found[number] = found.get(number) or name
        return found

    @cached_property
    def ends(self) -> Mapping[str, PortVlans]:
        """Every port of every switch that was read."""
        return {f"{s}/{p}": vlans for s, state in self.states.items() for p, vlans in state.ports.items()}

    @cached_property
    def carriers(self) -> Mapping[int, frozenset[str]]:
        """VLAN -> ends of links between switches that carry it."""
        found: dict[int, set[str]] = {}
        for end in self.cabling.uplinks & self.ends.keys():
            for number in self.ends[end].numbers:
                found.setdefault(number, set()).add(end)
        return {n: frozenset(ends) for n, ends in found.items()}

    def named(self, port: str) -> tuple[str, str]:
        """Name of a port for people, and its node."""
        found = self.site.port_by_id.get((self.fabric, port))
        return (f"{found[0].name}/{found[1].name}", found[0].name) if found else (f"unknown port {port}", "")

    def why_unread(self, port: str) -> str:
        """Why a port could not be read, at any of its ends; empty: it was."""
        for end in self.cabling.ends(port):
            switch = switch_of(end)
            if switch in self.unread:
                return self.unread[switch]
            if end not in self.ends:
                return f"{switch} has no port {end.partition('/')[2]}"
        return ""

    def mode(self, member: Membership, number: int) -> str:
        """Mode of a port in a VLAN, the same at all of its ends; if they differ, it is no member."""
        if self.why_unread(member.port):
            return "not readable"
        found = {_mode(self.ends[end], number) for end in self.cabling.ends(member.port)}
        return found.pop() if len(found) == 1 else "a member at some of its ends"

    def beside(self, member: Membership, number: int) -> frozenset[int]:
        """VLANs that a member's port is in and must not be. On a port that pods share, each has its tag, and the
        host keeps its virtual functions apart by them."""
        others = self.numbers(member.port) - {number}
        if member.mode is not Mode.TRUNK:
            return others
        untagged = {self.ends[e].untagged for e in self.cabling.ends(member.port) if e in self.ends}
        return others & untagged

    def numbers(self, port: str) -> frozenset[int]:
        """VLANs of a port at any of its ends."""
        read = (self.ends[e].numbers for e in self.cabling.ends(port) if e in self.ends)
        return frozenset().union(*read)

    def _ports(self) -> Mapping[str, PortSeen]:
        described = {port for fabric, port in self.site.port_by_id if fabric == self.fabric}
        strangers = self.ends.keys() - self.cabling.uplinks - self.cabling.member.keys()
        inside = {p for p in strangers if any(n in self._range for n in self.ends[p].numbers)}
        return {port: self._seen(port) for port in sorted(described | inside)}

    def _seen(self, port: str) -> PortSeen:
        name, node = self.named(port)
        if why := self.why_unread(port):
            return PortSeen(port, name, node, unread=why)
        ends = self.cabling.ends(port)
        return PortSeen(
            port,
            name,
            node,
            tuple(Place(f"switch port {end} of {name}", self.ends[end].numbers) for end in ends),
        )

    def strangers(self, segment: SegmentSpec) -> list[str]:
        """Ports in the VLAN that aren't members, and links that don't lead to a member's switch."""
        return sorted(self.ports_in.get(segment.number, frozenset()) - segment.ports)

    def needless(self, segment: SegmentSpec) -> list[str]:
        """Ends of links that carry the VLAN needlessly."""
        needed = self.cabling.spread(segment.ports)
        wanted = {end for ends in needed.values() for end in ends}
        return sorted(self.carriers.get(segment.number, frozenset()) - wanted)

    def lacking(self, segment: SegmentSpec) -> list[str]:
        """Ends of links that must carry the VLAN and, as far as they could be read, don't."""
        needed = self.cabling.spread(segment.ports)
        carry = self.carriers.get(segment.number, frozenset())
        wanted = {end for ends in needed.values() for end in ends}
        return sorted(end for end in wanted - carry if switch_of(end) not in self.unread)


def _mode(vlans: PortVlans, number: int) -> str:
    if number == vlans.untagged:
        # An access port with further VLANs on it would let its host into those, too: `check` reports them.
        return Mode.ACCESS
    return Mode.TRUNK if number in vlans.tagged else "no member"


def observe(mark: Mark, segment: SegmentSpec, seen: EthernetSnapshot) -> Observed:
    """Settled: the required switches have the VLAN under weft's name, and exactly the members are in it."""
    number, name = segment.number, vlan_name(mark)
    told = seen.configured.read
    mine = {s for s, vlans in told.items() if number in vlans and vlans[number] in (name, "")}
    others = any(vlans.get(number) not in (None, "", name) for vlans in told.values())
    on_ports = seen.ports_in.get(number, frozenset()) or seen.carriers.get(number, frozenset())
    blind = sorted(m.port for m in segment.members if seen.why_unread(m.port))
    if not mine and (not on_ports or others):
        if blind:
            why = f"can't be proved absent: {', '.join(blind)} can't be read"
            return Observed(segment.text, Status.PENDING, why)
        if unsaved := _unsaved(seen):
            why = f"gone, and {', '.join(unsaved)} would bring it back after a restart: not saved yet"
            return Observed(segment.text, Status.PENDING, why)
        return Observed.absent(f"on none of {len(told)} switches and none of their ports")
    differences = tuple(_differences(segment, seen, mine))
    reason = "; ".join(f"{d.field} is {d.observed}, wanted {d.wanted}" for d in differences)
    status = Status.PENDING if differences else Status.SETTLED
    return Observed(segment.text, status, reason, differences, {"number": number})


def _differences(segment: SegmentSpec, seen: EthernetSnapshot, mine: set[str]) -> Iterator[Difference]:
    number, needed = segment.number, seen.cabling.spread(segment.ports)
    for switch in sorted(needed.keys() - mine):
        why = f"not readable: {seen.unread[switch]}" if switch in seen.unread else "without it"
        yield Difference(field=f"switch {switch}", wanted=segment.named, observed=why)
    for switch in sorted(mine - needed.keys()):
        yield Difference(field=f"switch {switch}", wanted=f"no {segment.named}", observed="with it")
    for switch in _unsaved(seen):
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


def check(segment: SegmentSpec, seen: EthernetSnapshot) -> Check:
    """Exactly the members, each as desired and in no other VLAN of weft's range; every link on a path carries it."""
    problems: list[Problem] = []
    mine = seen.site.fabrics[seen.fabric].segments
    for member in segment.members:
        port, how = member.port, seen.mode(member, segment.number)
        if why := seen.why_unread(port):
            problems.append(_problem(ProblemKind.UNREAD, port, seen, why=f"{port} can't be read: {why}"))
            continue
        if how != member.mode:
            detail = {"segment": segment.named, "mode": str(member.mode), "limited": f": it is {how}"}
            problems.append(_problem(ProblemKind.NOT_MEMBER, port, seen, **detail))
        if others := sorted(n for n in seen.beside(member, segment.number) if n in mine):
            listed = ", ".join(f"VLAN {n}" for n in others)
            problems.append(_problem(ProblemKind.OTHER_SEGMENTS, port, seen, segments=listed))
    problems += [
        _problem(ProblemKind.SEGMENT_LEFT, port, seen, segment=segment.named)
        for port in seen.strangers(segment)
    ]
    problems += [_not_carried(segment, end, seen) for end in seen.lacking(segment)]
    looked = {f"switch ports of {seen.fabric}": len(seen.ends)}
    return Check(tuple(problems), looked)


def _not_carried(segment: SegmentSpec, end: str, seen: EthernetSnapshot) -> Problem:
    """A link on a path doesn't carry the VLAN: members may not reach each other."""
    switch = switch_of(end)
    behind = [m.port for m in segment.members if switch in {switch_of(e) for e in seen.cabling.ends(m.port)}]
    nodes = tuple(sorted({node for port in behind if (node := seen.named(port)[1])}))
    detail = {"segment": segment.named, "mode": str(Mode.TRUNK), "limited": ": the link doesn't carry it"}
    return Problem(ProblemKind.NOT_MEMBER, f"link {end}", seen.fabric, id=end, nodes=nodes, detail=detail)


def clean(segment: SegmentSpec, seen: EthernetSnapshot) -> Clean:
    """No switch has the VLAN, no port or link is in it; a former member's port that can't be read is never clean."""
    behind = {s: f"it could not be read: {why}" for s, why in seen.unread.items()}
    items = [_switches(segment, seen), *_members(segment, seen), _elsewhere(segment, seen)]
    if seen.cabling.links:
        items.append(_links(segment, seen))
    return Clean(tuple(items), behind)


def _held(seen: EthernetSnapshot) -> tuple[str, ...]:
    return tuple(
        f"{s}: {why}; the VLAN stays held until it was read without it" for s, why in seen.unread.items()
    )


def _unsaved(seen: EthernetSnapshot) -> list[str]:
    """Switches that would lose weft's last change in a restart."""
    return sorted(s for s, state in seen.states.items() if state.unsaved)


def _switches(segment: SegmentSpec, seen: EthernetSnapshot) -> EvidenceItem:
    there = sorted(s for s, told in seen.configured.read.items() if segment.number in told)
    told = (
        f"{segment.named} is on {', '.join(there)}"
        if there
        else f"on none of {', '.join(sorted(seen.states))}"
    )
    if unsaved := _unsaved(seen):
        told += f"; what was changed on {', '.join(unsaved)} isn't saved for the next start"
    result = "not clean" if there or unsaved else "clean"
    return EvidenceItem("switch", segment.named, result, told, unread=_held(seen), whole=True)


def _members(segment: SegmentSpec, seen: EthernetSnapshot) -> Iterator[EvidenceItem]:
    for member in segment.members:
        name, node = seen.named(member.port)
        nodes, subject = ((node,) if node else ()), f"{name} {member.port}"
        if why := seen.why_unread(member.port):
            yield EvidenceItem("switch port", subject, "unknown", why, nodes)
            continue
        numbers = seen.numbers(member.port)
        listed = ", ".join(map(str, sorted(numbers))) if len(numbers) < 100 else f"{len(numbers)} VLANs"
        told = f"read from its switch: {listed or 'no VLAN'}"
        result = "not clean" if segment.number in numbers else "clean"
        yield EvidenceItem("switch port", subject, result, told, nodes)


def _elsewhere(segment: SegmentSpec, seen: EthernetSnapshot) -> EvidenceItem:
    dirty = seen.strangers(segment)
    unread = [p for p in seen.ports.values() if p.unread and p.port not in segment.ports]
    told = f"{segment.named} is on {', '.join(dirty)}" if dirty else f"none is in {segment.named}"
    others = len(seen.ends.keys() - seen.cabling.uplinks - segment.ports)
    return EvidenceItem(
        "switch ports elsewhere",
        f"{others} other ports of {seen.fabric}",
        "not clean" if dirty else "clean",
        told,
        tuple(sorted({node for port in dirty if (node := seen.named(port)[1])})),
        tuple(f"{p.name}: {p.unread}" for p in unread),
        whole=True,
    )


def _links(segment: SegmentSpec, seen: EthernetSnapshot) -> EvidenceItem:
    dirty = sorted(seen.carriers.get(segment.number, frozenset()))
    told = f"{segment.named} is on {', '.join(dirty)}" if dirty else f"none carries {segment.named}"
    count = len(seen.cabling.uplinks & seen.ends.keys())
    result = "not clean" if dirty else "clean"
    subject = f"{count} ends of links of {seen.fabric}"
    return EvidenceItem("link between switches", subject, result, told, unread=_held(seen), whole=True)


def _problem(kind: ProblemKind, port: str, seen: EthernetSnapshot, **detail: str) -> Problem:
    name, node = seen.named(port)
    nodes = (node,) if node else ()
    return Problem(kind, name, seen.fabric, id=port, nodes=nodes, detail=detail)
