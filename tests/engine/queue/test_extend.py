"""Extending waiting orders; reservations for projects by name."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from tests.engine.house import House
from tests.engine.timehouse import HandClock, look, make, messages, policy, queue, release
from weft.engine.base.database import Database
from weft.model.errors import ConflictError, InputError, RefusedError
from weft.model.pod import PodState
from weft.model.reservation import Reservation
from weft.model.site import ProjectLimits
from weft.model.views import PodView
from weft.testing.cloud import Fault


def test_extending_a_later_lease_extends_its_booking(house: House, clock: HandClock) -> None:
    """Its nodes are kept for as long; bookings of others and the project's limit refuse it."""
    tenant, now = house.request(), clock.now()
    first = house.order(make("first", 16, start=now + timedelta(hours=1), duration="1h"))
    house.order(make("after", 1, start=now + timedelta(hours=4), duration="1h"))
    view = house.service.pods.extend(tenant, "first", now + timedelta(hours=3))
    assert view.lease_end == now + timedelta(hours=3)
    booking = next(r for r in house.store.capacity().bookings if r.pod.id == first.id)
    assert (booking.start, booking.end) == (now + timedelta(hours=1), now + timedelta(hours=3))
    assert "extended until 2026-11-21T11:00Z" in messages(house, first, "lease")[0]
    with pytest.raises(RefusedError):
        house.order(make("between", 1, start=now + timedelta(hours=2), duration="30m"))
    with pytest.raises(ConflictError, match="booked by others from 2026-11-21T12:00Z"):
        house.service.pods.extend(tenant, "first", now + timedelta(hours=5))
    with pytest.raises(InputError, match="later than the lease's end, which is 2026-11-21T11:00Z"):
        house.service.pods.extend(tenant, "first", now + timedelta(hours=3))
    policy(house, projects={"team-a": ProjectLimits(max_nodes=15)})
    with pytest.raises(ConflictError, match="of at most 15 nodes"):
        house.service.pods.extend(tenant, "first", now + timedelta(hours=3, minutes=30))
    policy(house)
    clock.forward(hours=1)
    house.worker.tend_queue()
    ready = house.run(first, PodState.READY)
    assert ready.lease_end == now + timedelta(hours=3)


def test_queued_order_with_an_end_can_be_extended(house: House, clock: HandClock) -> None:
    """An end moves, with a booking or without; a lease counted from its start has none."""
    tenant, now = house.request(), clock.now()
    run = house.ready(make("run", 16, duration="2h"))
    ends = queue(house, "ends", 16, end=now + timedelta(hours=6))
    lasts, endless = queue(house, "lasts", 1, duration="12h"), queue(house, "endless", 1)
    house.service.pods.extend(tenant, "ends", now + timedelta(hours=7))
    house.worker.tend_queue()
    assert look(house, ends).expected_start == now + timedelta(hours=2)
    house.service.pods.extend(tenant, "ends", now + timedelta(hours=8))
    (booking,) = house.store.capacity().bookings
    assert booking.end == now + timedelta(hours=8)
    with pytest.raises(ConflictError, match="a lease of 12h from its start and has no end to extend"):
        house.service.pods.extend(tenant, "lasts", now + timedelta(days=2))
    with pytest.raises(ConflictError, match="has no end to extend"):
        house.service.pods.extend(tenant, "endless", now + timedelta(days=2))
    assert all(look(house, p).state is PodState.PENDING for p in (lasts, endless))
    release(house, run)
    house.worker.tend_queue()
    ready = house.run(ends, PodState.READY)
    assert ready.lease_end == now + timedelta(hours=8)


