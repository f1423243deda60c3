"""What the engine knows about each leaf and node, numbered once so that decisions work on integers alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from weft.model.placement import PlacementRequest
from weft.model.site import Node, Site
from weft.planning.fabric.topology import Topology
from weft.planning.kept import kept


@dataclass(frozen=True, slots=True)
class Traits:
    """What never changes about a node and decides whether it is eligible for an order.

    Attributes:
        hcas: adapters that are cabled to the fabric; none if servers don't get them whole (bonds: `filters`).
        accelerators: (type, count), sorted.
        numa: by NUMA node, the same and how many adapters on the fabric it has; empty: not known.
    """

    role: str = "compute"
    cloud: str | None = None
    hcas: int = 1
    accelerators: tuple[tuple[str, int], ...] = ()
    numa: tuple[tuple[tuple[tuple[str, int], ...], int], ...] = ()

    @classmethod
    def of(cls, node: Node, rails: int, fabric: str) -> Self:
        """The traits of a node with `rails` adapters that are cabled to this fabric."""
        hcas = node.hcas_on(fabric)
        rails = 0 if node.bond_on(fabric) else rails
        numa = tuple(
            (_counts(a.type for a in node.accelerators if a.numa == i), sum(h.numa == i for h in hcas))
            for i in sorted({a.numa for a in node.accelerators})
        )
        return cls(node.role, node.cloud, rails, _counts(a.type for a in node.accelerators), numa)


@dataclass(frozen=True, slots=True)
class NodeNeeds:
    """What an order needs from each node; `boot` is that of `PlacementRequest`."""

    cloud: str | None = None
    hcas: int = 1
    accelerator: str | None = None
    accelerators: int = 0
    boot: str = ""

    @classmethod
    def of(cls, request: PlacementRequest) -> Self:
        """What a request asks of each node."""
        wanted = request.accelerators
        return cls(
            request.cloud,
            request.hcas_per_node,
            wanted.type if wanted else None,
            wanted.count if wanted else 0,
            request.boot,
        )

    def refuses(self, traits: Traits) -> str | None:
        """Name of the filter that removes such a node, or None."""
        if traits.role != "compute":
            return "role"
        if traits.cloud != self.cloud:
            return "cloud"
        if traits.hcas < self.hcas:
            return "fabric"
        if self.accelerator and dict(traits.accelerators).get(self.accelerator, 0) < self.accelerators:
            return "accelerators"
        return None

    def surplus(self, traits: Traits) -> tuple[int, int, int]:
        """What a node has beyond the order: (0 if one NUMA node has everything required, accelerators, adapters)."""
        beyond = sum(n for _, n in traits.accelerators) - self.accelerators
        return self.is_part(traits) and not self.on_one_numa(traits), beyond, traits.hcas - self.hcas

    def is_part(self, traits: Traits) -> bool:
        """Whether the order needs only some of the node's accelerators, so that it matters which."""
        has = dict(traits.accelerators).get(self.accelerator or "", 0)
        return bool(traits.numa) and 0 < self.accelerators < has

    def on_one_numa(self, traits: Traits) -> bool:
        """Whether one NUMA node has the required accelerators and adapters."""
        return any(
            dict(types).get(self.accelerator or "", 0) >= self.accelerators and hcas >= self.hcas
            for types, hcas in traits.numa
        )


@dataclass(slots=True)
class Numbers:
    """The topology in numbers: node i is on leaf `leaf_of[i]` with bit `bit[i]`.

    Attributes:
        nodes: names in tree order.
        start: number of the first node of each leaf, and the number of nodes as the last entry.
        every: by leaf, all its bits.
        domains: by leaf, the bits of each of its NVLink domains; empty if the fabric has none.
        domain_names: the same by name.
        block_start: number of the first leaf of each block, and the number of leaves as the last entry.
    """

    nodes: list[str]
    leaves: list[str]
    blocks: list[str]
    start: list[int]
    block_start: list[int]
    leaf_of: dict[str, int]
    bit: dict[str, int]
    every: list[int] = field(default_factory=list[int])
    domains: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    domain_names: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])

    @classmethod
    def of(cls, topology: Topology) -> Self:
        """Nodes and leaves numbered in the order of the tree."""
        nodes, leaves = list(topology.locations), list(topology.leaves)
        start, block_start = [0], [0]
        leaf_of: dict[str, int] = {}
        bit: dict[str, int] = {}
        for number, members in enumerate(topology.leaves.values()):
            start.append(start[-1] + len(members))
            for i, node in enumerate(members):
                leaf_of[node] = number
                bit[node] = 1 << i
        for members in topology.blocks.values():
            block_start.append(block_start[-1] + len(members))
        every = [(1 << (start[i + 1] - start[i])) - 1 for i in range(len(leaves))]
        found = cls(nodes, leaves, list(topology.blocks), start, block_start, leaf_of, bit, every)
        if topology.nvlink:
            for members in topology.leaves.values():
                masks: dict[str, int] = {}
                for node in members:
                    if name := topology.locations[node].nvlink_domain:
                        masks[name] = masks.get(name, 0) | bit[node]
                found.domains.append(tuple(masks.values()))
                found.domain_names.append(tuple(masks))
        return found

    def names(self, leaf: int, bits: int) -> list[str]:
        """The nodes that these bits of a leaf are, in order."""
        start, nodes = self.start[leaf], self.nodes
        found: list[str] = []
        while bits:
            low = bits & -bits
            found.append(nodes[start + low.bit_length() - 1])
            bits ^= low
        return found

    def masks(self, nodes: Iterable[str]) -> dict[int, int]:
        """Leaf -> bits of these nodes; names unknown to the topology are ignored."""
        found: dict[int, int] = {}
        for node in nodes:
            leaf = self.leaf_of.get(node)
            if leaf is not None:
                found[leaf] = found.get(leaf, 0) | self.bit[node]
        return found


def traits_of(site: Site, topology: Topology) -> dict[str, Traits]:
    """The traits of each of the site's nodes on the fabric."""
    return {
        node.name: Traits.of(node, len(topology.locations[node.name].rails), topology.fabric)
        for node in site.nodes
        if node.name in topology.locations
    }


@kept
def site_traits(site: Site, fabric: str) -> Mapping[str, Traits]:
    """`traits_of` for one of the site's fabrics, by its cabling; cached."""
    return traits_of(site, Topology.of(site, fabric))


def _counts(types: Iterable[str]) -> tuple[tuple[str, int], ...]:
    found: dict[str, int] = {}
    for one in types:
        found[one] = found.get(one, 0) + 1
    return tuple(sorted(found.items()))


def lowest(bits: int, count: int) -> int:
    """The lowest `count` set bits; all of them if there are no more."""
    beyond = bits.bit_count() - count
    if beyond <= 0:
        return bits
    if beyond < count:
        for _ in range(beyond):
            bits ^= 1 << (bits.bit_length() - 1)
        return bits
    rest = bits
    for _ in range(count):
        rest &= rest - 1
    return bits ^ rest


def group_by_traits(traits: Mapping[str, Traits], nodes: Sequence[str]) -> dict[Traits, list[str]]:
    """Traits -> nodes, in the order given."""
    groups: dict[Traits, list[str]] = {}
    for node in nodes:
        groups.setdefault(traits[node], []).append(node)
    return groups
