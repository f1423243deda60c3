"""Virtual ports of a partition's virtual functions, as UFM shows them once the servers have booted. Pure.

A virtual port's P_Key table can't be read from outside: the host's adapter keeps it, and the MADs for it are the
vendor's. So UFM must list the GUID in the partition (`evidence`), and the GUID must be where it was assigned:
behind an adapter of the server's node, and nowhere else. A tenant with a whole adapter can give its functions
any GUID, and UFM would put that one into the partition, too.

For the same reason a function isn't freed while its GUID is up behind its node and in no partition: Nova removes the
GUID when it unplugs the function (`ebrctl del-port`), so a server that the cloud reports as gone may still run there,
as after a deletion while its host was away; it would be in the next pod's partition.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.drivers.ufm.inventory import VirtualPort
from weft.drivers.ufm.snapshot import UfmSnapshot
from weft.model.fabric import Membership
from weft.model.ids import format_guid, parse_guid
from weft.model.problem import Problem, ProblemKind
from weft.model.specs import SegmentSpec
from weft.planning.fabric.check import nodes_of_port


def function_problems(segment: SegmentSpec, seen: UfmSnapshot) -> Iterator[Problem]:
    """Problems of those members that are virtual functions."""
    for member in segment.members:
        if member.behind:
            yield from _of(member, seen)


def _of(member: Membership, seen: UfmSnapshot) -> Iterator[Problem]:
    guid, behind = parse_guid(member.port), {parse_guid(p) for p in member.behind}
    nodes = tuple(sorted({n for p in behind for n in nodes_of_port(seen.site, p)}))
    shown = seen.virtual.get(guid, ())

    def problem(kind: ProblemKind, nodes: tuple[str, ...], why: str) -> Problem:
        subject = f"virtual port {format_guid(guid)} of {', '.join(nodes) or 'an unknown node'}"
        return Problem(kind, subject, seen.fabric, id=format_guid(guid), nodes=nodes, detail={"why": why})

    for where, why in seen.misplaced(member):
        yield problem(ProblemKind.FUNCTION_ELSEWHERE, where or nodes, why)
    here = [v for v in shown if v.physical in behind]
    if not here:
        yield problem(ProblemKind.FUNCTION_DOWN, nodes, "UFM shows no virtual port with this GUID there")
    elif not any(v.active for v in here):
        yield problem(ProblemKind.FUNCTION_DOWN, nodes, f"UFM shows it as {_states(here)}")


def _states(ports: list[VirtualPort]) -> str:
    return ", ".join(sorted({p.state for p in ports}))


def unproved(segment: SegmentSpec, seen: UfmSnapshot) -> dict[int, tuple[str, tuple[int, ...]]]:
    """GUIDs of former members that aren't shown anywhere, but may still be up -> why, and the ports."""
    mine = seen.site.fabrics[seen.fabric].segments
    found: dict[int, tuple[str, tuple[int, ...]]] = {}
    for member in segment.members:
        guid, behind = parse_guid(member.port), tuple(sorted(map(parse_guid, member.behind)))
        if not behind or guid in seen.virtual or any(k in mine for k in seen.listing.of_port.get(guid, ())):
            continue
        if why := seen.blind(behind):
            found[guid] = why, behind
    return found


def still_up(segment: SegmentSpec, seen: UfmSnapshot) -> dict[int, tuple[int, ...]]:
    """GUIDs of former members that may be up behind their own node, and in no partition of weft's range -> the
    ports."""
    mine = seen.site.fabrics[seen.fabric].segments
    found: dict[int, tuple[int, ...]] = {}
    for member in segment.members:
        guid, behind = parse_guid(member.port), {parse_guid(p) for p in member.behind}
        if not behind or any(k in mine for k in seen.listing.of_port.get(guid, ())):
            continue  # listed: it has the next owner's P_Key by now
        up = {v.physical for v in seen.virtual.get(guid, ()) if not v.idle and v.physical in behind}
        if up:
            found[guid] = tuple(sorted(up))
    return found
