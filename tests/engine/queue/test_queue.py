"""The queue: reasons for waiting, starts, many workers at once, and restarts in the middle."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from tests.engine.house import House
from tests.engine.timehouse import (
    HandClock,
    at_once,
    dispatching,
    look,
    make,
    messages,
    policy,
    queue,
    release,
)
from weft.engine.base.database import Database, Tx
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.store.store import Store
from weft.model.errors import ConflictError, RefusedError
from weft.model.pod import PodState
from weft.model.site import ProjectLimits
from weft.planning.queue.queue import KEPT_FOR

# -- the queue ------------------------------------------------------------------------------------------------------


def test_order_waits_and_starts_when_another_is_released(house: House) -> None:
    """With a position, a reason, an expected start, and READY after the release."""
    first = house.ready(make("first", 16, duration="8h"))
    pod = queue(house, "second", 4)
    house.worker.tend_queue()
    waiting = look(house, pod)
    assert (waiting.state, waiting.position) == (PodState.PENDING, 1)
    assert waiting.reason == "waiting for capacity; starts by 2026-11-21T16:00Z, nodes booked: 4"
    assert waiting.expected_start == datetime(2026, 11, 21, 16, tzinfo=UTC)
    shown = next(p for p in house.service.pods.list(house.request()) if p.name == "second")
    assert (shown.position, shown.nodes, shown.segment) == (1, 4, None)
    assert house.service.pods.show(house.request(), "second").placed == ()
    release(house, first)
    house.worker.tend_queue()
    ready = house.run(pod, PodState.READY)
    assert len(ready.nodes) == 4 and ready.position is None
    assert messages(house, pod, "queue") and messages(house, pod, "state")[0].startswith("PENDING")


def test_order_waits_for_an_nvlink_domain(house: House) -> None:
    """Enough nodes are free, but not in one domain; it starts inside one, which the tenant's view names."""
    site = house.store.site().site
    compute = [n.name for n in site.nodes if n.role == "compute"]
    domain = {name: f"nvl{1 + i // 4}" for i, name in enumerate(compute)}
    nodes = (n.model_copy(update={"nvlink_domain": domain.get(n.name)}) for n in site.nodes)
    house.store.activate_site(site.model_copy(update={"nodes": tuple(nodes)}), "test")
    first = house.ready(make("first", 13, duration="8h"))
    small = queue(house, "small", 3, locality={"required": "nvlink_domain"})
    pod = queue(house, "second", 4, locality={"slice": 4, "slice_within": "whole_nvlink_domain"})
    house.worker.tend_queue()
    assert len({domain[n] for n in house.run(small, PodState.READY).nodes}) == 1
    waiting = look(house, pod)
    assert (waiting.state, waiting.position) == (PodState.PENDING, 1)
    assert waiting.expected_start == datetime(2026, 11, 21, 16, tzinfo=UTC)
    release(house, first)
    house.worker.tend_queue()
    ready = house.run(pod, PodState.READY)
    assert len({domain[n] for n in ready.nodes}) == 1
    placed = house.service.pods.show(house.request(), "second").placed
    assert {n.nvlink_domain for n in placed} == {domain[ready.nodes[0]]}
    rows = house.service.capacity.show(house.request(), None, None, "1h").rows
    counts = [(x.each, x.total, x.free) for x in rows[0].counts if "NVLink" in x.name]
    assert counts == [(4, 4, 2)], rows[0].counts


def test_fitting_order_does_not_wait(house: House) -> None:
    """With enough capacity it starts at the next run of the queue."""
    pod = queue(house, "quick", 2)
    house.worker.tend_queue()
    house.run(pod, PodState.READY)


def test_order_that_never_fits_is_refused_not_queued(house: House) -> None:
    """More than the site has, and more than the project may have."""
    with pytest.raises(RefusedError):
        queue(house, "huge", 17)
    policy(house, projects={"team-a": ProjectLimits(max_nodes=4)})
    with pytest.raises(RefusedError, match="of at most 4 nodes"):
        queue(house, "big", 5)
    assert house.service.pods.list(house.request()) == []


