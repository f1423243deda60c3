"""IPUs in time, with the real database, verbs and loop: booked starts, the queue, refusals, reservations."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.engine.house import House
from tests.engine.ipuhouse import POD, IpuHouse, order
from tests.engine.timehouse import HandClock, look, make, policy, release
from tests.helpers.capacities import count_of, rows_of
from tests.helpers.offers import offers
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError, InputError, NotFoundError, RefusedError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.reservation import Reservation
from weft.model.site import ProjectLimits


@pytest.fixture
def house(database: Database, database_url: str, clock: HandClock) -> Generator[IpuHouse]:
    house = IpuHouse(database, database_url, clock)
    yield house
    house.close()


def would_fit(house: House, wanted: Order) -> tuple[tuple[str, ...], str | None]:
    """From the refusal of this order: the changes with which it would fit, and the earliest start."""
    with pytest.raises(RefusedError) as caught:
        house.order(wanted)
    detail: dict[str, Any] = caught.value.detail
    return offers(caught.value), detail["earliest_start"]


def started(house: IpuHouse, pod: PodRecord) -> PodRecord:
    """Visits until READY, with the machine's part simulated."""
    pod = house.run(pod, PodState.BOOTING)
    house.vipu.boot(pod.scope, pod.plan.graph)
    return house.run(pod, PodState.READY)


def servers(house: IpuHouse, **places: int) -> None:
    """Give these hosts so many places."""
    site = house.store.site().site
    nodes = [n.model_copy(update={"servers": places[n.name]}) if n.name in places else n for n in site.nodes]
    house.store.activate_site(site.model_copy(update={"nodes": tuple(nodes)}), "test")


def test_use_of_ipu_pods_is_counted_in_machines(house: IpuHouse, clock: HandClock) -> None:
    """Four IPUs count as one machine, whatever Poplar servers the order has."""
    house.booted(order("bert", 8))
    clock.forward(hours=1)
    with house.database.transaction() as tx:
        used = tx.rows("use_of_projects", at=clock.now(), half_life=1e9)
    assert [round(float(r["seconds"]) / 3600) for r in used] == [2]


def test_ipus_can_be_booked_for_later(house: IpuHouse, clock: HandClock) -> None:
    """Machines and places are free until then and kept from then on; the pod starts on them."""
    start = clock.now() + timedelta(hours=2)
    pod = house.order(order("later", 16, start=start, duration="1h"))
    assert pod.state is PodState.PENDING
    assert pod.reason == "starts at 2026-11-21T10:00Z, IPU-Machines booked: 4"
    booking = house.store.capacity().bookings[0]
    machines = [f"ipum{n}" for n in (1, 2, 3, 4)]
    assert booking.nodes == (*machines, "host/generic1/1", "host/poplar1/1")
    assert not house.store.capacity().holds
    fits, earliest = would_fit(house, order("open", 4))
    assert "lease.end: 2026-11-21T10:00Z at the latest" in fits
    assert "lease.start: fits from 2026-11-21T11:00Z" in fits and earliest == "2026-11-21T11:00:00Z"
    short = house.booted(order("short", 8, duration="90m"))
    clock.forward(minutes=95)
    house.worker.tend_queue()
    house.run(short, PodState.RELEASED)
    assert look(house, pod).state is PodState.PENDING
    clock.forward(minutes=25)
    house.worker.tend_queue()
    ready = started(house, pod)
    assert list(ready.nodes) == machines and ready.lease_end == clock.now() + timedelta(hours=1)
    assert not house.store.capacity().bookings


def test_order_of_ipus_waits_with_an_expected_start(house: IpuHouse, clock: HandClock) -> None:
    """With a position, a reason and an expected start; machines bound to a live pod don't count as broken."""
    first = house.booted(order("first", 16, duration="8h"))
    pod, next_ = house.order(order("second", 16, queue=True)), house.order(order("third", 4, queue=True))
    house.worker.tend_queue()
    waiting = look(house, pod)
    assert (waiting.state, waiting.position) == (PodState.PENDING, 1)
    assert waiting.reason == "waiting for capacity; starts by 2026-11-21T16:00Z, IPU-Machines booked: 4"
    assert waiting.expected_start == clock.now() + timedelta(hours=8)
    assert look(house, next_).position == 2
    release(house, first)
    house.worker.tend_queue()
    assert look(house, next_).state is PodState.PENDING
    assert len(started(house, pod).nodes) == 4


def test_order_of_ipus_waits_for_machines_that_it_did_not_report(house: IpuHouse, clock: HandClock) -> None:
    """It is booked on others, with an expected start; what was booked on a reported machine moves."""
    first = house.booted(order("first", 4, duration="2h"))
    other = house.booted(order("other", 8, duration="4h"))
    booked = house.order(order("booked", 8, start=clock.now() + timedelta(hours=5), duration="1h"))
    waits = house.order(order("waits", 8, queue=True, duration="1h"))
    reported = first.nodes[0]
    assert reported in house.store.capacity().bookings[0].nodes
    house.service.pods.report_node(house.request(), "first", reported, "link errors")
    release(house, first)
    house.worker.tend_queue()
    waiting, rows = look(house, waits), house.store.capacity().bookings
    assert waiting.placed is None and waiting.expected_start == clock.now() + timedelta(hours=4)
    assert len(rows) == 2 and not any(reported in row.nodes for row in rows), rows
    release(house, other)
    house.worker.tend_queue()
    assert reported not in look(house, waits).nodes
    assert look(house, booked).placed is None


