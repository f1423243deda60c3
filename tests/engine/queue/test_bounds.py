"""Every number and date of an order has a bound: no order blocks another."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network

import psycopg
import pytest
from pydantic import ValidationError

from tests.engine.audit.test_sweep import sweep
from tests.engine.house import ORDER, House
from tests.engine.timehouse import HandClock, look, make, queue, release
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError, InputError
from weft.model.order import LeaseOrder, NetworkOrder, Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import LeasePolicy
from weft.testing.cloud import Fault

# -- dates ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "date",
    [
        "9999-12-31T23:59:59-12:00",
        "9999-12-31T23:59:59Z",
        "2200-01-01T00:00:01Z",
        "0001-01-01T00:00:00+12:00",
        "1999-12-31T23:59:59Z",
    ],
)
@pytest.mark.parametrize("field", ["start", "end"])
def test_date_out_of_range_is_refused_on_input(field: str, date: str) -> None:
    """Year 10000 in UTC, and everything else beyond what the database, Python and sums of both can hold."""
    with pytest.raises(ValidationError, match="a time from 2000-01-01T00:00:00Z to 2200-01-01T00:00:00Z"):
        LeaseOrder.model_validate({field: date})


@pytest.mark.parametrize("number", [253402300800, 1893456000, "1893456000", 1.5])
@pytest.mark.parametrize("field", ["start", "end"])
def test_number_is_refused_as_a_date(field: str, number: object) -> None:
    """In range or not: it may count seconds or milliseconds."""
    with pytest.raises(ValidationError, match="a time with time zone, such as"):
        LeaseOrder.model_validate({field: number})


def test_dates_are_stored_in_utc() -> None:
    """Whatever zone they were given in."""
    end = LeaseOrder.model_validate({"end": "2027-01-31T18:00:00+05:30"}).end
    assert end is not None and end.isoformat() == "2027-01-31T12:30:00+00:00"


@pytest.mark.parametrize("duration", ["36501d", "9999999d", "9999999h"])
def test_duration_beyond_a_hundred_years_is_refused(duration: str) -> None:
    """Its end would be no date."""
    with pytest.raises(ValidationError, match="at most 36500d"):
        LeaseOrder.model_validate({"duration": duration})


def test_database_refuses_dates_out_of_range(house: House) -> None:
    """Whatever wrote it: an unreadable row must not come into being."""
    pod = house.order()
    with (
        psycopg.connect(house.database.url) as connection,
        pytest.raises(psycopg.errors.CheckViolation),
    ):
        connection.execute("UPDATE pod SET lease_end = '10000-01-01 11:59:59+00' WHERE id = %s", [pod.id])


def test_forecasts_after_very_long_leases_are_dates(house: House) -> None:
    """Three orders of everything for a century each: the last one's forecast is a date, and the queue goes on."""
    first = house.ready(make("first", 16, duration="36500d"))
    waiting = [queue(house, f"q{n}", 16, duration="36500d") for n in range(4)]
    house.worker.tend_queue()
    expected = [look(house, pod).expected_start for pod in waiting]
    assert expected[0] == first.lease_end
    assert expected[-1] == datetime(2400, 1, 1, tzinfo=UTC)
    house.service.capacity.show(house.request(), duration="36500d")


def test_operator_limits_the_length_of_leases(house: House, clock: HandClock) -> None:
    """`leases.longest`: for ends, durations, promised starts and extensions; an order without an end is refused."""
    site = house.store.site().site
    house.store.activate_site(site.model_copy(update={"leases": LeasePolicy(longest="30d")}), "test")
    for lease in (
        {},
        {"duration": "31d"},
        {"end": clock.now() + timedelta(days=31)},
        {"start": clock.now() + timedelta(days=29), "duration": "2d"},
    ):
        for waits in (False, True):
            with pytest.raises(
                InputError, match=r"lease\.\w+: .*2026-12-21T08:00Z at the latest.* at most 30d from now"
            ):
                house.order(make("far", 1, queue=waits, **lease))
    house.ready(make("near", 1, duration="30d"))
    clock.forward(days=10)
    tenant = house.request()
    assert house.service.pods.extend(tenant, "near", clock.now() + timedelta(days=30)).lease_end
    with pytest.raises(InputError, match=r"until: .* at most 30d from now"):
        house.service.pods.extend(tenant, "near", clock.now() + timedelta(days=31))


