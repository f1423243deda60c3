"""Placement in time: what an order gets in a window (`weft.planning.queue.windows`), and its earliest start."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.model.errors import ConflictError
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER, Entry, Words
from weft.planning.place.choose import from_pool
from weft.planning.place.decision import Decision
from weft.planning.place.solver import Pool, rivals, tightest
from weft.planning.place.view import View
from weft.planning.place.weighinput import OWN
from weft.planning.queue.windows import Windows, check_window

FEW = 24
"""Up to this many reservations are examined one by one; more are counted by leaf with numpy."""


@dataclass(frozen=True, slots=True)
class Start:
    """When an order can start, and on which nodes."""

    at: float
    decision: Decision


class Timeline(Windows):
    """Decisions in time."""

    def places_of(self, nodes: Iterable[str]) -> tuple[str, ...]:
        """What is counted of these nodes: themselves, or places on those that are shared."""
        return tuple(nodes)

    def start(self, ask: Ask, now: float, end: float = FOREVER) -> Decision | None:
        """Take nodes now, avoiding every reservation until `end`; None if there are none."""
        decision = self.decide(ask, now, end)
        if decision is not None:
            self.engine.ledger.commit(decision)
            self.leases.add(Entry(now, ask.pod, end, decision.bits, ask.terms))
        return decision

    def decide(self, ask: Ask, now: float, end: float) -> Decision | None:
        """The best nodes that are free now and not reserved before `end`; changes nothing."""
        check_window(now, end)
        aside = [c for project, c in self._aside.items() if project != ask.project]
        many = sum(len(c) for c in (self.reservations, *aside)) > FEW
        if many and not ask.near:
            return self._in_window(ask, now, end, present=True)
        hidden, view, free = (
            self._kept(ask.terms, now, end),
            self.engine.ledger.view(ask),
            self.engine.ledger.available,
        )
        ask = self._at_home(ask, now, end, lambda x: free[x] & view.mask[x] & ~hidden.get(x, 0))
        return self.engine.decide(ask, hidden, self._besides(ask, now, end, present=True))

    def at(self, ask: Ask, start: float, end: float) -> Decision | None:
        """The best nodes for a future window, if no lease is extended; changes nothing."""
        check_window(start, end)
        return self._in_window(ask, start, end, present=False)

    def reserve(self, ask: Ask, start: float, end: float) -> Decision | None:
        """Book nodes for a future window; None if there are none."""
        if self.reservations.of(ask.pod):
            raise ConflictError(f"pod {ask.pod} has a reservation already: cancel it first")
        decision = self.at(ask, start, end)
        if decision is not None:
            self.reservations.add(Entry(start, ask.pod, end, decision.bits, ask.terms))
        return decision

    def cancel(self, pod: str) -> None:
        """Cancel the reservation; fine if there is none."""
        self.reservations.remove(pod)

    def begin(self, pod: str) -> Entry:
        """A reservation becomes a lease. Raises ConflictError if a node of it is still held or out of order."""
        entries = self.reservations.of(pod)
        if not entries:
            raise ConflictError(f"pod {pod} has no reservation")
        entry = entries[0]
        available = self.engine.ledger.available
        gone = [
            n
            for leaf, bits in entry.bits
            for n in self.engine.ledger.numbers.names(leaf, bits & ~available[leaf])
        ]
        if gone:
            raise ConflictError(f"pod {pod}: {', '.join(gone)} not free at the start of its reservation")
        nodes = [n for leaf, bits in entry.bits for n in self.engine.ledger.numbers.names(leaf, bits)]
        self.engine.ledger.hold(pod, nodes, entry.terms)
        self.reservations.remove(pod)
        self.leases.add(entry)
        return entry

    def end(self, pod: str) -> None:
        """The pod releases everything, now."""
        self.leases.remove(pod)
        self.engine.ledger.release(pod)

    def earliest(
        self, ask: Ask, duration: float, begin: float, until: float = FOREVER, now: float | None = None
    ) -> Start | None:
        """The first moment from `begin` at which the order fits for its whole duration; None: never, as far as known.

        Args:
            until: when it ends at the latest, however late it starts.
            now: the present, if `begin` is later: what is free now counts only for a start now.

        Only ends can make room, so only they are tried; those after which the leases alone still leave no room are
        skipped by bisection, since leases only end. So are those by which too few nodes end to make up for what was
        short before, unless leaves are closed to the order: an end may open a whole leaf.
        """
        if until <= begin:
            return None
        present = now is None or begin <= now
        first = self.decide if present else self.at
        if (decision := first(ask, begin, min(begin + duration, until))) is not None:
            return Start(begin, decision)
        moments, ended = self.ends(begin, until)
        enough, view = 0, self.engine.ledger.view(ask)
        for i in range(
            bisect_left(moments, True, key=lambda moment: self._has_room(ask, moment)), len(moments)
        ):
            if ended[i] < enough:
                continue
            start, end = moments[i], min(moments[i] + duration, until)
            left, closed = self.left(ask, view, start, end, present=False)
            if (short := ask.held - int(np.bitwise_count(left).sum(dtype=np.int64))) > 0:
                enough = 0 if closed else ended[i] + short
            elif decision := self._of_left(ask, view, left, start, end, present=False):
                return Start(start, decision)
        return None

    def _has_room(self, ask: Ask, moment: float) -> bool:
        """Whether the order would fit at that moment with only the current leases."""
        self.looked += 1
        view = self.engine.ledger.view(ask)
        healthy, _ = self._healthy(view)
        left = healthy & ~self.leases.taken(moment, FOREVER)
        left[list(self.leases.leaves_at_odds(ask.terms, moment, FOREVER))] = 0
        return self._fits(ask, view, left, self.besides_leases(ask, moment))

    def _at_home(self, ask: Ask, start: float, end: float, free: Callable[[int], int]) -> Ask:
        """The ask with a preference for free nodes (leaf -> nodes) that are reserved for its project."""
        taken = c.taken_bits(start, end) if (c := self._aside.get(ask.project)) else {}
        own = {leaf: mine for leaf, bits in taken.items() if (mine := bits & free(leaf))}
        return (
            replace(ask, preferences=(*ask.preferences, self.engine.weigher.preferring(own, OWN)))
            if own
            else ask
        )

    def _in_window(self, ask: Ask, start: float, end: float, present: bool) -> Decision | None:
        view = self.engine.ledger.view(ask)
        left, _ = self.left(ask, view, start, end, present)
        return self._of_left(ask, view, left, start, end, present)

    def _of_left(
        self, ask: Ask, view: View, left: Words, start: float, end: float, present: bool
    ) -> Decision | None:
        """The best of the nodes that are left in a window; the order and its spares are placed together."""
        gang = replace(ask, count=ask.held, spare=0) if ask.spare else ask
        gang = self._at_home(gang, start, end, lambda leaf: self.bits_of(left, leaf))
        found = self._fitting(gang, view, left, self._besides(ask, start, end, present))
        return found._replace(size=ask.count) if found and ask.spare else found

    def _fitting(self, ask: Ask, view: View, left: Words, extra_load: Mapping[int, int]) -> Decision | None:
        """The best of these nodes; `extra_load` is as for `Engine.decide`."""
        if ask.exclude:
            left = left & ~self.reservations.words(self.engine.ledger.numbers.masks(ask.exclude))
        if ask.in_one_domain:
            fits = bool((self._in_domains(left) >= ask.count).any())
            found = self.engine.domains.choose(ask, lambda leaf: self.bits_of(left, leaf)) if fits else None
            if found is not None or ask.required == "nvlink_domain":
                return found
            ask = replace(ask, preferred="leaf")
        return self._choose(view, ask, left, self._units(view, left), extra_load)

    def _fits(self, ask: Ask, view: View, left: Words, extra_load: Mapping[int, int]) -> bool:
        """Whether `_fitting` finds any; without choosing if counting is enough."""
        if ask.gbps or ask.exclude or ask.required not in ("leaf", "block", "site"):
            return self._fitting(ask, view, left, extra_load) is not None
        units, need = self._units(view, left), ask.held // ask.slice
        return self._could_fit(view, ask, units, need, bool((units >= need).any()))

    def _choose(
        self, view: View, ask: Ask, left: Words, units: Words, extra_load: Mapping[int, int]
    ) -> Decision | None:
        need = ask.count // ask.slice
        engine = self.engine
        if ask.preferences and engine.policy is None:
            return self._weighed(view, ask, left, units, extra_load)
        fits = np.flatnonzero(units >= need)
        if len(fits) and engine.policy is None:
            leaf = int(fits[int(units[fits].argmin())])
            takes = ((leaf, need),)
            cost, blocks, leftover = 1000, 1, int(units[leaf]) - need
            others = tightest(fits[fits != leaf], units, need)
        else:
            if not self._could_fit(view, ask, units, need, bool(len(fits))):
                return None
            pool = Pool(view.pool.full, [int(u) for u in units.tolist()], view.pool.block_start)
            choice = from_pool(pool, need, engine.ledger.weights, ask.required, ask.preferred, engine.policy)
            if choice is None:
                return None
            takes, cost, blocks, leftover = choice.takes, choice.cost, choice.blocks, choice.leftover
            others = rivals(pool, need, [leaf for leaf, _ in takes], ask.required == "site")
        unsure = len(takes) > 1 and (ask.gbps or engine.ledger.deep) and engine.policy is None
        if unsure and not engine.weigher.allowed(ask, {leaf: n * ask.slice for leaf, n in takes}, extra_load):
            return self._weighed(view, ask, left, units, extra_load)
        bits = tuple((leaf, view.take(leaf, self.bits_of(left, leaf), n)) for leaf, n in takes)
        free = int(units.sum(dtype=np.int64))
        return engine.ledger.decided(view, ask, bits, cost, leftover, blocks, free, others=others)

    def _weighed(
        self, view: View, ask: Ask, left: Words, units: Words, extra_load: Mapping[int, int]
    ) -> Decision | None:
        """A decision that also weighs preferences, halls and uplinks."""
        pool = Pool(view.pool.full, [int(u) for u in units.tolist()], view.pool.block_start)
        return self.engine.weigher.weighed(view, pool, ask, lambda leaf: self.bits_of(left, leaf), extra_load)

    def _could_fit(self, view: View, ask: Ask, units: Words, need: int, one_leaf: bool) -> bool:
        """Whether a domain of the required level has the capacity, before anything slower is done."""
        if ask.required in ("node", "leaf"):
            return one_leaf
        if ask.required == "block":
            starts = view.pool.block_start[:-1]
            return bool(np.add.reduceat(units, starts, dtype=np.int64).max() >= need)
        return int(units.sum(dtype=np.int64)) >= need

    @cached_property
    def _domains(self) -> tuple[NDArray[np.intp], Words, NDArray[np.int64]]:
        """Each NVLink domain's leaf, its nodes as words of that leaf, and their number."""
        row = self.leases.words({})[:1]
        found = [(leaf, d) for leaf, ds in enumerate(self.engine.ledger.numbers.domains) for d in ds]
        words = b"".join(d.to_bytes(row.nbytes, "little") for _, d in found)
        return (
            np.array([leaf for leaf, _ in found], np.intp),
            np.frombuffer(words, row.dtype).reshape(len(found), row.shape[1]),
            np.array([d.bit_count() for _, d in found], np.int64),
        )

    def _in_domains(self, left: Words) -> NDArray[np.int64]:
        """How many of these nodes each NVLink domain has."""
        leaves, words, _ = self._domains
        return np.bitwise_count(left[leaves] & words).sum(axis=1, dtype=np.int64)

    def _units(self, view: View, left: Words) -> Words:
        """Nodes of each leaf, or slices."""
        size = view.lens.slice
        if view.lens.within != "leaf":
            leaves, _, sizes = self._domains
            free = self._in_domains(left)
            whole = view.lens.within == "whole_nvlink_domain"
            rooms = (free == sizes) & (sizes == size) if whole else free // size
            return np.bincount(leaves, rooms, len(left)).astype(np.uint64)
        counts = np.bitwise_count(left)
        units = counts[:, 0] if counts.shape[1] == 1 else counts.sum(axis=1)
        return units // size if size > 1 else units