def test_queued_order_can_be_withdrawn(house: House) -> None:
    """It ends at once without a receipt, and frees its name and its booking; the next one moves up."""
    house.ready(make("first", 16, duration="8h"))
    pod, other = queue(house, "second", 4), queue(house, "third", 4)
    house.worker.tend_queue()
    assert [look(house, p).position for p in (pod, other)] == [1, 2]
    house.release(pod)
    assert look(house, pod).state is PodState.RELEASED
    with pytest.raises(ConflictError, match="nothing was ever claimed"):
        house.service.pods.receipt(house.request(), "second")
    house.worker.tend_queue()
    assert look(house, other).position == 1
    assert [r.pod.id for r in house.store.capacity().bookings] == [other.id]
    queue(house, "second", 1)


def test_backfill_never_delays_a_booked_start(house: House, clock: HandClock) -> None:
    """Behind a large order that waits, a short one goes first; one that would run into its start does not."""
    house.ready(make("first", 8, duration="4h"))
    large = queue(house, "large", 16, duration="1h")
    long, short = queue(house, "long", 4, duration="5h"), queue(house, "short", 4, duration="4h")
    house.worker.tend_queue()
    assert look(house, large).expected_start == clock.now() + timedelta(hours=4)
    assert look(house, long).state is PodState.PENDING
    assert look(house, short).state is PodState.PLACED
    assert look(house, long).expected_start == clock.now() + timedelta(hours=5)
    with pytest.raises(RefusedError):
        house.order(make("direct", 4, duration="5h"))


def test_booking_moves_earlier_when_a_pod_ends_early(house: House) -> None:
    """A booking for later starts as soon as there is capacity."""
    first = house.ready(make("first", 16, duration="9h"))
    pod = queue(house, "next", 16)
    house.worker.tend_queue()
    assert look(house, pod).expected_start is not None
    release(house, first)
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PLACED


def test_pod_without_an_end_gives_no_expected_start(house: House) -> None:
    """Its end is unknown: the order waits, nodes are kept for it without a time, and it says so."""
    house.ready(make("endless", 16))
    pod = queue(house, "next", 2)
    house.worker.tend_queue()
    waiting = look(house, pod)
    assert waiting.reason == KEPT_FOR and waiting.expected_start is None
    assert waiting.position == 1


def test_project_over_its_limit_waits_for_its_own_nodes(house: House) -> None:
    """It waits although there is capacity, says why, and starts when it has freed some of its own."""
    policy(house, projects={"team-a": ProjectLimits(max_nodes=6)})
    first = house.ready(make("first", 4))
    with pytest.raises(RefusedError, match="has 4 of at most 6 nodes"):
        house.order(make("direct", 4))
    pod = queue(house, "second", 4)
    house.worker.tend_queue()
    assert "has 4 of 6 nodes" in look(house, pod).reason
    release(house, first)
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PLACED


def test_project_with_the_least_use_goes_first(house: House, clock: HandClock) -> None:
    """team-a has had the site for hours: team-b's order goes first although it came later."""
    policy(house, projects={"team-b": ProjectLimits(share=1)})
    first = house.ready(make("first", 16, duration="9h"))
    clock.forward(hours=3)
    mine = queue(house, "mine", 16)
    clock.forward(minutes=1)
    view = house.service.pods.create(house.request("team-b"), make("theirs", 16, queue=True))
    theirs = house.store.pods.find(view.id, None)
    release(house, first)
    house.worker.tend_queue()
    assert look(house, theirs).state is PodState.PLACED
    assert look(house, mine).state is PodState.PENDING


def test_patience_for_fewer_leaves_is_bounded(house: House, clock: HandClock) -> None:
    """With patience an order waits for one leaf while two would do, and takes two when the time is up."""
    policy(house, patience="30m")
    pods = [house.ready(make(f"p{n}", 3)) for n in range(4)]
    pod = queue(house, "quad", 4)
    house.worker.tend_queue()
    assert look(house, pod).reason == "waiting for fewer leaves"
    clock.forward(minutes=31)
    house.worker.tend_queue()
    placed = look(house, pod)
    assert placed.state is PodState.PLACED and pods
    assert len({n.leaf for n in placed.plan.placement.nodes}) == 4


