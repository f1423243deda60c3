"""Hours of nodes and accelerators: from the holds themselves, whatever happens to the pod meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime, timedelta

import psycopg
import pytest

from tests.engine.changes.test_change_loop import apply, settle, sized
from tests.engine.house import House, policy
from tests.engine.ipuhouse import IpuHouse
from tests.engine.ipuhouse import order as ipus
from tests.engine.life.test_parts import small
from tests.engine.queue.test_spares import spared
from tests.engine.timehouse import make
from weft.app.redact import redacted
from weft.engine.base.database import Database
from weft.model.errors import ForbiddenError, InputError
from weft.model.pod import PodState
from weft.model.views import UseReport, UseSearch

HOUR = timedelta(hours=1)


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    """A house with PostgreSQL's own clock, as triggers write its time."""
    made = House(database, database_url)
    yield made
    made.close()


def earlier(house: House, by: timedelta, where: str = "true") -> None:
    """Make what was written so far older by `by`."""
    with psycopg.connect(house.database.url) as connection:
        connection.execute(
            f"UPDATE use_span SET since = since - %s, until = until - %s WHERE {where}".encode(), [by, by]
        )


def asked(house: House, since: timedelta = timedelta(days=30), by: str = "pod", **more: object) -> UseReport:
    now = house.store.database.now()
    given = {"since": now - since, "by": by, **more}
    return house.service.use(house.request(), UseSearch.model_validate(given))


def hours(report: UseReport) -> dict[tuple[str | None, str], tuple[float, float | None]]:
    return {
        (one.pod, one.state): (
            round(one.node_hours, 1),
            one.accelerator_hours and round(one.accelerator_hours, 1),
        )
        for one in report.rows
    }


def count(house: House) -> int:
    """Accelerators of a node of the test's site."""
    return len(house.site.node_by_name["gpu01"].accelerators)


def test_pod_that_goes_on_counts_until_now(house: House) -> None:
    """From its assignment; within the period alone."""
    house.ready(sized(2))
    earlier(house, 10 * HOUR)
    assert hours(asked(house)) == {("train", "used"): (20.0, 20.0 * count(house))}
    assert hours(asked(house, 3 * HOUR)) == {("train", "used"): (6.0, 6.0 * count(house))}
    now = house.store.database.now()
    within = asked(house, 8 * HOUR, until=now - 7 * HOUR)
    assert hours(within)["train", "used"] == (2.0, 2.0 * count(house))


def test_released_pod_counts_until_its_nodes_were_returned(house: House) -> None:
    """And no longer, however late the question is."""
    pod = house.ready(sized(2))
    earlier(house, 10 * HOUR)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    earlier(house, 5 * HOUR)
    assert hours(asked(house)) == {("train", "used"): (20.0, 20.0 * count(house))}
    assert hours(asked(house, 4 * HOUR)) == {}


def test_change_within_the_period_counts_each_node_for_its_own_time(house: House) -> None:
    """Two nodes for ten hours, then three: what came later counts from then on."""
    pod = house.ready(sized(2))
    earlier(house, 10 * HOUR)
    apply(house, sized(3))
    settle(house, pod)
    earlier(house, 2 * HOUR)
    assert hours(asked(house))["train", "used"][0] == 12.0 * 2 + 2.0


def test_spare_counts_apart_until_it_is_used(house: House) -> None:
    """It is the project's, but runs nothing."""
    pod = house.ready(spared("train", 3, 1))
    earlier(house, 4 * HOUR)
    assert hours(asked(house))["train", "spare"][0] == 4.0
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE node_hold SET spare = false WHERE node = %s", [pod.spares[0]])
    earlier(house, 2 * HOUR)
    found = hours(asked(house))
    assert (found["train", "spare"][0], found["train", "used"][0]) == (4.0, 6.0 * 3 + 2.0)


def test_part_of_a_node_counts_with_its_own_accelerators(house: House) -> None:
    """Two servers of one accelerator each on a node that others share; a released one counts no longer."""
    pods = [house.run(house.order(small(name)), PodState.READY) for name in ("p0", "p1")]
    assert pods[0].nodes == pods[1].nodes
    earlier(house, 8 * HOUR)
    house.release(pods[0])
    house.run(pods[0], PodState.RELEASED)
    earlier(house, 8 * HOUR)
    of_node = len(house.site.node_by_name[pods[0].nodes[0]].accelerators)
    found = asked(house)
    assert {one.pod: round(one.accelerator_hours or 0, 1) for one in found.rows} == {"p0": 8.0, "p1": 16.0}
    assert {one.pod: round(one.node_hours, 1) for one in found.rows} == {
        "p0": round(8.0 / of_node, 1),
        "p1": round(16.0 / of_node, 1),
    }


