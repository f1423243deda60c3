"""What a reading of the fake Ethernet fabric's switches says of a VLAN. Pure. See `weft.testing.ethernet`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.model.fabric import Check, Clean, EvidenceItem, Membership, Place, PortSeen, Snapshot, Told
from weft.model.fabrictypes import Mode
from weft.model.mark import Mark
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import Difference, Observed, SegmentSpec, Status
from weft.model.site import Site


class EthernetSnapshot(Snapshot):
    """Every switch's VLANs and ports.

    Attributes:
        vlans: switch -> VLAN -> its name.
        numbers: port -> VLANs that it is in; `trunks`: those of them with a tag.
        unread: switch -> why it could not be read.
    """

    def __init__(
        self,
        site: Site,
        fabric: str,
        began: float,
        vlans: Mapping[str, Mapping[int, str]],
        numbers: Mapping[str, frozenset[int]],
        trunks: Mapping[str, frozenset[int]],
        unread: Mapping[str, str],
    ) -> None:
        self.site, self.vlans, self.numbers, self.trunks, self.unread = site, vlans, numbers, trunks, unread
        super().__init__(fabric, began, Told("", vlans, unread), self._ports)

    @property
    def segments(self) -> Mapping[int, str]:
        return {n: name for told in self.vlans.values() for n, name in told.items()}

    def named(self, port: str) -> tuple[str, str]:
        """Name of a port for people, and its node."""
        found = self.site.port_by_id.get((self.fabric, port))
        return (f"{found[0].name}/{found[1].name}", found[0].name) if found else (f"unknown port {port}", "")

    def why_unread(self, port: str) -> str:
        """Why a port could not be read; empty: it was."""
        switch = port.partition("/")[0]
        return self.unread.get(switch, "" if port in self.numbers else f"{switch} has no such port")

    def _ports(self) -> Mapping[str, PortSeen]:
        described = {port for fabric, port in self.site.port_by_id if fabric == self.fabric}
        return {port: self._seen(port) for port in sorted(described | self.numbers.keys())}

    def _seen(self, port: str) -> PortSeen:
        name, node = self.named(port)
        if why := self.why_unread(port):
            return PortSeen(port, name, node, unread=why)
        return PortSeen(port, name, node, (Place(f"switch port {port} of {name}", self.numbers[port]),))

    def strangers(self, segment: SegmentSpec) -> list[str]:
        """Ports in the VLAN that are no members."""
        return sorted(self.ports_in.get(segment.number, frozenset()) - segment.ports)


def observe(mark: Mark, segment: SegmentSpec, seen: EthernetSnapshot) -> Observed:
    """Settled: every switch has the VLAN with the mark, and exactly the members are in it."""
    number = segment.number
    mine = [switch for switch, told in seen.vlans.items() if told.get(number) == mark.text()]
    on_ports = seen.ports_in.get(number, frozenset())
    others = any(told.get(number, mark.text()) != mark.text() for told in seen.vlans.values())
    blind = sorted(m.port for m in segment.members if seen.why_unread(m.port))
    if not mine and (not on_ports or others):
        if blind:
            why = f"can't be proved absent: {', '.join(blind)} can't be read"
            return Observed(segment.text, Status.PENDING, why)
        return Observed.absent(f"on none of {len(seen.vlans)} switches and none of their ports")
    differences = [
        Difference(field=f"switch {switch}", wanted=segment.named, observed="without it")
        for switch in sorted(seen.vlans.keys() - set(mine))
    ]
    differences += [
        Difference(field=f"port {member.port}", wanted=member.mode, observed=how)
        for member in segment.members
        if (how := _membership(member, number, seen)) != member.mode
    ]
    differences += [
        Difference(field=f"port {port}", wanted="no member", observed="in the VLAN")
        for port in seen.strangers(segment)
    ]
    reason = "; ".join(f"{d.field} is {d.observed}, wanted {d.wanted}" for d in differences)
    status = Status.PENDING if differences else Status.SETTLED
    return Observed(segment.text, status, reason, tuple(differences), {"number": number})


def check(segment: SegmentSpec, seen: EthernetSnapshot) -> Check:
    """Exactly the members, each as wanted and in no other VLAN of weft's range."""
    problems: list[Problem] = []
    mine = seen.site.fabrics[seen.fabric].segments
    for member in segment.members:
        port, how = member.port, _membership(member, segment.number, seen)
        if why := seen.why_unread(port):
            problems.append(_problem(ProblemKind.UNREAD, port, seen, why=f"{port} can't be read: {why}"))
            continue
        if how != member.mode:
            detail = {"segment": segment.named, "mode": str(member.mode), "limited": f": it is {how}"}
            problems.append(_problem(ProblemKind.NOT_MEMBER, port, seen, **detail))
        if others := sorted(n for n in seen.numbers[port] if n in mine and n != segment.number):
            listed = ", ".join(f"VLAN {n}" for n in others)
            problems.append(_problem(ProblemKind.OTHER_SEGMENTS, port, seen, segments=listed))
    problems += [
        _problem(ProblemKind.SEGMENT_LEFT, port, seen, segment=segment.named)
        for port in seen.strangers(segment)
    ]
    return Check(tuple(problems), {f"switch ports of {seen.fabric}": len(seen.numbers)})