def test_reported_poplar_server_takes_no_server_of_the_project(house: IpuHouse, clock: HandClock) -> None:
    """By its name, or that of the server on it; neither now nor in the queue. The controller's host is the site's."""
    pod = house.booted(order("ml", 4))
    server = next(r.name for r in pod.plan.graph.resources if r.key == "server/poplar1")
    with pytest.raises(NotFoundError, match="no node or server"):
        house.service.pods.report_node(house.request(), "ml", "generic1", "slow")
    for name in (server, "poplar1"):
        assert house.service.pods.report_node(house.request(), "ml", name, "slow").node == "poplar1"
    booked = {"start": clock.now() + timedelta(hours=1), "duration": "1h"}
    for wanted in (order("now", 4), order("booked", 4, **booked)):
        with pytest.raises(RefusedError):
            house.order(wanted)
    waits = house.order(order("waits", 4, queue=True))
    house.worker.tend_queue()
    assert look(house, waits).placed is None and not house.store.capacity().bookings
    house.service.nodes.clear_report(house.operator, "poplar1")
    house.worker.tend_queue()
    assert look(house, waits).placed is not None


def test_order_of_ipus_is_backfilled(house: IpuHouse, clock: HandClock) -> None:
    """Behind a large order that waits, a short one goes first; one that would run into its start does not."""
    house.booted(order("first", 8, duration="4h"))
    large = house.order(order("large", 16, queue=True, duration="1h"))
    long = house.order(order("long", 4, queue=True, duration="5h"))
    short = house.order(order("short", 4, queue=True, duration="4h"))
    house.worker.tend_queue()
    assert look(house, large).expected_start == clock.now() + timedelta(hours=4)
    assert look(house, long).state is PodState.PENDING
    assert look(house, short).state is PodState.PLACED
    would_fit(house, order("direct", 4, duration="5h"))


def test_order_waits_for_a_place_on_a_shared_host(house: IpuHouse, clock: HandClock) -> None:
    """Machines are free, but the Poplar server has one place: that is reported, booked, and given when it comes."""
    servers(house, poplar1=1)
    first = house.booted(order("first", 4, duration="3h"))
    fits, earliest = would_fit(house, order("now", 4, duration="1h"))
    assert "lease.start: fits from 2026-11-21T11:00Z" in fits and earliest == "2026-11-21T11:00:00Z"
    later = house.order(order("later", 4, start=clock.now() + timedelta(hours=3), duration="1h"))
    waits = house.order(order("waits", 4, queue=True, duration="1h"))
    house.worker.tend_queue()
    assert look(house, waits).expected_start == clock.now() + timedelta(hours=4)
    bookings = house.store.capacity().bookings
    assert [r.start for r in bookings] == [clock.now() + timedelta(hours=h) for h in (3, 4)]
    assert all("host/poplar1/1" in r.nodes for r in bookings)
    clock.forward(hours=3)
    house.worker.tend_queue()
    house.run(first, PodState.RELEASED)
    house.worker.tend_queue()
    assert look(house, later).state is PodState.PLACED and look(house, waits).state is PodState.PENDING


def test_broken_booked_machine_is_replaced(house: IpuHouse, clock: HandClock) -> None:
    """Long before the start another run is booked; if there is none, the booking stays unchanged."""
    start = clock.now() + timedelta(hours=2)
    pod = house.order(order("later", 8, start=start))
    assert house.store.capacity().bookings[0].nodes[:2] == ("ipum1", "ipum2")
    house.vipu.away.add("ipum1")
    clock.forward(minutes=1)
    house.worker.tend_queue()
    booking = house.store.capacity().bookings[0]
    assert booking.nodes[:2] == ("ipum3", "ipum4") and booking.start == start
    house.service.nodes.quarantine(house.operator, "ipum3", "cable")
    clock.forward(minutes=1)
    house.worker.tend_queue()
    assert house.store.capacity().bookings[0].nodes == booking.nodes
    assert look(house, pod).expected_start == start


def test_ipus_and_nodes_have_separate_queues(house: IpuHouse, clock: HandClock) -> None:
    """Each has its own queue: neither blocks the other, and both have positions."""
    house.booted(order("ipus", 16, duration="2h"))
    house.ready(make("nodes", 16, duration="3h"))
    one, other = house.order(order("more", 4, queue=True)), house.order(make("many", 2, queue=True))
    house.worker.tend_queue()
    assert [look(house, p).position for p in (one, other)] == [1, 1]
    assert [look(house, p).expected_start for p in (one, other)] == [
        clock.now() + timedelta(hours=h) for h in (2, 3)
    ]