def test_cloud_quota_does_not_block_other_orders(house: House) -> None:
    """An order over its project's quota waits with the reason; the next one starts."""
    house.cloud.offers.quotas["team-a", "servers"] = 1
    pod = queue(house, "over", 2)
    view = house.service.pods.create(house.request("team-b"), make("fine", 2, queue=True))
    house.worker.tend_queue()
    assert "servers: 0 used + 2 requested > 1" in look(house, pod).reason
    assert house.store.pods.find(view.id, None).state is PodState.PLACED
    house.cloud.offers.quotas.clear()
    house.store.activate_site(house.store.site().site, "test")
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PLACED


def test_order_with_an_expired_lease_leaves_the_queue(house: House, clock: HandClock) -> None:
    """It can't start any more, and says so."""
    house.ready(make("endless", 16))
    pod = queue(house, "late", 2, end=clock.now() + timedelta(hours=1))
    clock.forward(hours=2)
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.RELEASED
    assert "the lease ended before it could start" in messages(house, pod, "release")


def test_order_extended_at_its_end_keeps_waiting(house: House, clock: HandClock) -> None:
    house.ready(make("endless", 16))
    pod = queue(house, "late", 2, start=clock.now() + timedelta(days=9), end=clock.now() + timedelta(days=10))
    with house.database.statement() as tx:
        assert (
            tx.row(
                "release_pod",
                id=pod.id,
                message=Jsonb("over"),
                withdrawn=Jsonb(""),
                at=clock.now(),
                late=True,
                generation=None,
            )
            is None
        )
    assert look(house, pod).state is PodState.PENDING


def test_order_with_names_gone_from_the_site_fails_and_can_be_retried(house: House) -> None:
    """The flavor left the site while it waited: FAILED with the reason; a retry helps once the flavor is back."""
    house.ready(make("first", 16, duration="1h"))
    pod = queue(house, "next", 2)
    site = house.store.site().site
    cloud = site.clouds["lab"].model_copy(update={"flavors": {}})
    house.store.activate_site(site.model_copy(update={"clouds": {"lab": cloud}}), "test")
    house.worker.tend_queue()
    failed = look(house, pod)
    assert failed.state is PodState.FAILED and "nodes.flavor" in failed.reason
    house.store.activate_site(site, "test")
    house.service.pods.retry(house.request(), "next")
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PENDING and look(house, pod).position == 1
    house.release(pod)
    assert look(house, pod).state is PodState.RELEASED


# -- many workers, restarts -----------------------------------------------------------------------------------------


def test_concurrent_workers_never_share_a_node(house: House) -> None:
    """Eight orders wait for sixteen nodes; four workers process the queue at once, again and again."""
    first = house.ready(make("first", 16))
    pods = [queue(house, f"q{n}", 3) for n in range(8)]
    release(house, first)
    assert not at_once(*dispatching(house, 4))
    states = [look(house, p).state for p in pods]
    assert states.count(PodState.PLACED) == 5 and states.count(PodState.PENDING) == 3
    nodes = [n for p in pods if look(house, p).placed for n in look(house, p).nodes]
    assert len(nodes) == len(set(nodes)) == 15
    assert [len(messages(house, p, "state")) for p in pods] == [
        2 if look(house, p).placed else 1 for p in pods
    ]


def test_due_queue_is_processed_by_one_worker(house: House) -> None:
    """The others find that one does already."""
    queue(house, "q", 1)
    with house.database.transaction() as tx:
        now = house.clock.now()
        taken = [tx.row("take_queue", at=now, later=now + timedelta(seconds=30)) for _ in range(2)]
    assert [t is not None for t in taken] == [True, False]


