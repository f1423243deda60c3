"""Topologies from elsewhere than a site: what discovery saw, UFM's links, a table of hosts.

Levels are read from the cables: a leaf has adapters on it, what is cabled to leaves is a spine, to spines a core, and
so on. Leaves that reach each other through spines alone are one pod, through cores too one hall, through what is
above those one building.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from weft.model.errors import InputError
from weft.model.fabric import ObservedFabric
from weft.planning.topology import NO_POD, Stand, Topology, natural

_HOST = re.compile(r"(?P<node>\S+)\s+(?P<hca>\S.*)")
Cable = tuple[str, str]


def from_observed(fabric: str, observed: ObservedFabric) -> Topology:
    """The topology that discovery (`ibnetdiscover`) saw; hosts by the first word of their node description."""
    hosts: dict[int, tuple[str, str]] = {}
    switches: dict[int, str] = {}
    for node in observed.nodes:
        if node.kind == "switch":
            switches[node.guid] = node.name
        elif node.kind == "ca":
            hosts[node.guid] = _host(node.name)
    names = _distinct(switches)
    up: list[tuple[tuple[str, str], str]] = []
    between: list[Cable] = []
    for a, b in observed.links:
        for one, other in ((a, b), (b, a)):
            if one.guid in hosts and other.guid in names:
                up.append((hosts[one.guid], names[other.guid]))
        if a.guid in names and b.guid in names:
            between.append((names[a.guid], names[b.guid]))
    return from_cables(fabric, up, between)


def from_ufm(fabric: str, answer: Any) -> Topology:
    """The topology from UFM's `GET /resources/links` (a list, or rows in `data`).

    Fields: NVIDIA UFM Enterprise REST API Guide, "Links REST API": `source_port_node_description` is
    `host adapter` for a host and `switch:port` for a switch. Raises InputError for anything else.
    """
    rows = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(rows, list):
        raise InputError("links", type(answer).__name__, "a list of links, or an object with them in `data`")
    up: list[tuple[tuple[str, str], str]] = []
    between: list[Cable] = []
    for number, row in enumerate(rows):
        ends = [_ufm_end(row, side, number) for side in ("source", "destination")]
        for (kind, name, rest), (other_kind, other, _) in (ends, ends[::-1]):
            if kind == "host" and other_kind == "switch":
                up.append(((name, rest), other))
        if ends[0][0] == ends[1][0] == "switch":
            between.append((ends[0][1], ends[1][1]))
    return from_cables(fabric, up, between)


def from_table(
    fabric: str, rows: Sequence[Mapping[str, str]], node: str, levels: Sequence[str], where: str = "csv"
) -> Topology:
    """The topology from a table with a row for each host.

    Args:
        node: column of the host's name.
        levels: columns from the leaf upwards, at most leaf, pod, hall, building, such as ("ASW", "PSW"); a leaf's name
            need only be unique under the pod.
    """
    if len(levels) > 4:
        raise InputError("columns", ",".join((node, *levels)), "at most host, leaf, pod, hall and building")
    stands: dict[str, Stand] = {}
    for line, row in enumerate(rows, 2):
        missing = [c for c in (node, *levels) if not row.get(c)]
        if missing:
            raise InputError(missing[0], row.get(missing[0]), "a name", f"{where}:{line}")
        name = row[node]
        if name in stands:
            raise InputError(node, name, "each host once", f"{where}:{line}")
        path = [row[c] for c in reversed(levels)]
        pod = path[-2] if len(path) > 1 else NO_POD
        leaf = "/".join(path[-2:])
        hall = path[-3] if len(path) > 2 else NO_POD
        building = path[-4] if len(path) > 3 else NO_POD
        stands[name] = Stand(name, leaf, pod, None, (leaf,), hall, building)
    return Topology.from_stands(fabric, stands.values())


def from_cables(fabric: str, up: Iterable[tuple[tuple[str, str], str]], between: Iterable[Cable]) -> Topology:
    """The topology from cables.

    Args:
        up: ((host, adapter), leaf).
        between: cables from switch to switch.
    """
    rails: dict[str, dict[str, str]] = {}
    for (host, adapter), leaf in up:
        rails.setdefault(host, {})[adapter] = leaf
    leaves = {leaf for adapters in rails.values() for leaf in adapters.values()}
    pod_of, hall_of, building_of = domains_of(leaves, between)
    stands: list[Stand] = []
    for host, adapters in rails.items():
        ordered = tuple(adapters[a] for a in sorted(adapters, key=natural))
        first = ordered[0]
        stands.append(Stand(host, first, pod_of[first], None, ordered, hall_of[first], building_of[first]))
    return Topology.from_stands(fabric, stands)


def domains_of(
    leaves: Iterable[str], between: Iterable[Cable]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Leaf -> its pod, its hall, its building; `-` for all where a level joins nothing, or everything."""
    leaves = set(leaves)
    beside: dict[str, set[str]] = {leaf: set() for leaf in leaves}
    for a, b in between:
        beside.setdefault(a, set()).add(b)
        beside.setdefault(b, set()).add(a)
    inside = set(leaves)  # switches that may join leaves: one rank more at each level
    found: list[dict[str, str]] = []
    below = len(leaves) + 1
    for kind in ("pod", "hall", "building"):
        inside |= {above for switch in inside for above in beside[switch]}
        groups = _joined(sorted(leaves, key=natural), beside, inside)
        several = 1 < len(groups) < below
        below = len(groups)
        found.append(
            {leaf: f"{kind}{i}" if several else NO_POD for i, group in enumerate(groups, 1) for leaf in group}
        )
    return found[0], found[1], found[2]


def _joined(leaves: Sequence[str], beside: Mapping[str, set[str]], inside: set[str]) -> list[list[str]]:
    """Leaves in groups: those that reach each other through these switches."""
    groups: list[list[str]] = []
    seen: set[str] = set()
    for leaf in leaves:
        if leaf in seen:
            continue
        reached, todo = {leaf}, [leaf]
        while todo:
            for other in beside[todo.pop()]:
                if other not in reached and other in inside:
                    reached.add(other)
                    todo.append(other)
        seen |= reached
        groups.append([x for x in leaves if x in reached])
    return groups


def _host(description: str) -> tuple[str, str]:
    match = _HOST.match(description)
    return (match["node"], match["hca"]) if match else (description, "")


def _distinct(switches: Mapping[int, str]) -> dict[int, str]:
    """Names of switches; those that several have get their GUID with it."""
    count: dict[str, int] = {}
    for name in switches.values():
        count[name] = count.get(name, 0) + 1
    return {g: name if count[name] == 1 else f"{name}-{g:016x}" for g, name in switches.items()}


def _ufm_end(row: Any, side: str, number: int) -> tuple[str, str, str]:
    """(kind, name, adapter or port) of one end of a link."""
    field = f"{side}_port_node_description"
    text = row.get(field) if isinstance(row, dict) else None
    if isinstance(text, str):
        name, colon, port = text.rpartition(":")
        if colon and " " not in port:
            return "switch", name, port
        if match := _HOST.match(text):
            return "host", match["node"], match["hca"]
    raise InputError(
        f"links[{number}].{field}", text, "`host adapter` or `switch:port`, as UFM 6.12 and later write it"
    )
