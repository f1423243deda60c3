"""From chosen leaves to nodes, for one answer out of documents; the engine has its own, in integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.model.placement import PlacementRequest
from weft.model.site import Node
from weft.planning.fabric.topology import Topology, natural
from weft.planning.place.choose import Choice, Home
from weft.planning.place.parts import OWN, Preferred, Tree, part
from weft.planning.place.sharing import crossing
from weft.planning.place.state import Kind, Traits
from weft.planning.place.weigh import Part, Weighed


@dataclass(frozen=True, slots=True)
class Decided:
    """The leaves and nodes of an order.

    Attributes:
        nodes: by leaf, then by name.
        halls: number of buildings, halls and pods.
        preferences: what preferences cost, in thousandths of a leaf.
        one_numa: nodes that have what is wanted on one NUMA node; None if that doesn't matter.
        own: nodes that are set aside for the order's project.
    """

    choice: Choice
    nodes: tuple[str, ...]
    halls: tuple[int, int, int]
    preferences: int = 0
    one_numa: int | None = None
    own: int = 0


@dataclass(frozen=True, slots=True)
class Fit:
    """A request and the nodes that passed its filters.

    Attributes:
        carried: leaf -> Gb/s of its uplinks that are guaranteed to others.
        own: nodes that are set aside for the order's project.
    """

    request: PlacementRequest
    topology: Topology
    tree: Tree
    nodes: Sequence[Node]
    home: Home
    carried: Mapping[str, int]
    own: frozenset[str] = frozenset()

    def beaten(self, counts: Mapping[int, int]) -> bool:
        """Whether a choice made without regard to halls and uplinks may not be the best: leaf -> nodes."""
        if self.tree.deep and self.tree.domains(counts)[:2] != (1, 1):
            return True
        gbps, uplinks = self.request.bisection_gbps, self.tree.uplinks
        return bool(gbps) and any(
            uplinks is None or self._guaranteed(leaf) + needed > uplinks[leaf]
            for leaf, needed in crossing(counts, gbps).items()
        )

    def parts(self) -> list[Part]:
        """The leaves to weigh."""
        nodes = self._by_leaf()
        request, stays = self.request, self.home.leaves
        return [
            part(
                self.tree, leaf, sorted(map(self._cost, nodes.get(leaf, ()))), request.slice, stays.get(leaf, 0),
                request.bisection_gbps, self._guaranteed,
            )
            for leaf in sorted({*nodes, *stays})
        ]  # fmt: skip

    def decided(self, choice: Choice, preferences: int = 0) -> Decided:
        """The nodes of these leaves: the cheapest, then those that have least beyond what is asked, then by name."""
        names, kind = list(self.topology.leaves), Kind.of(self.request)
        nodes = self._by_leaf()
        chosen: list[tuple[str, str]] = []
        traits: dict[str, Traits] = {}
        for leaf, units in choice.takes:
            here = {n.name: self._traits(n) for n in nodes[leaf]}
            costs = {n.name: self._cost(n) for n in nodes[leaf]}
            best = sorted(here, key=lambda n: (costs[n], kind.surplus(here[n]), natural(n)))
            taken = best[: units * self.request.slice]
            traits |= {n: here[n] for n in taken}
            chosen += [(names[leaf], n) for n in taken]
        ordered = tuple(node for _, node in sorted(chosen, key=lambda c: (natural(c[0]), natural(c[1]))))
        parts = any(map(kind.is_part, traits.values()))
        return Decided(
            choice,
            ordered,
            self.tree.domains({*dict(choice.takes), *self.home.leaves}),
            preferences - OWN * len(self.own.intersection(ordered)),
            sum(map(kind.on_one_numa, traits.values())) if parts else None,
            len(self.own.intersection(ordered)),
        )

    def weighed(self, found: Weighed) -> Decided:
        """The same of leaves that were weighed."""
        pods = self.tree.domains({*dict(found.takes), *self.home.leaves})[2]
        return self.decided(Choice(found.takes, found.cost, found.leftover, pods), found.preferences)

    def _guaranteed(self, leaf: int) -> int:
        return self.carried.get(list(self.topology.leaves)[leaf], 0) if self.carried else 0

    def _traits(self, node: Node) -> Traits:
        return Traits.of(node, len(self.topology.stands[node.name].rails), self.topology.fabric)

    def _cost(self, node: Node) -> int:
        """What the order's preferences, and whose the node is, make of it, in thousandths of a leaf."""
        stand, types = self.topology.stands[node.name], {a.type for a in node.accelerators}
        asked = sum(p.cost for p in self.request.preferences if Preferred.of(p).meets(stand, types))
        return asked + (OWN if node.name in self.own else 0)

    def _by_leaf(self) -> dict[int, list[Node]]:
        numbers = {leaf: i for i, leaf in enumerate(self.topology.leaves)}
        found: dict[int, list[Node]] = {}
        for node in self.nodes:
            found.setdefault(numbers[self.topology.stands[node.name].leaf], []).append(node)
        return found
