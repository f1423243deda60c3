"""Input for weighing an order: what each node costs it, and its leaves as parts of the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from weft.model.localityorder import Preference
from weft.planning.fabric.topology import NodeLocation, Topology
from weft.planning.place.weigh import LeafOption

OWN = -1
"""Cost of a node that is set aside for the order's project: a thousandth of a leaf less than another, to break ties."""


class Preferred(NamedTuple):
    """Nodes that an order prefers (cost below 0) or avoids (above), in thousandths of a leaf each."""

    kind: str
    name: str
    cost: int

    @classmethod
    def of(cls, preference: Preference) -> Preferred:
        """A preference of an order."""
        return cls(preference.kind, preference.name, preference.cost)

    def meets(self, location: NodeLocation, types: Iterable[str]) -> bool:
        """Whether it applies to a node at that place with accelerators of these types."""
        if self.kind == "label":
            return self.name in location.labels
        if self.kind == "accelerator":
            return self.name in types
        where = {
            "node": location.node,
            "rack": location.rack,
            "nvlink_domain": location.nvlink_domain,
            "leaf": location.leaf,
            "block": location.block,
        }
        return where[self.kind] == self.name


class Tree(NamedTuple):
    """The topology's leaves by number, with the domains above each.

    Attributes:
        paths: by leaf, numbers of its building, hall and block.
        uplinks: by leaf, Gb/s to other switches; None: not known.
    """

    paths: list[tuple[int, int, int]]
    uplinks: list[int] | None

    @classmethod
    def of(cls, topology: Topology) -> Tree:
        """Building, hall and block of each leaf, numbered."""
        buildings: dict[str, int] = {}
        halls: dict[str, int] = {}
        paths: list[tuple[int, int, int]] = []
        for number, (block, leaves) in enumerate(topology.blocks.items()):
            building, hall = topology.above.get(block, ("-", "-"))
            above = buildings.setdefault(building, len(buildings)), halls.setdefault(hall, len(halls))
            paths += [(*above, number)] * len(leaves)
        known = [topology.uplinks.get(leaf, 0) for leaf in topology.leaves] if topology.uplinks else None
        return cls(paths, known)

    @property
    def deep(self) -> bool:
        """Whether there is more than one hall or building."""
        return self.paths[-1][:2] != (0, 0) if self.paths else False

    def domains(self, leaves: Iterable[int]) -> tuple[int, int, int]:
        """How many buildings, halls and blocks these leaves are in."""
        paths = [self.paths[leaf] for leaf in leaves]
        return len({p[0] for p in paths}), len({p[1] for p in paths}), len({p[2] for p in paths})


def leaf_option(
    tree: Tree,
    leaf: int,
    nodes: Sequence[int],
    size: int,
    stays: int,
    gbps: int,
    guaranteed: Callable[[int], int],
) -> LeafOption:
    """A leaf as a part.

    Args:
        nodes: what each node that the order could have costs, the cheapest first.
        size: nodes of a unit.
        stays: nodes of the order's pod that are on it already.
        gbps: what its uplinks must carry for each node; 0: nothing.
        guaranteed: leaf -> Gb/s that other pods have of its uplinks.
    """
    free = len(nodes) // size
    costs = tuple(sum(nodes[i * size : (i + 1) * size]) for i in range(free)) if any(nodes) else ()
    limit = None
    if gbps and tree.uplinks is not None:
        limit = max(tree.uplinks[leaf] - guaranteed(leaf), 0) // (gbps * size)
    return LeafOption(leaf, tree.paths[leaf], free, costs, -(-stays // size), limit)
