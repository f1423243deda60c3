"""Trunks of every VLAN, as switches come from the factory: their numbers were not chosen deliberately."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from tests.engine.fabric.test_ethernet_life import EthernetHouse, ethernet, ports, released
from tests.engine.house import House
from tests.engine.timehouse import make
from weft.engine.base.database import Database
from weft.model.site import Site
from weft.testing.ethernet import FakeEthernet, PortConfig

EVERY = frozenset(range(1, 4095))


def linked(site: Site) -> Site:
    """The site with its Ethernet fabric and the links between its switches."""
    document = ethernet(site).model_dump(mode="json")
    switches = {s["name"] for s in document["switches"]}
    links = [
        {"a": f"{k['a']}/Ethernet{k['a_port']}", "b": f"{k['b']}/Ethernet{k['b_port']}"}
        for k in document.pop("links")
        if {k["a"], k["b"]} <= switches
    ]
    access = [{"name": s, "interface": "eos", "url": f"https://{s}.example"} for s in sorted(switches)]
    switching = {"switches": access, "links": links, "parking": 4000}
    document["fabrics"]["ib0"]["manager"]["switching"] = switching
    return Site.model_validate(document)


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[EthernetHouse]:
    house = EthernetHouse(database, database_url)
    house.site = linked(house.site)
    house.fake = FakeEthernet(house.site, "ib0", linked=True)
    resources = {**house.world.resources, "ib0": house.fake}
    house.world = replace(house.world, resources=resources, fabrics={"ib0": house.fake})
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


def opened(house: EthernetHouse, end: str) -> None:
    switch, _, port = end.partition("/")
    house.fake.switches[switch].config.ports[port].trunk = set(EVERY)


def others(house: House) -> str:
    """A host port that the next pod doesn't get."""
    return [n for n in house.site.nodes if n.hcas_on("ib0")][-1].hcas_on("ib0")[0].port_id


def test_factory_trunk_links_block_no_number(house: EthernetHouse) -> None:
    """Each pod's VLAN is taken off those that it doesn't need; of the others nothing is changed."""
    for end in house.fake.cabling.uplinks:
        opened(house, end)
    first, second = house.ready(), house.ready(make("second", 2))
    assert first.plan.segment is not None and second.plan.segment == first.plan.segment + 1
    seen = house.fake.snapshot()
    for pod in (first, second):
        assert pod.plan.segment is not None
        needed = {e for ends in house.fake.cabling.spread(ports(house, pod)).values() for e in ends}
        assert seen.carriers.get(pod.plan.segment, frozenset()) == needed
    house.release(first)
    assert released(house, first).receipt.clean


def test_factory_trunk_port_is_parked_with_the_next_pod(house: EthernetHouse) -> None:
    opened(house, end := others(house))
    pod = house.ready()
    assert pod.plan.segment is not None
    assert house.fake.snapshot().ports_in[pod.plan.segment] == frozenset(ports(house, pod))
    assert house.fake.snapshot().ends[end].numbers == set()


def test_deliberately_configured_number_is_not_assigned(house: EthernetHouse) -> None:
    first = house.site.fabrics["ib0"].segments.first
    house.fake.put(others(house), first)
    assert house.ready().plan.segment == first + 1


def test_unknown_port_that_trunks_every_vlan_is_named(house: EthernetHouse) -> None:
    """weft doesn't touch it: what is behind it would reach every pod."""
    leaf = house.fake.cabling.switches[0]
    house.fake.switches[leaf].config.ports["Ethernet60"] = PortConfig(None, set(EVERY))
    said = [p for m in house.fake.status().managers for p in m.problems]
    assert len(said) == 1 and f"port {leaf}/Ethernet60, where the site has no adapter" in said[0]
    [found] = [f for f in house.service.audits.run(house.operator).findings if f.kind == "fabric manager"]
    assert "carries every VLAN: take those for pods off it" in found.what
