"""Claims: many at once, occupied nodes, no quota, and a process that dies in between."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import NoReturn

import psycopg
import pytest

from tests.engine.house import ORDER, House
from tests.engine.timehouse import make
from weft.engine.queue import claim
from weft.engine.queue.claim import UNCONFIRMED
from weft.model.errors import ConflictError, RefusedError, TemporaryError, UnknownError
from weft.model.pod import PodState
from weft.testing.cloud_state import Fault


def held(house: House) -> dict[str, str]:
    """Node -> pod's name."""
    return {node: hold.pod.name for node, hold in house.store.capacity().holds.items()}


def rows(house: House) -> int:
    """Rows of pods, resources, events, nodes and their histories, numbers and subnets."""
    tables = ("pod", "resource", "event", "node_hold", "node_history", "number_hold", "subnet_hold")
    with house.database._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        found = [connection.execute(f"SELECT count(*) AS n FROM {t}").fetchone() for t in tables]
    return sum(row["n"] for row in found if row)


def unconfirmed(house: House, work: Callable[[], object]) -> None:
    """Do it while the nodes of the next claim are being checked."""
    house.cloud.meanwhile("occupants", lambda: house.cloud.meanwhile("occupants", work))


def test_concurrent_orders_fill_the_site(house: House) -> None:
    """Sixteen nodes, sixteen orders of one at the same time, while the cloud takes its time: each gets one."""
    house.cloud.plant(Fault.SLOW, verb="occupants", times=None, seconds=0.05)
    names = [f"pod-{n}" for n in range(16)]

    def order(name: str) -> None:
        nodes = ORDER.nodes.model_copy(update={"count": 1})
        house.order(ORDER.model_copy(update={"name": name, "nodes": nodes}))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(order, names))
    assert sorted(held(house).values()) == sorted(names)
    assert house.run(house.store.pods.find("pod-7", "team-a"), PodState.READY)


