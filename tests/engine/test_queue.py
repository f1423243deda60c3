"""Orders in time: starts that are promised, the queue, two workers at once, restarts, and a clock that is moved."""

from __future__ import annotations

import threading
from collections.abc import Generator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.engine.house import ORDER, House

from weft.engine.database import Database
from weft.engine.records import PodRecord
from weft.model.errors import ConflictError, InputError, RefusedError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import ProjectLimits, QueuePolicy
from weft.testing.cloud import Fault

pytestmark = pytest.mark.database

NODES = 16
"""Of the house's site: 4 leaves of 4."""


class HandClock:
    """A clock that stands still until it is moved; waiting moves it."""

    def __init__(self) -> None:
        self.seconds = datetime(2026, 11, 21, 8, 0, tzinfo=UTC).timestamp()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def forward(self, **span: float) -> datetime:
        self.seconds += timedelta(**span).total_seconds()
        return self.now()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def house(database: Database, database_url: str, clock: HandClock) -> Generator[House]:
    house = House(database, database_url, clock=clock)
    yield house
    house.close()


def make(name: str, count: int, **more: Any) -> Order:
    lease = {k: more.pop(k) for k in ("start", "end", "duration") if k in more}
    nodes = {**ORDER.nodes.model_dump(exclude_none=True), "count": count}
    return Order.model_validate({"name": name, "nodes": nodes, "lease": lease, **more})


def queue(house: House, name: str, count: int, **more: Any) -> PodRecord:
    return house.order(make(name, count, queue=True, **more))


def look(house: House, pod: PodRecord) -> PodRecord:
    return house.store.find_pod(str(pod.id), None)


def release(house: House, pod: PodRecord) -> None:
    house.release(pod)
    house.run(pod, PodState.RELEASED)


def policy(house: House, **settings: Any) -> None:
    """The operator changes the queue's settings."""
    site = house.store.site().site
    house.store.apply_site(site.model_copy(update={"queue": QueuePolicy(**settings)}), "test")


def messages(house: House, pod: PodRecord, kind: str) -> list[str]:
    return [e.message for e in house.store.events(pod.id, 0) if e.type == kind]


# -- starts that are promised ---------------------------------------------------------------------------------------


def test_an_order_that_starts_later_is_promised_nodes(house: House, clock: HandClock) -> None:
    """It is PENDING with the reason; others may have what it will need until then, and not longer; then it starts."""
    start = clock.now() + timedelta(hours=2)
    pod = house.order(make("later", 16, start=start, duration="1h"))
    assert pod.state is PodState.PENDING and "starts at 2026-11-21T10:00Z" in pod.reason
    assert not house.store.capacity().holds
    with pytest.raises(RefusedError) as caught:
        house.order(make("open", 1))
    assert "lease.end: 2026-11-21T10:00Z at the latest" in caught.value.detail["would_fit"]
    assert "lease.start: fits from 2026-11-21T11:00Z" in caught.value.detail["would_fit"]
    short = house.order(make("short", 4, duration="90m"))
    assert house.worker.tend_queue() > 0 and look(house, pod).state is PodState.PENDING
    house.run(short, PodState.READY)
    clock.forward(minutes=95)
    house.worker.tend_queue()
    house.run(short, PodState.RELEASED)
    clock.forward(minutes=25)
    house.worker.tend_queue()
    ready = house.run(pod, PodState.READY)
    assert len(ready.nodes) == 16 and ready.lease_end == clock.now() + timedelta(hours=1)
    assert not house.store.capacity().promises


def test_a_promise_is_kept_while_its_nodes_are_late(house: House, clock: HandClock) -> None:
    """A pod that is slow to go delays the promised start, and nobody else gets the nodes meanwhile."""
    first = house.ready(make("first", 16, duration="1h"))
    pod = house.order(make("later", 16, start=clock.now() + timedelta(hours=1)))
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{first.nodes[0]}", times=None)
    clock.forward(hours=1)
    house.worker.tend_queue()
    assert look(house, first).wanted == "absent"
    assert "not given back yet" in look(house, pod).reason
    with pytest.raises(RefusedError):
        house.order(make("thief", 1))
    planted.lift()
    for thing in house.cloud.things():
        thing.undeletable = False
    house.run(first, PodState.RELEASED)
    with pytest.raises(RefusedError):
        house.order(make("thief", 1))
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PLACED


