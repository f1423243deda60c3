"""The choice for one gang of nodes out of a pool: one leaf or several, kept apart from others where that is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.planning.place.ask import Ask
from weft.planning.place.choose import Policy, Takes
from weft.planning.place.decision import Decision
from weft.planning.place.exact import LEAF
from weft.planning.place.policies import by_rule
from weft.planning.place.pool import Pool
from weft.planning.place.rivals import NEXT_LEAF, Rival, next_leaf, other_sets
from weft.planning.place.solve import fill, leaf_and_next, one_leaf, one_leaf_except, one_pod, several
from weft.planning.place.view import View
from weft.planning.place.weighing import Weighing


class Gang(Weighing):
    """A ledger that can choose for orders without nodes that stay."""

    def plainly(self, ask: Ask) -> Decision | None:
        """What most orders get, in as few steps as can be: one leaf, open to all; None if it takes more than that."""
        view, count = self.view(ask), ask.count
        pool = view.pool
        two = leaf_and_next(pool, count)
        if two is None:
            return None
        leaf, other = two
        removed = 0
        neighbours = self.neighbours
        against = neighbours.against(ask.terms)
        if against:
            for closed in against:
                if leaf in closed or other in closed:
                    return None
            removed = view.away[ask.project] if neighbours.only_away(ask.terms) else pool.room_on(against)
        free = pool.free
        others = ((NEXT_LEAF, (other,), 1, free[other] - count),) if other >= 0 else ()
        bits = ((leaf, view.take(leaf, self.available[leaf], count)),)
        left = free[leaf] - count
        return self.decided(view, ask, bits, LEAF, left, 1, pool.total, removed, None, others)

    def choose(self, view: View, pool: Pool, ask: Ask, hidden: Mapping[int, int]) -> Decision | None:
        units = ask.count if ask.slice == 1 else ask.count // ask.slice
        if units > pool.total or (ask.required == "node" and ask.count > 1):
            return None
        if self.policy:
            return self._by_policy(self.policy, view, pool, ask, hidden)
        leaf = one_leaf(pool, units)
        against = self.neighbours.against(ask.terms)
        if against:
            return self._apart(view, pool, ask, hidden, against, leaf)
        if leaf is not None:
            return self._on_leaf(view, pool, ask, hidden, leaf, next_leaf(pool, units, leaf))
        return self._over_leaves(view, pool, ask, hidden)

    def _by_policy(
        self, policy: Policy, view: View, pool: Pool, ask: Ask, hidden: Mapping[int, int]
    ) -> Decision | None:
        takes = by_rule(policy, pool, self.tree, ask.required, ask.preferred, ask.count // ask.slice)
        if takes is None:
            return None
        pods = len({pool.pod_of[leaf] for leaf, _ in takes})
        cost = LEAF * len(takes) + self.weights.beta * (pods - 1)
        return self.taken(view, pool, ask, hidden, takes, cost, pods)

    def _over_leaves(
        self, view: View, pool: Pool, ask: Ask, hidden: Mapping[int, int], removed: int = 0
    ) -> Decision | None:
        units = ask.count // ask.slice
        if ask.required in ("node", "leaf") or units > pool.total:
            return None
        if ask.required == "pod" or ask.preferred == "pod":
            inside = one_pod(pool, units)
            if inside is not None:
                takes = fill(pool.free, inside, units)
                others = other_sets(pool, units, inside, ask.required == "site")
                return self.taken(view, pool, ask, hidden, takes, LEAF * len(inside), 1, removed, others)
            if ask.required == "pod":
                return None
        best = several(pool, units, self.weights.beta)
        if best is None:
            return None
        pods = len({pool.pod_of[leaf] for leaf in best[1]})
        takes = fill(pool.free, best[1], units)
        others = other_sets(pool, units, [leaf for leaf, _ in takes], ask.required == "site")
        return self.taken(view, pool, ask, hidden, takes, best[0], pods, removed, others)

    def _apart(
        self,
        view: View,
        pool: Pool,
        ask: Ask,
        hidden: Mapping[int, int],
        against: Sequence[Mapping[int, int]],
        leaf: int | None,
    ) -> Decision | None:
        """Not on the leaves of any of these; `leaf` is the one that it would have been without them."""
        free, units = pool.free, ask.count // ask.slice
        closed = against[0] if len(against) == 1 else set[int]().union(*against)
        removed = pool.room_on(against) * ask.slice
        if leaf in closed:
            leaf = one_leaf_except(pool, units, pool.by_pod(closed))
        if leaf is not None:
            others = next_leaf(pool, units, leaf, closed)
            return self._on_leaf(view, pool, ask, hidden, leaf, others, removed)
        if pool.total * ask.slice - removed < ask.count:
            return None
        aside = {x: 0 for x in closed if free[x]}
        return self._over_leaves(view, pool.but(aside), ask, hidden, removed)

    def taken(
        self,
        view: View,
        pool: Pool,
        ask: Ask,
        hidden: Mapping[int, int],
        takes: Takes,
        cost: int,
        pods: int,
        removed: int = 0,
        others: tuple[Rival, ...] = (),
    ) -> Decision:
        available, free = self.available, pool.free
        total = pool.total if ask.slice == 1 else view.count_free(available)
        bits = tuple([(x, view.take(x, available[x] & ~hidden.get(x, 0), n)) for x, n in takes])
        leftover = sum([free[x] - n for x, n in takes])
        return self.decided(view, ask, bits, cost, leftover, pods, total, removed, None, others)

    def _on_leaf(
        self,
        view: View,
        pool: Pool,
        ask: Ask,
        hidden: Mapping[int, int],
        leaf: int,
        others: tuple[Rival, ...],
        removed: int = 0,
    ) -> Decision:
        """The same on one leaf: what most orders get, in as few steps as can be."""
        available, units = self.available, ask.count // ask.slice
        total = pool.total if ask.slice == 1 else view.count_free(available)
        bits = available[leaf] & ~hidden[leaf] if leaf in hidden else available[leaf]
        places = ((leaf, view.take(leaf, bits, units)),)
        leftover = pool.free[leaf] - units
        return self.decided(view, ask, places, LEAF, leftover, 1, total, removed, None, others)
