"""Hosts that are down for too long are reported to pods and in histories; what isn't known reports nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import psycopg
import pytest

from tests.engine.changes.test_change_loop import sized
from tests.engine.house import House, policy
from tests.engine.ipuhouse import IpuHouse
from tests.engine.timehouse import HandClock
from weft.app.redact import redacted
from weft.engine.base.database import Database
from weft.engine.base.world import World
from weft.engine.nodes.hostwatch import HostWatch
from weft.engine.rows.records import PodRecord
from weft.model.site import RepairPolicy
from weft.testing.cloud import Fault


@pytest.fixture
def pod(house: House) -> PodRecord:
    return house.ready(sized(2))


def watch(house: House, clock: HandClock, minutes: float, step: float = 1) -> None:
    """Read the hosts each `step` minutes."""
    hosts = HostWatch(house.database, house.keeper.world, house.keeper.site)
    passed = 0.0
    while passed < minutes:
        clock.forward(seconds=step * 60)
        passed += step
        hosts.tend()


def said(house: House, pod: PodRecord) -> list[str]:
    return [str(e.message) for e in house.store.records.events(pod.id, 0) if e.type == "node"]


def history(house: House, node: str) -> list[str]:
    found = house.service.nodes.history(house.operator, node).entries
    return [e.code for e in reversed(found) if e.type == "failure"]


def test_host_that_is_down_too_long_is_reported_once(house: House, clock: HandClock, pod: PodRecord) -> None:
    """To the pod and in the node's history, after the site's limit; so is its return; two readers are one."""
    node, free = (
        pod.nodes[0],
        next(n.name for n in house.site.nodes if n.is_whole and n.name not in pod.nodes),
    )
    house.cloud.offers.hosts |= {node: "down", free: "down: forced down by an operator"}
    watch(house, clock, 9)
    assert not said(house, pod) and not history(house, node)
    watch(house, clock, 5)
    assert said(house, pod) == [f"the host of {node} is down"]
    assert history(house, node) == history(house, free) == ["NODE_HOST_DOWN"]
    house.cloud.offers.hosts[node] = "up"
    watch(house, clock, 2)
    assert said(house, pod)[1:] == [f"the host of {node} is up again"]
    assert history(house, node) == ["NODE_HOST_DOWN", "NODE_HOST_UP"]


def test_unknown_host_is_not_down(house: House, clock: HandClock, pod: PodRecord) -> None:
    """Disabled, not listed, a cloud that doesn't answer, and a gap between readings."""
    node = pod.nodes[0]
    for state in ("disabled: firmware", None):
        if state is None:
            del house.cloud.offers.hosts[node]
        else:
            house.cloud.offers.hosts[node] = state
        watch(house, clock, 15)
        assert not history(house, node)
    house.cloud.offers.hosts[node] = "down"
    watch(house, clock, 8)
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="facts", times=None)
    watch(house, clock, 20)
    planted.lift()
    assert not history(house, node)
    watch(house, clock, 8)
    assert not history(house, node), "the time without readings doesn't count"
    watch(house, clock, 3)
    assert history(house, node) == ["NODE_HOST_DOWN"]


def test_flapping_host_is_not_down(house: House, clock: HandClock, pod: PodRecord) -> None:
    """Each return begins the count again."""
    node = pod.nodes[0]
    for _ in range(5):
        house.cloud.offers.hosts[node] = "down"
        watch(house, clock, 6)
        house.cloud.offers.hosts[node] = "up"
        watch(house, clock, 1)
    assert not history(house, node) and not said(house, pod)


class Reading:
    """A worker's view of the hosts: another one than the cloud's, or an answer that comes late."""

    def __init__(self, house: House, states: dict[str, str], late: Callable[[], object] = int) -> None:
        self._states, self._late = {**house.cloud.offers.hosts, **states}, late
        world = cast(World, SimpleNamespace(clouds={"lab": self}))
        self.watch = HostWatch(house.database, lambda: world, house.keeper.site)

    def hosts(self) -> Mapping[str, str]:
        self._late()
        return self._states


def test_two_workers_that_read_different_states_do_not_block_each_other(
    house: House, clock: HandClock, pod: PodRecord
) -> None:
    """Each finds one host up and the other down; both are at it at once, and neither is ended by PostgreSQL."""
    first, second = pod.nodes
    house.cloud.offers.hosts |= {first: "down", second: "down"}
    watch(house, clock, 12)
    readings = [
        Reading(house, {first: "up", second: "down"}),
        Reading(house, {first: "down", second: "up"}),
    ]
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with psycopg.connect(house.database.url) as connection, ThreadPoolExecutor(2) as pool:
        with connection.transaction():
            connection.execute("LOCK TABLE event IN EXCLUSIVE MODE")
            both = [pool.submit(reading.watch.tend) for reading in readings]
            with psycopg.connect(house.database.url, autocommit=True) as other:
                for _ in range(500):
                    if other.execute(waiting).fetchone() == (2,):
                        break
                    time.sleep(0.02)
        for one in both:
            one.result(timeout=30)
    assert sorted(said(house, pod)[1:]) == [f"the host of {node} is up again" for node in (first, second)]


