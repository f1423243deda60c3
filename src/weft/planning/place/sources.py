"""Topologies from sources other than a site: discovery, UFM's links, a table of hosts.

Levels are derived from the cables: a leaf has adapters, a switch connected to leaves is a spine, to spines a core, and
so on. Leaves that reach each other through spines alone form a block, also through cores a hall, through anything above
a building. Leaves that hold the rails of one group of nodes count as one (`weft.planning.fabric.rails`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, TypeVar

from weft.model.errors import InputError
from weft.model.observedfabric import ObservedFabric
from weft.planning.fabric.ibnetdiscover import Ends
from weft.planning.fabric.nodenames import host_and_device, is_a_product, is_in_a_switch
from weft.planning.fabric.rails import Domains
from weft.planning.fabric.topology import NO_BLOCK, NodeLocation, Topology, natural

_SHOWN = 10
_DEVICE = re.compile(r"(?:[a-z]+\d*_?\d+|HCA-\d+)$")
_Id = TypeVar("_Id", int, str)
Cable = tuple[str, str]
Adapter = tuple[str, str]
"""Host, and the adapter's port."""


def from_observed(
    fabric: str,
    observed: ObservedFabric,
    rates: Mapping[Ends, int] | None = None,
    not_locating: Sequence[str] = (),
) -> Topology:
    """The topology that discovery (`ibnetdiscover`) saw; hosts by the first word of their node description.

    Args:
        rates: Gb/s of cables, as `Discovery.rates`; uplinks are known only if every switch's is there.
        not_locating: as in `from_cables`.

    Adapters without a host's name (hosts that are off, or not yet set up) are left out; `Topology.left_out` has them,
    and what the discovery itself may lack.

    Raises InputError if two adapters have the same host and device in their description, no host is cabled to a switch,
    or the output is cut off: a cable leads to what has no record of its own.
    """
    known = {n.guid for n in observed.nodes}
    lost = sorted({e.guid for link in observed.links for e in link} - known)
    if lost:
        allowed = f"complete: a cable leads to {_guid(lost[0])}, which is not described"
        raise InputError("ibnetdiscover", f"{len(observed.nodes)} nodes", allowed)
    adapters = {n.guid: n.name for n in observed.nodes if n.kind == "ca" and not is_in_a_switch(n.name)}
    named, left_out = _with_names(adapters)
    hosts = {guid: host_and_device(name) for guid, name in named.items()}
    names = _distinct({n.guid: n.name for n in observed.nodes if n.kind == "switch"})
    up: list[tuple[Adapter, str]] = []
    between: list[Cable] = []
    gbps: list[int] = []
    for a, b in observed.links:
        for one, other in ((a, b), (b, a)):
            if one.guid in hosts and other.guid in names:
                host, hca = hosts[one.guid]
                up.append(((host, f"{hca}/{one.port}"), names[other.guid]))
        if a.guid in names and b.guid in names:
            between.append((names[a.guid], names[b.guid]))
            gbps.append((rates or {}).get(((a.guid, a.port), (b.guid, b.port)), 0))
    found = from_cables(fabric, up, between, gbps if all(gbps) else None, not_locating)
    lacking = [f"the discovery is partial, and hosts may be missing: {why}" for why in observed.partial]
    return replace(found, left_out=(*lacking, *left_out))


def from_ufm(fabric: str, answer: Any, not_locating: Sequence[str] = ()) -> Topology:
    """The topology from UFM's `GET /resources/links` (a list, or rows in `data`).

    Fields: NVIDIA UFM Enterprise REST API Guide, "Links REST API": `source_port_node_description` is
    `host adapter` for a host and `switch:port` for a switch; `source_guid` distinguishes nodes of one name, such as
    the leaves inside a director. Raises InputError for anything else.
    """
    rows = answer.get("data") if isinstance(answer, dict) else answer
    if not isinstance(rows, list):
        raise InputError("links", type(answer).__name__, "a list of links, or an object with them in `data`")
    links = [(_ufm_end(row, "source", i), _ufm_end(row, "destination", i)) for i, row in enumerate(rows)]
    ends = [end for link in links for end in link]
    names = _distinct({end.guid: end.name for end in ends if end.kind == "switch"})
    hosts = {end.guid: f"{end.name} {end.rest}".strip() for end in ends if end.kind == "host" and end.guid}
    named, left_out = _with_names(hosts)
    up: list[tuple[Adapter, str]] = []
    between: list[Cable] = []
    for a, b in links:
        for one, other in ((a, b), (b, a)):
            if one.kind == "host" and other.kind == "switch" and (not one.guid or one.guid in named):
                up.append(((one.name, f"{one.rest}/{one.port}"), names[other.guid]))
        if a.kind == b.kind == "switch":
            between.append((names[a.guid], names[b.guid]))
    return replace(from_cables(fabric, up, between, not_locating=not_locating), left_out=left_out)


