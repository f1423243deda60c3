"""Checks P_Key tables read from the fabric for a pod. Pure.

Rules (facts of OpenSM and the InfiniBand specification §10.9): a member has the pod's key with the full-membership
bit; the default key is limited on every host that doesn't run a subnet manager (a full default key on a host is
what OpenSM writes everywhere when it fails open); inside weft's range a host has its pod's key and no other.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Self

from weft.model.ids import DEFAULT_PKEY, FULL_MEMBER, format_guid, format_pkey
from weft.model.problem import Problem, ProblemKind, Side
from weft.model.ranges import Range
from weft.model.site import Site
from weft.model.subnet import PathProbe, PortTable


def manager_ports(site: Site, fabric: str) -> frozenset[int]:
    """Port GUIDs of the hosts that run subnet managers: legitimate full members of the default partition."""
    return frozenset(
        h.port_guid for n in site.nodes if n.role == "subnet-manager" for h in n.hcas if h.fabric == fabric
    )


def check_member(site: Site, fabric: str, table: PortTable, pkey: int) -> list[Problem]:
    """Check that a host port and its leaf port have the pod's key and no other in weft's range."""
    if table.unreachable:
        return [_port(site, fabric, table, ProblemKind.PORT_UNREAD, why=table.unreachable)]
    mine, problems = site.fabrics[fabric].segments, list[Problem]()
    for side, keys in _sides(table):
        if FULL_MEMBER | pkey not in keys:
            limited = ", a limited one only" if pkey in keys else ""
            wrong = {"segment": format_pkey(pkey), "mode": "full", "limited": limited}
            problems.append(_port(site, fabric, table, ProblemKind.NOT_MEMBER, side, **wrong))
        others = sorted({k & ~FULL_MEMBER for k in keys if k & ~FULL_MEMBER in mine} - {pkey})
        if others:
            listed = ", ".join(map(format_pkey, others))
            problems.append(_port(site, fabric, table, ProblemKind.OTHER_SEGMENTS, side, segments=listed))
    if FULL_MEMBER | DEFAULT_PKEY in table.keys:
        problems.append(_port(site, fabric, table, ProblemKind.FAILED_OPEN, Side.HOST))
    return problems


def check_clean(site: Site, fabric: str, table: PortTable, pkey: int) -> list[Problem]:
    """Check that a host port and its leaf port don't have a key."""
    if table.unreachable:
        return [_port(site, fabric, table, ProblemKind.PORT_UNREAD, why=table.unreachable)]
    return [
        _port(site, fabric, table, ProblemKind.SEGMENT_LEFT, side, segment=format_pkey(pkey))
        for side, keys in _sides(table)
        if pkey in keys or FULL_MEMBER | pkey in keys
    ]


def unread_ports(
    site: Site, fabric: str, members: Collection[int], seen: Set[int], unreachable: Mapping[int, str]
) -> dict[int, str]:
    """Host ports of non-members whose tables could not be read -> why; includes ports of the site that weren't seen."""
    missing = dict.fromkeys(site.ports_on(fabric) - seen, "it was not found on the fabric")
    return {g: why for g, why in sorted((missing | dict(unreachable)).items()) if g not in members}


def check_tables(
    site: Site,
    fabric: str,
    pkey: int,
    members: Collection[int],
    tables: Mapping[int, PortTable],
    holders: Collection[int],
) -> list[Problem]:
    """Exact tables on every member and its leaf port, and no other port with the key.

    Args:
        holders: ports of `tables` that have the key, themselves or at their leaf.
    """
    problems: list[Problem] = []
    for guid in sorted(members):
        if guid in tables:
            problems += check_member(site, fabric, tables[guid], pkey)
        else:
            problems.append(_port(site, fabric, PortTable(guid, frozenset()), ProblemKind.PORT_LOST))
    for guid in sorted(set(holders) - set(members)):
        problems += check_clean(site, fabric, tables[guid], pkey)
    return problems