def test_tenant_reads_its_own_hours_alone(house: House) -> None:
    """Operators read all, by project and by type; the sums are the same."""
    house.ready(sized(2))
    house.service.pods.create(house.request("team-b"), make("theirs", 1))
    earlier(house, 10 * HOUR)
    tenant = redacted(house.service, policy())
    search = UseSearch(since=house.store.database.now() - 30 * HOUR)
    mine = tenant.use(house.request(), search)
    assert {one.pod for one in mine.rows} == {"train"} and mine.rows[0].accelerator_hours
    everywhere = search.model_copy(update={"all_projects": True})
    with pytest.raises(ForbiddenError):
        tenant.use(house.request(), everywhere)
    with pytest.raises(InputError):
        tenant.use(house.request(), search.model_copy(update={"project": "team-b"}))
    sums: set[float] = set()
    for by in ("pod", "project", "type"):
        found = house.service.use(house.operator, everywhere.model_copy(update={"by": by}))
        sums.add(round(sum(one.node_hours for one in found.rows), 2))
    assert sums == {30.0}


def test_changed_hardware_counts_from_the_change_on(house: House) -> None:
    """What was counted before keeps what the node had: of the pod that goes on, and of one that was released."""
    old = house.ready(make("old", 1))
    earlier(house, 4 * HOUR)
    house.release(old)
    house.run(old, PodState.RELEASED)
    pod = house.ready(sized(2))
    earlier(house, 10 * HOUR)
    had, nodes = count(house), {*old.nodes, *pod.nodes}
    changed = tuple(
        n.model_copy(update={"accelerators": n.accelerators[:1]}) if n.name in nodes else n
        for n in house.site.nodes
    )
    house.store.activate_site(house.site.model_copy(update={"nodes": changed}), "test")
    assert hours(asked(house)) == {("old", "used"): (4.0, 4.0 * had), ("train", "used"): (20.0, 20.0 * had)}
    earlier(house, 5 * HOUR)
    assert hours(asked(house))["train", "used"] == (30.0, 20.0 * had + 10.0)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    rest = tuple(n for n in house.site.nodes if n.name not in nodes)
    house.store.activate_site(house.site.model_copy(update={"nodes": rest}), "test")
    found = asked(house, by="type")
    assert "unknown" not in {one.type for one in found.rows}
    assert round(sum(one.accelerator_hours or 0 for one in found.rows)) == 24 * had + 10


def test_ipus_count_by_machine(database: Database, database_url: str) -> None:
    """Four for each IPU-Machine; hosts of its servers have none, and aren't counted."""
    ipu = IpuHouse(database, database_url)
    try:
        ipu.booted(ipus(count=8))
        earlier(ipu, 3 * HOUR)
        (row,) = asked(ipu).rows
        assert (row.type, round(row.node_hours, 1), round(row.accelerator_hours or 0, 1)) == (
            "ipu",
            6.0,
            24.0,
        )
    finally:
        ipu.close()


def test_node_that_left_the_site_has_unknown_accelerators(house: House) -> None:
    """Not none: its hours are known, its accelerators aren't."""
    house.ready(sized(1))
    earlier(house, 10 * HOUR)
    with psycopg.connect(house.database.url) as connection:
        connection.execute("UPDATE use_span SET node = 'gone77'")
    (row,) = asked(house).rows
    assert (row.type, round(row.node_hours, 1), row.accelerator_hours) == ("unknown", 10.0, None)


@pytest.mark.parametrize("days", [0, 1101])
def test_impossible_or_too_long_period_of_use_is_refused(house: House, days: int) -> None:
    now: datetime = house.store.database.now()
    with pytest.raises(InputError, match="since"):
        house.service.use(house.request(), UseSearch(since=now - timedelta(days=days), until=now))


def test_retention_keeps_hours_of_running_pods(house: House) -> None:
    """However old; what ended longer ago than the site says is removed."""
    from weft.engine.watch.retention import Retention

    pod = house.ready(sized(1))
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    house.ready(make("on", 1))
    earlier(house, timedelta(days=2000))
    removed, _, failed = Retention(house.database, lambda: house.site).run(house.site.retention)
    assert not failed and removed["hours of use"] == 1
    with psycopg.connect(house.database.url) as connection:
        assert connection.execute("SELECT pod FROM use_span").fetchall() == [("on",)]
