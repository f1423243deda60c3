"""Orders for whole nodes and for parts of the same nodes, most without an end: none waits forever behind later ones,
and none is stopped by them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import UUID, uuid5

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.engine.house import small_site
from tests.helpers.amounts import examples
from weft.engine.book.capacity import Capacity
from weft.engine.queue.agenda import Agenda, agenda
from weft.engine.queue.gather import Window
from weft.engine.queue.waiter import Waiter
from weft.engine.queue.waiting import EPOCH
from weft.model.order import Order
from weft.model.placement import Occupancy, Placement, Refusal
from weft.model.site import ProjectLimits, QueuePolicy
from weft.planning.place.placement import place
from weft.planning.place.sharing import Terms
from weft.planning.queue.book import Book
from weft.planning.queue.keep import Keep
from weft.planning.queue.leases import Leases
from weft.planning.queue.queue import KEPT_FOR, KEPT_OFF
from weft.planning.shapes.gpu.request import request_of
from weft.planning.shapes.resolve import resolve

SITE = small_site()
COMPUTE = [n.name for n in SITE.nodes if n.role == "compute" and n.accelerators]
NAMES = UUID(int=2)
LONGEST = 4


@dataclass
class World:
    """A few nodes, what is held of them, and waiting orders; pods end when the test says so.

    Attributes:
        nodes: how many of the site's nodes are in order.
        later: the names of pods in the order of their starts.
    """

    nodes: int
    policy: QueuePolicy = field(default_factory=QueuePolicy)
    now: datetime = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
    leases: dict[str, Keep] = field(default_factory=dict)
    bookings: tuple[Keep, ...] = ()
    waiting: list[Waiter] = field(default_factory=list)
    ends: dict[str, datetime] = field(default_factory=dict)
    lives: dict[str, int] = field(default_factory=dict)
    later: list[str] = field(default_factory=list)
    seen: Agenda | None = None
    reported: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def health(self) -> Occupancy:
        return Occupancy(down=dict.fromkeys(COMPUTE[self.nodes :], "off"))

    def order(self, name: str, kind: str, count: int = 1, hours: int | None = None, life: int = 99) -> Waiter:
        """An order that waits from now on; once started it lasts for `life` hours, which the queue doesn't know."""
        nodes: dict[str, Any] = {"count": count, "image": "tiny"}
        if kind == "whole":
            nodes |= {"flavor": "gpu8"}
        else:
            nodes |= {"sharing": "shared", "accelerators": {"type": "h100", "count": 1}}
        document: dict[str, Any] = {"name": name, "nodes": nodes, "fabric": "none"}
        if hours is not None:
            document["lease"] = {"duration": f"{hours}h"}
        pod = uuid5(NAMES, name)
        self.now += timedelta(seconds=1)
        made = Waiter(pod, "a", name, Order.model_validate(document), self.now, None, False)
        self.waiting.append(made)
        self.lives[name] = life if hours is None else min(life, hours)
        return made

    def book(self) -> Book:
        kept = [replace(k, start=max(k.start, EPOCH)) for k in self.bookings]
        return Book(
            Leases.of(self.leases.values()),
            tuple(k for k in kept if k.came is None),
            (),
            tuple(k for k in kept if k.came is not None),
        )

    def look(self, denied: dict[UUID, str]) -> Agenda:
        site = SITE.model_copy(update={"queue": self.policy})
        capacity = cast(Capacity, self)
        return agenda(site, capacity, self.waiting, {}, self.health, denied, self.now.timestamp())

    def places(self, one: Waiter, book: Book, window: Window) -> Placement | Refusal:
        """Where an order would go in this window, with what the book has of open bookings and others."""
        occupancy = book.occupancy(
            self.health, one.project, window.now, window.start, window.end, window.pod, window.came
        )
        order = resolve(one.order, one.project, SITE)
        return place(request_of(order), SITE, occupancy)

    def run(self) -> list[str]:
        """Do as `Dispatcher.run` until there is nothing more to do; returns the names of pods that started.

        An order that may start only once another's new booking is written down is left to the next run.
        """
        started: list[str] = []
        for _ in range(4):
            denied: dict[UUID, str] = {}
            while (found := self.look(denied)).start is not None:
                if self.start(found.start):
                    started.append(found.start.name)
                else:
                    denied[found.start.id] = "the next look"
            assert not found.impossible
            self.seen = found
            self.bookings = tuple(note.booking for note in found.notes.values() if note.booking)
            if not denied:
                self.check()
                return started
        raise AssertionError("the queue and placement disagree")

    def start(self, one: Waiter) -> bool:
        book, window = self.book(), one.window(self.now.timestamp())
        own = (k for k in book.bookings if k.name == str(one.id) and k.start <= window.now)
        booked = min((k.end for k in own), default=0.0)
        if window.now < booked:  # as `Dispatcher._plan`
            window = replace(window, end=min(booked, window.end), came=0.0)
        made = self.places(one, book, window)
        if isinstance(made, Refusal):
            return False
        parts = tuple((n.node, n.part) for n in made.nodes if n.part is not None)
        pod = str(one.id)
        begin, terms = self.now.timestamp(), Terms(one.project)
        self.leases[pod] = Keep(pod, one.project, made.held, begin, window.end, one.name, terms, parts=parts)
        self.ends[pod] = self.now + timedelta(hours=self.lives[one.name])
        self.waiting.remove(one)
        self.bookings = tuple(k for k in self.bookings if k.name != pod)
        self.later.append(one.name)
        return True

    def end(self, *names: str) -> None:
        """End these pods."""
        for name in names:
            del self.leases[str(uuid5(NAMES, name))]

    def forward(self) -> None:
        """Let an hour pass."""
        self.now += timedelta(hours=1)
        self.leases = {pod: k for pod, k in self.leases.items() if self.ends[pod] > self.now}

    def check(self) -> None:
        """Nothing is held twice, and every order that fits beside earlier pods and timed bookings has started."""
        devices: Counter[tuple[str, str]] = Counter()
        for keep in self.leases.values():
            if keep.parts:
                devices.update((node, d) for node, part in keep.parts for d in part.devices)
                devices.update({(node, "whole"): 0 for node in keep.nodes})
            else:
                devices.update((node, "whole") for node in keep.nodes)
        assert max(devices.values(), default=0) <= 1
        whole = {node for (node, what), n in devices.items() if what == "whole" and n}
        assert not whole & {node for (node, what), n in devices.items() if what != "whole" and n}
        book = self.book()
        for one in self.waiting:
            before = [w.created_at.timestamp() for w in self.waiting if w.created_at < one.created_at]
            mine = replace(book, open=tuple(k for k in book.open if k.came in before))
            found = self.places(one, mine, one.window(self.now.timestamp()))
            assert isinstance(found, Refusal), f"{one.name} is stopped by one that came later"

    def why(self, one: Waiter) -> str:
        assert self.seen is not None
        return self.seen.notes[one.id].reason