def test_a_promised_node_that_breaks_is_replaced(house: House, clock: HandClock) -> None:
    """Long before the start another node is promised instead."""
    start = clock.now() + timedelta(hours=2)
    pod = house.order(make("later", 4, start=start))
    nodes = house.store.capacity().promises[0]["nodes"]
    house.service.quarantine_node(house.operator, nodes[0], "DIMM")
    clock.forward(minutes=1)
    house.worker.tend_queue()
    promise = house.store.capacity().promises[0]
    assert nodes[0] not in promise["nodes"] and len(promise["nodes"]) == 4
    assert promise["start_at"] == start
    assert look(house, pod).expected_start == start


def test_a_start_that_can_not_be_promised_is_refused_with_the_time_that_can(
    house: House, clock: HandClock
) -> None:
    """Two orders for everything at the same time: the second learns when the first ends."""
    start = clock.now() + timedelta(hours=1)
    house.order(make("a", 16, start=start, duration="2h"))
    with pytest.raises(RefusedError) as caught:
        house.order(make("b", 16, start=start, duration="2h"))
    assert caught.value.detail["earliest_start"] == "2026-11-21T11:00:00Z"
    assert [p.name for p in map(_named(house), house.store.capacity().promises)] == ["a"]


def _named(house: House) -> Any:
    return lambda row: house.store.find_pod(str(row["pod_id"]), None)


def test_a_lease_must_end_after_it_begins(house: House, clock: HandClock) -> None:
    """Ends in the past are told, and nothing is written."""
    with pytest.raises(InputError, match=r"lease\.end"):
        house.order(make("a", 1, end=clock.now() - timedelta(seconds=1)))
    assert house.service.list_pods(house.request()) == []


# -- leases ---------------------------------------------------------------------------------------------------------


def test_a_lease_warns_and_ends(house: House, clock: HandClock) -> None:
    """An hour before its end it says so, once; at its end it is released by itself."""
    pod = house.ready(make("day", 2, duration="1d"))
    clock.forward(hours=22, minutes=59)
    house.worker.tend_queue()
    assert messages(house, pod, "lease") == []
    clock.forward(minutes=2)
    house.worker.tend_queue()
    house.worker.tend_queue()
    assert len(messages(house, pod, "lease")) == 1
    assert "2026-11-22T08:00Z" in messages(house, pod, "lease")[0]
    clock.forward(hours=1)
    house.worker.tend_queue()
    house.run(pod, PodState.RELEASED)
    assert "lease ended" in messages(house, pod, "release")


def test_a_lease_is_extended_as_far_as_nothing_is_promised(house: House, clock: HandClock) -> None:
    """Free time is had, promised time is refused with the moment it begins; a later end only."""
    pod = house.ready(make("run", 16, duration="2h"))
    later = house.order(make("later", 1, start=clock.now() + timedelta(hours=4)))
    tenant, now = house.request(), clock.now()
    view = house.service.extend_pod(tenant, "run", now + timedelta(hours=3))
    assert view.lease_end == now + timedelta(hours=3)
    with pytest.raises(ConflictError, match="promised to others from 2026-11-21T12:00Z"):
        house.service.extend_pod(tenant, "run", now + timedelta(hours=5))
    with pytest.raises(InputError, match="later than the lease's end"):
        house.service.extend_pod(tenant, "run", now + timedelta(hours=1))
    with pytest.raises(ConflictError, match="hasn't begun"):
        house.service.extend_pod(tenant, "later", now + timedelta(hours=9))
    release(house, later)
    house.service.extend_pod(tenant, "run", now + timedelta(hours=5))
    house.release(pod)
    with pytest.raises(ConflictError, match="being released"):
        house.service.extend_pod(tenant, "run", now + timedelta(hours=6))


# -- the queue ------------------------------------------------------------------------------------------------------


def test_an_order_waits_and_starts_when_another_is_released(house: House) -> None:
    """The whole way: a place in the queue, a reason, a start that is expected, and READY after the release."""
    first = house.ready(make("first", 16, duration="8h"))
    pod = queue(house, "second", 4)
    house.worker.tend_queue()
    waiting = look(house, pod)
    assert (waiting.state, waiting.position) == (PodState.PENDING, 1)
    assert waiting.reason == "waits for room; starts by 2026-11-21T16:00Z, 4 nodes are promised"
    assert waiting.expected_start == datetime(2026, 11, 21, 16, tzinfo=UTC)
    shown = next(p for p in house.service.list_pods(house.request()) if p.name == "second")
    assert (shown.position, shown.nodes, shown.pkey) == (1, 4, None)
    assert house.service.show_pod(house.request(), "second").placed == ()
    release(house, first)
    house.worker.tend_queue()
    ready = house.run(pod, PodState.READY)
    assert len(ready.nodes) == 4 and ready.position is None
    assert messages(house, pod, "queue") and messages(house, pod, "state")[0].startswith("PENDING")


