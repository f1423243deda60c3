"""Estimated starts of waiting orders. Pure. Only an estimate: more orders will come, and pods may end early."""

from __future__ import annotations

from weft.planning.place.calendar import FOREVER, Entry
from weft.planning.queue.queue import Queue
from weft.planning.queue.waiting import Waiting

MOST = 200
WINDOWS = 5000


def expected_starts(queue: Queue, now: float, most: int = MOST, windows: int = WINDOWS) -> dict[str, float]:
    """When waiting orders without a booking would start if each got one now, in queue order.

    Orders whose start isn't known are omitted, and those beyond the first `most`, or beyond the limit of examined
    windows.
    """
    line, found = queue.timeline, dict[str, float]()
    floors = _Floors()
    enough = line.looked + windows
    for waiting in queue.ranked(now)[:most]:
        ask = waiting.ask
        if line.looked > enough:
            break
        if ask.pod in queue.bookings or ask.pod in queue.openings.pods:
            continue
        queue.openings.face(waiting.submitted)
        begin = max(now, waiting.not_before, floors.under(waiting))
        start = line.earliest(ask, waiting.duration, begin, waiting.until, now) if begin < FOREVER else None
        if waiting.not_before <= now:
            floors.add(waiting, start.at if start else FOREVER)
        if start is not None:
            found[ask.pod] = start.at
            end = waiting.end(start.at)
            line.reservations.add(Entry(start.at, ask.pod, end, start.decision.bits, ask.terms))
    for pod in found:
        line.cancel(pod)
    return found


class _Floors:
    """An order starts no earlier than a similar one that is no larger, runs no longer and got its start before.

    Leases with an absolute end aren't compared: the later they start, the shorter they run.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], list[tuple[int, float, float]]] = {}

    def add(self, waiting: Waiting, at: float) -> None:
        ask = waiting.ask
        if waiting.until < FOREVER:
            return
        self._known.setdefault(ask.alike, []).append((ask.held, waiting.duration, at))

    def under(self, waiting: Waiting) -> float:
        """The earliest start that the order could have."""
        if waiting.until < FOREVER:
            return 0.0
        ask = waiting.ask
        known = self._known.get(ask.alike, ())
        return max((at for n, d, at in known if ask.held >= n and waiting.duration >= d), default=0.0)