def test_late_answer_changes_nothing_that_was_read_later(
    house: House, clock: HandClock, pod: PodRecord
) -> None:
    """An answer from before the host went down ends no outage; one that took minutes is none."""
    node = pod.nodes[0]
    house.cloud.offers.hosts[node] = "down"
    watch(house, clock, 9)
    Reading(house, {node: "up"}, lambda: watch(house, clock, 1)).watch.tend()
    watch(house, clock, 1)
    assert history(house, node) == ["NODE_HOST_DOWN"]
    Reading(house, {node: "up"}, lambda: clock.forward(minutes=6)).watch.tend()
    assert history(house, node) == ["NODE_HOST_DOWN"]


def test_clock_that_is_set_back_starts_the_count_again(
    house: House, clock: HandClock, pod: PodRecord
) -> None:
    """Neither at once nor a day later; and one that is up again is up."""
    node, free = pod.nodes
    house.cloud.offers.hosts |= {node: "down", free: "down"}
    watch(house, clock, 8)
    clock.forward(hours=-24)
    house.cloud.offers.hosts[free] = "up"
    watch(house, clock, 9)
    assert not history(house, node)
    watch(house, clock, 3)
    assert history(house, node) == ["NODE_HOST_DOWN"] and not history(house, free)


def test_host_that_was_not_read_for_a_day_is_reported_again(
    house: House, clock: HandClock, pod: PodRecord
) -> None:
    """Such as after maintenance: it may have been up meanwhile, and gone down again."""
    node = pod.nodes[0]
    house.cloud.offers.hosts[node] = "down"
    watch(house, clock, 12)
    house.cloud.offers.hosts[node] = "disabled: maintenance"
    watch(house, clock, 25 * 60, step=60)
    house.cloud.offers.hosts[node] = "down"
    watch(house, clock, 12)
    assert history(house, node) == ["NODE_HOST_DOWN"] * 2


def test_outage_of_many_hosts_is_reported_to_no_pod(
    house: House, clock: HandClock, pod: PodRecord, caplog: pytest.LogCaptureFixture
) -> None:
    """More than the site's limit at once are an outage of what watches them, until there are fewer."""
    site = house.store.site().site
    house.store.activate_site(site.model_copy(update={"repair": RepairPolicy(outage=1)}), "test")
    house.cloud.offers.hosts |= dict.fromkeys(pod.nodes, "down")
    watch(house, clock, 15)
    assert not said(house, pod) and "2 hosts went down" in caplog.text
    house.cloud.offers.hosts[pod.nodes[1]] = "up"
    watch(house, clock, 1)
    assert history(house, pod.nodes[0]) == ["NODE_HOST_DOWN"] and not history(house, pod.nodes[1])
    others = [n.name for n in house.site.nodes if n.is_whole and n.name not in pod.nodes][:2]
    house.cloud.offers.hosts |= dict.fromkeys(others, "down")
    watch(house, clock, 24 * 60, step=4)
    assert not history(house, others[0]), "those that were reported don't count as an outage, new ones do"
    watch(house, clock, 8, step=4)
    assert history(house, others[0]) == ["NODE_HOST_DOWN"], "but not without a limit"


def test_restored_database_reports_nothing(house: House, clock: HandClock, pod: PodRecord) -> None:
    """While the gate is closed no host is judged."""
    house.cloud.offers.hosts[pod.nodes[0]] = "down"
    house.behind()
    watch(house, clock, 15)
    assert not history(house, pod.nodes[0])


def test_host_of_a_controller_is_named_to_operators_alone(
    database: Database, database_url: str, clock: HandClock
) -> None:
    """The tenant reads that the site's servers for its pod are concerned; its Poplar server's host is named."""
    house = IpuHouse(database, database_url, clock)
    try:
        pod = house.booted()
        house.cloud.offers.hosts |= {"generic1": "down", "poplar1": "down"}
        watch(house, clock, 12)
        down = "with servers of weft's own for the pod, is down"
        assert sorted(said(house, pod)) == [f"the host of generic1, {down}", "the host of poplar1 is down"]
        shown = redacted(house.service, policy()).pods.events(house.request(), pod.name)
        texts = sorted(str(e.message) for e in shown if e.type == "node")
        assert texts == [
            "the host of poplar1 is down",
            "the host of servers that the site runs for the pod is down",
        ]
        assert "generic1" not in "".join(e.model_dump_json() for e in shown)
    finally:
        house.close()