def test_an_order_that_fits_does_not_wait(house: House) -> None:
    """With room it starts at the next look at the queue."""
    pod = queue(house, "quick", 2)
    house.worker.tend_queue()
    house.run(pod, PodState.READY)


def test_what_never_fits_is_refused_and_not_queued(house: House) -> None:
    """More than the site has, and more than the project may have."""
    with pytest.raises(RefusedError):
        queue(house, "huge", 17)
    policy(house, projects={"team-a": ProjectLimits(max_nodes=4)})
    with pytest.raises(RefusedError, match="of the 4 nodes"):
        queue(house, "big", 5)
    assert house.service.list_pods(house.request()) == []


def test_a_queued_pod_is_taken_from_the_queue(house: House) -> None:
    """Its release is at once, leaves no receipt, frees its name and its promise; the next one moves up."""
    house.ready(make("first", 16, duration="8h"))
    pod, other = queue(house, "second", 4), queue(house, "third", 4)
    house.worker.tend_queue()
    assert [look(house, p).position for p in (pod, other)] == [1, 2]
    house.release(pod)
    assert look(house, pod).state is PodState.RELEASED
    with pytest.raises(ConflictError, match="it never had anything"):
        house.service.pod_receipt(house.request(), "second")
    house.worker.tend_queue()
    assert look(house, other).position == 1
    assert [r["pod_id"] for r in house.store.capacity().promises] == [other.id]
    queue(house, "second", 1)


def test_backfill_never_delays_a_promised_start(house: House, clock: HandClock) -> None:
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


def test_a_promise_moves_earlier_when_a_pod_ends_early(house: House) -> None:
    """What was promised for later starts as soon as there is room."""
    first = house.ready(make("first", 16, duration="9h"))
    pod = queue(house, "next", 16)
    house.worker.tend_queue()
    assert look(house, pod).expected_start is not None
    release(house, first)
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PLACED


def test_a_pod_without_an_end_gives_no_expected_start(house: House) -> None:
    """Nobody knows when it ends: the order waits and says so."""
    house.ready(make("endless", 16))
    pod = queue(house, "next", 2)
    house.worker.tend_queue()
    waiting = look(house, pod)
    assert waiting.reason == "fits at no time that is known" and waiting.expected_start is None
    assert waiting.position == 1


def test_a_project_waits_for_its_own_nodes(house: House) -> None:
    """Over its limit it waits although there is room, says why, and starts when it has given some back."""
    policy(house, projects={"team-a": ProjectLimits(max_nodes=6)})
    first = house.ready(make("first", 4))
    with pytest.raises(RefusedError, match="has 4 of the 6 nodes"):
        house.order(make("direct", 4))
    pod = queue(house, "second", 4)
    house.worker.tend_queue()
    assert "has 4 of 6 nodes" in look(house, pod).reason
    release(house, first)
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PLACED


def test_who_used_least_of_its_share_goes_first(house: House, clock: HandClock) -> None:
    """team-a has had the site for hours: team-b's order goes first although it came later."""
    policy(house, projects={"team-b": ProjectLimits(share=1)})
    first = house.ready(make("first", 16, duration="9h"))
    clock.forward(hours=3)
    mine = queue(house, "mine", 16)
    clock.forward(minutes=1)
    view = house.service.create_pod(house.request("team-b"), make("theirs", 16, queue=True))
    theirs = house.store.find_pod(view.id, None)
    release(house, first)
    house.worker.tend_queue()
    assert look(house, theirs).state is PodState.PLACED
    assert look(house, mine).state is PodState.PENDING


def test_waiting_for_fewer_leaves_is_bounded(house: House, clock: HandClock) -> None:
    """With patience an order waits for one leaf while two would do, and takes two when the time is up."""
    policy(house, patience="30m")
    pods = [house.ready(make(f"p{n}", 3)) for n in range(4)]
    pod = queue(house, "quad", 4)
    house.worker.tend_queue()
    assert look(house, pod).reason == "waits for fewer leaves"
    clock.forward(minutes=31)
    house.worker.tend_queue()
    placed = look(house, pod)
    assert placed.state is PodState.PLACED and pods
    assert len({n.leaf for n in placed.plan.placement.nodes}) == 4


