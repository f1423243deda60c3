"""The slow path: orders with preferences, guaranteed uplinks, or more than one hall to choose from."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from weft.model.errors import InputError
from weft.planning.place.ask import Ask
from weft.planning.place.decision import Decision
from weft.planning.place.ledger import Ledger
from weft.planning.place.sharing import crossing
from weft.planning.place.solver import Pool, rivals
from weft.planning.place.view import View
from weft.planning.place.weigh import LeafOption, Weighed, weigh
from weft.planning.place.weighinput import Preferred, leaf_option


class WeighedNodes(NamedTuple):
    """The result of weighing, and (leaf, bits) of the nodes."""

    weighed: Weighed
    bits: tuple[tuple[int, int], ...]


class Weigher:
    """Weighs the leaves and nodes of a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._about: dict[tuple[str, str], dict[int, int]] = {}

    def allowed(self, ask: Ask, nodes: Mapping[int, int], extra_load: Mapping[int, int]) -> bool:
        """Whether a choice made without regard to halls and uplinks (leaf -> nodes) is the optimum with them, too.

        A choice inside one hall costs nothing extra, so none is better; one in several may be beaten.

        Args:
            extra_load: leaf -> Gb/s that its uplinks carry in the time asked for, beyond what they carry now.
        """
        if self._ledger.deep and self._ledger.tree.domains(nodes)[:2] != (1, 1):
            return False
        return not ask.gbps or self._fits_uplinks(ask, nodes, extra_load)

    def weigh(
        self, view: View, pool: Pool, ask: Ask, bits_of: Callable[[int], int], extra_load: Mapping[int, int]
    ) -> WeighedNodes | None:
        """The best leaves for an ask with preferences, uplinks or halls.

        Args:
            pool: what it may be given; `bits_of`: leaf -> its nodes that are free; `extra_load`: as for `allowed`.
        """
        if ask.gbps and self._ledger.tree.uplinks is None:
            raise InputError(
                "fabric.bisection_gbps", ask.gbps, "0 on a fabric whose cables between switches aren't known"
            )
        stay = {leaf: bits.bit_count() for leaf, bits in self._ledger.numbers.masks(ask.near).items()}
        touched = self.touched(ask)
        guaranteed = self._ledger.carried_for_others(ask.pod, extra_load)
        nodes: dict[int, list[tuple[int, int, int]]] = {}
        parts: list[LeafOption] = []
        for leaf, free in enumerate(pool.free):
            if not free and leaf not in stay:
                continue
            costs = [0] * (free * ask.slice)
            if free and leaf in touched:
                every = self.by_cost(view, leaf, bits_of(leaf), ask.preferences)
                nodes[leaf] = view.by_unit(leaf, every)
                costs = [cost for cost, _, _ in nodes[leaf]]
            parts.append(
                leaf_option(
                    self._ledger.tree, leaf, costs, ask.slice, stay.get(leaf, 0), ask.gbps, guaranteed
                )
            )
        weighed = weigh(
            parts, ask.count // ask.slice, self._ledger.weights.levels, ask.required, ask.preferred
        )
        if weighed is None:
            return None
        bits: list[tuple[int, int]] = []
        for leaf, units in weighed.takes:
            if leaf in nodes:
                bits.append((leaf, sum(bit for _, _, bit in nodes[leaf][: units * ask.slice])))
            else:
                bits.append((leaf, view.take(leaf, bits_of(leaf), units)))
        return WeighedNodes(weighed, tuple(bits))

    def weighed(
        self,
        view: View,
        pool: Pool,
        ask: Ask,
        bits_of: Callable[[int], int],
        extra_load: Mapping[int, int],
        shared: Collection[int] = (),
    ) -> Decision | None:
        """The decision for an ask with preferences, uplinks or halls; the arguments are those of `weigh`.

        Args:
            shared: leaves that it keeps away from.
        """
        removed, total = sum(map(pool.free.__getitem__, shared)) * ask.slice, pool.total
        pool = pool.with_rooms(dict.fromkeys(shared, 0))
        found = self.weigh(view, pool, ask, bits_of, extra_load)
        if found is None:
            return None
        weighed = found.weighed
        leaves = {leaf for leaf, _ in weighed.takes} | self._ledger.numbers.masks(ask.near).keys()
        halls = self._ledger.tree.domains(leaves)
        total = total if ask.slice == 1 else view.free
        decision = self._ledger.decided(
            view, ask, found.bits, weighed.cost, weighed.leftover, halls[2], total, removed
        )
        chosen, units = [leaf for leaf, _ in weighed.takes], ask.count // ask.slice
        return decision._replace(
            preferred=weighed.preferences if ask.preferences else None,
            halls=halls,
            rivals=() if ask.near else rivals(pool, units, chosen, ask.required == "site"),
        )

    def _fits_uplinks(self, ask: Ask, nodes: Mapping[int, int], extra_load: Mapping[int, int]) -> bool:
        uplinks, guaranteed = self._ledger.tree.uplinks, self._ledger.carried_for_others(ask.pod, extra_load)
        return uplinks is not None and all(
            guaranteed(leaf) + gbps <= uplinks[leaf] for leaf, gbps in crossing(nodes, ask.gbps).items()
        )

    def touched(self, ask: Ask) -> set[int]:
        """Leaves with nodes that a preference of the ask applies to."""
        return {leaf for one in ask.preferences for leaf in self._masks(one)}

    def preferring(self, nodes: Mapping[int, int], cost: int) -> Preferred:
        """A preference for exactly these nodes; leaf -> bits."""
        name = " ".join(f"{leaf}:{bits:x}" for leaf, bits in sorted(nodes.items()))
        self._about["nodes", name] = dict(nodes)
        return Preferred("nodes", name, cost)

    def _masks(self, one: Preferred) -> dict[int, int]:
        """Leaf -> nodes that a preference applies to; computed once."""
        found = self._about.get((one.kind, one.name))
        if found is None:
            locations, traits = self._ledger.topology.locations, self._ledger.traits
            found = self._about[one.kind, one.name] = self._ledger.numbers.masks(
                name
                for name, location in locations.items()
                if one.meets(location, dict(traits[name].accelerators) if name in traits else ())
            )
        return found

    def by_cost(
        self, view: View, leaf: int, available: int, preferences: tuple[Preferred, ...]
    ) -> list[tuple[int, int, int]]:
        """(cost, tier, bit) of the leaf's nodes: the cheapest first, then the best fit, then by name."""
        found: list[tuple[int, int, int]] = []
        left = available & view.mask[leaf]
        about = [(one.cost, self._masks(one).get(leaf, 0)) for one in preferences]
        while left:
            bit = left & -left
            found.append((sum(cost for cost, mask in about if mask & bit), view.tier(leaf, bit), bit))
            left ^= bit
        return sorted(found)
