"""The queue's rules for IPUs over a long time, with rows as the only state between two runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from tests.helpers.paths import EXAMPLES
from weft.app.sitefile import load_site
from weft.engine.book.capacity import Capacity
from weft.engine.book.holdrows import Booked, Holder, NodeHold
from weft.engine.queue.agenda import Agenda, agenda
from weft.engine.queue.waiter import Waiter
from weft.model.order import Order
from weft.model.placement import Occupancy
from weft.model.plan import Plan, UsedNumbers
from weft.model.site import QueuePolicy, Site
from weft.planning.place.sharing import Terms
from weft.planning.place.slots import is_slot
from weft.planning.shapes.plan import make_plan, takes

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
NAMES = UUID(int=2)
EXAMPLE = EXAMPLES / "sites" / "ipupod64" / "site.yaml"


def few_places() -> Site:
    """An IPU-POD64 whose two Poplar servers take two pods each."""
    site = load_site(EXAMPLE)
    nodes = [n.model_copy(update={"servers": 2}) if n.role == "poplar" else n for n in site.nodes]
    return site.model_copy(update={"nodes": tuple(nodes)})


SITE = few_places()


@dataclass
class IpuWorld:
    """Rows as the database has them, and the time; leases end when they say."""

    bookings_given: int
    now: datetime = NOW
    holds: dict[str, NodeHold] = field(default_factory=dict[str, NodeHold])
    bookings: dict[UUID, Booked] = field(default_factory=dict[UUID, Booked])
    waiting: list[Waiter] = field(default_factory=list[Waiter])
    first: dict[UUID, datetime] = field(default_factory=dict[UUID, datetime])
    started: list[UUID] = field(default_factory=list[UUID])

    def order(self, number: int, count: int, servers: int, hours: int) -> None:
        document = {
            "name": f"p{number}",
            "ipus": {"count": count},
            "nodes": {"count": servers, "flavor": "poplar", "image": "ubuntu"},
            "lease": {"duration": f"{hours}h"},
        }
        order = Order.model_validate(document)
        self.waiting.append(
            Waiter(uuid5(NAMES, str(number)), "team", order.name, order, self.now, None, False)
        )

    def capacity(self) -> Capacity:
        alone = {name: hold for name, hold in self.holds.items() if not is_slot(name)}
        places = [hold for name, hold in self.holds.items() if is_slot(name)]
        booked = sorted(self.bookings.values(), key=lambda b: (b.start, str(b.pod.id)))
        return Capacity(alone, {}, UsedNumbers(), booked, places=places)

    def look(self) -> Agenda:
        site = SITE.model_copy(update={"queue": QueuePolicy(bookings=self.bookings_given)})
        return agenda(site, self.capacity(), self.waiting, {}, Occupancy(), {}, self.now.timestamp())

    def run(self) -> None:
        """Start one after another with the plan that the service would make, then write the bookings."""
        while (found := self.look()).start is not None:
            self.start(found.start)
        assert not found.impossible
        kept: dict[UUID, Booked] = {}
        for pod, note in found.notes.items():
            if (booking := note.booking) is None:
                continue
            start, end = (datetime.fromtimestamp(t, UTC) for t in (booking.start, booking.end))
            holder = Holder(pod, booking.label, booking.project, terms=Terms(booking.project))
            kept[pod] = Booked(holder, booking.nodes, start, end)
            before = self.bookings.get(pod)
            assert before is None or start <= before.start, "a booking moved later"
            self.first.setdefault(pod, start)
            order = next(w.order for w in self.waiting if w.id == pod)
            assert order.ipus and booking.counted == order.ipus.machines
            assert len(booking.nodes) == order.ipus.machines + order.nodes.count + 1
        assert set(self.bookings) - set(self.started) <= set(kept), "a booking was forgotten"
        self.bookings = kept
        self.check()

    def start(self, one: Waiter) -> None:
        now, book = self.now.timestamp(), self.capacity().book()
        occupancy = book.occupancy(Occupancy(), one.project, now, now, one.window(now).end, str(one.id))
        made = make_plan(str(one.id), one.project, one.order, SITE, occupancy, UsedNumbers(), {})
        assert isinstance(made, Plan), f"the queue and the plan disagree: {made.reason}"
        end = one.order.lease.ends(self.now)
        holder = Holder(one.id, one.name, one.project, end, terms=Terms(one.project))
        for name in takes(made):
            assert name not in self.holds
            self.holds[name] = NodeHold(name, holder, self.now)
        self.waiting.remove(one)
        self.bookings.pop(one.id, None)
        self.started.append(one.id)
        assert self.now <= self.first.get(one.id, self.now), "a promised start was delayed"

    def check(self) -> None:
        """No machine or place is promised twice at one time, nor promised while its lease lasts."""
        rows = list(self.bookings.values())
        for i, a in enumerate(rows):
            for b in rows[i + 1 :]:
                if a.start < b.end and b.start < a.end:
                    assert not set(a.nodes) & set(b.nodes)
            for name in a.nodes:
                assert name not in self.holds or self.holds[name].pod.lease_end <= a.start

    def forward(self, hours: int) -> None:
        for _ in range(hours):
            self.now += timedelta(hours=1)
            self.holds = {n: hold for n, hold in self.holds.items() if hold.pod.lease_end > self.now}
            self.run()


orders = st.lists(
    st.tuples(st.sampled_from([4, 8, 16, 32, 64]), st.integers(1, 2), st.integers(1, 9), st.integers(0, 3)),
    min_size=1,
    max_size=12,
)


@given(orders, st.integers(0, 3))
@settings(max_examples=examples(40))
def test_bookings_of_ipus_hold_through_random_orders(
    ordered: list[tuple[int, int, int, int]], bookings: int
) -> None:
    """Random orders, hour by hour: a booking is never forgotten, moved later or given away; all start in the end."""
    world = IpuWorld(bookings)
    for number, (count, servers, hours, pause) in enumerate(ordered):
        world.order(number, count, servers, hours)
        world.run()
        world.forward(pause)
    world.forward(sum(hours for _, _, hours, _ in ordered) + 4)
    assert len(world.started) == len(ordered) and not world.waiting
