"""Open bookings: nodes that are kept for orders whose start isn't known. Pure.

Pods without an end may be in the way of an order forever, if others take the place of each that ends. So nodes are
chosen for it, those on which the fewest pods have to end, and orders submitted later don't get them any more; earlier
ones do. No time is booked. The choice stays until a node is out of service or fewer pods are in the way elsewhere, so
that the pods in the way only become fewer.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from weft.planning.place.calendar import FOREVER, Entry
from weft.planning.queue.timeline import Timeline
from weft.planning.queue.waiting import Waiting


@dataclass(slots=True)
class Openings:
    """Open bookings of one timeline: of its own orders, and of others for some of the same nodes.

    Attributes:
        facing: pods whose open bookings are among the timeline's reservations now.
    """

    timeline: Timeline
    facing: set[str] = field(default_factory=set[str])
    _all: dict[str, tuple[float, Entry]] = field(default_factory=dict[str, tuple[float, Entry]])

    @property
    def pods(self) -> Collection[str]:
        """The pods that have one."""
        return self._all.keys()

    def of(self, pod: str) -> tuple[float, Entry] | None:
        """When the pod was ordered, and its nodes."""
        return self._all.get(pod)

    def add(self, entry: Entry, came: float) -> None:
        """Keep the nodes of an entry from orders that were submitted after `came`."""
        self.drop(entry.pod)
        self._all[entry.pod] = came, entry

    def drop(self, pod: str) -> None:
        """End a pod's open booking; not an error if it has none."""
        if self._all.pop(pod, None) is not None and pod in self.facing:
            self.facing.remove(pod)
            self.timeline.cancel(pod)

    def face(self, came: float) -> None:
        """Show the timeline as an order submitted at this time sees it: what binds it is reserved."""
        for pod, (since, entry) in self._all.items():
            if since < came and pod not in self.facing:
                self.timeline.reservations.add(entry)
                self.facing.add(pod)
            elif since >= came and pod in self.facing:
                self.timeline.cancel(pod)
                self.facing.remove(pod)

    def renew(self, waiting: Waiting, now: float) -> bool:
        """Choose nodes for an order, or keep those that it has; the timeline is that of this order.

        Two orders may have the same nodes, since there is no time. The order ranked first gets them first.

        False: it wouldn't fit even if all pods without an end were gone; nothing is kept for it then.
        """
        self.face(0.0)
        ask, begin = waiting.ask, max(now, waiting.not_before)
        line, old = self.timeline.emptied(begin), self._all.get(ask.pod)
        found = line.earliest(ask, waiting.duration, begin, now=now)
        bits = found.decision.bits if found else None
        if old and (after := self._still(line, waiting, old[1], begin)) is not None:
            bits = bits if found and found.at < after else old[1].bits
        self.face(waiting.submitted)
        # Until then others can't delay it: a lease that is known to last that long is in its way.
        known = max(_last_end(self.timeline, bits, FOREVER) if bits else 0.0, waiting.not_before)
        if bits is None or known >= waiting.until:
            self.drop(ask.pod)
            return False
        self.add(Entry(known, ask.pod, FOREVER, bits, ask.terms), waiting.submitted)
        return True

    def _still(self, line: Timeline, waiting: Waiting, entry: Entry, begin: float) -> float | None:
        """When the chosen nodes would be free in the emptied timeline; None: the order can no longer have them."""
        ask = waiting.ask
        if sum(bits.bit_count() for _, bits in entry.bits) != ask.held:
            return None
        after = max(begin, _last_end(line, entry.bits))
        left, _ = line.left(ask, line.engine.ledger.view(ask), after, after + waiting.duration, present=False)
        gone = any(bits & ~line.bits_of(left, leaf) for leaf, bits in entry.bits)
        return None if gone else after


def _last_end(line: Timeline, bits: tuple[tuple[int, int], ...], before: float | None = None) -> float:
    wanted = dict(bits)
    return max(
        (
            e.end
            for e in line.leases
            if (before is None or e.end < before) and any(wanted.get(leaf, 0) & b for leaf, b in e.bits)
        ),
        default=0.0,
    )