def clean(segment: SegmentSpec, seen: EthernetSnapshot) -> Clean:
    """No switch has the VLAN, no port is in it; a former member's port that can't be read is never clean."""
    behind = {s: f"it could not be read: {why}" for s, why in seen.unread.items()}
    return Clean((_switches(segment, seen), *_members(segment, seen), _elsewhere(segment, seen)), behind)


def _switches(segment: SegmentSpec, seen: EthernetSnapshot) -> EvidenceItem:
    there = sorted(s for s, told in seen.vlans.items() if segment.number in told)
    told = (
        f"{segment.named} is on {', '.join(there)}"
        if there
        else f"on none of {', '.join(sorted(seen.vlans))}"
    )
    unread = tuple(
        f"{s}: {why}; the VLAN stays held until it was read without it" for s, why in seen.unread.items()
    )
    return EvidenceItem(
        "switch", segment.named, "not clean" if there else "clean", told, unread=unread, whole=True
    )


def _members(segment: SegmentSpec, seen: EthernetSnapshot) -> Iterator[EvidenceItem]:
    for member in segment.members:
        name, node = seen.named(member.port)
        nodes, subject = ((node,) if node else ()), f"{name} {member.port}"
        if why := seen.why_unread(member.port):
            yield EvidenceItem("switch port", subject, "unknown", why, nodes)
            continue
        numbers = ", ".join(map(str, sorted(seen.numbers[member.port]))) or "no VLAN"
        left = segment.number in seen.numbers[member.port]
        told = f"read from its switch: {numbers}"
        yield EvidenceItem("switch port", subject, "not clean" if left else "clean", told, nodes)


def _elsewhere(segment: SegmentSpec, seen: EthernetSnapshot) -> EvidenceItem:
    dirty = seen.strangers(segment)
    unread = [p for p in seen.ports.values() if p.unread and p.port not in segment.ports]
    told = f"{segment.named} is on {', '.join(dirty)}" if dirty else f"none is in {segment.named}"
    return EvidenceItem(
        "switch ports elsewhere",
        f"{len(seen.numbers.keys() - segment.ports)} other ports of {seen.fabric}",
        "not clean" if dirty else "clean",
        told,
        tuple(sorted({node for port in dirty if (node := seen.named(port)[1])})),
        tuple(f"{p.name}: {p.unread}" for p in unread),
        whole=True,
    )


def _membership(member: Membership, number: int, seen: EthernetSnapshot) -> str:
    if seen.why_unread(member.port):
        return "not readable"
    if number not in seen.numbers[member.port]:
        return "no member"
    return Mode.TRUNK if number in seen.trunks[member.port] else Mode.ACCESS


def _problem(kind: ProblemKind, port: str, seen: EthernetSnapshot, **detail: str) -> Problem:
    name, node = seen.named(port)
    nodes = (node,) if node else ()
    return Problem(kind, name, seen.fabric, id=port, nodes=nodes, detail=detail)
