"""Placement in time: leases that end, reservations that start later, blocks set aside, the earliest start of an order.

Times are seconds of one clock, chosen by the caller; there is no clock here. A lease without an end is held for ever.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from weft.model.errors import ConflictError, InputError
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER, Calendar, Entry, Words
from weft.planning.place.choose import from_pool
from weft.planning.place.decision import Decision
from weft.planning.place.engine import Engine
from weft.planning.place.parts import OWN
from weft.planning.place.pool import Pool
from weft.planning.place.rivals import rivals, tightest
from weft.planning.place.sharing import Terms
from weft.planning.place.view import View

FEW = 24
"""So many reservations are looked through one by one; more are counted leaf by leaf with numpy."""


@dataclass(frozen=True, slots=True)
class Start:
    """When an order can start, and on which nodes."""

    at: float
    decision: Decision


class Timeline:
    """An engine with a calendar: `engine` is the state now, the calendars what is known of the future.

    Attributes:
        looked: how many windows were looked at so far.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        every = engine.numbers.every
        self.leases = Calendar(every)
        self.reservations = Calendar(every)
        self._aside: dict[str, Calendar] = {}
        self.looked = 0
        self._usable: dict[int, tuple[int, Words, Words]] = {}

    def start(self, ask: Ask, now: float, end: float = FOREVER) -> Decision | None:
        """Take nodes now, clear of every reservation until `end`; None if there are none."""
        decision = self.decide(ask, now, end)
        if decision is not None:
            self.engine.commit(decision)
            self.leases.add(Entry(now, ask.pod, end, decision.bits, ask.terms))
        return decision

    def decide(self, ask: Ask, now: float, end: float) -> Decision | None:
        """The best nodes that are free now and not reserved before `end`; changes nothing."""
        check_window(now, end)
        aside = [c for project, c in self._aside.items() if project != ask.project]
        many = sum(len(c) for c in (self.reservations, *aside)) > FEW
        if many and not ask.near:
            return self._in_window(ask, now, end, present=True)
        hidden, view, free = self._kept(ask.terms, now, end), self.engine.view(ask), self.engine.available
        ask = self._at_home(ask, now, end, lambda x: free[x] & view.mask[x] & ~hidden.get(x, 0))
        return self.engine.decide(ask, hidden, self._besides(ask, now, end, present=True))

    def hidden(self, terms: Terms, start: float, end: float) -> dict[int, int]:
        """Leaf -> nodes that can't be had from now, `start`, until `end`, free or not.

        They are promised, set aside for another project, or on leaves that are closed to an order on these terms.
        """
        every = self.engine.numbers.every
        closed = {leaf: every[leaf] for leaf in self.engine.closed_to(terms)}
        return self._kept(terms, start, end) | closed

    def _kept(self, terms: Terms, start: float, end: float) -> dict[int, int]:
        """The same without the leaves that are closed because of who is there now."""
        aside = [c for owner, c in self._aside.items() if owner != terms.project]
        found: dict[int, int] = {}
        for calendar in (self.reservations, *aside):
            for leaf, bits in calendar.taken_bits(start, end).items():
                found[leaf] = found.get(leaf, 0) | bits
            for leaf in calendar.leaves_at_odds(terms, start, end):
                found[leaf] = self.engine.numbers.every[leaf]
        return found

    def _besides(self, ask: Ask, start: float, end: float, present: bool) -> dict[int, int]:
        """Leaf -> Gb/s that its uplinks carry in a window beyond what they carry now; below 0: less."""
        if not ask.gbps:
            return {}
        found, _ = self.reservations.guaranteed(start, end, ask.pod)
        for leaf, gbps in () if present else self.leases.guaranteed(start, end, ask.pod)[1].items():
            found[leaf] = found.get(leaf, 0) - gbps
        return found

    def at(self, ask: Ask, start: float, end: float) -> Decision | None:
        """The best nodes for a future window, with what is known now: leases end when they say; changes nothing."""
        check_window(start, end)
        return self._in_window(ask, start, end, present=False)

    def reserve(self, ask: Ask, start: float, end: float) -> Decision | None:
        """Promise nodes for a future window; None if there are none."""
        if self.reservations.of(ask.pod):
            raise ConflictError(f"pod {ask.pod} has a reservation already: cancel it first")
        decision = self.at(ask, start, end)
        if decision is not None:
            self.reservations.add(Entry(start, ask.pod, end, decision.bits, ask.terms))
        return decision

    def cancel(self, pod: str) -> None:
        """The reservation goes; none is no error."""
        self.reservations.remove(pod)

    def begin(self, pod: str) -> Entry:
        """A reservation becomes a lease. Raises ConflictError if a node of it is still held or out of order."""
        entries = self.reservations.of(pod)
        if not entries:
            raise ConflictError(f"pod {pod} has no reservation")
        entry = entries[0]
        available = self.engine.available
        gone = [
            n for leaf, bits in entry.bits for n in self.engine.numbers.names(leaf, bits & ~available[leaf])
        ]
        if gone:
            raise ConflictError(f"pod {pod}: {', '.join(gone)} not free at the start of its reservation")
        nodes = [n for leaf, bits in entry.bits for n in self.engine.numbers.names(leaf, bits)]
        self.engine.hold(pod, nodes, entry.terms)
        self.reservations.remove(pod)
        self.leases.add(entry)
        return entry

    def end(self, pod: str) -> None:
        """The pod gives everything back, now."""
        self.leases.remove(pod)
        self.engine.release(pod)

    def set_aside(self, project: str, nodes: Iterable[str], start: float, end: float = FOREVER) -> None:
        """A block of nodes that only this project may have in this window."""
        check_window(start, end)
        calendar = self._aside.setdefault(project, Calendar(self.engine.numbers.every))
        masks = self.engine.numbers.masks(nodes)
        name = f"set aside for {project}"
        calendar.add(Entry(start, name, end, tuple(sorted(masks.items())), Terms(project)))

    def earliest(
        self, ask: Ask, duration: float, begin: float, until: float = FOREVER, now: float | None = None
    ) -> Start | None:
        """The first moment from `begin` at which the order fits for its whole duration; None: not as far as is known.

        Args:
            until: when it ends at the latest, however late it starts.
            now: the present, if `begin` is later: what is free now counts only for a start now.

        Only ends can make room, so only they are looked at; those after which the leases alone still leave no room
        are passed over by bisection, since leases only end.
        """
        present = now is None or begin <= now
        first = self.decide if present else self.at
        if (decision := first(ask, begin, min(begin + duration, until))) is not None:
            return Start(begin, decision)
        ends: set[float] = set()
        for calendar in (self.leases, self.reservations, *self._aside.values()):
            ends.update(calendar.ends(begin))
        moments = [begin, *sorted(e for e in ends if e < until)]
        first_room = bisect_left(moments, True, key=lambda moment: self._has_room(ask, moment))
        for moment in moments[max(first_room, 1) :]:
            decision = self.at(ask, moment, min(moment + duration, until))
            if decision is not None:
                return Start(moment, decision)
        return None

    def _has_room(self, ask: Ask, moment: float) -> bool:
        """Whether the order would fit at that moment if there were nothing but the leases of now."""
        self.looked += 1
        view = self.engine.view(ask)
        healthy, _ = self._healthy(view)
        left = healthy & ~self.leases.taken(moment, FOREVER)
        left[list(self.leases.leaves_at_odds(ask.terms, moment, FOREVER))] = 0
        gone = self.leases.guaranteed(moment, FOREVER, ask.pod)[1] if ask.gbps else {}
        besides = {leaf: -gbps for leaf, gbps in gone.items()}
        return self._fitting(ask, view, left, besides) is not None

    def _at_home(self, ask: Ask, start: float, end: float, free: Callable[[int], int]) -> Ask:
        """The ask with a liking for what is free (leaf -> nodes) of what is set aside for its project."""
        taken = c.taken_bits(start, end) if (c := self._aside.get(ask.project)) else {}
        own = {leaf: mine for leaf, bits in taken.items() if (mine := bits & free(leaf))}
        return replace(ask, preferences=(*ask.preferences, self.engine.preferring(own, OWN))) if own else ask

    def _in_window(self, ask: Ask, start: float, end: float, present: bool) -> Decision | None:
        if ask.spare:
            gang = replace(ask, count=ask.count + ask.spare, spare=0)
            found = self._in_window(gang, start, end, present)
            return found and found._replace(size=ask.count)
        engine = self.engine
        view = engine.view(ask)
        healthy, mask = self._healthy(view)
        taken = self.reservations.taken(start, end)
        closed = self.reservations.leaves_at_odds(ask.terms, start, end)
        if present:
            usable = self._available() & mask
            closed |= self.engine.closed_to(ask.terms)
        else:
            taken |= self.leases.taken(start, end)
            usable = healthy
            closed |= self.leases.leaves_at_odds(ask.terms, start, end)
        for project, calendar in self._aside.items():
            if project != ask.project:
                taken |= calendar.taken(start, end)
                closed |= calendar.leaves_at_odds(ask.terms, start, end)
        self.looked += 1
        left = usable & ~taken
        left[list(closed)] = 0
        ask = self._at_home(ask, start, end, lambda leaf: self._bits_of(left, leaf))
        return self._fitting(ask, view, left, self._besides(ask, start, end, present))

    def _fitting(self, ask: Ask, view: View, left: Words, besides: Mapping[int, int]) -> Decision | None:
        """The best of these nodes; `besides` is as for `Engine.decide`."""
        if ask.exclude:
            left = left & ~self.reservations.words(self.engine.numbers.masks(ask.exclude))
        counts = np.bitwise_count(left)
        units = counts[:, 0] if counts.shape[1] == 1 else counts.sum(axis=1)
        if ask.slice > 1:
            units = units // ask.slice
        return self._choose(view, ask, left, units, besides)

    def _choose(
        self, view: View, ask: Ask, left: Words, units: Words, besides: Mapping[int, int]
    ) -> Decision | None:
        need = ask.count // ask.slice
        engine = self.engine
        if ask.preferences and engine.policy is None:
            return self._weighed(view, ask, left, units, besides)
        fits = np.flatnonzero(units >= need)
        if len(fits) and engine.policy is None:
            leaf = int(fits[int(units[fits].argmin())])
            takes = ((leaf, need),)
            cost, pods, leftover = 1000, 1, int(units[leaf]) - need
            others = tightest(fits[fits != leaf], units, need)
        else:
            if not self._could_fit(view, ask, units, need, bool(len(fits))):
                return None
            pool = Pool(view.pool.full, [int(u) for u in units.tolist()], view.pool.pod_start)
            choice = from_pool(
                pool, range(len(units)), need, engine.weights, ask.required, ask.preferred, engine.policy
            )
            if choice is None:
                return None
            takes, cost, pods, leftover = choice.takes, choice.cost, choice.pods, choice.leftover
            others = rivals(pool, need, [leaf for leaf, _ in takes], ask.required == "site")
        unsure = len(takes) > 1 and (ask.gbps or engine.deep) and engine.policy is None
        if unsure and not engine.allowed(ask, {leaf: n * ask.slice for leaf, n in takes}, besides):
            return self._weighed(view, ask, left, units, besides)
        bits = tuple((leaf, view.take(leaf, self._bits_of(left, leaf), n)) for leaf, n in takes)
        free = int(units.sum(dtype=np.int64))
        return engine.decided(view, ask, bits, cost, leftover, pods, free, others=others)

    def _weighed(
        self, view: View, ask: Ask, left: Words, units: Words, besides: Mapping[int, int]
    ) -> Decision | None:
        """With preferences, halls and uplinks."""
        pool = Pool(view.pool.full, [int(u) for u in units.tolist()], view.pool.pod_start)
        return self.engine.weighed(view, pool, ask, lambda leaf: self._bits_of(left, leaf), besides)

    def _could_fit(self, view: View, ask: Ask, units: Words, need: int, one_leaf: bool) -> bool:
        """Whether a domain of the required level has the room, before anything slower is done."""
        if ask.required in ("node", "leaf"):
            return one_leaf
        if ask.required == "pod":
            starts = view.pool.pod_start[:-1]
            return bool(np.add.reduceat(units, starts, dtype=np.int64).max() >= need)
        return int(units.sum(dtype=np.int64)) >= need

    def _bits_of(self, words: Words, leaf: int) -> int:
        return int.from_bytes(words[leaf].tobytes(), "little")

    def _healthy(self, view: View) -> tuple[Words, Words]:
        """(nodes of the view that are not blocked, all nodes of the view) as words; kept until one is blocked."""
        known = self._usable.get(id(view))
        if known is None or known[0] != self.engine.health_version:
            mask = self.leases.words(dict(enumerate(view.mask)))
            healthy = mask & ~self.leases.words(self.engine.blocked_bits())
            self._usable[id(view)] = known = (self.engine.health_version, healthy, mask)
        return known[1], known[2]

    def _available(self) -> Words:
        """The engine's free nodes as words."""
        mirror = self.engine.mirror
        if mirror is None:
            mirror = self.leases.words(dict(enumerate(self.engine.available)))
            if self.leases.words_per_leaf == 1:
                self.engine.mirror = mirror
        return mirror


def check_window(start: float, end: float) -> None:
    """Raise InputError unless the end is later than the start."""
    if not start < end:
        raise InputError("end", end, f"later than the start ({start:g})")