def test_order_does_not_wait_for_others_without_a_limit(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another order is being placed in this process for too long: the refusal asks to retry, and nothing was
    claimed."""
    monkeypatch.setattr("weft.engine.base.database.LOCK_TIMEOUT", 0.01)
    waits = pytest.raises(TemporaryError, match="other orders are being placed")
    with house.database.placing(), ThreadPoolExecutor(1) as pool, waits:
        pool.submit(house.order).result()
    assert not held(house)
    house.order()


def test_second_of_two_concurrent_orders_of_one_name_is_refused(house: House) -> None:
    """One is created, the other is refused because that one exists."""

    def order(_: int) -> str:
        try:
            return house.order().name
        except ConflictError as error:
            return str(error)

    with ThreadPoolExecutor(2) as pool:
        said = sorted(pool.map(order, range(2)), key=len)
    assert said[0] == "train" and "pod 'train' already exists" in said[1]
    assert len(held(house)) == 2


def test_occupied_nodes_are_replaced_by_others(house: House) -> None:
    """The claim is dropped without a trace, and others are chosen."""
    house.cloud.offers.claims["gpu01"] = {"a-stranger"}
    pod = house.order()
    assert "gpu01" not in pod.nodes and set(held(house)) == set(pod.nodes)
    assert [e.message for e in house.store.records.events(pod.id, 0) if e.type == "state"] == [
        "PENDING: ordered",
        f"PLACED: {', '.join(pod.nodes)}",
    ]


def test_claim_over_quota_leaves_nothing(house: House) -> None:
    """Neither nodes nor numbers, rows or events; and the order can be sent again."""
    before = rows(house)
    house.cloud.offers.quotas["team-a", "servers"] = 1
    with pytest.raises(RefusedError, match="servers"):
        house.order()
    assert rows(house) == before
    house.cloud.offers.quotas.clear()
    assert house.ready().state is PodState.READY


def test_claim_of_unreadable_nodes_leaves_nothing(house: House) -> None:
    """Unknown isn't free."""
    before = rows(house)
    house.cloud.plant(Fault.UNREACHABLE, verb="facts", times=None)
    house.cloud.plant(Fault.UNREACHABLE, verb="occupants", times=None)
    with pytest.raises(UnknownError):
        house.order()
    assert rows(house) == before


class DiedError(BaseException):
    """The process ends here."""


def die(*_: object) -> NoReturn:
    raise DiedError


def test_workers_ignore_a_claim_until_it_is_confirmed(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies once its claim is written, and neither confirms nor drops it, leaves a pod that workers claim
    after the limit, and serve."""
    monkeypatch.setattr(claim, "confirm_claim", die)
    monkeypatch.setattr(claim, "drop_claim", die)
    with pytest.raises(DiedError):
        house.service.pods.create(house.request(), ORDER)
    pod = house.store.pods.find("train", "team-a")
    assert not house.worker.run_once()
    with house.database._pool.connection() as connection:  # pyright: ignore[reportPrivateUsage]
        connection.execute("UPDATE pod SET next_at = next_at - %s * interval '1 second'", [UNCONFIRMED])
    assert house.worker.run_once()
    assert house.run(pod, PodState.READY).nodes == pod.nodes


def test_pod_can_be_released_while_its_nodes_are_checked(house: House) -> None:
    """Its release goes on, although its nodes are then found occupied."""

    def release() -> None:
        house.release(house.store.pods.find("train", "team-a"))
        house.cloud.offers.claims["gpu01"] = {"a-stranger"}

    unconfirmed(house, release)
    pod = house.order()
    assert pod.wanted == "absent" and "gpu01" in pod.nodes
    house.cloud.offers.claims.clear()
    assert house.run(pod, PodState.RELEASED)


def test_late_refusal_releases_the_pod(house: House) -> None:
    """A worker holds the pod already when its quota is found to be too small: it is released."""

    def taken() -> None:
        pod = house.store.pods.find("train", "team-a")
        assert house.store.claim_owner(pod.id, "another") is not None
        house.cloud.offers.quotas["team-a", "servers"] = 1

    unconfirmed(house, taken)
    with pytest.raises(RefusedError, match="servers"):
        house.order()
    assert house.store.pods.find("train", "team-a").wanted == "absent"


@pytest.mark.parametrize("occupied", [False, True])
def test_claim_lost_by_the_database_is_an_error(house: House, database_url: str, occupied: bool) -> None:
    """PostgreSQL crashes before the claim is on disk, and runs again before the nodes were checked."""
    before = rows(house)

    def crash() -> None:
        with psycopg.connect(database_url) as connection:
            for table in (
                "node_hold",
                "number_hold",
                "subnet_hold",
                "resource",
                "event",
                "pod",
                "node_history",
            ):
                connection.execute(f"DELETE FROM {table}".encode())
        if occupied:
            house.cloud.offers.claims["gpu01"] = {"a-stranger"}

    unconfirmed(house, crash)
    with pytest.raises(TemporaryError, match="the claim was lost in a crash of the database; order again"):
        house.order()
    assert rows(house) == before
    assert house.ready().state is PodState.READY


@pytest.mark.parametrize("occupied", [False, True])
def test_unconfirmed_claim_cannot_be_changed(house: House, occupied: bool) -> None:
    """Applying the same file again, or another one, or extending the lease: the claim must stay droppable."""
    order, end = make("train", 2, duration="1h"), house.clock.now() + timedelta(hours=3)
    tenant, refused = house.request(), list[str]()

    def come_back(work: Callable[[], object]) -> None:
        with pytest.raises(TemporaryError) as caught:
            work()
        refused.append(str(caught.value))
        assert caught.value.delay == 1

    def meanwhile() -> None:
        come_back(lambda: house.service.pods.apply(tenant, "train", order))
        come_back(lambda: house.service.pods.apply(tenant, "train", make("train", 3, duration="1h")))
        come_back(lambda: house.service.pods.extend(tenant, "train", end))
        if occupied:
            house.cloud.offers.claims["gpu01"] = {"a-stranger"}

    unconfirmed(house, meanwhile)
    pod = house.order(order)
    why = "change pod train (weft): its nodes were chosen just now and are still being checked; apply again"
    assert refused == [why] * 3
    assert (pod.generation, "gpu01" in pod.nodes) == (1, not occupied)
    assert house.service.pods.apply(tenant, "train", order).outcome == "unchanged"
    assert house.service.pods.apply(tenant, "train", make("train", 3, duration="1h")).outcome == "changed"
    assert house.service.pods.extend(tenant, "train", end).generation == 3