def from_table(
    fabric: str, rows: Sequence[Mapping[str, str]], node: str, levels: Sequence[str], where: Sequence[str]
) -> Topology:
    """The topology from a table with a row for each host.

    Args:
        node: column of the host's name.
        levels: columns from the leaf upwards, at most leaf, block, hall, building, such as ("ASW", "PSW"); a leaf's
            name must be unique only within its block.
        where: file and line of each row.
    """
    if len(levels) > 4:
        raise InputError("columns", ",".join((node, *levels)), "at most host, leaf, block, hall and building")
    locations: dict[str, NodeLocation] = {}
    for row, line in zip(rows, where, strict=True):
        missing = [c for c in (node, *levels) if not row.get(c)]
        if missing:
            raise InputError(missing[0], row.get(missing[0]), "a name", line)
        name = row[node]
        if name in locations:
            raise InputError(node, name, "each host once", line)
        path = [row[c] for c in reversed(levels)]
        block = path[-2] if len(path) > 1 else NO_BLOCK
        leaf = "/".join(path[-2:])
        hall = path[-3] if len(path) > 2 else NO_BLOCK
        building = path[-4] if len(path) > 3 else NO_BLOCK
        locations[name] = NodeLocation(name, leaf, block, None, (leaf,), hall, building)
    return Topology.from_locations(fabric, locations.values())


def from_cables(
    fabric: str,
    up: Iterable[tuple[Adapter, str]],
    between: Sequence[Cable],
    gbps: Sequence[int] | None = None,
    not_locating: Sequence[str] = (),
) -> Topology:
    """The topology from cables.

    Args:
        up: ((host, adapter), leaf); an adapter's port is behind its name, such as `mlx5_0/1`.
        between: cables from switch to switch; `gbps` their rates, if they are known.
        not_locating: adapters that don't locate their host, as `Hca.locates` of a site: names or patterns,
            such as `mlx5_4`, `HCA-*` or `gpu01/mlx5_4`.

    Raises InputError if there is no host, an adapter on two leaves, or no adapter of such a name.
    """
    rails: dict[str, dict[str, str]] = {}
    for (host, adapter), leaf in up:
        if rails.setdefault(host, {}).setdefault(adapter, leaf) != leaf:
            raise InputError("host", f"{host} {adapter}", f"one cable each, not to {leaf} too")
    if not rails:
        raise InputError("cables", 0, "at least one from a host to a switch")
    ordered = {h: tuple(a[x] for x in sorted(a, key=natural)) for h, a in rails.items()}
    locating = _locating(rails, not_locating)
    domains = Domains.of(locating.values())
    merged = [(domains.of_leaf.get(a, a), domains.of_leaf.get(b, b)) for a, b in between]
    block_of, hall_of, building_of = domains_of(domains.founders, merged)
    locations: list[NodeLocation] = []
    for host, mine in ordered.items():
        leaf = domains.of_rails[locating[host]]
        locations.append(
            NodeLocation(host, leaf, block_of[leaf], None, mine, hall_of[leaf], building_of[leaf])
        )
    carried = dict.fromkeys(domains.of_leaf, 0)
    for ends, rate in zip(between, gbps or (), strict=gbps is not None):
        for end in ends:
            if end in carried:
                carried[end] += rate
    uplinks = domains.uplinks(carried) if gbps is not None else {}
    return Topology.from_locations(fabric, locations, uplinks=uplinks, rails=domains.of_leaf)


