"""The choice of one gang of nodes from a pool: one leaf or several, kept apart from others if requested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.planning.place.ask import Ask
from weft.planning.place.choose import Policy, Takes
from weft.planning.place.decision import Decision
from weft.planning.place.ledger import Ledger
from weft.planning.place.policies import by_rule
from weft.planning.place.solver import (
    LEAF,
    NEXT_LEAF,
    Pool,
    Rival,
    fill,
    one_block,
    other_sets,
    several,
    two_leaves,
)
from weft.planning.place.view import View


class GangChoice:
    """Chooses nodes of a ledger for orders that have none yet.

    Args:
        policy: another rule, to compare with.
    """

    def __init__(self, ledger: Ledger, policy: Policy | None = None) -> None:
        self._ledger, self._policy = ledger, policy

    def choose(self, view: View, pool: Pool, ask: Ask, hidden: Mapping[int, int]) -> Decision | None:
        """The best nodes for the ask out of this pool, without regard to preferences, uplinks and halls."""
        size = ask.slice
        units = ask.count if size == 1 else ask.count // size
        if units > pool.total or (ask.required == "node" and ask.count > 1):
            return None
        if self._policy:
            return self._by_policy(self._policy, view, pool, ask, hidden)
        against = self._ledger.neighbours.against(ask.terms)
        two = two_leaves(pool, units, against)
        if two is not None:
            removed = self._closed_room(view, pool, ask, against) * size if against else 0
            return self._on_leaf(view, pool, ask, hidden, two, removed)
        return self._over_leaves(view, pool, ask, hidden, against)

    def _closed_room(self, view: View, pool: Pool, ask: Ask, against: Sequence[Mapping[int, int]]) -> int:
        """The room on leaves that are closed to the ask."""
        kept_away = self._ledger.neighbours.away.get(ask.project)
        if kept_away and pool is view.pool and len(against) <= 2 and against[-1] is kept_away:
            # The counts of these are known; only the other leaves remain to be counted.
            free = pool.free
            more = [free[x] for x in against[0] if x not in kept_away] if len(against) == 2 else ()
            return view.away[ask.project] + sum(more)
        return pool.room_on(against)

    def _by_policy(
        self, policy: Policy, view: View, pool: Pool, ask: Ask, hidden: Mapping[int, int]
    ) -> Decision | None:
        takes = by_rule(policy, pool, self._ledger.tree, ask.required, ask.preferred, ask.count // ask.slice)
        if takes is None:
            return None
        blocks = len({pool.block_of[leaf] for leaf, _ in takes})
        cost = LEAF * len(takes) + self._ledger.weights.beta * (blocks - 1)
        return self.taken(
            view, pool, ask, hidden, takes, cost, blocks, pool.total if ask.slice == 1 else view.free
        )

    def _over_leaves(
        self,
        view: View,
        pool: Pool,
        ask: Ask,
        hidden: Mapping[int, int],
        against: Sequence[Mapping[int, int]],
    ) -> Decision | None:
        """The best of several leaves, none of which is closed to the ask.

        Few leaves are closed to most orders: the best of all leaves are usually open, and then they are also the best
        of the open ones. Otherwise, or where that is expensive to find out, the pool is copied without the closed
        leaves.
        """
        units = ask.count // ask.slice
        total = pool.total if ask.slice == 1 else view.free
        removed = self._closed_room(view, pool, ask, against) * ask.slice if against else 0
        aside = bool(against) and _dear(pool, units)
        best = None if aside else self._best_leaves(pool, ask, units)
        if aside or (best is not None and not _open(best[0], against)):
            aside = True
            pool = pool.with_rooms({leaf: 0 for closed in against for leaf in closed if pool.free[leaf]})
            best = self._best_leaves(pool, ask, units)
        if best is None:
            return None
        others = other_sets(pool, units, sorted(best[0]), ask.required == "site")
        if against and not aside:
            others = tuple([rival for rival in others if _open(rival[1], against)])
        takes = fill(pool.free, best[0], units)
        return self.taken(view, pool, ask, hidden, takes, best[1], best[2], total, removed, others)

    def _best_leaves(self, pool: Pool, ask: Ask, units: int) -> tuple[Sequence[int], int, int] | None:
        """(leaves, cost, blocks): more than one leaf, if the order's levels allow that."""
        if ask.required in ("node", "leaf") or units > pool.total:
            return None
        if ask.required == "block" or ask.preferred == "block":
            inside = one_block(pool, units)
            if inside is not None:
                return inside, LEAF * len(inside), 1
            if ask.required == "block":
                return None
        best = several(pool, units, self._ledger.weights.beta)
        return best and (best[1], best[0], len({pool.block_of[leaf] for leaf in best[1]}))

    def taken(
        self,
        view: View,
        pool: Pool,
        ask: Ask,
        hidden: Mapping[int, int],
        takes: Takes,
        cost: int,
        blocks: int,
        total: int,
        removed: int = 0,
        others: tuple[Rival, ...] = (),
    ) -> Decision:
        """The decision for these leaves; `total`: free nodes, `removed` of them on closed leaves."""
        available, free = self._ledger.available, pool.free
        bits = tuple([(x, view.take(x, available[x] & ~hidden.get(x, 0), n)) for x, n in takes])
        leftover = sum([free[x] - n for x, n in takes])
        return self._ledger.decided(view, ask, bits, cost, leftover, blocks, total, removed, None, others)

    def _on_leaf(
        self,
        view: View,
        pool: Pool,
        ask: Ask,
        hidden: Mapping[int, int],
        two: tuple[int, int],
        removed: int,
    ) -> Decision:
        """The first of two leaves, the second of which is the runner-up: what most orders get."""
        available, free, units = self._ledger.available, pool.free, ask.count // ask.slice
        leaf, other = two
        total = pool.total if ask.slice == 1 else view.free
        bits = available[leaf] & ~hidden[leaf] if leaf in hidden else available[leaf]
        places = ((leaf, view.take(leaf, bits, units)),)
        others = ((NEXT_LEAF, (other,), 1, free[other] - units),) if other >= 0 else ()
        return self._ledger.decided(
            view, ask, places, LEAF, free[leaf] - units, 1, total, removed, None, others
        )


def _open(leaves: Sequence[int], against: Sequence[Mapping[int, int]]) -> bool:
    """Whether none of these leaves is closed."""
    for closed in against:
        for leaf in leaves:
            if leaf in closed:
                return False
    return True


def _dear(pool: Pool, units: int) -> bool:
    """Whether this means choosing more than two leaves in several blocks, which takes longer than copying the pool."""
    return units > 2 * pool.most_roomy and units > pool.ranked[-1] // pool.blocks
