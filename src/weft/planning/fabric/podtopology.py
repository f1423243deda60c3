"""The place of each server of a pod on its fabric, as programs that place jobs want it: a tree with one root. Pure.

The tree is that of placement (`weft.planning.fabric.topology`): a server is under one leaf, however many leaf switches
its adapters are cabled to, since Slurm refuses jobs on a tree in which a node is under several. Spines aren't listed:
below the root are buildings, halls and blocks, where the fabric has several, and leaves.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from weft.model.site import Site
from weft.planning.fabric.topology import NO_BLOCK, NodeLocation, Topology
from weft.planning.kept import kept

TIER = "fabric.topograph.run/tier-"
DOMAIN = "accelerator.topograph.run/domain"
LONGEST = 63
"""Characters of a label's value in Kubernetes; Slurm allows 64 for a switch."""
_HOST_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_FNV_OFFSET, _FNV_PRIME = 0xCBF29CE484222325, 0x100000001B3
_LEVELS = ("leaf", "fabric", "block", "hall", "building")
"""Levels in the order in which they get names, so that leaves and fabrics keep those that people know."""


@dataclass(frozen=True, slots=True)
class PodServer:
    """A server of a pod, as its row has it.

    Attributes:
        number: its number in the pod, from 0.
        id: of Nova, or of the machine's deployment; empty: it has none yet.
        missing: why it isn't in force, a clause; empty: it is.
    """

    name: str
    number: int
    node: str
    id: str
    missing: str = ""


@dataclass(frozen=True, slots=True)
class LocatedServer:
    """A server in force and its place.

    Attributes:
        path: names of the switches above it, root first, leaf last; empty: `nowhere` has the reason.
        nvlink_domain: NVLink domain of its node by the site's name; empty: none.
    """

    name: str
    number: int
    node: str
    id: str
    path: tuple[str, ...] = ()
    nvlink_domain: str = ""
    nowhere: str = ""


@dataclass(frozen=True, slots=True)
class PodTopology:
    """What is written of a pod, in every format.

    Attributes:
        generation, site_generation: of the pod's order and of the site that it was read from.
        fabric: its fabric, or IPU-POD; `type`: `infiniband`, `ethernet` …; empty: it has no RDMA network on a fabric.
        segment: P_Key without membership bit, or VLAN.
        bare_metal: its servers are whole machines.
        accelerators, cores: of each server; 0: the site doesn't say.
        dscp: of RoCE's packets, where the fabric's switches trust it.
        levels: of each path, root first.
        servers: those in force in the tree's order.
        left_out: name of a server -> why it isn't in force.
    """

    pod: str
    id: str
    state: str
    generation: int
    site: str
    site_generation: int
    fabric: str
    type: str
    segment: int | None
    bare_metal: bool
    accelerators: int
    cores: int
    dscp: int | None
    levels: tuple[str, ...]
    servers: tuple[LocatedServer, ...]
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def located(self) -> tuple[LocatedServer, ...]:
        """Servers with a place on the fabric."""
        return tuple(s for s in self.servers if s.path)


def node_labels(server: LocatedServer) -> dict[str, str]:
    """Label of a Kubernetes node -> value, in the names of topograph 1.0; tier 0 is next to the server."""
    found = {f"{TIER}{tier}": name for tier, name in enumerate(reversed(server.path))}
    if server.nvlink_domain:
        found[DOMAIN] = short(server.nvlink_domain)
    return found


def levels_of(topology: Topology) -> tuple[str, ...]:
    """Levels of every path on a fabric, root first; they depend on the site alone, not on the pod."""
    between = [level for level in ("building", "hall") if level in topology.levels]
    blocks = ["block"] if len(topology.blocks) > 1 else []
    return ("fabric", *between, *blocks, "leaf")


def locate(
    site: Site, fabric: str, servers: Iterable[PodServer]
) -> tuple[tuple[LocatedServer, ...], dict[str, str]]:
    """The servers in force in the order of the tree, by number within a leaf or NVLink domain, those without a place
    last; and why others are left out, by name.

    Args:
        fabric: the pod's; one that the site doesn't have: no server has a place.
    """
    topology = Topology.of(site, fabric) if fabric in site.fabrics else None
    locations = {} if topology is None else topology.locations
    near = {(s.leaf, s.nvlink_domain): i for i, s in enumerate(locations.values())}
    order = {node: near[s.leaf, s.nvlink_domain] for node, s in locations.items()}
    found: list[LocatedServer] = []
    left_out: dict[str, str] = {}
    names: set[str] = set()
    for server in sorted(servers, key=lambda s: (bool(s.missing), s.number, s.name)):
        if _HOST_NAME.fullmatch(server.name) is None:
            left_out[f"number {server.number}"] = "its name is no host name"
        elif server.missing or server.name in names:
            if server.name not in names:
                left_out.setdefault(server.name, server.missing)
        else:
            names.add(server.name)
            found.append(_located(site, topology, server))
    found.sort(key=lambda s: (not s.path, order.get(s.node, 0), s.number))
    return tuple(found), left_out


def _located(site: Site, topology: Topology | None, server: PodServer) -> LocatedServer:
    one = LocatedServer(server.name, server.number, server.node, server.id)
    if topology is None:
        return one
    location = topology.locations.get(server.node)
    if location is None:
        known = server.node in site.node_by_name
        why = f"has no cable to a leaf of {topology.fabric}" if known else "is no longer in the site"
        return LocatedServer(one.name, one.number, one.node, one.id, nowhere=f"its node {server.node} {why}")
    names = switch_names(site)
    path = tuple(
        names[topology.fabric, level, _domain(topology, location, level)] for level in levels_of(topology)
    )
    return LocatedServer(one.name, one.number, one.node, one.id, path, location.nvlink_domain)


def _domain(topology: Topology, location: NodeLocation, level: str) -> str:
    match level:
        case "fabric":
            return topology.fabric
        case "leaf":
            return location.leaf
        case "block":
            return location.block
        case "hall":
            return location.hall
        case _:
            return location.building


@kept
def switch_names(site: Site) -> Mapping[tuple[str, str, str], str]:
    """(fabric, level, name) of each domain of every fabric -> its name, which no other domain of any fabric has."""
    topologies = [Topology.of(site, fabric) for fabric in sorted(site.fabrics)]
    found: dict[tuple[str, str, str], str] = {}
    taken: set[str] = set()
    for level in _LEVELS:
        for topology in topologies:
            for name in dict.fromkeys(_domain(topology, s, level) for s in topology.locations.values()):
                unique = _unique(f"no-{level}" if name == NO_BLOCK else name, topology.fabric, taken)
                found[topology.fabric, level, name] = unique
                taken.add(unique)
    return found


def _unique(name: str, fabric: str, taken: Collection[str]) -> str:
    name = short(name)
    while name in taken:
        name = short(f"{fabric}.{name}")
    return name


def short(name: str) -> str:
    """A name that is too long for a label as topograph shortens it: `x` and its FNV-64a hash in hexadecimal."""
    if len(name) <= LONGEST:
        return name
    value = _FNV_OFFSET
    for byte in name.encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFFFFFFFFFF
    return f"x{value:x}"
