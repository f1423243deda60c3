"""Who holds what, what is out of service, and every view of it, updated with each change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.model.errors import ConflictError, InputError
from weft.model.localityorder import SliceWithin
from weft.planning.fabric.topology import Topology
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Takes, Weights
from weft.planning.place.decision import Decision
from weft.planning.place.floor import Floor
from weft.planning.place.neighbours import Neighbours
from weft.planning.place.sharing import NO_TERMS, Terms, crossing
from weft.planning.place.solver import Rival
from weft.planning.place.state import NodeNeeds, Traits
from weft.planning.place.view import DYNAMIC, KeptViews, Lens, View


class Ledger:
    """The state of one fabric; the arguments are those of `Engine`.

    Attributes:
        available: by leaf, the nodes that are neither held nor blocked.
        held: pod -> leaf -> its nodes.
        version: grows with every change; `health_version` with every block and unblock.
        mirror: `available` as machine words, if a timeline keeps them.
        deep: whether the fabric has more than one hall or building.
        carried: leaf -> Gb/s of its uplinks that are guaranteed to pods.
        neighbours: which projects are on which leaf, and which they keep away.
        dedicated: leaf -> project that alone may use it.
        kept: views of an engine that only decides; None: it makes its own.
        unfit: what is booted -> node -> why its host won't do, as in an occupancy.
    """

    def __init__(
        self,
        topology: Topology,
        traits: Mapping[str, Traits] | None = None,
        weights: Weights | None = None,
        dedicated: Mapping[str, str] | None = None,
        floor: Floor | None = None,
    ) -> None:
        plan = floor or Floor.of(topology, traits)
        self.numbers = numbers = plan.numbers
        self.topology = topology
        self.tree = plan.tree
        self.deep = self.tree.deep
        self.weights = weights or Weights()
        self.traits = plan.traits
        self._groups = plan.groups
        self.dedicated = dict(dedicated or {})
        self._dedicated = {numbers.leaves.index(leaf): project for leaf, project in self.dedicated.items()}
        self._owners = frozenset(self._dedicated.values())
        self.available = list(numbers.every)
        self._blocked: dict[str, dict[str, str]] = {}
        self._views: dict[Lens, View] = {}
        self._last: tuple[NodeNeeds, int, SliceWithin, View] | None = None
        self.unfit: Mapping[str, Mapping[str, str]] = {}
        self.kept: KeptViews | None = None
        self.held: dict[str, dict[int, int]] = {}
        self._terms: dict[str, Terms] = {}
        self.neighbours = Neighbours()
        self._gbps: dict[str, int] = {}
        self._carried: dict[str, dict[int, int]] = {}
        self.carried: dict[int, int] = {}
        self.version = 0
        self.health_version = 0
        self.mirror: NDArray[np.unsignedinteger] | None = None

    @property
    def views(self) -> tuple[View, ...]:
        """Every view made so far."""
        return tuple(self._views.values())

    def view(self, ask: Ask) -> View:
        """The site as this ask sees it, made once for each kind of ask."""
        last = self._last
        if (
            last is not None
            and last[0] is ask.kind
            and last[1] == ask.slice
            and last[2] is ask.within
            and not self._owners
        ):
            return last[3]
        unfit = self.unfit.get(ask.kind.boot, {}) if self.unfit else {}
        kind = ask.kind if unfit or not ask.kind.boot else replace(ask.kind, boot="")
        lens = Lens(kind, ask.slice, ask.project if ask.project in self._owners else None, ask.within)
        view = self._views.get(lens)
        if view is None:
            view = self._new_view(lens, unfit)
            for project, leaves in self.neighbours.away.items():
                for leaf in leaves:
                    view.keep_away(project, leaf, 1)
            self._views[lens] = view
        self._last = (ask.kind, ask.slice, ask.within, view)
        return view

    def decided(
        self,
        view: View,
        ask: Ask,
        bits: Takes,
        cost: int,
        leftover: int,
        blocks: int,
        free: int,
        removed: int = 0,
        size: int | None = None,
        others: tuple[Rival, ...] = (),
    ) -> Decision:
        """The decision as a value, with the figures of this moment."""
        size = ask.count if size is None else size
        numa = -1
        if view.one_numa is not None and any(b & view.parts[leaf] for leaf, b in bits):
            numa = sum([(b & view.one_numa[leaf]).bit_count() for leaf, b in bits])
        return Decision._make((
            self.numbers, ask.pod, ask.terms, size, bits, cost, leftover, blocks, self.version, view.reports,
            free, removed, self.weights, (1, 1, blocks), None, numa,
            others, bool(ask.near), 0, "",
        ))  # fmt: skip

    def _new_view(self, lens: Lens, unfit: Mapping[str, str]) -> View:
        def make() -> View:
            view = View(lens, self.numbers, self._groups, self.available, self._dedicated, unfit)
            view.health(self.numbers, self._blocked)
            return view

        return make() if unfit or self.kept is None else self.kept.view(lens, self.available, make)

    def commit(self, decision: Decision) -> None:
        """Take what was decided. Raises ConflictError, changing nothing, if any of it is gone."""
        available = self.available
        for leaf, bits in decision.bits:
            if available[leaf] & bits != bits:
                raise ConflictError(f"pod {decision.pod}: its nodes were taken since; decide again")
        self.take(decision.pod, decision.bits, decision.terms)

    def hold(self, pod: str, nodes: Iterable[str], terms: Terms = NO_TERMS) -> None:
        """Record that the pod holds these nodes, blocked or not. Raises ConflictError if another holds one."""
        masks = self.numbers.masks(nodes)
        for other, held in self.held.items():
            for leaf, bits in masks.items():
                if held.get(leaf, 0) & bits:
                    names = ", ".join(self.numbers.names(leaf, held[leaf] & bits))
                    raise ConflictError(f"pod {pod}: {names} held by pod {other}")
        self.take(pod, tuple(masks.items()), terms)

    def take(self, pod: str, places: Iterable[tuple[int, int]], terms: Terms = NO_TERMS) -> None:
        """Record (leaf, bits) as the pod's on these terms, without checks."""
        held = self.held.setdefault(pod, {})
        terms, gbps = self._on_terms(pod, terms), terms.gbps
        available, views, mirror = self.available, self._views.values(), self.mirror
        away_on, counted = self.neighbours.away_on, bool(terms.project)
        for leaf, bits in places:
            held[leaf] = held.get(leaf, 0) | bits
            if counted:
                self._count(leaf, bits.bit_count(), terms)
            left = available[leaf] & ~bits
            available[leaf] = left
            if mirror is not None:
                mirror[leaf, 0] = left
            away = away_on.get(leaf, ())
            for view in views:
                view.refresh(leaf, left, away)
        if gbps:
            self._gbps[pod] = gbps
        if self._gbps:
            self._carry(pod)
        self.version += 1

    def _on_terms(self, pod: str, terms: Terms) -> Terms:
        """The pod's terms from now on: these, or the previous ones if these are empty."""
        known = self._terms.get(pod)
        if terms == known:
            return terms
        if terms == NO_TERMS:
            return known or terms
        self._terms[pod] = terms
        if known is not None:
            for leaf, bits in self.held[pod].items():
                self._count(leaf, -bits.bit_count(), known)
                self._count(leaf, bits.bit_count(), terms)
        return terms

    def _count(self, leaf: int, nodes: int, terms: Terms) -> None:
        for project in self.neighbours.count(leaf, nodes, terms):
            for view in self._views.values():
                view.keep_away(project, leaf, 1 if nodes > 0 else -1)

    def release(self, pod: str, nodes: Iterable[str] | None = None) -> None:
        """Return these of the pod's nodes, or all. Not an error if it holds none: then it is already released."""
        held = self.held.get(pod, {})
        places = dict(held) if nodes is None else self.numbers.masks(nodes)
        terms = self._terms.get(pod, NO_TERMS)
        for leaf, asked in places.items():
            bits = held.get(leaf, 0) & asked
            if not bits:
                continue
            held[leaf] ^= bits
            if not held[leaf]:
                del held[leaf]
            self._count(leaf, -bits.bit_count(), terms)
            for node in self._blocked_among(leaf, bits):
                bits &= ~self.numbers.bit[node]
            self._changed(leaf, self.available[leaf] | bits)
        if not held:
            self.held.pop(pod, None)
            self._terms.pop(pod, None)
        if self._gbps:
            self._carry(pod)
        self.version += 1

    def _carry(self, pod: str) -> None:
        """Recount what uplinks carry for the pod, from the nodes that it holds."""
        for leaf, gbps in self._carried.pop(pod, {}).items():
            self.carried[leaf] -= gbps
        held = self.held.get(pod)
        if not held:
            self._gbps.pop(pod, None)
        elif pod in self._gbps:
            nodes = {leaf: bits.bit_count() for leaf, bits in held.items()}
            self._carried[pod] = mine = crossing(nodes, self._gbps[pod])
            for leaf, gbps in mine.items():
                self.carried[leaf] = self.carried.get(leaf, 0) + gbps

    def carried_for_others(self, pod: str, extra_load: Mapping[int, int]) -> Callable[[int], int]:
        """Leaf -> Gb/s of its uplinks that are guaranteed to other pods: now, and `extra_load` (below 0: less)."""
        own = self._carried.get(pod, {})
        return lambda leaf: self.carried.get(leaf, 0) - own.get(leaf, 0) + extra_load.get(leaf, 0)

    def disable(self, node: str, why: str, reason: str) -> None:
        """Take a node out of service: `why` is one of DYNAMIC. It stays out when a pod that holds it is released."""
        if why not in DYNAMIC:
            raise InputError("why", why, f"one of {', '.join(DYNAMIC)}")
        leaf, bit = self._where(node)
        self._blocked.setdefault(node, {})[why] = reason
        self._changed(leaf, self.available[leaf] & ~bit)
        self._recount()

    def enable(self, node: str, why: str) -> None:
        """Return a node to service as far as this reason is concerned."""
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
        away = self.neighbours.away_on.get(leaf, ())
        for view in self._views.values():
            view.refresh(leaf, available, away)

    def _where(self, node: str) -> tuple[int, int]:
        if node not in self.numbers.leaf_of:
            raise InputError("node", node, "a node on this fabric")
        return self.numbers.leaf_of[node], self.numbers.bit[node]

    def _blocked_among(self, leaf: int, bits: int) -> list[str]:
        if not self._blocked:
            return []
        return [node for node in self.numbers.names(leaf, bits) if node in self._blocked]

    def _recount(self) -> None:
        for view in self._views.values():
            view.health(self.numbers, self._blocked)
        self.version += 1
        self.health_version += 1

    def closed_to(self, terms: Terms) -> set[int]:
        """Leaves closed to an order on these terms, because of who holds nodes there now."""
        return set[int]().union(*self.neighbours.against(terms))

    def blocked_bits(self) -> dict[int, int]:
        """Leaf -> nodes that are blocked, for whatever reason."""
        return self.numbers.masks(self._blocked)
