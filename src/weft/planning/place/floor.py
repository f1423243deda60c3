"""What of a fabric never changes while its site is in force: its nodes in numbers, its tree, and which are alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from weft.model.site import Site
from weft.planning.fabric.topology import Topology
from weft.planning.kept import kept
from weft.planning.place.parts import Tree
from weft.planning.place.state import Numbers, Traits, group_by_traits, site_traits


@dataclass(frozen=True, slots=True)
class Floor:
    """Shared by every engine of a fabric; nothing of it may be changed.

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
    """The floor of a fabric of the site, as it is cabled."""
    return Floor.of(Topology.of(site, fabric), site_traits(site, fabric))
