"""What P_Key tables read from the wire must be for a pod, and what they must not be. Pure.

Rules (facts of OpenSM and the InfiniBand specification §10.9): a member has the pod's key with the full-membership
bit; the default key is limited on every host that doesn't run a subnet manager (a full default key on a host is
what OpenSM writes everywhere when it fails open); inside weft's range a host has its pod's key and no other.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from weft.model.fabric import PathProbe, PortTable
from weft.model.ids import DEFAULT_PKEY, FULL_MEMBER, format_guid, format_pkey
from weft.model.site import Range, Site


class Side(StrEnum):
    """Whose table: the host port's own, or that of the leaf port it is cabled to."""

    HOST = "host"
    LEAF = "leaf"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that isn't as wanted.

    Attributes:
        text: one sentence: what was seen, where, and what was wanted.
        key: resource of the pod that it is about, if it is one.
        nodes: nodes that it concerns; empty if all.
        unknown: it could not be read; that is not the same as wrong, and not the same as fine.
        side: whose table it stands in, if it stands in one.
    """

    text: str
    key: str | None = None
    nodes: tuple[str, ...] = ()
    unknown: bool = False
    side: Side | None = None


def manager_ports(site: Site, fabric: str) -> frozenset[int]:
    """Port GUIDs of the hosts that run subnet managers: full members of the default partition by right."""
    return frozenset(
        h.port_guid for n in site.nodes if n.role == "subnet-manager" for h in n.hcas if h.fabric == fabric
    )


def check_member(table: PortTable, pkey: int, mine: Range, name: str) -> list[Problem]:
    """The tables of a host port, and of its leaf port, that must have the pod's key and no other in weft's range."""
    if table.unreachable:
        return [
            Problem(
                f"{name}: its P_Key table can't be read: {table.unreachable}", nodes=(name,), unknown=True
            )
        ]
    problems: list[Problem] = []
    for side, keys, where in _sides(table, name):
        if FULL_MEMBER | pkey not in keys:
            limited = " as limited member only" if pkey in keys else ""
            text = f"{where} lacks {format_pkey(pkey)} as full member{limited}"
            problems.append(Problem(text, nodes=(name,), side=side))
        others = sorted({k & ~FULL_MEMBER for k in keys if k & ~FULL_MEMBER in mine} - {pkey})
        if others:
            text = f"{where} also has {', '.join(map(format_pkey, others))}"
            problems.append(Problem(text, nodes=(name,), side=side))
    if FULL_MEMBER | DEFAULT_PKEY in table.keys:
        text = f"{name} is full member of the default partition: the fabric has failed open"
        problems.append(Problem(text, nodes=(name,), side=Side.HOST))
    return problems


def check_clean(table: PortTable, pkey: int, name: str) -> list[Problem]:
    """The tables of a host port, and of its leaf port, that must not have a key."""
    if table.unreachable:
        return [
            Problem(
                f"{name}: its P_Key table can't be read: {table.unreachable}", nodes=(name,), unknown=True
            )
        ]
    return [
        Problem(f"{where} has {format_pkey(pkey)}", nodes=(name,), side=side)
        for side, keys, where in _sides(table, name)
        if pkey in keys or FULL_MEMBER | pkey in keys
    ]


def unread_ports(
    site: Site, fabric: str, members: Collection[int], tables: Mapping[int, PortTable]
) -> dict[int, str]:
    """Host ports besides the members whose tables could not be read -> why; of the site's, also those not seen."""
    described = {h.port_guid for n in site.nodes for h in n.hcas_on(fabric)}
    missing = dict.fromkeys(described - tables.keys(), "it was not found on the fabric")
    unread = {g: t.unreachable for g, t in tables.items() if t.unreachable}
    return {g: why for g, why in sorted((missing | unread).items()) if g not in members}


def check_tables(
    site: Site, fabric: str, pkey: int, members: Collection[int], tables: Mapping[int, PortTable]
) -> list[Problem]:
    """Exact tables on every member and its leaf port, and nobody else with the key."""
    mine = site.fabrics[fabric].segments
    problems: list[Problem] = []
    for guid in sorted(members):
        name = port_name(site, guid)
        if guid not in tables:
            problems.append(Problem(f"{name} was not found on the fabric", nodes=(name,), unknown=True))
        else:
            problems += check_member(tables[guid], pkey, mine, name)
    for guid in sorted(tables.keys() - set(members)):
        if not tables[guid].unreachable:
            problems += check_clean(tables[guid], pkey, port_name(site, guid))
    return problems


def probe_pairs(
    members: Collection[int], tables: Mapping[int, PortTable], mine: Range, managers: Collection[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs that must have a path (each member with the next) and pairs that must have none.

    The outsiders are a port of another pod and a free port, where there are any: each asked for a path to a member.
    """
    inside = sorted(members)
    wanted = list(itertools.pairwise(inside))
    others = [
        t for g, t in sorted(tables.items()) if g not in members and g not in managers and not t.unreachable
    ]
    of_a_pod = [t.port_guid for t in others if any(k & ~FULL_MEMBER in mine for k in t.keys)]
    free = [t.port_guid for t in others if not any(k & ~FULL_MEMBER in mine for k in t.keys)]
    unwanted = [(outsider, member) for member in inside[:1] for outsider in of_a_pod[:1] + free[:1]]
    return wanted, unwanted


def check_paths(
    site: Site, pkey: int, wanted: Iterable[PathProbe], unwanted: Iterable[PathProbe]
) -> list[Problem]:
    """The subnet administrator's word on who reaches whom."""
    problems: list[Problem] = []
    for probe in wanted:
        ends = f"{port_name(site, probe.source)} and {port_name(site, probe.destination)}"
        if not probe.path:
            problems.append(Problem(f"the subnet administrator gives no path between {ends}"))
        elif probe.pkey is not None and probe.pkey != pkey:
            problems.append(
                Problem(
                    f"the path between {ends} has P_Key {format_pkey(probe.pkey)}, wanted {format_pkey(pkey)}"
                )
            )
    for probe in unwanted:
        if probe.path:
            outsider, member = port_name(site, probe.source), port_name(site, probe.destination)
            problems.append(
                Problem(f"the subnet administrator gives {outsider}, an outsider, a path to {member}")
            )
    return problems


def port_name(site: Site, guid: int) -> str:
    """`node/hca`, or the GUID of a port that the site doesn't know."""
    found = site.hca_by_port_guid.get(guid)
    return f"{found[0].name}/{found[1].name}" if found else f"unknown port {format_guid(guid)}"


def _sides(table: PortTable, name: str) -> list[tuple[Side, frozenset[int], str]]:
    sides = [(Side.HOST, table.keys, name)]
    if table.leaf_keys is not None:
        sides.append((Side.LEAF, table.leaf_keys, f"leaf port {table.leaf}[{table.leaf_port}] of {name}"))
    return sides
