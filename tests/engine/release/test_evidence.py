"""A site that requires former members' ports to be read at a level: a release without it isn't clean."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from tests.engine.fabric.test_ethernet_life import ethernet
from tests.engine.house import House, impatient
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.fabrictypes import Level
from weft.model.pod import PodState
from weft.testing.ethernet import FakeEthernet


class EvidenceHouse(House):
    """On switches in memory; the site wants operational evidence."""

    fake: FakeEthernet


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[EvidenceHouse]:
    house = EvidenceHouse(database, database_url)
    site = ethernet(house.site)
    fabric = site.fabrics["ib0"].model_copy(update={"evidence": Level.OPERATIONAL})
    house.site = site.model_copy(update={"fabrics": {**site.fabrics, "ib0": fabric}})
    house.fake = FakeEthernet(house.site, "ib0")
    house.world = replace(
        house.world, resources={**house.world.resources, "ib0": house.fake}, fabrics={"ib0": house.fake}
    )
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


def released(house: EvidenceHouse) -> PodRecord:
    pod = house.ready()
    house.release(pod)
    for _ in range(4):
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def test_configuration_is_not_enough_if_operational_state_is_required(house: EvidenceHouse) -> None:
    """Each node is kept until its state is known; the level is in the receipt, whatever was wanted."""
    pod = released(house)
    assert pod.state is PodState.RELEASING and "evidence at the level operational" in pod.reason
    house.worker = house.new_worker("w2", impatient(0.0))
    house.store.wake(pod.id)
    house.worker.run_once()
    assert house.store.capacity().quarantines.keys() == {*pod.nodes}
    for switch in house.fake.switches.values():
        switch.level = Level.OPERATIONAL
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    items = [i for i in signed.receipt.items if i.plane == "switch port"]
    assert items and {i.level for i in items} == {"operational"}
    assert {i.level for i in signed.receipt.items if i.plane != "switch port"} == {None}


def test_port_that_forwards_against_its_configuration_is_not_clean(house: EvidenceHouse) -> None:
    """Its VLAN was removed from it, but it still forwards it."""
    for switch in house.fake.switches.values():
        switch.level = Level.OPERATIONAL
    pod = house.ready()
    node = house.site.node_by_name[pod.nodes[0]]
    switch, _, port = node.hcas_on("ib0")[0].port_id.partition("/")
    assert pod.plan.segment is not None
    house.fake.switches[switch].beyond[port] = frozenset({pod.plan.segment})
    house.release(pod)
    house.worker = house.new_worker("w2", impatient(0.0))
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    capacity = house.store.capacity()
    assert node.name in capacity.holds and house.store.records.receipt(pod.id) is None