@dataclass(frozen=True, slots=True)
class Outsiders:
    """GUIDs of ports from which there must be no path: pods' ports, and free ones."""

    of_pods: tuple[int, ...]
    free: tuple[int, ...]

    @classmethod
    def of(
        cls,
        seen: Set[int],
        unreachable: Collection[int],
        on_wire: Mapping[int, Collection[int]],
        mine: Range,
        managers: Collection[int],
    ) -> Self:
        """The outsiders of a reading.

        Args:
            on_wire: P_Key -> ports that have it.
            mine: P_Keys of pods.
            managers: ports that may reach everyone.
        """
        guids = sorted(seen - set(unreachable) - set(managers))
        podded = {port for key, ports in on_wire.items() if key in mine for port in ports}
        return cls(tuple(g for g in guids if g in podded), tuple(g for g in guids if g not in podded))


def probe_pairs(
    members: Collection[int], outsiders: Outsiders
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs that must have a path (each member with the next) and pairs that must have none.

    Outsiders are a port of another pod and a free port, if any, each with a path to a member.
    """
    inside = sorted(members)
    own = frozenset(inside)
    others = (next((g for g in some if g not in own), None) for some in (outsiders.of_pods, outsiders.free))
    unwanted = [(outsider, inside[0]) for outsider in others if outsider is not None] if inside else []
    return list(itertools.pairwise(inside)), unwanted


def check_paths(
    site: Site, fabric: str, pkey: int, wanted: Iterable[PathProbe], unwanted: Iterable[PathProbe]
) -> list[Problem]:
    """The subnet administrator's view of who reaches whom."""
    problems: list[Problem] = []
    for probe in wanted:
        both = (probe.source, probe.destination)
        ends = " and ".join(port_name(site, g) for g in both)
        nodes = tuple(dict.fromkeys(n for g in both for n in nodes_of_port(site, g)))
        if not probe.path:
            problems.append(Problem(ProblemKind.NO_PATH, ends, fabric, nodes=nodes))
        elif probe.pkey is not None and probe.pkey != pkey:
            keys = {"observed": format_pkey(probe.pkey), "segment": format_pkey(pkey)}
            problems.append(Problem(ProblemKind.WRONG_PATH, ends, fabric, nodes=nodes, detail=keys))
    for probe in unwanted:
        if probe.path:
            outsider, member = port_name(site, probe.source), port_name(site, probe.destination)
            nodes = nodes_of_port(site, probe.destination)
            detail = {"member": member}
            problems.append(
                Problem(ProblemKind.PATH_FROM_OUTSIDE, outsider, fabric, nodes=nodes, detail=detail)
            )
    return problems


def port_name(site: Site, guid: int) -> str:
    """`node/hca`, or the GUID of a port that the site doesn't know."""
    found = site.hca_by_port_guid.get(guid)
    return f"{found[0].name}/{found[1].name}" if found else f"unknown port {format_guid(guid)}"


def nodes_of_port(site: Site, guid: int) -> tuple[str, ...]:
    """The node that a port belongs to; empty if the site doesn't know the port."""
    found = site.hca_by_port_guid.get(guid)
    return (found[0].name,) if found else ()


def _port(
    site: Site, fabric: str, table: PortTable, kind: ProblemKind, side: Side | None = None, **detail: str
) -> Problem:
    guid, name = table.port_guid, port_name(site, table.port_guid)
    subject = f"leaf port {table.leaf}[{table.leaf_port}] of {name}" if side is Side.LEAF else name
    nodes = nodes_of_port(site, guid)
    return Problem(kind, subject, fabric, id=format_guid(guid), nodes=nodes, side=side, detail=detail)


def _sides(table: PortTable) -> list[tuple[Side, frozenset[int]]]:
    host = [(Side.HOST, table.keys)]
    return host if table.leaf_keys is None else [*host, (Side.LEAF, table.leaf_keys)]
