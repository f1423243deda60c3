"""The queue's rules over a long time, with rows as the only state between two runs, as in the database."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid5

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.house import small_site
from tests.helpers.amounts import examples
from weft.engine.book.capacity import Capacity
from weft.engine.book.holdrows import Booked, Holder, NodeHold
from weft.engine.queue.agenda import Agenda, agenda
from weft.engine.queue.waiter import Waiter
from weft.model.order import Order
from weft.model.placement import Occupancy, Placement
from weft.model.plan import UsedNumbers
from weft.model.site import ProjectLimits, QueuePolicy
from weft.planning.fabric.topology import Topology
from weft.planning.place.placement import place
from weft.planning.place.sharing import Terms
from weft.planning.shapes.gpu.request import request_of
from weft.planning.shapes.resolve import resolve

SITE = small_site()
TOPOLOGY = Topology.of(SITE, "ib0")
NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
NAMES = UUID(int=1)


@dataclass
class World:
    """Rows as the database has them, and the time; leases end when they say."""

    policy: QueuePolicy = field(default_factory=QueuePolicy)
    now: datetime = NOW
    holds: dict[str, NodeHold] = field(default_factory=dict)
    bookings: dict[UUID, Booked] = field(default_factory=dict)
    waiting: list[Waiter] = field(default_factory=list)
    first_booking: dict[UUID, datetime] = field(default_factory=dict)
    started: dict[UUID, datetime] = field(default_factory=dict)

    def order(
        self,
        number: int,
        count: int,
        hours: int,
        project: str,
        spare: int = 0,
        gbps: int = 0,
        **locality: Any,
    ) -> None:
        document = {
            "name": f"p{number}",
            "nodes": {"count": count, "spare": spare, "flavor": "gpu8", "image": "tiny"},
            "lease": {"duration": f"{hours}h"},
            "fabric": {"bisection_gbps": gbps},
            "locality": locality,
        }
        pod = uuid5(NAMES, str(number))
        order = Order.model_validate(document)
        self.waiting.append(Waiter(pod, project, order.name, order, self.now, None, False))

    def capacity(self) -> Capacity:
        booked = sorted(self.bookings.values(), key=lambda b: (b.start, str(b.pod.id)))
        return Capacity(self.holds, {}, UsedNumbers(), booked)

    def look(self) -> Agenda:
        site = SITE.model_copy(update={"queue": self.policy})
        return agenda(site, self.capacity(), self.waiting, {}, Occupancy(), {}, self.now.timestamp())

    def run(self) -> None:
        """Do as `Dispatcher.run`: start one after another with placement's own choice, then write the bookings."""
        while (found := self.look()).start is not None:
            self.start(found.start)
        assert not found.impossible
        kept: dict[UUID, Booked] = {}
        for pod, note in found.notes.items():
            if note.booking is None:
                continue
            start = datetime.fromtimestamp(note.booking.start, UTC)
            end = datetime.fromtimestamp(note.booking.end, UTC)
            order = next(w.order for w in self.waiting if w.id == pod)
            holder = Holder(
                pod, note.booking.label, note.booking.project, terms=asks(order, note.booking.project)
            )
            assert len(note.booking.nodes) == order.nodes.count + order.nodes.spare
            kept[pod] = Booked(holder, note.booking.nodes, start, end)
            before = self.bookings.get(pod)
            assert before is None or start <= before.start, "a booking moved later"
            self.first_booking.setdefault(pod, start)
        assert set(self.bookings) - set(self.started) <= set(kept), "a booking was forgotten"
        self.bookings = kept
        self.check()

    def start(self, one: Waiter) -> None:
        now, book = self.now.timestamp(), self.capacity().book()
        window = one.window(now)
        occupancy = book.occupancy(Occupancy(), one.project, now, now, window.end, str(one.id))
        made = place(request_of(resolve(one.order, one.project, SITE)), SITE, occupancy)
        assert isinstance(made, Placement), "the queue and placement disagree"
        end = one.order.lease.ends(self.now)
        holder = Holder(one.id, one.name, one.project, end, terms=asks(one.order, one.project))
        for node in made.held:
            assert node not in self.holds
            self.holds[node] = NodeHold(node, holder, self.now)
        self.waiting.remove(one)
        self.bookings.pop(one.id, None)
        self.started[one.id] = self.now
        if one.id in self.first_booking:
            assert self.now <= self.first_booking[one.id], "a promised start was delayed"

    def check(self) -> None:
        """No node is promised twice at one time, nor promised while its lease lasts; no project is over its limit."""
        rows = list(self.bookings.values())
        for i, a in enumerate(rows):
            for b in rows[i + 1 :]:
                if a.start < b.end and b.start < a.end:
                    assert not set(a.nodes) & set(b.nodes)
            for node in a.nodes:
                assert node not in self.holds or self.holds[node].pod.lease_end <= a.start
        for project, limits in self.policy.projects.items():
            held = [hold for hold in self.holds.values() if hold.pod.project_id == project]
            assert limits.max_nodes is None or len(held) <= limits.max_nodes
        self.check_leaves()

    def check_leaves(self) -> None:
        """Pods that exclude each other never share a leaf at one time, and no uplink carries more than it has."""
        book = self.capacity().book()
        keeps = [*book.leases, *book.bookings]
        places = {k.name: Counter(TOPOLOGY.locations[n].leaf for n in k.nodes) for k in keeps}
        for i, a in enumerate(keeps):
            for b in keeps[i + 1 :]:
                if a.overlaps(b.start, b.end) and apart(a.asks, b.asks):
                    assert not places[a.name].keys() & places[b.name].keys()
        for moment in {k.start for k in keeps}:
            there = [k for k in keeps if k.start <= moment < k.end]
            for leaf, most in TOPOLOGY.uplinks.items():
                sizes = [(places[k.name][leaf], len(k.nodes), k.asks.gbps) for k in there]
                assert sum(min(t, n - t) * gbps for t, n, gbps in sizes) <= most

    def forward(self, hours: int) -> None:
        """Let time pass hour by hour: what is over goes first, then the queue is processed."""
        for _ in range(hours):
            self.now += timedelta(hours=1)
            self.holds = {n: hold for n, hold in self.holds.items() if hold.pod.lease_end > self.now}
            self.run()


