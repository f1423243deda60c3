"""Leases in time: booked starts, warnings, extensions, retries, reservations, and what could be ordered."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.engine.house import House
from tests.engine.timehouse import HandClock, look, make, messages, release
from tests.helpers.offers import offers
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.service import Service
from weft.model.errors import ConflictError, InputError, NotFoundError, RefusedError
from weft.model.pod import PodState
from weft.model.reservation import Reservation
from weft.model.resources import Kind
from weft.model.views import AuditLogSearch
from weft.testing.cloud import Fault

# -- starts that are promised ---------------------------------------------------------------------------------------


def test_order_for_later_is_booked_nodes_and_starts_on_time(house: House, clock: HandClock) -> None:
    """It is PENDING with the reason; until then others may have what it needs, and not longer."""
    start = clock.now() + timedelta(hours=2)
    pod = house.order(make("later", 16, start=start, duration="1h"))
    assert pod.state is PodState.PENDING and "starts at 2026-11-21T10:00Z" in pod.reason
    assert not house.store.capacity().holds
    with pytest.raises(RefusedError) as caught:
        house.order(make("open", 1))
    assert "lease.end: 2026-11-21T10:00Z at the latest" in offers(caught.value)
    assert "lease.start: fits from 2026-11-21T11:00Z" in offers(caught.value)
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
    assert not house.store.capacity().bookings


def test_booking_is_kept_while_its_nodes_are_late(house: House, clock: HandClock) -> None:
    """A pod that is slow to go delays the booked start, and no other pod gets the nodes meanwhile."""
    first = house.ready(make("first", 16, duration="1h"))
    pod = house.order(make("later", 16, start=clock.now() + timedelta(hours=1)))
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{first.nodes[0]}", times=None)
    clock.forward(hours=1)
    house.worker.tend_queue()
    assert look(house, first).wanted == "absent"
    assert "not released yet" in look(house, pod).reason
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


def test_broken_booked_node_is_replaced(house: House, clock: HandClock) -> None:
    """Long before the start another node is promised instead."""
    start = clock.now() + timedelta(hours=2)
    pod = house.order(make("later", 4, start=start))
    nodes = house.store.capacity().bookings[0].nodes
    house.service.nodes.quarantine(house.operator, nodes[0], "DIMM")
    clock.forward(minutes=1)
    house.worker.tend_queue()
    booking = house.store.capacity().bookings[0]
    assert nodes[0] not in booking.nodes and len(booking.nodes) == 4
    assert booking.start == start
    assert look(house, pod).expected_start == start


def test_unbookable_start_is_refused_with_a_possible_time(house: House, clock: HandClock) -> None:
    """Two orders for everything at the same time: the second learns when the first ends."""
    start = clock.now() + timedelta(hours=1)
    house.order(make("a", 16, start=start, duration="2h"))
    with pytest.raises(RefusedError) as caught:
        house.order(make("b", 16, start=start, duration="2h"))
    assert caught.value.detail["earliest_start"] == "2026-11-21T11:00:00Z"
    assert [p.name for p in map(_named(house), house.store.capacity().bookings)] == ["a"]


def _named(house: House) -> Any:
    return lambda row: house.store.pods.find(str(row.pod.id), None)


def test_lease_must_end_after_it_begins(house: House, clock: HandClock) -> None:
    """Ends in the past are refused, and nothing is written."""
    with pytest.raises(InputError, match=r"lease\.end"):
        house.order(make("a", 1, end=clock.now() - timedelta(seconds=1)))
    assert house.service.pods.list(house.request()) == []


# -- leases ---------------------------------------------------------------------------------------------------------


def test_lease_warns_and_ends(house: House, clock: HandClock) -> None:
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


def test_lease_is_extended_up_to_the_next_booking(house: House, clock: HandClock) -> None:
    """Free time is had, promised time is refused with the moment it begins; a later end only."""
    pod = house.ready(make("run", 16, duration="2h"))
    later = house.order(make("later", 1, start=clock.now() + timedelta(hours=4)))
    tenant, now = house.request(), clock.now()
    view = house.service.pods.extend(tenant, "run", now + timedelta(hours=3))
    assert view.lease_end == now + timedelta(hours=3)
    with pytest.raises(ConflictError, match="booked by others from 2026-11-21T12:00Z"):
        house.service.pods.extend(tenant, "run", now + timedelta(hours=5))
    with pytest.raises(InputError, match="later than the lease's end"):
        house.service.pods.extend(tenant, "run", now + timedelta(hours=1))
    with pytest.raises(ConflictError, match="has no end to extend"):
        house.service.pods.extend(tenant, "later", now + timedelta(hours=9))
    release(house, later)
    house.service.pods.extend(tenant, "run", now + timedelta(hours=5))
    house.release(pod)
    with pytest.raises(ConflictError, match="being released"):
        house.service.pods.extend(tenant, "run", now + timedelta(hours=6))


# -- retry, reservations, capacity ----------------------------------------------------------------------------------


def test_failed_pod_is_retried_where_it_failed(house: House) -> None:
    """With the cause gone it becomes READY; only a FAILED pod can be retried."""
    planted = house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None, reason="No valid host was found.")
    pod = house.run(house.order(), PodState.FAILED)
    planted.lift()
    view = house.service.pods.retry(house.request(), "train")
    assert view.state is PodState.BOOTING
    house.run(pod, PodState.READY)
    with pytest.raises(ConflictError, match="only a FAILED pod"):
        house.service.pods.retry(house.request(), "train")


def test_failed_pod_being_released_is_not_retried(house: House) -> None:
    """What is on its way out stays so."""
    house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None, reason="No valid host was found.")
    pod = house.run(house.order(), PodState.FAILED)
    house.release(pod)
    with pytest.raises(ConflictError, match="being released"):
        house.service.pods.retry(house.request(), "train")
    house.run(pod, PodState.RELEASED)


def test_reserved_block_is_for_its_project_alone(house: House, clock: HandClock) -> None:
    """Others are refused it, its project gets it; what others hold or were promised can't be set aside."""
    reserve = _reserve(house)
    reserve("block", "team-b", leaves=["leaf01", "leaf02", "leaf03"])
    with pytest.raises(RefusedError) as caught:
        house.order(make("mine", 5))
    assert "nodes.count: 4 instead of 5" in offers(caught.value)
    house.service.pods.create(house.request("team-b"), make("theirs", 12))
    with pytest.raises(ConflictError, match="taken by theirs of project team-b"):
        reserve("other", "team-a", leaves=["leaf02"])
    with pytest.raises(InputError, match="leaves"):
        reserve("other", "team-a", leaves=["leaf99"])
    with pytest.raises(ConflictError, match="already"):
        reserve("block", "team-b", leaves=["leaf01"])
    assert house.service.capacity.end_reservation(house.operator, "block").project_id == "team-b"
    assert house.service.capacity.reservations(house.operator) == []


