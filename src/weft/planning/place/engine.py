"""The engine: the state of a fabric kept so that a decision takes microseconds, at any size.

`decide` changes nothing; `commit` takes what was decided; `release` gives it back and restores the state exactly.
An engine serves one fabric and one thread.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from weft.model.errors import ConflictError, InputError
from weft.model.order import Level
from weft.model.placement import Occupancy, PlacementRequest
from weft.model.site import Site
from weft.planning.place.choose import Policy, Takes, Weights
from weft.planning.place.decision import Decision
from weft.planning.place.exact import LEAF
from weft.planning.place.solve import fill, one_leaf, one_leaf_within, one_pod, several
from weft.planning.place.state import Kind, Numbers, Traits, group_by_traits, traits_of
from weft.planning.place.view import DYNAMIC, Lens, View
from weft.planning.topology import Topology

ANY = Kind()


@dataclass(frozen=True, slots=True)
class Ask:
    """What the engine decides on.

    Attributes:
        count: nodes, all or none; a multiple of `slice`.
        slice: groups of so many nodes stay inside one leaf.
        apart_from: projects whose leaves are not shared.
        near: nodes of the same pod that stay.
        failed: nodes of the pod that are replaced; their leaves come first.
        exclude: nodes that must not be chosen.
    """

    pod: str
    count: int
    project: str = ""
    kind: Kind = ANY
    required: Level = "site"
    preferred: Level = "leaf"
    slice: int = 1
    apart_from: frozenset[str] = frozenset()
    near: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: PlacementRequest) -> Self:
        return cls(
            request.pod,
            request.count,
            request.project,
            Kind.of(request),
            request.required,
            request.preferred,
            near=request.near,
            failed=request.exclude if request.near else (),
            exclude=request.exclude,
        )


class Engine:
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
        self.numbers = numbers = Numbers.of(topology)
        self.weights = weights or Weights()
        self.policy = policy
        same = Traits()
        groups = group_by_traits(traits or dict.fromkeys(numbers.nodes, same), numbers.nodes)
        self._groups = {t: numbers.masks(nodes) for t, nodes in groups.items()}
        self._dedicated = {numbers.leaves.index(leaf): project for leaf, project in (dedicated or {}).items()}
        self._owners = frozenset(self._dedicated.values())
        self.available = list(numbers.every)
        self._blocked: dict[str, dict[str, str]] = {}
        self._views: dict[Lens, View] = {}
        self.held: dict[str, dict[int, int]] = {}
        self._project_of: dict[str, str] = {}
        self._stands_on: dict[str, dict[int, int]] = {}
        self._hidden: Mapping[int, int] = {}
        self.version = 0
        self.health_version = 0
        self.mirror: NDArray[np.unsignedinteger] | None = None

    @classmethod
    def of(cls, site: Site, fabric: str, occupancy: Occupancy, weights: Weights | None = None) -> Self:
        """An engine with the site's state: maintenance from the site, the rest from the occupancy."""
        topology = Topology.of(site, fabric)
        engine = cls(topology, traits_of(site, topology), weights)
        for node in site.nodes:
            if node.maintenance is not None and node.name in topology.stands:
                engine.block(node.name, "maintenance", node.maintenance)
        for node, reason in occupancy.quarantined.items():
            if node in topology.stands:
                engine.block(node, "quarantine", reason)
        pods: dict[str, list[str]] = {}
        for node, pod in occupancy.busy.items():
            if node in topology.stands:
                pods.setdefault(pod, []).append(node)
        for pod, nodes in pods.items():
            engine.hold(pod, nodes)
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

    def view(self, ask: Ask) -> View:
        """The site as this ask sees it, made once for each kind of ask."""
        lens = Lens(ask.kind, ask.slice, ask.project if ask.project in self._owners else None)
        view = self._views.get(lens)
        if view is None:
            view = View(lens, self.numbers, self._groups, self.available, self._dedicated)
            view.removed = self._count_removed(view)
            self._views[lens] = view
        return view

    def _decide(self, view: View, ask: Ask) -> Decision | None:
        pool, units = view.pool, ask.count // ask.slice
        if units > pool.total or (ask.required == "node" and ask.count > 1):
            return None
        if self.policy:
            return self._by_policy(self.policy, view, ask, units)
        shared = self._leaves_of(ask.apart_from, ask.project) if ask.apart_from else None
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
        return self.decided(view, ask, bits, cost, leftover, pods, view.pool.total, removed)

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
    ) -> Decision:
        """The decision as a value, with the figures of this moment."""
        return Decision(
            self.numbers,
            ask.pod,
            ask.project,
            ask.count,
            bits,
            cost,
            leftover,
            pods,
            self.version,
            view.static,
            view.removed,
            view.eligible,
            free,
            removed,
            self.weights.pod,
        )

    def blocked_bits(self) -> dict[int, int]:
        """Leaf -> nodes that are blocked, for whatever reason."""
        return self.numbers.masks(self._blocked)

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

    def commit(self, decision: Decision) -> None:
        """Take what was decided. Raises ConflictError, changing nothing, if any of it is gone."""
        available = self.available
        for leaf, bits in decision.bits:
            if available[leaf] & bits != bits:
                raise ConflictError(f"pod {decision.pod}: its nodes were taken since; decide again")
        self._hold(decision.pod, decision.project, decision.bits)

    def place(self, ask: Ask) -> Decision | None:
        """Decide and commit."""
        decision = self.decide(ask)
        if decision is not None:
            self._hold(decision.pod, decision.project, decision.bits)
        return decision

    def hold(self, pod: str, nodes: Iterable[str], project: str = "") -> None:
        """The pod has these nodes, blocked or not. Raises ConflictError if another holds one."""
        masks = self.numbers.masks(nodes)
        for other, held in self.held.items():
            for leaf, bits in masks.items():
                if held.get(leaf, 0) & bits:
                    names = ", ".join(self.numbers.names(leaf, held[leaf] & bits))
                    raise ConflictError(f"pod {pod}: {names} held by pod {other}")
        self._hold(pod, project, tuple(masks.items()))

    def _hold(self, pod: str, project: str, places: Iterable[tuple[int, int]]) -> None:
        held = self.held.setdefault(pod, {})
        if project:
            self._project_of[pod] = project
        stands = self._stands_on.setdefault(project, {}) if project else None
        available, views, mirror = self.available, self._views.values(), self.mirror
        for leaf, bits in places:
            held[leaf] = held.get(leaf, 0) | bits
            if stands is not None:
                stands[leaf] = stands.get(leaf, 0) + bits.bit_count()
            left = available[leaf] & ~bits
            available[leaf] = left
            if mirror is not None:
                mirror[leaf, 0] = left
            for view in views:
                view.refresh(leaf, left)
        self.version += 1

    def release(self, pod: str, nodes: Iterable[str] | None = None) -> None:
        """The pod gives back these nodes, or all. A pod that holds nothing is no error: it is released already."""
        held = self.held.get(pod, {})
        places = dict(held) if nodes is None else self.numbers.masks(nodes)
        project = self._project_of.get(pod, "")
        stands = self._stands_on.get(project, {})
        for leaf, asked in places.items():
            bits = held.get(leaf, 0) & asked
            if not bits:
                continue
            held[leaf] ^= bits
            if not held[leaf]:
                del held[leaf]
            if project:
                stands[leaf] -= bits.bit_count()
                if not stands[leaf]:
                    del stands[leaf]
            for node in self._blocked_among(leaf, bits):
                bits &= ~self.numbers.bit[node]
            self._changed(leaf, self.available[leaf] | bits)
        if not held:
            self.held.pop(pod, None)
            self._project_of.pop(pod, None)
        self.version += 1

    def block(self, node: str, why: str, reason: str) -> None:
        """Take a node out: `why` is one of DYNAMIC. It may be held by a pod; then it doesn't come back with it."""
        if why not in DYNAMIC:
            raise InputError("why", why, f"one of {', '.join(DYNAMIC)}")
        leaf, bit = self._where(node)
        self._blocked.setdefault(node, {})[why] = reason
        self._changed(leaf, self.available[leaf] & ~bit)
        self._recount()

    def unblock(self, node: str, why: str) -> None:
        """Give a node back as far as this reason goes."""
        leaf, bit = self._where(node)
        reasons = self._blocked.get(node, {})
        reasons.pop(why, None)
        if reasons:
            return
        self._blocked.pop(node, None)
        if not any(held.get(leaf, 0) & bit for held in self.held.values()):
            self._changed(leaf, self.available[leaf] | bit)
        self._recount()

    def _changed(self, leaf: int, available: int) -> None:
        self.available[leaf] = available
        if self.mirror is not None:
            self.mirror[leaf, 0] = available
        for view in self._views.values():
            view.refresh(leaf, available)

    def _where(self, node: str) -> tuple[int, int]:
        if node not in self.numbers.leaf_of:
            raise InputError("node", node, "a node that stands on this fabric")
        return self.numbers.leaf_of[node], self.numbers.bit[node]

    def _blocked_among(self, leaf: int, bits: int) -> list[str]:
        if not self._blocked:
            return []
        return [node for node in self.numbers.names(leaf, bits) if node in self._blocked]

    def _recount(self) -> None:
        for view in self._views.values():
            view.removed = self._count_removed(view)
        self.version += 1
        self.health_version += 1

    def _count_removed(self, view: View) -> dict[str, int]:
        """How many nodes each changing filter removed; a node counts for the first."""
        counts: dict[str, int] = dict.fromkeys(DYNAMIC, 0)
        for node, reasons in self._blocked.items():
            if view.mask[self.numbers.leaf_of[node]] & self.numbers.bit[node]:
                counts[next(why for why in DYNAMIC if why in reasons)] += 1
        return counts

    def _leaves_of(self, projects: Iterable[str], own: str) -> set[int]:
        return {leaf for p in projects if p != own for leaf in self._stands_on.get(p, ())}


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