def test_project_is_limited_in_ipu_machines(house: IpuHouse) -> None:
    """A machine counts as a node, a place on a Poplar server doesn't; the order waits, and says so."""
    policy(house, projects={"team-a": ProjectLimits(max_nodes=3)})
    fits, _ = would_fit(house, order("all", 16))
    assert fits == ("ipus.count: 8 instead of 16",)
    with pytest.raises(RefusedError, match="of at most 3 nodes"):
        house.order(order("all", 16, queue=True))
    house.booted(order("first", 8))
    pod = house.order(order("second", 8, queue=True))
    house.worker.tend_queue()
    assert look(house, pod).reason == "project team-a has 2 of 3 nodes"


def test_order_that_never_fits_is_refused_not_queued(house: IpuHouse) -> None:
    """More than the row has, more Poplar servers than there are, an IPU-POD that isn't there."""
    with pytest.raises(RefusedError, match="the longest run of them is 4"):
        house.order(order("wide", 32, queue=True))
    with pytest.raises(RefusedError, match="1 Poplar servers with capacity, 2 are needed"):
        house.order(
            order("served", 4, queue=True, nodes={"count": 2, "flavor": "cpu1", "image": "tiny"}),
        )
    with pytest.raises(InputError, match=f"IPU-PODs of cloud lab: {POD}"):
        house.order(order("lost", queue=True, ipus={"count": 4, "ipu_pod": "nowhere"}))
    assert house.service.pods.list(house.request()) == []


def test_lease_of_ipus_is_extended_up_to_the_next_booking(house: IpuHouse, clock: HandClock) -> None:
    """A booked place on the Poplar server limits it as a machine does."""
    servers(house, poplar1=1)
    house.booted(order("run", 4, duration="2h"))
    house.order(order("later", 4, start=clock.now() + timedelta(hours=4)))
    now = clock.now()
    assert set(house.store.capacity().bookings[0].nodes) & {"host/poplar1/1"}
    house.service.pods.extend(house.request(), "run", now + timedelta(hours=3))
    with pytest.raises(ConflictError, match="booked by others from 2026-11-21T12:00Z"):
        house.service.pods.extend(house.request(), "run", now + timedelta(hours=5))


def test_machines_can_be_reserved_for_a_project(house: IpuHouse, clock: HandClock) -> None:
    """Other projects are refused them; shared hosts can't be reserved."""

    def reserve(name: str, project: str, node: str, start: datetime | None = None) -> None:
        house.request(project)  # makes the project known to the cloud
        given = Reservation(name=name, project_id=project, nodes=(node,), start=start)
        house.service.capacity.reserve(house.operator, given)

    reserve("block", "team-b", "ipum1")
    reserve("soon", "team-b", "ipum2", clock.now() + timedelta(hours=1))
    fits, _ = would_fit(house, order("mine", 16))
    assert "ipus.count: 8 instead of 16" in fits
    house.order(order("short", 8, duration="8h"))
    view = house.service.pods.create(house.request("team-b"), order("theirs", 8))
    assert {n.node for n in view.placed} == {"ipum1", "ipum2"}
    with pytest.raises(InputError, match="compute nodes and machines of site lab"):
        reserve("host", "team-b", "poplar1")


def test_capacity_says_which_ipus_fit_now_and_later(house: IpuHouse, clock: HandClock) -> None:
    """Leases, bookings and silent machines count; tenants see only sizes, operators places, too."""
    house.booted(order("run", 4, duration="5h"))
    (row,) = house.service.capacity.show(house.operator, "ipu").rows
    servers = count_of(row, "Poplar servers with capacity").free
    assert (row.shape, row.place, row.total, row.free, servers) == ("ipus", POD, 4, 3, 1)
    (largest,) = row.largest
    assert (largest.count, largest.where) == (8, f"{POD} 3-4")
    assert [(s.count, s.at) for s in row.soon] == [(16, clock.now() + timedelta(hours=5))]
    house.order(order("later", 8, start=clock.now() + timedelta(hours=10)))
    assert house.service.capacity.show(house.request(), "ipu", duration="12h").rows[0].free == 2
    assert house.service.capacity.show(house.request(), "ipu", duration="2h").rows[0].free == 3
    house.vipu.away.add("ipum4")
    view = house.service.capacity.show(house.request())
    (row,) = rows_of(view, "ipus")
    assert (row.free, row.largest[0].count) == (1, 4) and rows_of(view, "nodes")
    view = house.service.capacity.show(house.request(), duration="2h")
    (row,) = rows_of(view, "ipus")
    assert (row.free, row.largest[0].count) == (2, 8)
    assert rows_of(house.service.capacity.show(house.request(), level="leaf"), "ipus") == []
    with pytest.raises(InputError, match=r"types of accelerators of site lab: .*ipu"):
        house.service.capacity.show(house.request(), "abacus")