def test_orders_of_the_lab_start_in_turn() -> None:
    """One host of eight, full of parts; a ninth part waits, then the whole host: the part gets what is free first,
    and the host gives no more parts until it is whole."""
    world = World(1)
    for name in ("part0", "part1", "part2", "part3"):
        world.order(name, "part")
    world.order("four", "part", 4)
    assert world.run() == ["part0", "part1", "part2", "part3", "four"]
    ninth, whole = world.order("ninth", "part"), world.order("whole", "whole")
    assert world.run() == []
    assert (world.why(ninth), world.why(whole)) == (KEPT_FOR, KEPT_FOR)
    world.end("part0")
    assert world.run() == ["ninth"]
    world.end("part1", "part2")
    late = world.order("late", "part")
    assert world.run() == [] and (world.why(whole), world.why(late)) == (KEPT_FOR, KEPT_OFF)
    world.end("part3", "four")
    assert world.run() == []
    world.end("ninth")
    assert world.run() == ["whole"]
    world.end("whole")
    assert world.run() == ["late"]


@pytest.mark.parametrize("kind", ["part", "whole"])
def test_order_does_not_starve_behind_an_endless_stream(kind: str) -> None:
    """Each pod ends and another is ordered in its place, one always there: the order for all of it gets it."""
    world = World(2)
    for number in range(16 if kind == "part" else 2):
        world.order(f"p{number}", kind, life=1 + number % 3)
    world.run()
    world.order("big", "whole", 2, life=1)
    for number in range(100, 130):
        world.order(f"p{number}", kind, life=2 + number % 2)
        world.run()
        world.forward()
        if "big" in world.later:
            break
    assert "big" in world.later
    assert not [p for p in world.later if p[0] == "p" and int(p[1:]) >= 100]


def test_shorter_lease_goes_first_if_it_delays_no_one() -> None:
    """It delays no one: the host isn't whole before."""
    world = World(1)
    world.order("open", "part")
    world.order("known", "part", hours=5)
    assert world.run() == ["open", "known"]
    whole, long = world.order("whole", "whole"), world.order("long", "part", hours=6)
    world.order("short", "part", hours=4)
    assert world.run() == ["short"]
    assert (world.why(whole), world.why(long)) == (KEPT_FOR, KEPT_OFF)
    assert world.seen is not None and world.seen.notes[whole.id].expected is None


@pytest.mark.parametrize("kind", ["whole", "part"])
def test_booking_starts_slightly_late_though_another_follows(kind: str) -> None:
    """The queue is processed some seconds after the start: the next booking is delayed as much."""
    world = World(1, QueuePolicy(bookings=2))
    count = 1 if kind == "whole" else 8
    for name in ("first", "second", "third"):
        world.order(name, kind, count, hours=2)
    assert world.run() == ["first"]
    assert len(world.bookings) == 2
    for name in ("second", "third"):
        world.forward()
        assert world.run() == []
        world.now += timedelta(seconds=10)
        world.forward()
        assert world.run() == [name]