def test_a_cloud_quota_stands_in_nobody_elses_way(house: House) -> None:
    """An order over its project's quota waits with the reason; the next one starts."""
    house.cloud.offers.quotas["team-a", "servers"] = 1
    pod = queue(house, "over", 2)
    view = house.service.create_pod(house.request("team-b"), make("fine", 2, queue=True))
    house.worker.tend_queue()
    assert "servers: 0 used + 2 wanted > 1" in look(house, pod).reason
    assert house.store.find_pod(view.id, None).state is PodState.PLACED
    house.cloud.offers.quotas.clear()
    house.store.apply_site(house.store.site().site, "test")
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PLACED


def test_an_order_whose_lease_is_over_leaves_the_queue(house: House, clock: HandClock) -> None:
    """It can't start any more, and says so."""
    house.ready(make("endless", 16))
    pod = queue(house, "late", 2, end=clock.now() + timedelta(hours=1))
    clock.forward(hours=2)
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.RELEASED
    assert "the lease ended before it could start" in messages(house, pod, "release")


def test_an_order_that_the_site_no_longer_knows_fails_and_can_be_tried_again(house: House) -> None:
    """The flavor went from the site while it waited: FAILED with the reason; back with the flavor by a retry."""
    house.ready(make("first", 16, duration="1h"))
    pod = queue(house, "next", 2)
    site = house.store.site().site
    cloud = site.clouds["lab"].model_copy(update={"flavors": {}})
    house.store.apply_site(site.model_copy(update={"clouds": {"lab": cloud}}), "test")
    house.worker.tend_queue()
    failed = look(house, pod)
    assert failed.state is PodState.FAILED and "nodes.flavor" in failed.reason
    house.store.apply_site(site, "test")
    house.service.retry_pod(house.request(), "next")
    house.worker.tend_queue()
    assert look(house, pod).state is PodState.PENDING and look(house, pod).position == 1
    house.release(pod)
    assert look(house, pod).state is PodState.RELEASED


# -- many workers, restarts -----------------------------------------------------------------------------------------


def test_two_workers_never_give_one_node_twice(house: House) -> None:
    """Eight orders wait for sixteen nodes; four workers look at once, again and again."""
    first = house.ready(make("first", 16))
    pods = [queue(house, f"q{n}", 3) for n in range(8)]
    release(house, first)
    workers = [house.new_worker(f"w{n}") for n in range(4)]
    errors: list[Exception] = []

    def work(n: int) -> None:
        try:
            for _ in range(3):
                workers[n]._dispatcher.run()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    states = [look(house, p).state for p in pods]
    assert states.count(PodState.PLACED) == 5 and states.count(PodState.PENDING) == 3
    nodes = [n for p in pods if look(house, p).placed for n in look(house, p).nodes]
    assert len(nodes) == len(set(nodes)) == 15
    assert [messages(house, p, "state")[1:2] for p in pods if look(house, p).placed]
    assert all(len(messages(house, p, "state")) <= 2 for p in pods)


def test_one_worker_looks_when_the_queue_is_due(house: House) -> None:
    """The others find that somebody does already."""
    queue(house, "q", 1)
    with house.database.transaction() as tx:
        now = house.clock.now()
        taken = [tx.row("take_queue", at=now, later=now + timedelta(seconds=30)) for _ in range(2)]
    assert [t is not None for t in taken] == [True, False]


def test_a_worker_that_dies_in_the_middle_changes_nothing(
    house: House, clock: HandClock, database_url: str
) -> None:
    """Killed between taking the queue and giving nodes: another does it after the delay, from the database alone."""
    pod = queue(house, "q", 2)
    database = Database(database_url)
    try:
        second = House(database, database_url, clock=clock)
        with house.database.transaction() as tx:  # took the queue, and was killed
            assert tx.row("take_queue", at=clock.now(), later=clock.now() + timedelta(seconds=30))
        second.worker.tend_queue()
        assert look(house, pod).state is PodState.PENDING
        clock.forward(seconds=31)
        second.worker.tend_queue()
        assert look(house, pod).state is PodState.PLACED
        second.close()
    finally:
        database.close()


def test_a_restart_forgets_no_promise(house: House, clock: HandClock, database_url: str) -> None:
    """Promises are read back by a new process: the order behind still can't take the nodes."""
    house.ready(make("first", 8, duration="4h"))
    large = queue(house, "large", 16)
    house.worker.tend_queue()
    promised = house.store.capacity().promises
    clock.forward(minutes=5)
    again = house.new_worker("after the restart")
    queue(house, "long", 8, duration="1d")
    again.tend_queue()
    assert look(house, large).position == 1
    assert house.store.capacity().promises == promised
    assert [p.state for p in map(house.store.find_pod, ["long"], [None])] == [PodState.PENDING]