def test_changing_reservations_does_not_need_the_right_to_list_them(house: House, tmp_path: Path) -> None:
    """The rule for listing them isn't asked for what was just made or deleted, nor is the list."""
    (tmp_path / "policy.yaml").write_text("'reservations:list': '!'\n")
    policy = Policy(tmp_path / "policy.yaml")
    service = Service(Desk(house.store, house.keeper, policy, house.time, house.listener, house.pulse))
    block = Reservation.model_validate({"name": "block", "project_id": "a" * 32, "leaves": ["leaf01"]})
    made = service.capacity.reserve(house.operator, block)
    assert [made] == house.service.capacity.reservations(house.operator)
    assert service.capacity.end_reservation(house.operator, "block") == made
    with pytest.raises(NotFoundError, match="block"):
        service.capacity.end_reservation(house.operator, "block")
    outcomes = [e.outcome for e in house.service.audits.log(house.operator, AuditLogSearch())]
    assert outcomes == ["NotFoundError: there is no reservation 'block'", "done", "done"]


def _reserve(house: House) -> Any:
    def reserve(name: str, project: str, **more: Any) -> None:
        house.request(project)  # makes the project known to the cloud
        given = {"name": name, "project_id": project, **more}
        house.service.capacity.reserve(house.operator, Reservation.model_validate(given))

    return reserve


def test_later_reservation_refuses_orders_that_run_into_it(house: House, clock: HandClock) -> None:
    """An order that ends before may have the nodes."""
    _reserve(house)(
        "maintenance",
        "ops",
        leaves=["leaf01", "leaf02", "leaf03", "leaf04"],
        start=clock.now() + timedelta(hours=3),
    )
    with pytest.raises(RefusedError) as caught:
        house.order(make("long", 1))
    assert "lease.end: 2026-11-21T11:00Z at the latest" in offers(caught.value)
    house.order(make("short", 1, duration="3h"))


def test_capacity_says_what_fits_now_and_later(house: House, clock: HandClock) -> None:
    """What it says can be ordered is served; one more is refused; sizes follow leases, bookings and blocks."""
    house.ready(make("run", 6, duration="5h"))
    view = house.service.capacity.show(house.request(), level="site", duration="12h")
    row = view.rows[0]
    assert (row.shape, row.total, row.free, row.largest[0].count) == ("nodes", 16, 10, 10)
    assert [(s.count, s.at) for s in row.soon] == [(16, clock.now() + timedelta(hours=5))]
    house.order(make("later", 16, start=clock.now() + timedelta(hours=10)))
    assert house.service.capacity.show(house.request(), duration="12h").rows[0].free == 0
    assert house.service.capacity.show(house.request(), duration="2h").rows[0].free == 10
    for count, duration in ((1, "12h"), (11, "2h")):
        with pytest.raises(RefusedError):
            house.order(make("x", count, duration=duration))
    house.order(make("y", 10, duration="2h"))
    with pytest.raises(InputError, match="accelerator"):
        house.service.capacity.show(house.request(), "abacus")
    with pytest.raises(InputError, match="levels of site lab: leaf, block, site"):
        house.service.capacity.show(house.request(), level="hall")