def test_extending_a_waiting_order_makes_a_generation(house: House, clock: HandClock) -> None:
    """As for a pod with nodes: a change based on an older generation is refused, and doesn't set the end back."""
    tenant, now = house.request(), clock.now()
    order = make("ends", 16, start=now + timedelta(hours=1), end=now + timedelta(hours=6))
    pod = house.order(order)
    house.service.pods.extend(tenant, "ends", now + timedelta(hours=8))
    assert look(house, pod).generation == pod.generation + 1
    assert any(f"generation {pod.generation + 1} by " in m for m in messages(house, pod, "change"))
    with pytest.raises(ConflictError, match="changed to generation 2 in the meantime"):
        house.service.pods.apply(tenant, "ends", order, generation=pod.generation)
    assert look(house, pod).lease_end == now + timedelta(hours=8)
    house.service.pods.apply(tenant, "ends", order, generation=pod.generation + 1)
    assert look(house, pod).lease_end == now + timedelta(hours=6)


def test_later_end_wins_of_two_concurrent_extensions(
    house: House, clock: HandClock, database_url: str
) -> None:
    """Both have read the lease before either has the lock; the second sees what the first did. Two processes are used,
    as within one the second would wait for the process's own lock."""
    pod, tenant, now = house.ready(make("run", 1, duration="1h")), house.request(), clock.now()
    ends = [now + timedelta(hours=9), now + timedelta(hours=5)]
    with (
        closing(Database(database_url)) as another,
        ThreadPoolExecutor(2) as pool,
        psycopg.connect(database_url) as holder,
        psycopg.connect(database_url, autocommit=True) as watch,
    ):
        holder.execute("SELECT pg_advisory_xact_lock(hashtext('weft.capacity'))")
        another.clock = clock.now
        asked: list[Future[PodView]] = []
        for service, end in zip((house.service, house.new_service(another)), ends, strict=True):
            asked.append(pool.submit(service.pods.extend, tenant, "run", end))
            _wait_for_locks(watch, len(asked))
        holder.rollback()
        assert asked[0].result().lease_end == ends[0]
        with pytest.raises(InputError, match="later than the lease's end"):
            asked[1].result()
    assert look(house, pod).lease_end == ends[0]


def _wait_for_locks(watch: psycopg.Connection, count: int) -> None:
    """Wait until so many sessions wait for an advisory lock of this database."""
    waiting = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if watch.execute(waiting).fetchone() == (count,):
            return
        time.sleep(0.01)
    raise AssertionError("no thread waits for the lock")


def test_withdrawn_order_is_not_extended(house: House, clock: HandClock) -> None:
    """Its name may already be another pod's."""
    pod = house.order(make("later", 1, start=clock.now() + timedelta(hours=1), duration="1h"))
    house.release(pod)
    with pytest.raises(ConflictError, match="is RELEASED: it can no longer be extended"):
        house.service.pods.extend(house.request(), str(pod.id), clock.now() + timedelta(hours=9))


def test_reservation_takes_a_project_by_name_or_id(house: House) -> None:
    """A name is looked up once; an id is taken as it is, also where no cloud can be asked."""
    theirs = "0123456789abcdef0123456789abcdef"
    token = house.cloud.add_user("olga", project="night")
    known = house.cloud.offers.tokens
    known[token] = replace(known[token], project_id=theirs, project_name="night crew")

    def aside(name: str, project: str, node: str) -> str:
        made = Reservation(name=name, project_id=project, nodes=(node,))
        return house.service.capacity.reserve(house.operator, made).project_id

    assert aside("one", "night crew", "gpu01") == theirs
    with pytest.raises(InputError, match="project_id: 'unknown' is not allowed: projects that weft serves"):
        aside("two", "unknown", "gpu02")
    other = house.cloud.add_user("otto", project="twin")
    known[other] = replace(known[other], project_id="f" * 32, project_name="night crew")
    with pytest.raises(InputError, match="several projects have this name"):
        aside("two", "night crew", "gpu02")
    operator = house.operator
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="facts", times=None)
    with pytest.raises(InputError, match="the project's id, since its name can't be looked up now"):
        house.service.capacity.reserve(operator, Reservation(name="two", project_id="twin", nodes=("gpu02",)))
    kept = Reservation(name="two", project_id=theirs, nodes=("gpu02",))
    assert house.service.capacity.reserve(operator, kept).project_id == theirs
    planted.lift()
    assert [r.name for r in house.service.capacity.reservations(house.operator)] == ["one", "two"]
