"""What never changes about a fabric while its site is active: numbered nodes, the tree, groups of equal nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from weft.model.site import Site
from weft.planning.fabric.topology import Topology
from weft.planning.kept import kept
from weft.planning.place.marks import Marks, marks_of
from weft.planning.place.state import Numbers, Traits, group_by_traits, site_traits
from weft.planning.place.weighinput import Tree


@dataclass(frozen=True, slots=True)
class Floor:
    """Shared by every engine of a fabric; must not be changed.

    Attributes:
        traits: node -> what it is; empty: all are the same.
        groups: traits -> leaf -> the nodes that have them.
    """

    numbers: Numbers
    tree: Tree
    traits: Mapping[str, Traits]
    groups: Mapping[Traits, Mapping[int, int]]

    @classmethod
    def of(cls, topology: Topology, traits: Mapping[str, Traits] | None = None) -> Self:
        """Number the nodes of a fabric's tree; without `traits` all are equal."""
        numbers = Numbers.of(topology)
        groups = group_by_traits(traits or dict.fromkeys(numbers.nodes, Traits()), numbers.nodes)
        masks = {one: numbers.masks(nodes) for one, nodes in groups.items()}
        return cls(numbers, Tree.of(topology), traits or {}, masks)


@dataclass(frozen=True, slots=True)
class LeafMarks:
    """Turns marks of a site's nodes into bits of a fabric's leaves.

    Attributes:
        nodes: which of the site's nodes are on the fabric.
        leaf, bit: of each of these.
        shape: leaves, and octets of the widest one.
    """

    marks: Marks
    nodes: NDArray[np.intp]
    leaf: NDArray[np.intp]
    bit: NDArray[np.intp]
    shape: tuple[int, int]

    def bits(self, marks: int) -> list[int]:
        """Bits of the marked nodes, by leaf."""
        leaves, octets = self.shape
        rows = np.zeros((leaves, octets * 8), np.uint8)
        rows[self.leaf, self.bit] = self.marks.bools(marks)[self.nodes]
        packed = np.packbits(rows, axis=1, bitorder="little")
        if octets == 8:
            return packed.view("<u8")[:, 0].tolist()
        return [int.from_bytes(row.tobytes(), "little") for row in packed]


@kept
def leaf_marks(site: Site, fabric: str) -> LeafMarks:
    """Marks of the nodes of one of the site's fabrics, by leaf."""
    marks, numbers = marks_of(site), site_floor(site, fabric).numbers
    nodes = [node for node in numbers.leaf_of if node in marks.numbers]
    widest = max((bits.bit_length() for bits in numbers.every), default=0)
    return LeafMarks(
        marks,
        np.array([marks.numbers[node] for node in nodes], np.intp),
        np.array([numbers.leaf_of[node] for node in nodes], np.intp),
        np.array([numbers.bit[node].bit_length() - 1 for node in nodes], np.intp),
        (len(numbers.leaves), max(8, -(-widest // 8))),
    )


@kept
def site_floor(site: Site, fabric: str) -> Floor:
    """The floor of one of the site's fabrics, from its cabling."""
    return Floor.of(Topology.of(site, fabric), site_traits(site, fabric))