# -- networks -------------------------------------------------------------------------------------------------------


def networked(name: str, **networks: str) -> Order:
    given = NetworkOrder(**{k: IPv4Network(v) for k, v in networks.items()})
    return ORDER.model_copy(update={"name": name, "network": given})


def test_pods_own_networks_take_no_subnets_from_others(house: House) -> None:
    """A pod network with the site's whole blocks leaves every subnet to others, since pods' networks are isolated."""
    place = house.site.clouds["lab"]
    wide = {"management": str(place.management.addresses)}
    first = house.ready(networked("wide", **wide))
    assert first.plan.allotment.management_cidr == wide["management"]
    house.ready(networked("wide-too", rdma=str(place.rdma_addresses)))
    second = house.ready(ORDER)
    assert second.plan.allotment.management_cidr.startswith(str(place.management.addresses)[:5])
    third = house.ready(ORDER.model_copy(update={"name": "third"}))
    numbers = {p.plan.allotment.management_cidr for p in (second, third)}
    assert len(numbers) == 2, "what is cut from a block is cut once"
    release(house, second)
    again = house.ready(ORDER)
    assert again.plan.allotment.management_cidr == second.plan.allotment.management_cidr


@pytest.mark.parametrize("cidr", ["10.0.0.0/7", "192.0.0.0/2", "168.0.0.0/6", "126.0.0.0/7"])
def test_network_too_wide_or_with_unusable_parts_is_refused(house: House, cidr: str) -> None:
    """All of its addresses count, not only the first."""
    with pytest.raises(InputError, match=r"network\.management"):
        house.order(networked("wide", management=cidr))


# -- the queue ------------------------------------------------------------------------------------------------------


def test_waiting_orders_of_a_project_are_limited(house: House, clock: HandClock) -> None:
    """`queue.waiting`: orders in the queue and booked ones; each project has its own limit."""
    site = house.store.site().site
    few = site.queue.model_copy(update={"waiting": 3})
    house.store.activate_site(site.model_copy(update={"queue": few}), "test")
    house.ready(make("first", 16, duration="1h"))
    waiting = [queue(house, f"q{n}", 16) for n in range(2)]
    house.order(make("later", 1, start=clock.now() + timedelta(days=9), duration="1h"))
    for order in (
        make("q2", 16, queue=True),
        make("later-too", 1, start=clock.now() + timedelta(days=9), duration="1h"),
    ):
        with pytest.raises(ConflictError, match="3 of at most 3 waiting orders: release one"):
            house.order(order)
    house.service.pods.create(house.request("team-b"), make("theirs", 16, queue=True))
    house.release(waiting[0])
    assert look(house, waiting[0]).state is PodState.RELEASED
    queue(house, "q2", 16)


def overdue(house: House, name: str, project: str = "team-a") -> PodRecord:
    """A pod whose release is blocked for longer than its limit."""
    view = house.service.pods.create(house.request(project), make(name, 1))
    pod = house.run(house.store.pods.find(view.id, None), PodState.READY)
    house.service.pods.release(house.request(project), str(pod.id))
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SECURITY_GROUP, times=1)
    house.run(pod, PodState.RELEASING)
    house.clock.sleep(16 * 60)
    house.store.wake(pod.id)
    house.worker.run_once()
    return pod


