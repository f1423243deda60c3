"""Adapters whose switches say that their link is down fail as those do that an InfiniBand fabric doesn't show."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from tests.engine.fabric.test_ethernet_life import EthernetHouse, ethernet
from tests.engine.replace.test_repairs import limits, order, read_fabric, repairs, said
from tests.engine.replace.test_replace import visit
from tests.engine.timehouse import HandClock, look
from weft.engine.base.database import Database
from weft.testing.ethernet import FakeEthernet


@pytest.fixture
def house(database: Database, database_url: str, clock: HandClock) -> Generator[EthernetHouse]:
    house = EthernetHouse(database, database_url, clock=clock)
    house.site = ethernet(house.site)
    house.fake = FakeEthernet(house.site, "ib0")
    resources = {**house.world.resources, "ib0": house.fake}
    house.world = replace(house.world, resources=resources, fabrics={"ib0": house.fake})
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


def unplug(
    house: EthernetHouse, node: str, up: bool = False, unclear: bool = False, adapter: int = 0
) -> None:
    switch, _, port = house.site.node_by_name[node].hcas_on("ib0")[adapter].port_id.partition("/")
    fake = house.fake.switches[switch]
    (fake.down.discard if up or unclear else fake.down.add)(port)
    (fake.unclear.add if unclear else fake.unclear.discard)(port)


def test_link_that_goes_down_is_reported_and_its_node_replaced(
    house: EthernetHouse, clock: HandClock
) -> None:
    pod = house.ready(order(count=2))
    read_fabric(house, clock, 1)
    unplug(house, pod.nodes[0])
    read_fabric(house, clock, 10)
    repairs(house).tend()
    assert look(house, pod).generation == 1 and not said(house, pod)
    read_fabric(house, clock, 2)
    repairs(house).tend()
    now = look(house, pod)
    assert now.generation == 2 and pod.nodes[0] not in now.nodes
    entries = house.service.nodes.history(house.operator, pod.nodes[0]).entries
    assert "ADAPTER_GONE" in [e.code for e in entries if e.type == "failure"]


@pytest.mark.parametrize(
    ("way", "code"),
    [
        ("never up", ""),
        ("unclear", ""),
        ("silent switch", ""),
        ("server off", ""),
        ("up again", ""),
        ("up right before", "ADAPTER_SHOWN"),
        ("silent right before", "FABRIC_UNKNOWN"),
        ("many", ""),
    ],
)
def test_link_counts_only_while_its_switch_says_that_it_went_down(
    house: EthernetHouse, clock: HandClock, way: str, code: str
) -> None:
    """A guest without a driver never brings it up; a switch that doesn't answer says nothing of adapters."""
    pod = house.ready(order(count=2))
    node = pod.nodes[0]
    leaf = house.site.node_by_name[node].hcas_on("ib0")[0].port_id.partition("/")[0]
    if way != "never up":
        read_fabric(house, clock, 1)
    unplug(house, node)
    match way:
        case "many":
            limits(house, outage=1)
            unplug(house, pod.nodes[1])
        case "server off":
            house.cloud.thing(f"server/{node}").stuck = "SHUTOFF"
            visit(house, pod)
        case _:
            pass
    read_fabric(house, clock, 8)
    match way:
        case "unclear":
            unplug(house, node, unclear=True)
        case "silent switch":
            house.fake.switches[leaf].reachable = False
        case _:
            pass
    read_fabric(house, clock, 6)
    if way.startswith("up"):
        unplug(house, node, up=True)
    if way == "up again":
        read_fabric(house, clock, 1)
    if way == "silent right before":
        house.fake.switches[leaf].reachable = False
    repairs(house).tend()
    assert (look(house, pod).generation, said(house, pod)) == (1, code)


def test_link_that_was_never_up_confirms_no_other_one(house: EthernetHouse, clock: HandClock) -> None:
    """The one that failed is up again right before; another one of the node, which no guest uses, is still down."""
    pod = house.ready(order(count=2))
    unplug(house, pod.nodes[0], adapter=1)
    read_fabric(house, clock, 1)
    unplug(house, pod.nodes[0])
    read_fabric(house, clock, 12)
    unplug(house, pod.nodes[0], up=True)
    repairs(house).tend()
    assert (look(house, pod).generation, said(house, pod)) == (1, "ADAPTER_SHOWN")


def test_links_that_were_never_up_do_not_count_as_an_outage(house: EthernetHouse, clock: HandClock) -> None:
    """Otherwise guests without drivers on some nodes would end the watch of all others."""
    limits(house, outage=1)
    pod = house.ready(order(count=4))
    for node in pod.nodes[1:]:
        unplug(house, node)
    read_fabric(house, clock, 1)
    unplug(house, pod.nodes[0])
    read_fabric(house, clock, 12)
    repairs(house).tend()
    assert look(house, pod).generation == 2


def test_idle_node_with_its_links_down_can_replace_another(house: EthernetHouse, clock: HandClock) -> None:
    """Without a guest a link may be down: unlike an adapter that InfiniBand doesn't show, that says nothing."""
    pod = house.ready(order(count=2))
    read_fabric(house, clock, 1)
    for node in house.site.nodes:
        if node.is_whole and node.name not in pod.nodes[1:]:
            unplug(house, node.name)
    read_fabric(house, clock, 12)
    repairs(house).tend()
    assert look(house, pod).generation == 2


def test_adapters_that_were_up_are_remembered_with_their_pod(house: EthernetHouse, clock: HandClock) -> None:
    pod = house.ready(order(count=2))
    read_fabric(house, clock, 3)
    with house.database.statement() as tx:
        assert len(tx.rows("adapters_up_of", pod_id=pod.id)) == 4
    house.release(pod)
    visit(house, pod, 8)
    read_fabric(house, clock, 1)
    with house.database.statement() as tx:
        assert not tx.rows("adapters_up_of", pod_id=pod.id)
