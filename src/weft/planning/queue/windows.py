"""What is free in a window of time: leases that end, later reservations, dedicated blocks; as machine words.

Times are seconds of one clock, chosen by the caller; there is no clock here. A lease without an end is held forever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import replace
from itertools import accumulate
from typing import Self

from weft.model.errors import InputError
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import FOREVER, Calendar, Entry, Words
from weft.planning.place.engine import Engine
from weft.planning.place.sharing import Load, Terms, peak
from weft.planning.place.view import View


class Windows:
    """An engine with calendars: `engine` is the current state, the calendars what is known about the future.

    Attributes:
        looked: number of windows examined so far.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        every = engine.ledger.numbers.every
        self.leases = Calendar(every)
        self.reservations = Calendar(every)
        self._aside: dict[str, Calendar] = {}
        self.looked = 0
        self._usable: dict[int, tuple[int, Words, Words]] = {}

    def emptied(self, now: float) -> Self:
        """A copy in which each node that is held without an end is free after everything that is known to end.

        Those with the fewest pods first, one a second: the times only rank the nodes. Reservations are those of the
        original, also later on.
        """
        line, every = copy(self), self.engine.ledger.numbers.every
        line.leases = Calendar(every)
        known = [
            e.end
            for c in (self.leases, self.reservations, *self._aside.values())
            for e in c
            if e.end < FOREVER
        ]
        last = max((now, *known))
        pods: Counter[tuple[int, int]] = Counter()
        endless: list[Entry] = []
        for lease in self.leases:
            if lease.end < FOREVER:
                line.leases.add(lease)
            else:
                endless.append(lease)
                pods.update((leaf, bit) for leaf, bits in lease.bits for bit in _each(bits))
        for lease in endless:
            ends: dict[int, dict[int, int]] = {}
            for leaf, bits in lease.bits:
                for bit in _each(bits):
                    of = ends.setdefault(pods[leaf, bit], {})
                    of[leaf] = of.get(leaf, 0) | bit
            for after, freed in ends.items():
                line.leases.add(replace(lease, end=last + after, bits=tuple(freed.items())))
        return line

    def set_aside(self, project: str, nodes: Iterable[str], start: float, end: float = FOREVER) -> None:
        """A block of nodes that only this project may have in this window."""
        check_window(start, end)
        calendar = self._aside.setdefault(project, Calendar(self.engine.ledger.numbers.every))
        masks = self.engine.ledger.numbers.masks(nodes)
        name = f"set aside for {project}"
        calendar.add(Entry(start, name, end, tuple(sorted(masks.items())), Terms(project)))

    def hidden(self, terms: Terms, start: float, end: float) -> dict[int, int]:
        """Leaf -> nodes that are unavailable from now, `start`, until `end`, free or not.

        They are booked, reserved for another project, or on leaves that are closed to an order with these terms.
        """
        every = self.engine.ledger.numbers.every
        closed = {leaf: every[leaf] for leaf in self.engine.ledger.closed_to(terms)}
        return self._kept(terms, start, end) | closed

    def _kept(self, terms: Terms, start: float, end: float) -> dict[int, int]:
        """`hidden` without leaves that are closed because of their current pods."""
        aside = [c for owner, c in self._aside.items() if owner != terms.project]
        found: dict[int, int] = {}
        for calendar in (self.reservations, *aside):
            for leaf, bits in calendar.taken_bits(start, end).items():
                found[leaf] = found.get(leaf, 0) | bits
            for leaf in calendar.leaves_at_odds(terms, start, end):
                found[leaf] = self.engine.ledger.numbers.every[leaf]
        return found

    def _besides(self, ask: Ask, start: float, end: float, present: bool) -> dict[int, int]:
        """Leaf -> Gb/s that its uplinks carry in a window at most beyond what they carry now; below 0: less.

        What leases release counts from their end on; in a window that begins now, only after its beginning.
        """
        if not ask.gbps:
            return {}
        booked = [load for load in self.reservations.loads(ask.pod) if load.start < end]
        leases = self.leases.loads(ask.pod)
        ended = [load for load in leases if load.end < end and (load.end > start or not present)]
        return peak([*booked, *map(_given_back, ended)], start)

    def besides_leases(self, ask: Ask, moment: float) -> dict[int, int]:
        """`_besides` from a moment on, with only the current leases."""
        ended = [load for load in self.leases.loads(ask.pod) if load.end <= moment] if ask.gbps else []
        return peak(map(_given_back, ended), moment)

    def left(self, ask: Ask, view: View, start: float, end: float, present: bool) -> tuple[Words, bool]:
        """The nodes that the ask could have in a window, and whether leaves are closed to it then.

        Args:
            present: the window begins now; else what leases end before it is free in it.
        """
        self.looked += 1
        healthy, mask = self._healthy(view)
        taken = self.reservations.taken(start, end)
        closed = self.reservations.leaves_at_odds(ask.terms, start, end)
        if present:
            usable = self._available() & mask
            closed |= self.engine.ledger.closed_to(ask.terms)
        else:
            taken |= self.leases.taken(start, end)
            usable = healthy
            closed |= self.leases.leaves_at_odds(ask.terms, start, end)
        for project, calendar in self._aside.items():
            if project != ask.project:
                taken |= calendar.taken(start, end)
                closed |= calendar.leaves_at_odds(ask.terms, start, end)
        left = usable & ~taken
        left[list(closed)] = 0
        return left, bool(closed)

    def ends(self, begin: float, until: float) -> tuple[list[float], list[int]]:
        """The times after `begin` and before `until` at which something ends, and how many nodes ended by then."""
        given: dict[float, int] = {}
        for calendar in (self.leases, self.reservations, *self._aside.values()):
            for end, nodes in calendar.given_back():
                if begin < end < until:
                    given[end] = given.get(end, 0) + nodes
        moments = sorted(given)
        return moments, list(accumulate(given[m] for m in moments))

    def bits_of(self, words: Words, leaf: int) -> int:
        """The nodes of a leaf in an array of words, as bits."""
        return int.from_bytes(words[leaf].tobytes(), "little")

    def _healthy(self, view: View) -> tuple[Words, Words]:
        """(nodes of the view that are not blocked, all nodes of the view) as words; kept until one is blocked."""
        known = self._usable.get(id(view))
        if known is None or known[0] != self.engine.ledger.health_version:
            mask = self.leases.words(dict(enumerate(view.mask)))
            healthy = mask & ~self.leases.words(self.engine.ledger.blocked_bits())
            self._usable[id(view)] = known = (self.engine.ledger.health_version, healthy, mask)
        return known[1], known[2]

    def _available(self) -> Words:
        """The engine's free nodes as words."""
        mirror = self.engine.ledger.mirror
        if mirror is None:
            mirror = self.leases.words(dict(enumerate(self.engine.ledger.available)))
            if self.leases.words_per_leaf == 1:
                self.engine.ledger.mirror = mirror
        return mirror


def _each(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest
        bits ^= lowest


def _given_back(load: Load[int]) -> Load[int]:
    """The load that undoes this one from its end on: negative Gb/s."""
    return Load(load.end, FOREVER, {leaf: -gbps for leaf, gbps in load.carried.items()})


def check_window(start: float, end: float) -> None:
    """Raise InputError unless the end is later than the start."""
    if not start < end:
        raise InputError("end", end, f"later than the start ({start:g})")
