"""Capacity as counted at some moment, by owner and in total. Immutable; the next one costs only what has changed.

A cache: PostgreSQL has the truth, and its constraints refuse what a wrong count would admit
(docs/decisions/capacity-is-counted-once.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self, TypeVar
from uuid import UUID

from weft.engine.base.postgres import time_in_json
from weft.engine.book.holdrows import Booked, Holder, NodeHold, PartHold, Quarantined
from weft.engine.book.stops import Stops
from weft.model.plan import UsedNumbers
from weft.model.reservation import ReservationView
from weft.model.spaces import SEGMENT, VLAN
from weft.planning.fabric.subnets import NO_SUBNETS, SubnetSet
from weft.planning.overlay import Overlay
from weft.planning.place.calendar import FOREVER
from weft.planning.place.slots import is_slot
from weft.planning.queue.keep import Keep
from weft.planning.queue.leases import NO_LEASES, Leases

K = TypeVar("K")
V = TypeVar("V")


def seconds_of(moment: datetime | None) -> float:
    """POSIX time; None means never."""
    return FOREVER if moment is None else moment.timestamp()


def lease_of(holds: Sequence[NodeHold], parts: Iterable[PartHold]) -> Keep:
    """A pod's lease, from what it holds, of which there is something.

    A pod whose release was requested is due now.
    """
    first = min(holds, key=lambda one: one.since)
    pod = first.pod
    return Keep(
        str(pod.id),
        pod.project_id,
        tuple(sorted(one.node for one in holds)),
        first.since.timestamp(),
        0.0 if pod.released else seconds_of(pod.lease_end),
        pod.name,
        pod.terms,
        tuple((part.node, part.part) for part in parts),
    )


@dataclass(frozen=True, slots=True)
class Holding:
    """Everything that one owner holds.

    Attributes:
        holds, places, parts, booking: as in `weft.engine.book.capacity.Capacity`; whole nodes and shared ones together.
        numbers: (space, number).
        subnets: (plane, cloud, subnet).
    """

    holds: tuple[NodeHold, ...] = ()
    places: tuple[NodeHold, ...] = ()
    parts: tuple[PartHold, ...] = ()
    booking: Booked | None = None
    numbers: frozenset[tuple[str, int]] = frozenset()
    subnets: frozenset[tuple[str, str, str]] = frozenset()

    @classmethod
    def of(cls, owner: UUID, document: Mapping[str, Any]) -> Self:
        """From a row of the query `capacity_changes`. Owners other than pods hold no nodes."""
        row, booking = document["pod"], document["booking"]
        numbers = frozenset((space, number) for space, number in document["numbers"] or ())
        subnets = frozenset((plane, cloud, cidr) for plane, cloud, cidr in document["subnets"] or ())
        parts = tuple(PartHold.of(owner, one) for one in document["parts"] or ())
        if row is None:
            return cls(parts=parts, numbers=numbers, subnets=subnets)
        pod, placed = Holder.of(owner, row), time_in_json(row["placed_at"])
        slots = sorted(f"{space}/{number}" for space, number in numbers if is_slot(space))
        return cls(
            tuple(NodeHold.of(pod, one) for one in document["nodes"] or ()),
            tuple(NodeHold(one, pod, placed, whole=False) for one in slots),
            parts,
            Booked.of(pod, booking) if booking else None,
            numbers,
            subnets,
        )

    @property
    def whole_nodes(self) -> dict[str, NodeHold]:
        """Node -> hold, of the nodes that it shares with no other owner."""
        return {one.node: one for one in self.holds if one.whole}

    @property
    def lease(self) -> Keep | None:
        """The lease as the book has it; None if it holds no node."""
        holds = (*self.holds, *self.places)
        return lease_of(holds, self.parts) if holds else None


NOTHING = Holding()


@dataclass(frozen=True, slots=True)
class Counted:
    """See the module's docstring.

    Attributes:
        owners: id -> what it holds, of owners that hold anything.
        holds: of whole nodes, by node.
        in_parts: owners with parts of shared nodes or hosts.
        bookings: of waiting orders, by owner.
        taken: space -> numbers.
        again: (space, number) -> further holders besides the first: a segment kept for a standby may have two.
        subnets: (plane, cloud) -> subnets in use.
        quarantines, reservations: by node and by name.
        stops: by node, of those that operators hold.
    """

    owners: Overlay[UUID, Holding] = field(default_factory=Overlay[UUID, Holding])
    holds: Overlay[str, NodeHold] = field(default_factory=Overlay[str, NodeHold])
    in_parts: Mapping[UUID, Holding] = field(default_factory=dict[UUID, Holding])
    bookings: Mapping[UUID, Booked] = field(default_factory=dict[UUID, Booked])
    taken: Mapping[str, frozenset[int]] = field(default_factory=dict[str, frozenset[int]])
    again: Mapping[tuple[str, int], int] = field(default_factory=dict[tuple[str, int], int])
    subnets: Mapping[tuple[str, str], SubnetSet] = field(default_factory=dict[tuple[str, str], SubnetSet])
    quarantines: Mapping[str, Quarantined] = field(default_factory=dict[str, Quarantined])
    reservations: Mapping[str, ReservationView] = field(default_factory=dict[str, ReservationView])
    stops: Mapping[str, Stops] = field(default_factory=dict[str, Stops])
    leases: Leases = NO_LEASES

    def replacing(
        self,
        owners: Mapping[UUID, Holding],
        quarantines: Mapping[str, Quarantined | None],
        reservations: Mapping[str, ReservationView | None],
        stops: Mapping[str, Stops | None],
    ) -> Counted:
        """A copy with these replaced; an empty holding, or None, removes the entry."""
        found = self
        if quarantines:
            found = replace(found, quarantines=_with(self.quarantines, quarantines))
        if reservations:
            found = replace(found, reservations=_with(self.reservations, reservations))
        if stops:
            found = replace(found, stops=_with(self.stops, stops))
        if not owners:
            return found
        before = {owner: self.owners.get(owner, NOTHING) for owner in owners}
        freed: dict[str, NodeHold | None] = {n: None for one in before.values() for n in one.whole_nodes}
        taken_now = {node: hold for one in owners.values() for node, hold in one.whole_nodes.items()}
        taken, again = _numbers(self.taken, self.again, before.values(), owners.values())
        return replace(
            found,
            owners=self.owners.with_changes(
                {o: one if one != NOTHING else None for o, one in owners.items()}
            ),
            holds=self.holds.with_changes({**freed, **taken_now}),
            in_parts=_with(self.in_parts, {o: one if _partial(one) else None for o, one in owners.items()}),
            bookings=_with(self.bookings, {o: one.booking for o, one in owners.items()}),
            taken=taken,
            again=again,
            subnets=_subnets(self.subnets, before.values(), owners.values()),
            leases=self.leases.with_changes({str(owner): one.lease for owner, one in owners.items()}),
        )

    def used(self) -> UsedNumbers:
        """Numbers and subnets in use."""
        planes: dict[str, dict[str, Set[str]]] = {"rdma": {}, "management": {}}
        for (plane, cloud), subnets in self.subnets.items():
            planes[plane][cloud] = subnets
        return UsedNumbers.trusted({
            "segments": _under(SEGMENT, self.taken),
            "vlans": _under(VLAN, self.taken),
            "rdma_cidrs": planes["rdma"],
            "management_cidrs": planes["management"],
            "spaces": {s: n for s, n in self.taken.items() if not s.startswith((SEGMENT, VLAN))},
        })  # fmt: skip


def _partial(one: Holding) -> bool:
    return bool(one.parts or one.places or any(not hold.whole for hold in one.holds))


def _with(known: Mapping[K, V], changed: Mapping[K, V | None]) -> Mapping[K, V]:
    """A copy with these values; None removes the key."""
    if not any(value is not None or key in known for key, value in changed.items()):
        return known
    found = dict(known)
    for key, value in changed.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def _numbers(
    taken: Mapping[str, frozenset[int]],
    again: Mapping[tuple[str, int], int],
    before: Iterable[Holding],
    after: Iterable[Holding],
) -> tuple[Mapping[str, frozenset[int]], Mapping[tuple[str, int], int]]:
    """See `Counted.taken` and `again`."""
    changed: dict[tuple[str, int], int] = {}
    for sign, holdings in ((-1, before), (1, after)):
        for one in holdings:
            for number in one.numbers:
                changed[number] = changed.get(number, 0) + sign
    more = dict(again)
    come: dict[str, set[int]] = {}
    gone: dict[str, set[int]] = {}
    for key, by in changed.items():
        space, number = key
        was = int(number in taken.get(space, ())) + more.pop(key, 0)
        if was + by > 1:
            more[key] = was + by - 1
        if not was and by:
            come.setdefault(space, set()).add(number)
        elif was and not was + by:
            gone.setdefault(space, set()).add(number)
    found = dict(taken)
    for space, numbers in gone.items():
        found[space] = found[space] - numbers
    for space, numbers in come.items():
        found[space] = found.get(space, frozenset()) | numbers
    return {space: numbers for space, numbers in found.items() if numbers}, more


def _subnets(
    known: Mapping[tuple[str, str], SubnetSet], before: Iterable[Holding], after: Iterable[Holding]
) -> Mapping[tuple[str, str], SubnetSet]:
    gone = {subnet for one in before for subnet in one.subnets}
    come = {subnet for one in after for subnet in one.subnets}
    found = dict(known)
    for place in {(plane, cloud) for plane, cloud, _ in gone ^ come}:
        out, more = ({c for *at, c in these if (*at,) == place} for these in (gone - come, come - gone))
        found[place] = found.get(place, NO_SUBNETS).with_changes(out, more)
    return {place: subnets for place, subnets in found.items() if subnets}


def _under(prefix: str, numbers: Mapping[str, frozenset[int]]) -> dict[str, frozenset[int]]:
    """Numbers in spaces with a prefix, by the rest of the space's name."""
    return {s.removeprefix(prefix): n for s, n in numbers.items() if s.startswith(prefix)}
