"""The engine: the state of a fabric kept so that a decision takes microseconds, at any size.

`decide` changes nothing; `commit` takes what was decided; `release` gives it back and restores the state exactly.
An engine serves one fabric and one thread.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Self

from weft.model.errors import InputError
from weft.model.placement import Occupancy
from weft.model.site import Site
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Policy, Takes, Weights
from weft.planning.place.decision import Decision
from weft.planning.place.exact import LEAF
from weft.planning.place.ledger import Ledger
from weft.planning.place.solve import fill, one_leaf, one_leaf_within, one_pod, several, tightest_of_pods
from weft.planning.place.state import Traits, traits_of
from weft.planning.place.view import View
from weft.planning.topology import Topology


class Engine(Ledger):
    """The state of one fabric.

    Args:
        topology: where the nodes stand.
        traits: what each node is; none: all the same.
        weights: the operator's settings.
        dedicated: leaf -> project that alone may use it.
        policy: another rule, to compare with.
    """

    def __init__(
        self,
        topology: Topology,
        traits: Mapping[str, Traits] | None = None,
        weights: Weights | None = None,
        dedicated: Mapping[str, str] | None = None,
        policy: Policy | None = None,
    ) -> None:
        super().__init__(topology, traits, weights, dedicated, policy)
        self._hidden: Mapping[int, int] = {}

    @classmethod
    def of(cls, site: Site, fabric: str, occupancy: Occupancy, weights: Weights | None = None) -> Self:
        """An engine with the site's state: maintenance from the site, the rest from the occupancy."""
        topology = Topology.of(site, fabric)
        dedicated = {leaf: p for leaf, p in occupancy.dedicated.items() if leaf in topology.leaves}
        engine = cls(topology, traits_of(site, topology), weights, dedicated)
        maintenance = {n.name: n.maintenance for n in site.nodes if n.maintenance is not None}
        for why, reasons in (
            ("maintenance", maintenance),
            ("down", occupancy.down),
            ("quarantine", occupancy.quarantined),
            ("segments", occupancy.segments),
        ):
            for node, reason in reasons.items():
                if node in topology.stands:
                    engine.block(node, why, reason)
        pods: dict[tuple[str, str], list[str]] = {}
        for node, pod in occupancy.busy.items():
            if node in topology.stands:
                pods.setdefault((pod, occupancy.projects.get(node, "")), []).append(node)
        for (pod, project), nodes in pods.items():
            engine.hold(pod, nodes, project)
        return engine

    def decide(self, ask: Ask, hidden: Mapping[int, int] | None = None) -> Decision | None:
        """The best nodes for this ask, or None; changes nothing.

        Args:
            hidden: leaf -> bits of nodes that can't be had for the time that is asked for (reservations).

        Raises:
            InputError: a count that is not a multiple of the slice.
        """
        if ask.count < 1 or ask.count % ask.slice:
            raise InputError(
                "count", ask.count, f"a multiple of the slice ({ask.slice}), at least {ask.slice}"
            )
        view = self.view(ask)
        if ask.exclude or ask.failed:
            out = self.numbers.masks((*ask.exclude, *ask.failed))
            hidden = {
                leaf: out.get(leaf, 0) | (hidden or {}).get(leaf, 0) for leaf in {*out, *(hidden or ())}
            }
        decide = self._beside if ask.near else self._decide
        if hidden:
            with self._without(view, hidden):
                return decide(view, ask)
        return decide(view, ask)

    def place(self, ask: Ask) -> Decision | None:
        """Decide and commit."""
        decision = self.decide(ask)
        if decision is not None:
            self.take(decision.pod, decision.project, decision.bits)
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
        if ask.slice > 1 or ask.exclude or ask.apart_from:
            near = tuple(n for x, b in held.items() for n in numbers.names(x, b) if n != failed)
            return self.decide(replace(ask, count=1, slice=1, near=near, failed=(failed,)))
        view = self.view(ask)
        found = self._next_to(view, ask, held, leaf, numbers.bit[failed])
        if found is None:
            return None
        chosen, cost = found
        bits = view.take(chosen, self.available[chosen] & ~(numbers.bit[failed] if chosen == leaf else 0), 1)
        pool = view.pool
        return self.decided(view, ask, ((chosen, bits),), cost, pool.free[chosen] - 1, 1, pool.total, size=1)

    def _next_to(
        self, view: View, ask: Ask, held: Mapping[int, int], failed: int, bit: int
    ) -> tuple[int, int] | None:
        """(leaf, cost) for one node beside those that a pod holds, less the failed one on leaf `failed`."""
        pool = view.pool
        stay = {leaf: bits for leaf, bits in held.items() if leaf != failed or bits & ~bit}
        free = pool.free
        if failed in stay and self.available[failed] & view.mask[failed] & ~bit:
            return failed, 0
        own = [leaf for leaf in stay if free[leaf] and leaf != failed]
        pods = {pool.pod_of[leaf] for leaf in stay}
        if (ask.required == "leaf" and len(stay) > 1) or (ask.required == "pod" and len(pods) > 1):
            return None
        if own:
            return min(own, key=lambda x: (-stay[x].bit_count(), free[x], x)), 0
        if ask.required == "leaf" and stay:
            return None
        near = tightest_of_pods(pool, pods)
        if near is not None or (ask.required == "pod" and stay):
            return None if near is None else (near, LEAF)
        leaf = one_leaf(pool, 1)
        return None if leaf is None else (leaf, LEAF + (self.weights.beta if stay else 0))

    def _decide(self, view: View, ask: Ask) -> Decision | None:
        pool, units = view.pool, ask.count // ask.slice
        if units > pool.total or (ask.required == "node" and ask.count > 1):
            return None
        if self.policy:
            return self._by_policy(self.policy, view, ask, units)
        shared = self.leaves_of(ask.apart_from, ask.project) if ask.apart_from else None
        if shared:
            return self._apart(view, ask, units, shared)
        leaf = one_leaf(pool, units)
        if leaf is not None:
            return self._taken(view, ask, ((leaf, units),), LEAF, 1)
        return self._over_leaves(view, ask, units)

    def _by_policy(self, policy: Policy, view: View, ask: Ask, units: int) -> Decision | None:
        takes = policy(view.pool, ask.required, ask.preferred, units)
        if takes is None:
            return None
        pods = len({view.pool.pod_of[leaf] for leaf, _ in takes})
        return self._taken(view, ask, takes, LEAF * len(takes) + self.weights.beta * (pods - 1), pods)

    def _over_leaves(self, view: View, ask: Ask, units: int) -> Decision | None:
        pool = view.pool
        if ask.required in ("node", "leaf") or units > pool.total:
            return None
        if ask.required == "pod" or ask.preferred == "pod":
            inside = one_pod(pool, units)
            if inside is not None:
                return self._taken(view, ask, fill(pool.free, inside, units), LEAF * len(inside), 1)
            if ask.required == "pod":
                return None
        best = several(pool, units, self.weights.beta)
        if best is None:
            return None
        pods = len({pool.pod_of[leaf] for leaf in best[1]})
        return self._taken(view, ask, fill(pool.free, best[1], units), best[0], pods)

    def _apart(self, view: View, ask: Ask, units: int, shared: Iterable[int]) -> Decision | None:
        """Not on these leaves: for one leaf by masks, for several with their room put aside for the moment."""
        pool, start = view.pool, self.numbers.pod_start
        allowed = [-1] * pool.pods
        removed = 0
        for leaf in shared:
            pod = pool.pod_of[leaf]
            allowed[pod] &= ~(1 << (leaf - start[pod]))
            removed += pool.free[leaf]
        leaf = one_leaf_within(pool, units, allowed, (1 << pool.pods) - 1)
        if leaf is not None:
            return self._taken(view, ask, ((leaf, units),), LEAF, 1, removed)
        with _put_aside(view, dict.fromkeys(shared, 0)):
            return self._over_leaves(view, ask, units)

    def _beside(self, view: View, ask: Ask) -> Decision | None:
        """Beside the nodes that stay: their leaves first, the failed node's before all, then as few new as can be."""
        numbers, pool = self.numbers, view.pool
        stay = {leaf: bits.bit_count() for leaf, bits in numbers.masks(ask.near).items()}
        units = ask.count // ask.slice
        if not stay or ask.required == "node":
            return None if stay else self._decide(view, ask)
        pods = {pool.pod_of[leaf] for leaf in stay}
        if (ask.required == "leaf" and len(stay) > 1) or (ask.required == "pod" and len(pods) > 1):
            return None
        lost = {numbers.leaf_of[n] for n in ask.failed if n in numbers.leaf_of}
        takes: list[tuple[int, int]] = []
        for leaf in sorted(stay, key=lambda x: (x not in lost, -stay[x], pool.free[x], x)):
            take = min(units, pool.free[leaf])
            if take:
                takes.append((leaf, take))
                units -= take
            if not units:
                return self._taken(view, ask, tuple(sorted(takes)), 0, len(pods))
        if ask.required == "leaf":
            return None
        elsewhere = [p for p in range(pool.pods) if p not in pods] if ask.required == "pod" else []
        aside = {x: 0 for p in elsewhere for x in range(pool.pod_start[p], pool.pod_start[p + 1])}
        with _put_aside(view, aside | dict.fromkeys(stay, 0)):
            best = several(pool, units, self.weights.beta, frozenset(pods))
            more = () if best is None else fill(pool.free, best[1], units)
        if best is None:
            return None
        pods |= {pool.pod_of[leaf] for leaf in best[1]}
        return self._taken(view, ask, tuple(sorted((*takes, *more))), best[0], len(pods))

    def _taken(self, view: View, ask: Ask, takes: Takes, cost: int, pods: int, removed: int = 0) -> Decision:
        available, hidden = self.available, self._hidden
        if hidden:
            bits = tuple((x, view.take(x, available[x] & ~hidden.get(x, 0), n)) for x, n in takes)
        else:
            bits = tuple((x, view.take(x, available[x], n)) for x, n in takes)
        free = view.pool.free
        leftover = -sum(n for _, n in takes)
        for leaf, _ in takes:
            leftover += free[leaf]
        total = view.pool.total if view.lens.slice == 1 else view.count_free(available)
        return self.decided(view, ask, bits, cost, leftover, pods, total, removed)

    def decided(
        self,
        view: View,
        ask: Ask,
        bits: Takes,
        cost: int,
        leftover: int,
        pods: int,
        free: int,
        removed: int = 0,
        size: int | None = None,
    ) -> Decision:
        """The decision as a value, with the figures of this moment."""
        size = ask.count if size is None else size
        return Decision(
            self.numbers, ask.pod, ask.project, size, bits, cost, leftover, pods, self.version,
            view.reports, view.healthy, free, removed, self.weights.pod,
        )  # fmt: skip

    @contextmanager
    def _without(self, view: View, hidden: Mapping[int, int]) -> Generator[None]:
        """Nodes out of the view for the moment."""
        self._hidden = hidden
        size = view.lens.slice
        available, mask = self.available, view.mask
        rooms = {
            leaf: (available[leaf] & mask[leaf] & ~bits).bit_count() // size for leaf, bits in hidden.items()
        }
        try:
            with _put_aside(view, rooms):
                yield
        finally:
            self._hidden = {}


@contextmanager
def _put_aside(view: View, rooms: Mapping[int, int]) -> Generator[None]:
    """Some leaves have this room for the moment."""
    pool = view.pool
    before = {leaf: pool.free[leaf] for leaf in rooms}
    for leaf, room in rooms.items():
        pool.set(leaf, room)
    try:
        yield
    finally:
        for leaf, room in before.items():
            pool.set(leaf, room)