def test_project_with_overdue_releases_cannot_order(house: House) -> None:
    """`queue.overdue_releases`: the refusal names them as members see them; other projects aren't affected."""
    site = house.store.site().site
    few = site.queue.model_copy(update={"overdue_releases": 2})
    house.store.activate_site(site.model_copy(update={"queue": few}), "test")
    stuck = [overdue(house, "a"), overdue(house, "b")]
    said = "2 of at most 2 releases of the project don't end (a, b): remove what `weft pod show` names"
    for order in (make("next", 1), make("queued", 1, queue=True)):
        with pytest.raises(ConflictError, match=re.escape(said)):
            redacted(house.service, Policy()).pods.create(house.request(), order)
    house.service.pods.create(house.request("team-b"), make("theirs", 1))
    for thing in house.cloud.things(Kind.SECURITY_GROUP):
        thing.undeletable = False
    house.run(stuck[0], PodState.RELEASED)
    house.order(make("next", 1))


def test_waiting_order_of_a_project_with_overdue_releases_does_not_start(house: House) -> None:
    """Queued or booked before: it says so to its project, delays no other, and starts once one has ended."""
    site = house.store.site().site
    few = site.queue.model_copy(update={"overdue_releases": 1})
    full = house.ready(make("full", 12))
    later = house.clock.now() + timedelta(hours=1)
    waiting = [queue(house, "queued", 6), house.order(make("booked", 2, start=later, duration="7d"))]
    house.store.activate_site(site.model_copy(update={"queue": few}), "test")
    stuck = overdue(house, "a")
    theirs = house.service.pods.create(house.request("team-b"), make("theirs", 2, queue=True))
    release(house, full)
    house.clock.sleep(2 * 3600)
    dispatcher = Dispatcher(house.store, house.keeper.world)
    dispatcher.run()
    assert [look(house, one).state for one in waiting] == [PodState.PENDING, PodState.PENDING]
    assert house.store.pods.find(theirs.id, None).state is not PodState.PENDING
    for one in waiting:
        shown = redacted(house.service, Policy()).pods.show(house.request(), str(one.id)).reason
        assert shown.startswith("1 of at most 1 releases of the project don't end (a): starts once what")
    for thing in house.cloud.things(Kind.SECURITY_GROUP):
        thing.undeletable = False
    house.run(stuck, PodState.RELEASED)
    dispatcher.run()
    assert [look(house, one).state for one in waiting] == [PodState.PLACED, PodState.PLACED]


def test_pod_of_a_project_with_overdue_releases_cannot_grow(house: House) -> None:
    """It can shrink, and its lease can be extended."""
    site = house.store.site().site
    few = site.queue.model_copy(update={"overdue_releases": 1})
    pod = house.ready(make("grows", 2))
    house.store.activate_site(site.model_copy(update={"queue": few}), "test")
    overdue(house, "a")
    verbs, member = redacted(house.service, Policy()), house.request()
    with pytest.raises(ConflictError, match="1 of at most 1 releases of the project don't end"):
        verbs.pods.apply(member, "grows", make("grows", 3))
    assert look(house, pod).generation == 1 and len(look(house, pod).nodes) == 2
    assert verbs.pods.apply(member, "grows", make("grows", 1)).outcome == "changed"


def test_release_without_a_worker_is_not_overdue(house: House) -> None:
    """Time without a worker doesn't count against the project."""
    site = house.store.site().site
    few = site.queue.model_copy(update={"overdue_releases": 1})
    house.store.activate_site(site.model_copy(update={"queue": few}), "test")
    pod = house.ready(make("a", 1))
    house.release(pod)
    house.clock.sleep(60 * 60)
    house.order(make("next", 1))


def test_numbers_in_use_after_release_count_as_overdue_releases(house: House) -> None:
    """An abandoned pod's number is held as long as a tenant's port is on its network."""
    site = house.store.site().site
    few = site.queue.model_copy(update={"overdue_releases": 1})
    house.store.activate_site(site.model_copy(update={"queue": few}), "test")
    pod = house.ready(make("a", 1))
    network = house.cloud.thing("network/management")
    port = house.cloud.add(Kind.PORT, "login", "team-a", network=network.id)
    house.release(pod)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "stuck")
    house.run(pod, PodState.RELEASED)
    with pytest.raises(ConflictError, match="1 of at most 1 releases of the project"):
        house.order(make("next", 1))
    house.cloud.lose(port)
    assert sweep(house) == []
    house.order(make("next", 1))