def test_worker_killed_in_a_start_changes_nothing(house: House, clock: HandClock, database_url: str) -> None:
    """Killed between claiming the queue and assigning nodes: another one does it after the delay, from the database
    alone."""
    pod = queue(house, "q", 2)
    database = Database(database_url)
    try:
        second = House(database, database_url, clock=clock)
        with house.database.transaction() as tx:  # a worker that claimed the queue, and was killed
            assert tx.row("take_queue", at=clock.now(), later=clock.now() + timedelta(seconds=30))
        second.worker.tend_queue()
        assert look(house, pod).state is PodState.PENDING
        clock.forward(seconds=31)
        second.worker.tend_queue()
        assert look(house, pod).state is PodState.PLACED
        second.close()
    finally:
        database.close()


def test_bookings_survive_a_restart(house: House, clock: HandClock, database_url: str) -> None:
    """A new process reads bookings back: the next order still can't take the nodes."""
    house.ready(make("first", 8, duration="4h"))
    large = queue(house, "large", 16)
    house.worker.tend_queue()
    promised = house.store.capacity().bookings
    clock.forward(minutes=5)
    again = house.new_worker("after the restart")
    queue(house, "long", 8, duration="1d")
    again.tend_queue()
    assert look(house, large).position == 1
    assert house.store.capacity().bookings == promised
    assert [p.state for p in map(house.store.pods.find, ["long"], [None])] == [PodState.PENDING]


def test_concurrent_release_and_start_are_serialized(house: House) -> None:
    """Either the pod never had anything, or it is released with a receipt."""
    for n in range(4):
        pod = queue(house, f"q{n}", 2)
        threads = [
            threading.Thread(target=house.worker.tend_queue),
            threading.Thread(target=house.release, args=(pod,)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ended = house.run(pod, PodState.RELEASED)
        assert (house.store.records.receipt(pod.id) is not None) == (ended.placed is not None)
    assert not house.store.capacity().holds and not house.store.capacity().bookings


def test_workers_start_waiting_orders_by_themselves(database: Database, database_url: str) -> None:
    """With real threads and the machine's clock: a release lets the next one go on to READY."""
    house = House(database, database_url)
    first = house.ready(make("first", 16))
    pod = queue(house, "second", 4)
    workers = [house.new_worker(f"w{n}") for n in range(2)]
    for worker in workers:
        worker.start()
    try:
        house.release(first)
        for _ in range(600):
            if look(house, pod).state is PodState.READY:
                break
            house.clock.sleep(0.05)
        assert look(house, pod).state is PodState.READY
    finally:
        for worker in workers:
            worker.stop()
        house.close()


class Counted:
    """The database, with the names of the statements that it is asked."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.asked: list[str] = []

    @contextmanager
    def transaction(self) -> Generator[Any]:
        with self._database.transaction() as tx:
            yield _CountedTx(tx, self.asked)

    @contextmanager
    def placing(self, lock: bool = True) -> Generator[Any]:
        with self._database.placing(lock) as tx:
            yield _CountedTx(tx, self.asked)

    @contextmanager
    def statement(self) -> Generator[Any]:
        with self._database.statement() as tx:
            yield _CountedTx(tx, self.asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


class _CountedTx:
    def __init__(self, tx: Tx, asked: list[str]) -> None:
        self._tx, self._asked = tx, asked
        self.kept, self.given, self.learn = tx.kept, tx.given, tx.learn

    def __getattr__(self, what: str) -> Any:
        def ask(name: str = "time", /, *rows: Any, **values: Any) -> Any:
            self._asked.append(name)
            return getattr(self._tx, what)(*([] if what == "now" else [name]), *rows, **values)

        return ask


def test_queue_reads_each_order_once(house: House) -> None:
    """However many wait, a run makes as many queries, and reads the document of an order once."""
    counted = Counted(house.database)
    store = Store(counted)  # type: ignore[arg-type]
    dispatcher = Dispatcher(store, house.keeper.world)
    house.ready(make("first", 16, duration="1h"))
    asked: list[int] = []
    for number in (3, 30):
        for n in range(number):
            queue(house, f"q{number}-{n}", 16)
        dispatcher.run()  # writes down what they wait for
        dispatcher.run()
        counted.asked.clear()
        dispatcher.run()
        assert "orders_of" not in counted.asked
        asked.append(len(counted.asked))
    assert asked[0] == asked[1]
