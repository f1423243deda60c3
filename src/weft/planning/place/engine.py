"""The engine: the state of a fabric kept so that a decision takes microseconds, at any size.

`decide` changes nothing; `commit` takes what was decided; `release` gives it back and restores the state exactly.
An engine serves one fabric and one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from weft.model.errors import InputError
from weft.model.placement import Occupancy
from weft.model.site import Site
from weft.planning.filters import dedicated_leaves, keys_gone, terms_of
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Policy, Takes, Weights
from weft.planning.place.decision import Decision
from weft.planning.place.exact import LEAF
from weft.planning.place.nextto import next_to
from weft.planning.place.policies import by_rule
from weft.planning.place.pool import Pool
from weft.planning.place.sharing import NO_TERMS, NOTHING
from weft.planning.place.solve import fill, one_leaf, one_leaf_except, one_pod, several
from weft.planning.place.state import traits_of
from weft.planning.place.view import View
from weft.planning.place.weighing import Weighing
from weft.planning.topology import Topology


class Engine(Weighing):
    """The state of one fabric.

    Args:
        topology: where the nodes stand.
        traits: what each node is; none: all the same.
        weights: the operator's settings.
        dedicated: leaf -> project that alone may use it.
        policy: another rule, to compare with.
    """

    @classmethod
    def of(cls, site: Site, fabric: str, occupancy: Occupancy, weights: Weights | None = None) -> Self:
        """An engine with the site's state: maintenance and weights from the site, the rest from the occupancy."""
        topology = Topology.of(site, fabric)
        dedicated = dedicated_leaves(site, topology)
        engine = cls(topology, traits_of(site, topology), weights or Weights.of(site.placement), dedicated)
        engine.unfit = occupancy.unfit
        maintenance = {n.name: n.maintenance for n in site.nodes if n.maintenance is not None}
        for why, reasons in (
            ("maintenance", maintenance),
            ("down", occupancy.down),
            ("quarantine", occupancy.quarantined),
            ("segments", {**keys_gone(occupancy, fabric), **occupancy.segments}),
        ):
            for node, reason in reasons.items():
                if node in topology.stands:
                    engine.block(node, why, reason)
        terms = {one.pod: terms_of(one) for one in occupancy.neighbours}
        pods: dict[str, list[str]] = {}
        for node, pod in occupancy.busy.items():
            if node in topology.stands:
                pods.setdefault(pod, []).append(node)
        for pod, nodes in pods.items():
            engine.hold(pod, nodes, terms.get(pod, NO_TERMS))
        return engine

    def decide(
        self, ask: Ask, hidden: Mapping[int, int] | None = None, besides: Mapping[int, int] = NOTHING
    ) -> Decision | None:
        """The best nodes for this ask, or None; changes nothing.

        Args:
            hidden: leaf -> bits of nodes that can't be had for the time that is asked for (reservations).
            besides: leaf -> Gb/s that its uplinks carry in that time beyond what they carry now.

        Raises:
            InputError: a count that is not a multiple of the slice.
        """
        if ask.count < 1 or ask.count % ask.slice:
            raise InputError(
                "count", ask.count, f"a multiple of the slice ({ask.slice}), at least {ask.slice}"
            )
        if ask.spare:
            return self._with_spares(ask, hidden, besides)
        view = self.view(ask)
        if hidden or ask.exclude or ask.failed:
            pool, hidden = self._without(view, ask, hidden or {})
        else:
            pool, hidden = view.pool, NOTHING
        if ask.preferences and self.policy is None:
            return self.weighed(view, pool, ask, self._bits(hidden), besides, self.closed_to(ask.terms))
        found = self._beside(view, pool, ask, hidden) if ask.near else self._decide(view, pool, ask, hidden)
        if found is None or not (ask.gbps or self.deep) or self.policy is not None:
            return found
        nodes = {leaf: bits.bit_count() for leaf, bits in found.bits}
        for leaf, bits in self.numbers.masks(ask.near).items():
            nodes[leaf] = nodes.get(leaf, 0) + bits.bit_count()
        if self.allowed(ask, nodes, besides):
            return found
        return self.weighed(view, pool, ask, self._bits(hidden), besides, self.closed_to(ask.terms))

    def _with_spares(
        self, ask: Ask, hidden: Mapping[int, int] | None, besides: Mapping[int, int]
    ) -> Decision | None:
        """The order and its spares are one gang; which of them are spare is told by the decision."""
        if ask.spare % ask.slice:
            raise InputError("nodes.spare", ask.spare, f"a multiple of the slice ({ask.slice})")
        found = self.decide(replace(ask, count=ask.count + ask.spare, spare=0), hidden, besides)
        return found and found._replace(size=ask.count)

    def _bits(self, hidden: Mapping[int, int]) -> Callable[[int], int]:
        return lambda leaf: self.available[leaf] & ~hidden.get(leaf, 0)

    def place(self, ask: Ask) -> Decision | None:
        """Decide and commit."""
        decision = self.decide(ask)
        if decision is not None:
            self.take(decision.pod, decision.bits, decision.terms)
        return decision

    def replace(self, ask: Ask, failed: str) -> Decision | None:
        """One node in the place of a failed one of the pod that `ask` was about; changes nothing.

        The failed node's leaf comes first, then the other leaves of the pod, then its neighbourhood.
        """
        numbers = self.numbers
        leaf = numbers.leaf_of.get(failed)
        held = self.held.get(ask.pod)
        if leaf is None or held is None:
            raise InputError("failed", failed, f"a node of pod {ask.pod}")
        closing = self.neighbours.closing or ask.terms.closing
        if closing or ask.slice > 1 or ask.exclude or ask.preferences or ask.gbps or self.deep:
            near = tuple(n for x, b in held.items() for n in numbers.names(x, b) if n != failed)
            return self.decide(replace(ask, count=1, slice=1, spare=0, near=near, failed=(failed,)))
        view = self.view(ask)
        pool, bit = view.pool, numbers.bit[failed]
        here = self.available[leaf] & view.mask[leaf] & ~bit
        if here and held.get(leaf, 0) & ~bit:
            bits = ((leaf, view.take(leaf, here, 1)),)
            return self.decided(view, ask, bits, 0, pool.free[leaf] - 1, 1, pool.total, size=1)
        found = next_to(pool, held, leaf, bit, ask.required, self.weights.beta)
        if found is None:
            return None
        chosen, cost = found
        bits = view.take(chosen, self.available[chosen] & ~(bit if chosen == leaf else 0), 1)
        return self.decided(view, ask, ((chosen, bits),), cost, pool.free[chosen] - 1, 1, pool.total, size=1)

    def _decide(self, view: View, pool: Pool, ask: Ask, hidden: Mapping[int, int]) -> Decision | None:
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
            return self._taken(view, pool, ask, hidden, ((leaf, units),), LEAF, 1)
        return self._over_leaves(view, pool, ask, hidden)

    def _by_policy(
        self, policy: Policy, view: View, pool: Pool, ask: Ask, hidden: Mapping[int, int]
    ) -> Decision | None:
        takes = by_rule(policy, pool, self.tree, ask.required, ask.preferred, ask.count // ask.slice)
        if takes is None:
            return None
        pods = len({pool.pod_of[leaf] for leaf, _ in takes})
        cost = LEAF * len(takes) + self.weights.beta * (pods - 1)
        return self._taken(view, pool, ask, hidden, takes, cost, pods)

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
                return self._taken(view, pool, ask, hidden, takes, LEAF * len(inside), 1, removed)
            if ask.required == "pod":
                return None
        best = several(pool, units, self.weights.beta)
        if best is None:
            return None
        pods = len({pool.pod_of[leaf] for leaf in best[1]})
        takes = fill(pool.free, best[1], units)
        return self._taken(view, pool, ask, hidden, takes, best[0], pods, removed)

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
        removed = sum(map(free.__getitem__, closed)) * ask.slice
        if leaf in closed:
            leaf = one_leaf_except(pool, units, pool.by_pod(closed))
        if leaf is not None:
            return self._taken(view, pool, ask, hidden, ((leaf, units),), LEAF, 1, removed)
        if pool.total * ask.slice - removed < ask.count:
            return None
        aside = {x: 0 for x in closed if free[x]}
        return self._over_leaves(view, pool.but(aside), ask, hidden, removed)

    def _beside(self, view: View, pool: Pool, ask: Ask, hidden: Mapping[int, int]) -> Decision | None:
        """Beside the nodes that stay: their leaves first, the failed node's before all, then as few new as can be."""
        numbers = self.numbers
        stay = {leaf: bits.bit_count() for leaf, bits in numbers.masks(ask.near).items()}
        units = ask.count // ask.slice
        if not stay or ask.required == "node":
            return None if stay else self._decide(view, pool, ask, hidden)
        pods = {pool.pod_of[leaf] for leaf in stay}
        if (ask.required == "leaf" and len(stay) > 1) or (ask.required == "pod" and len(pods) > 1):
            return None
        shared = self.closed_to(ask.terms)
        apart = {x: 0 for x in shared if pool.free[x]}
        removed = sum([pool.free[x] for x in apart]) * ask.slice
        pool = pool.but(apart)
        lost = {numbers.leaf_of[n] for n in ask.failed if n in numbers.leaf_of}
        takes: list[tuple[int, int]] = []
        for leaf in sorted(stay, key=lambda x: (x not in lost, -stay[x], pool.free[x], x)):
            take = min(units, pool.free[leaf])
            if take:
                takes.append((leaf, take))
                units -= take
            if not units:
                return self._taken(view, pool, ask, hidden, tuple(sorted(takes)), 0, len(pods), removed)
        if ask.required == "leaf":
            return None
        elsewhere = [p for p in range(pool.pods) if p not in pods] if ask.required == "pod" else []
        aside = {x: 0 for p in elsewhere for x in range(pool.pod_start[p], pool.pod_start[p + 1])}
        rest = pool.but(aside | dict.fromkeys(stay, 0))
        best = several(rest, units, self.weights.beta, frozenset(pods))
        if best is None:
            return None
        takes += fill(rest.free, best[1], units)
        pods |= {pool.pod_of[leaf] for leaf in best[1]}
        return self._taken(view, pool, ask, hidden, tuple(sorted(takes)), best[0], len(pods), removed)

    def _taken(
        self,
        view: View,
        pool: Pool,
        ask: Ask,
        hidden: Mapping[int, int],
        takes: Takes,
        cost: int,
        pods: int,
        removed: int = 0,
    ) -> Decision:
        available, free = self.available, pool.free
        total = pool.total if ask.slice == 1 else view.count_free(available)
        if len(takes) == 1 and not hidden:
            leaf, units = takes[0]
            bits = ((leaf, view.take(leaf, available[leaf], units)),)
            return self.decided(view, ask, bits, cost, free[leaf] - units, pods, total, removed)
        bits = tuple([(x, view.take(x, available[x] & ~hidden.get(x, 0), n)) for x, n in takes])
        leftover = sum([free[x] - n for x, n in takes])
        return self.decided(view, ask, bits, cost, leftover, pods, total, removed)

    def _without(self, view: View, ask: Ask, hidden: Mapping[int, int]) -> tuple[Pool, Mapping[int, int]]:
        """The view's pool without the nodes that are hidden, excluded or failed; and these nodes, by leaf."""
        out = self.numbers.masks((*ask.exclude, *ask.failed))
        for leaf, bits in hidden.items():
            out[leaf] = out.get(leaf, 0) | bits
        size, available, mask = ask.slice, self.available, view.mask
        rooms = {x: (available[x] & mask[x] & ~bits).bit_count() // size for x, bits in out.items()}
        return view.pool.but(rooms), out