def _locating(
    rails: Mapping[str, Mapping[str, str]], not_locating: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Host -> leaves of its adapters that locate it; if a host has no such adapter, all do."""
    used = set[str]()

    def is_out(host: str, adapter: str) -> bool:
        name = adapter.rpartition("/")[0]
        out = {p for p in not_locating if fnmatchcase(f"{host}/{name}" if "/" in p else name, p)}
        used.update(out)
        return bool(out)

    found: dict[str, tuple[str, ...]] = {}
    for host, adapters in rails.items():
        names = sorted(adapters, key=natural)
        near = [adapters[a] for a in names if not is_out(host, a)]
        found[host] = tuple(near or (adapters[a] for a in names))
    if unused := [p for p in not_locating if p not in used]:
        known = sorted({a.rpartition("/")[0] for adapters in rails.values() for a in adapters}, key=natural)
        more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        shown = f"{', '.join(known[:_SHOWN])}{more}"
        raise InputError("--not-locating", unused[0], f"names of adapters, or HOST/ADAPTER: {shown}")
    return found


def domains_of(
    leaves: Iterable[str], between: Iterable[Cable]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Leaf -> its block, its hall, its building; `-` for all where there is no such level.

    Ranks of switches that connect no more than those below aren't a level; of a fabric with more levels, the lowest
    are returned, and everything above is the site.
    """
    leaves = sorted(set(leaves), key=natural)
    beside: dict[str, set[str]] = {leaf: set() for leaf in leaves}
    for a, b in between:
        beside.setdefault(a, set()).add(b)
        beside.setdefault(b, set()).add(a)
    found: list[dict[str, str]] = []
    inside = set(leaves)  # switches that may connect leaves: one rank more at each level
    below, before = len(leaves) + 1, 0
    while len(found) < len(_KINDS) and below > 1 and len(inside) > before:
        before = len(inside)
        inside |= {above for switch in inside for above in beside[switch]}
        groups = _joined(leaves, beside, inside)
        if 1 < len(groups) < below:
            kind = _KINDS[len(found)]
            found.append({leaf: f"{kind}{i}" for i, group in enumerate(groups, 1) for leaf in group})
        below = len(groups)
    found += [dict.fromkeys(leaves, NO_BLOCK)] * (len(_KINDS) - len(found))
    return found[0], found[1], found[2]


_KINDS = ("block", "hall", "building")


def _joined(leaves: Sequence[str], beside: Mapping[str, set[str]], inside: set[str]) -> list[list[str]]:
    """Leaves grouped by which reach each other through these switches."""
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


def _distinct(switches: Mapping[_Id, str]) -> dict[_Id, str]:
    """Names of switches; duplicate ones with their GUID."""
    count: dict[str, int] = {}
    for name in switches.values():
        count[name] = count.get(name, 0) + 1
    return {g: name if count[name] == 1 else f"{name}-{_guid(g)}" for g, name in switches.items()}


def _with_names(adapters: Mapping[_Id, str]) -> tuple[dict[_Id, str], tuple[str, ...]]:
    """The adapters that have a host's name, and a sentence on the others, if there are any.

    Raises InputError if two have the same host and device: these hosts can't be distinguished.
    """
    by_name: dict[str, list[_Id]] = {}
    for guid, name in adapters.items():
        by_name.setdefault(name, []).append(guid)
    named: dict[_Id, str] = {}
    unnamed: list[str] = []
    for name, guids in by_name.items():
        if is_a_product(name) or (len(guids) > 1 and not _DEVICE.match(host_and_device(name)[1])):
            unnamed += [f"{_guid(guid)} ({name})" for guid in guids]
        elif len(guids) > 1:
            allowed = f"each node description once: {_guid(guids[0])} and {_guid(guids[1])} share it (ibnetdiscover "
            raise InputError("host", name, allowed + "--node-name-map gives names)")
        else:
            named[guids[0]] = name
    if not unnamed:
        return named, ()
    more = f" and {len(unnamed) - _SHOWN} more" if len(unnamed) > _SHOWN else ""
    listed = f"{', '.join(unnamed[:_SHOWN])}{more}"
    return named, (f"{len(unnamed)} adapters without a host's name are left out: {listed}",)


def _guid(guid: int | str) -> str:
    return guid if isinstance(guid, str) else f"{guid:016x}"


class _End(NamedTuple):
    """One end of a link of UFM's.

    Attributes:
        rest: the adapter of a host.
        guid: of the node; its name if UFM doesn't give one.
    """

    kind: str
    name: str
    rest: str
    guid: str
    port: str


def _ufm_end(row: Any, side: str, number: int) -> _End:
    field = f"{side}_port_node_description"
    text = row.get(field) if isinstance(row, dict) else None
    if isinstance(text, str):
        guid, port = row.get(f"{side}_guid"), row.get(f"{side}_port")
        guid, port = guid if isinstance(guid, str) else "", port if isinstance(port, str | int) else ""
        name, colon, end = text.rpartition(":")
        if colon and " " not in end:
            return _End("switch", name, "", guid or name, str(port))
        host, adapter = host_and_device(text)
        if adapter:
            return _End("none" if is_in_a_switch(text) else "host", host, adapter, guid, str(port))
    raise InputError(
        f"links[{number}].{field}", text, "`host adapter` or `switch:port`, as UFM 6.12 and later write it"
    )