def asks(order: Order, project: str) -> Terms:
    """Terms of an order about its leaves."""
    locality = order.locality
    return Terms(project, frozenset(locality.apart_from), locality.exclusive, order.fabric.bisection_gbps)


def apart(a: Terms, b: Terms) -> bool:
    """Whether two pods must not share a leaf: the rule of docs/placement.md, written independently."""
    named = b.project in a.apart_from or a.project in b.apart_from
    return a.project != b.project and (a.exclusive or b.exclusive or named)


steps = st.lists(
    st.tuples(st.integers(1, 16), st.integers(1, 9), st.sampled_from(["a", "b"]), st.integers(0, 3)),
    min_size=1,
    max_size=14,
)
policies = st.builds(
    QueuePolicy,
    bookings=st.integers(0, 3),
    patience=st.sampled_from([None, "2h"]),
    projects=st.sampled_from(
        [{}, {"a": ProjectLimits(max_nodes=16)}, {"a": ProjectLimits(share=2), "b": ProjectLimits()}]
    ),
)


@given(steps, policies)
@settings(max_examples=examples(40))
def test_bookings_hold_through_random_orders(
    orders: list[tuple[int, int, str, int]], policy: QueuePolicy
) -> None:
    """Random orders, hour by hour: a booking is never forgotten, moved later or given away; all start in the end."""
    world = World(policy)
    for number, (count, hours, project, pause) in enumerate(orders):
        world.order(number, count, hours, project)
        world.run()
        world.forward(pause)
    world.forward(sum(hours for _, hours, _, _ in orders) + 4)
    assert len(world.started) == len(orders) and not world.waiting


preferences = st.fixed_dictionaries(
    {
        "spare": st.integers(0, 2),
        "gbps": st.sampled_from([0, 0, 600, 1000]),
        "exclusive": st.booleans(),
        "apart_from": st.sampled_from([(), (), ("c",), ("b", "c")]),
        "required": st.sampled_from(["site", "site", "leaf"]),
    }
)
sharers = st.lists(
    st.tuples(
        st.integers(1, 10),
        st.integers(1, 6),
        st.sampled_from(["a", "b", "c"]),
        st.integers(0, 2),
        preferences,
    ),
    min_size=1,
    max_size=12,
)


