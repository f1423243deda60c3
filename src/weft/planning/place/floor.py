"""What never changes about a fabric while its site is active: numbered nodes, the tree, groups of equal nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from weft.model.site import Site
from weft.planning.fabric.topology import Topology
from weft.planning.kept import kept
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
        numbers = Numbers.of(topology)
        groups = group_by_traits(traits or dict.fromkeys(numbers.nodes, Traits()), numbers.nodes)
        masks = {one: numbers.masks(nodes) for one, nodes in groups.items()}
        return cls(numbers, Tree.of(topology), traits or {}, masks)


@kept
def site_floor(site: Site, fabric: str) -> Floor:
    """The floor of one of the site's fabrics, from its cabling."""
    return Floor.of(Topology.of(site, fabric), site_traits(site, fabric))