def test_a_release_meets_a_start(house: House) -> None:
    """Whichever comes first wins whole: either the pod never had anything, or it is taken back with a receipt."""
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
        assert (house.store.receipt(pod.id) is not None) == (ended.placed is not None)
    assert not house.store.capacity().holds and not house.store.capacity().promises


def test_workers_start_what_waits_by_themselves(database: Database, database_url: str) -> None:
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


# -- retry, reservations, capacity ----------------------------------------------------------------------------------


def test_a_failed_pod_is_tried_again_where_it_failed(house: House) -> None:
    """With the cause gone it becomes READY; only a pod that FAILED can be tried again."""
    planted = house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None, reason="No valid host was found.")
    pod = house.run(house.order(), PodState.FAILED)
    planted.lift()
    view = house.service.retry_pod(house.request(), "train")
    assert view.state is PodState.BOOTING
    house.run(pod, PodState.READY)
    with pytest.raises(ConflictError, match="only a pod that FAILED"):
        house.service.retry_pod(house.request(), "train")


def test_a_failed_pod_that_is_released_is_not_tried_again(house: House) -> None:
    """What is on its way out stays so."""
    house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None, reason="No valid host was found.")
    pod = house.run(house.order(), PodState.FAILED)
    house.release(pod)
    with pytest.raises(ConflictError, match="being released"):
        house.service.retry_pod(house.request(), "train")
    house.run(pod, PodState.RELEASED)


def test_a_block_set_aside_is_its_projects_alone(house: House, clock: HandClock) -> None:
    """Others are refused it, its project gets it; what others hold or were promised can't be set aside."""
    reserve = _reserve(house)
    reserve("block", "team-b", leaves=["leaf01", "leaf02", "leaf03"])
    with pytest.raises(RefusedError) as caught:
        house.order(make("mine", 5))
    assert "count: 4 instead of 5" in caught.value.detail["would_fit"]
    house.service.create_pod(house.request("team-b"), make("theirs", 12))
    with pytest.raises(ConflictError, match="taken by theirs of project team-b"):
        reserve("other", "team-a", leaves=["leaf02"])
    with pytest.raises(InputError, match="leaves"):
        reserve("other", "team-a", leaves=["leaf99"])
    with pytest.raises(ConflictError, match="already"):
        reserve("block", "team-b", leaves=["leaf01"])
    assert house.service.delete_reservation(house.operator, "block").project_id == "team-b"
    assert house.service.reservations(house.operator) == []


def _reserve(house: House) -> Any:
    from weft.model.reservation import Reservation

    def reserve(name: str, project: str, **more: Any) -> None:
        given = {"name": name, "project_id": project, **more}
        house.service.create_reservation(house.operator, Reservation.model_validate(given))

    return reserve


def test_a_block_that_begins_later_turns_away_what_would_run_into_it(house: House, clock: HandClock) -> None:
    """An order that ends before may have the nodes."""
    _reserve(house)(
        "maintenance",
        "ops",
        leaves=["leaf01", "leaf02", "leaf03", "leaf04"],
        start=clock.now() + timedelta(hours=3),
    )
    with pytest.raises(RefusedError) as caught:
        house.order(make("long", 1))
    assert "lease.end: 2026-11-21T11:00Z at the latest" in caught.value.detail["would_fit"]
    house.order(make("short", 1, duration="3h"))


def test_capacity_says_what_fits_now_and_when_more(house: House, clock: HandClock) -> None:
    """What it says can be ordered is served; one more is refused; sizes follow leases, promises and blocks."""
    house.ready(make("run", 6, duration="5h"))
    view = house.service.capacity(house.request(), level="site", duration="12h")
    row = view.rows[0]
    assert (row.nodes, row.free, row.largest[0].count) == (16, 10, 10)
    assert [(s.count, s.at) for s in row.soon] == [(16, clock.now() + timedelta(hours=5))]
    house.order(make("later", 16, start=clock.now() + timedelta(hours=10)))
    assert house.service.capacity(house.request(), duration="12h").rows[0].free == 0
    assert house.service.capacity(house.request(), duration="2h").rows[0].free == 10
    for count, duration in ((1, "12h"), (11, "2h")):
        with pytest.raises(RefusedError):
            house.order(make("x", count, duration=duration))
    house.order(make("y", 10, duration="2h"))
    with pytest.raises(InputError, match="accelerator"):
        house.service.capacity(house.request(), "abacus")
