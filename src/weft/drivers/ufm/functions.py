"""Virtual ports of a partition's virtual functions, as UFM shows them once the servers have booted. Pure.

A virtual port's P_Key table can't be read from outside: the host's adapter keeps it, and the MADs for it are the
vendor's. So what counts is that UFM lists the GUID in the partition (`evidence`), and that the GUID is where it was
given: behind an adapter of the server's node, and nowhere else. Whoever has a whole adapter can give a function of it
any GUID, and UFM would put that one into the partition, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.drivers.ufm.inventory import VirtualPort
from weft.drivers.ufm.snapshot import UfmSnapshot
from weft.model.fabric import Membership
from weft.model.ids import format_guid, parse_guid
from weft.model.problem import Problem, ProblemKind
from weft.model.resources import SegmentSpec
from weft.planning.fabric.check import nodes_of_port, port_name


def function_problems(segment: SegmentSpec, seen: UfmSnapshot) -> Iterator[Problem]:
    """Of each member that is a virtual function."""
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

    for other in shown:
        if other.physical not in behind:
            where = nodes_of_port(seen.site, other.physical) or nodes
            why = f"UFM shows it behind {port_name(seen.site, other.physical)}"
            yield problem(ProblemKind.FUNCTION_ELSEWHERE, where, why)
    here = [v for v in shown if v.physical in behind]
    if not here:
        yield problem(ProblemKind.FUNCTION_DOWN, nodes, "UFM shows no virtual port with this GUID there")
    elif not any(v.active for v in here):
        yield problem(ProblemKind.FUNCTION_DOWN, nodes, f"UFM shows it as {_states(here)}")


def _states(ports: list[VirtualPort]) -> str:
    return ", ".join(sorted({p.state for p in ports}))