@given(sharers, st.integers(0, 3))
@settings(max_examples=examples(60))
def test_leaf_and_uplink_constraints_hold_through_random_orders(
    orders: list[tuple[int, int, str, int, dict[str, Any]]], bookings: int
) -> None:
    """Random orders with spares, exclusive, apart and with guaranteed uplinks, in any order of arrival: at no time is
    any of it broken, by pods or by bookings, and every order that can be served is."""
    world = World(QueuePolicy(bookings=bookings))
    for number, (count, hours, project, pause, preference) in enumerate(orders):
        others = tuple(p for p in preference["apart_from"] if p != project)
        most = 4 - preference["spare"] if preference["required"] == "leaf" else 16
        world.order(number, min(count, most), hours, project, **{**preference, "apart_from": others})
        if not fits_alone(world.waiting[-1]):
            world.waiting.pop()
        world.run()
        world.forward(pause)
    ordered = len(world.waiting) + len(world.started)
    world.forward(sum(hours for _, hours, *_ in orders) + 4)
    assert len(world.started) == ordered and not world.waiting


def test_uplinks_used_in_turn_by_two_pods_suffice_for_a_third() -> None:
    """A pod may use uplinks beside a lease and the booking that follows it, since these two never carry traffic at
    once."""
    wanted = (
        *((8, 6, "a", 0, 0, 0), (7, 6, "a", 1, 600, 2), (3, 6, "a", 0, 0, 0), (4, 3, "c", 1, 0, 1)),
        *((7, 1, "a", 2, 0, 0), (5, 4, "c", 0, 0, 0), (2, 5, "c", 2, 0, 0), (1, 5, "c", 1, 0, 0)),
        *((4, 6, "c", 1, 600, 2), (5, 6, "c", 0, 600, 0), (4, 3, "a", 1, 1000, 0), (10, 2, "a", 0, 0, 0)),
    )
    world = World(QueuePolicy(bookings=3))
    for number, (count, hours, project, spare, gbps, pause) in enumerate(wanted):
        exclusive = number in (1, 3, 4, 6, 7, 8)
        world.order(number, count, hours, project, spare, gbps, exclusive=exclusive)
        world.run()
        world.forward(pause)
    world.forward(60)
    assert len(world.started) == len(wanted)


def fits_alone(one: Waiter) -> bool:
    return isinstance(place(request_of(resolve(one.order, one.project, SITE)), SITE, Occupancy()), Placement)


@given(steps)
@settings(max_examples=examples(15))
def test_same_rows_give_the_same_agenda(orders: list[tuple[int, int, str, int]]) -> None:
    """Two runs on one state decide the same, and change nothing."""
    world = World()
    for number, (count, hours, project, _) in enumerate(orders):
        world.order(number, count, hours, project)
    world.run()
    assert world.look().notes == world.look().notes


def test_booked_node_that_breaks_is_replaced_at_the_same_time() -> None:
    """If no other node fits, the booking is kept and waits."""
    world = World()
    world.order(0, 12, 5, "a")
    world.run()
    world.order(1, 6, 5, "a")
    world.run()
    booking = next(iter(world.bookings.values()))
    broken = booking.nodes[0]
    site = SITE.model_copy(update={"queue": world.policy})
    health = Occupancy(quarantined={broken: "DIMM"})
    again = agenda(site, world.capacity(), world.waiting, {}, health, {}, world.now.timestamp())
    kept = again.notes[booking.pod.id].booking
    assert kept is not None and broken not in kept.nodes
    assert kept.start == booking.start.timestamp()


def test_denied_order_keeps_a_fixed_start_and_loses_a_floating_one() -> None:
    """Over its cloud's quota: what was booked with the order stays, a place in the queue blocks no other order."""
    world = World(policy=QueuePolicy(bookings=2))
    world.order(0, 16, 5, "a")
    world.run()
    world.order(1, 4, 5, "a")
    world.order(2, 4, 5, "a")
    world.waiting[1] = replace(world.waiting[1], fixed=True, not_before=NOW + timedelta(hours=5))
    world.run()
    denied = {w.id: "over quota" for w in world.waiting}
    site = SITE.model_copy(update={"queue": world.policy})
    found = agenda(site, world.capacity(), world.waiting, {}, Occupancy(), denied, world.now.timestamp())
    floating, fixed = (found.notes[w.id] for w in world.waiting)
    assert floating.booking is None and fixed.booking is not None
    assert floating.reason == fixed.reason == "over quota"