def test_node_held_whole_before_booked_parts_gets_no_part() -> None:
    """The parts are booked for the time after."""
    world = World(1)
    world.order("whole", "whole", hours=1)
    world.order("booked", "part")
    world.order("third", "part")
    assert world.run() == ["whole"]
    assert [k.label for k in world.bookings] == ["booked"]


def test_later_orders_get_nodes_that_are_not_kept() -> None:
    """Only as many nodes are kept as the order wants: those on which the fewest pods must end."""
    world = World(3)
    for number in range(17):
        world.order(f"p{number}", "part")
    world.run()
    emptiest = world.leases[str(uuid5(NAMES, "p16"))].nodes
    world.order("whole", "whole")
    assert world.run() == [] and [k.nodes for k in world.bookings] == [emptiest]
    world.end("p0")
    world.order("later", "part")
    assert world.run() == ["later"]
    assert world.leases[str(uuid5(NAMES, "later"))].nodes != emptiest


def test_kept_nodes_move_when_others_need_fewer_pods_to_end() -> None:
    """Only if that is better."""
    world = World(2)
    for number in range(16):
        world.order(f"p{number}", "part")
    world.run()
    hosts = {n: world.leases[str(uuid5(NAMES, n))].nodes[0] for n in (f"p{i}" for i in range(16))}
    world.order("whole", "whole")
    world.run()
    ((kept,),) = [k.nodes for k in world.bookings]
    other = [name for name, host in hosts.items() if host != kept]
    same = [name for name, host in hosts.items() if host == kept]
    world.end(same[0], other[0])
    world.run()
    assert [k.nodes for k in world.bookings] == [(kept,)]
    world.end(other[1])
    world.run()
    assert [k.nodes for k in world.bookings] == [(hosts[other[1]],)]


wanted = st.tuples(
    st.sampled_from(["whole", "part"]),
    st.integers(1, 3),
    st.sampled_from([None, None, 1, 3, 6]),
    st.integers(1, LONGEST),
)


@given(
    st.lists(wanted, min_size=1, max_size=8),
    st.lists(st.tuples(wanted, st.integers(0, 2)), min_size=1, max_size=5),
    st.lists(wanted, min_size=1, max_size=6),
    st.integers(1, 3),
)
@example(
    [("whole", 1, None, 1), ("part", 1, None, 1), ("whole", 2, None, 1)],
    [(("whole", 1, 1, 1), 0)],
    [("part", 1, None, 1)],
    1,
)
@settings(max_examples=examples(60))
def test_every_waiting_order_starts_in_the_end(
    there: list[tuple[str, int, int | None, int]],
    orders: list[tuple[tuple[str, int, int | None, int], int]],
    stream: list[tuple[str, int, int | None, int]],
    bookings: int,
) -> None:
    """Random pods that end some time, random orders, and an endless stream of later ones, hour by hour: all orders
    start, nothing is held twice, and no order is ever stopped by one that came later (`World.check`)."""
    world = World(3, QueuePolicy(bookings=bookings))
    for number, (kind, count, hours, life) in enumerate(there):
        world.order(f"r{number}", kind, count, hours, life)
    world.run()
    for number, ((kind, count, hours, life), pause) in enumerate(orders):
        world.order(f"o{number}", kind, count, hours, life)
        world.run()
        for _ in range(pause):
            world.forward()
            world.run()
    mine = {f"o{n}" for n in range(len(orders))} | {f"r{n}" for n in range(len(there))}
    most = (len(mine) + 1) * LONGEST * 9
    for hour in range(most):
        if mine <= set(world.later):
            return
        kind, count, hours, life = stream[hour % len(stream)]
        if len(world.waiting) < len(mine) + 2:
            world.order(f"s{hour}", kind, count, hours, life)
        world.run()
        world.forward()
    waits = {w.name: world.why(w) for w in world.waiting}
    raise AssertionError(f"not started after {most} hours: {waits}")


def test_booking_not_due_yet_gets_no_kept_node() -> None:
    """It could start earlier than booked, but not on a node kept for an earlier order."""
    world = World(2)
    for name, count in (("four", 4), ("three", 3)):
        world.order(name, "part", count)
    world.order("ends", "part", hours=10)
    world.order("alone", "part", 4)
    world.run()
    whole = world.order("whole", "whole")
    assert world.run() == [] and world.why(whole) == KEPT_FOR
    world.order("later", "part")
    assert world.run() == [] and [k.label for k in world.bookings if k.came is None] == ["later"]
    world.now += timedelta(seconds=30)
    assert world.look({}).start is None


def test_queue_counts_a_shared_node_once() -> None:
    world = World(2, QueuePolicy(projects={"a": ProjectLimits(max_nodes=2)}))
    for number in range(3):
        world.order(f"p{number}", "part")
    world.run()
    world.order("whole", "whole")
    assert world.run() == ["whole"]
