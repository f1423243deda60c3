"""Orders withdrawn at every stage of their creation, of servers, machines and IPUs alike."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.house import House
from tests.engine.ipuhouse import IpuHouse
from tests.engine.ipuhouse import order as ipus
from tests.engine.metalhouse import ORDER as MACHINES
from tests.engine.metalhouse import site as metal_site
from tests.engine.timehouse import HandClock, make
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.testing.cloud_state import FakeFlavor

Build = Callable[[], tuple[House, Order]]


@pytest.fixture(params=["servers", "machines", "ipus"])
def build(
    request: pytest.FixtureRequest,
    database: Database,
    database_url: str,
    clock: HandClock,
    monkeypatch: pytest.MonkeyPatch,
) -> Build:
    """A house with a slow cloud, and the orders in it."""

    def servers() -> tuple[House, Order]:
        return House(database, database_url, clock=clock), make("mine", 2)

    def machines() -> tuple[House, Order]:
        monkeypatch.setattr("tests.engine.house.small_site", metal_site)
        house = House(database, database_url, clock=clock)
        house.cloud.offers.flavors[str(MACHINES.nodes.flavor)] = FakeFlavor(96, 1_048_576)
        house.cloud.offers.hosts |= {n.machine: "up" for n in house.site.nodes if n.machine is not None}
        return house, MACHINES

    def ipu_machines() -> tuple[House, Order]:
        return IpuHouse(database, database_url, clock), ipus()

    made = {"servers": servers, "machines": machines, "ipus": ipu_machines}[request.param]

    def slow() -> tuple[House, Order]:
        house, wanted = made()
        request.addfinalizer(house.close)
        house.cloud.latency = 1.0
        return house, wanted

    return slow


def visited(house: House, pod: PodRecord, clock: HandClock) -> PodRecord:
    """Visit once, and let a moment pass."""
    house.store.wake(pod.id)
    house.worker.run_once()
    clock.sleep(0.5)
    return house.store.pods.find(str(pod.id), None)


def taken_back(house: House, pod: PodRecord, clock: HandClock) -> None:
    """Release the pod: the receipt is clean, and nothing stays."""
    house.release(pod)
    for _ in range(60):
        pod = visited(house, pod, clock)
        if pod.state is PodState.RELEASED:
            break
    signed, capacity = house.store.records.receipt(pod.id), house.store.capacity()
    assert signed is not None and signed.receipt.clean, (pod.state, pod.reason)
    assert not capacity.holds and not capacity.quarantines
    assert not [t for t in house.cloud.things() if t.mark and t.mark.owner == pod.scope.owner]


def test_order_cancelled_at_any_stage_leaves_nothing(build: Build, clock: HandClock) -> None:
    """From the moment of its claim until its last server has booted."""
    house, wanted = build()
    seen = set[tuple[PodState, bool]]()
    for visits in range(0, 16, 2):
        pod = house.order(wanted)
        for _ in range(visits):
            pod = visited(house, pod, clock)
        seen.add((pod.state, bool(house.cloud.servers)))
        if pod.state is PodState.READY:
            break
        taken_back(house, pod, clock)
    assert {s for s, _ in seen} > {PodState.PLACED} and (PodState.BOOTING, True) in seen, seen


def test_order_cancelled_after_a_failed_build_leaves_nothing(build: Build, clock: HandClock) -> None:
    """Nova has removed such a server from its host before it is deleted."""
    house, wanted = build()
    house.cloud.plant(Fault.BROKEN, kind=Kind.SERVER, times=None)
    pod = house.order(wanted)
    for _ in range(25):
        pod = visited(house, pod, clock)
        if pod.state is PodState.FAILED:
            break
    assert pod.state is PodState.FAILED and house.cloud.servers
    taken_back(house, pod, clock)
