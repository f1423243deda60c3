"""What others created in a site's clouds: left alone, adopted, conflicting, or replacing what was lost."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.sitehouse import KEYS, SiteHouse
from weft.engine.base.database import Database
from weft.model.errors import ConflictError
from weft.model.mark import Mark
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import Interface
from weft.planning.site.plantext import site_plan_text


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[SiteHouse]:
    house = SiteHouse(database, database_url)
    yield house
    house.close()


@pytest.mark.parametrize("project", ["service", "team-b"])
def test_resources_of_others_are_left_alone(house: SiteHouse, project: str) -> None:
    """Another's network has the VLAN: reported with what to do, and nothing is changed."""
    network = house.others_network(project)
    was = dict(network.fields)
    (conflict,) = house.plan().conflicts
    assert conflict.key == "network/gateways" and network.id in conflict.what and "VLAN 13" in conflict.what
    assert conflict.adoptable is (project == "service")
    with pytest.raises(ConflictError, match="1 thing in the way"):
        house.ask()
    assert house.cloud.things() == [network] and network.fields == was


def test_resources_are_adopted_by_vlan_cidr_and_mac(house: SiteHouse) -> None:
    """An adopted resource keeps its id, gets the mark and the site's settings, and is removed with the rest."""
    network = house.others_network(mtu=1400)
    pool = ("10.201.0.50", "10.201.0.60")
    subnet = house.cloud.add(
        Kind.SUBNET, "s", "service", None, network=network.id, cidr="10.201.0.0/24", pool=pool
    )
    here = {"network": network.id, "subnet": subnet.id, "vnic_type": "normal", "host": ""}
    port = house.cloud.add(
        Kind.PORT, "p", "service", None, mac="02:00:00:00:00:01", address="10.201.0.11", **here
    )
    plan = house.plan(adopt=True)
    assert [s.key for s in plan.steps if s.action == "adopt"] == [
        "network/gateways",
        "subnet/gateways/bmc",
        "port/m1/bmc",
    ]
    assert "mtu: 1400 → 1500" in site_plan_text(plan) and network.id in site_plan_text(plan)
    assert "name: by-hand → gateways" in site_plan_text(plan)
    house.applied(adopt=True)
    there = house.mine()
    assert there.keys() == KEYS
    assert (there["network/gateways"], there["port/m1/bmc"]) == (network, port)
    assert network.name == "gateways", "pods find it by its name"
    assert network.fields["mtu"] == 1500 and subnet.fields["pool"] == ("10.201.0.200", "10.201.0.254")
    house.destroyed()
    assert house.cloud.things() == []


def test_unfit_resources_are_not_adopted(house: SiteHouse) -> None:
    """A port with the MAC address and another address; a network with the name and another VLAN."""
    network = house.others_network()
    port = house.cloud.add(
        Kind.PORT, "p", "service", None, network=network.id, mac="02:00:00:00:00:01", address="10.201.0.77"
    )
    house.cloud.add(Kind.NETWORK, "storage", "service", None, physical_network="physnet-d", segment=77)
    plan = house.plan(adopt=True)
    said = {c.key: c.what for c in plan.conflicts}
    assert said.keys() == {"port/m1/bmc", "network/storage"}
    assert (
        port.id in said["port/m1/bmc"]
        and "its address is 10.201.0.77, not 10.201.0.11" in said["port/m1/bmc"]
    )
    with pytest.raises(ConflictError, match="2 things in the way"):
        house.ask(adopt=True)


def test_pods_resources_are_never_adopted(house: SiteHouse) -> None:
    """A pod's network has the VLAN by mistake: it stays the pod's, in whatever project it is."""
    pod = house.ready()
    network = next(t for t in house.cloud.things(Kind.NETWORK) if t.mark)
    network.fields |= {"physical_network": "physnet-9g", "segment": 13}
    network.project_id = "service"
    (conflict,) = house.plan(adopt=True).conflicts
    assert f"pod {pod.id}" in conflict.what and not conflict.adoptable


def test_resource_that_vanishes_before_its_adoption_is_created(house: SiteHouse) -> None:
    house.others_network()
    house.ask(adopt=True)
    house.cloud.lose(house.cloud.things(Kind.NETWORK)[0])
    house.settle()
    assert house.mine().keys() == KEYS


def test_network_created_meanwhile_is_reported(house: SiteHouse) -> None:
    """Between plan and creation: the reason names it, and the site's own is created once it is gone."""
    house.ask()
    network = house.others_network()
    owner = house.visit(house.site_owner())
    assert owner.state is not PodState.READY and "VLAN 13" in owner.reason
    house.cloud.lose(network)
    house.settle()


def test_network_created_meanwhile_can_be_adopted(house: SiteHouse) -> None:
    """Its row exists already, and was refused."""
    house.ask()
    network = house.others_network()
    owner = house.visit(house.site_owner())
    assert "VLAN 13" in owner.reason
    assert "adopt network/gateways" in house.steps(adopt=True)
    house.applied(adopt=True)
    assert house.mine()["network/gateways"] == network


@pytest.mark.parametrize("key", ["security_group/lab/storage", "router/storage"])
def test_replacement_of_a_lost_resource_is_adopted(house: SiteHouse, key: str) -> None:
    """Two of its kind may have one name: weft's own is gone, and no other one is created beside it."""
    house.applied()
    lost = house.mine()[key]
    house.cloud.lose(lost)
    other = house.cloud.add(lost.kind, lost.name, "service", None, **lost.fields)
    assert f"adopt {key}" in house.steps(adopt=True)
    house.applied(adopt=True)
    assert house.mine()[key] is other and house.cloud.things(lost.kind).count(other) == 1
    assert len([t for t in house.cloud.things(lost.kind) if t.name == lost.name]) == 1
    house.cloud.lose(other)
    house.visits(3)
    assert house.mine()[key].id not in (lost.id, other.id), "weft makes one, and stays with it"
    now = house.mine()[key]
    house.visits(3)
    assert house.mine()[key] is now and house.plan().nothing


def test_resource_back_before_the_visit_is_kept(house: SiteHouse) -> None:
    """Another process may have recreated it since the plan."""
    house.applied()
    key = "security_group/lab/storage"
    lost = house.mine()[key]
    house.cloud.lose(lost)
    other = house.cloud.add(lost.kind, lost.name, "service", None, **lost.fields)
    house.ask(adopt=True)
    house.cloud.bring_back(lost)
    house.settle()
    assert house.mine()[key] is lost and other.mark is None


def test_blocked_removal_can_be_reverted(house: SiteHouse) -> None:
    """The list is as before: nothing more is removed, removed resources are recreated, and all else continues."""
    house.applied()
    before, described = house.mine(), house.site
    house.change(storage={"vlan": 14})
    house.ask()
    port = house.cloud.add(
        Kind.PORT, "x", "team-a", None, network=before["network/storage"].id, address="10.212.0.101"
    )
    owner = house.visits(3)
    assert "still in use by port x" in owner.reason
    house.activate(described)
    assert not [s for s in house.plan().steps if s.key == "network/storage"]
    house.applied()
    there = house.mine()
    assert there["network/storage"] is before["network/storage"]
    assert there.keys() == KEYS and port in house.cloud.things() and house.plan().nothing


def test_blocked_removal_delays_nothing_else(house: SiteHouse) -> None:
    house.applied()
    network = house.mine()["network/storage"]
    house.change(storage={"vlan": 14})
    house.ask()
    port = house.cloud.add(Kind.PORT, "x", "team-a", None, network=network.id, address="10.212.0.101")
    house.visits(3)
    house.cloud.lose(house.mine()["port/m1/gw"])
    house.change(gateways={"mtu": 9000})
    house.ask()
    owner = house.visits(3)
    assert "still in use by port x" in owner.reason
    held_up = house.steps()
    assert held_up[0] == "recreate network/storage" and "create subnet/storage/storage" in held_up
    assert "port/m1/gw" in house.mine() and house.mine()["network/gateways"].fields["mtu"] == 9000
    house.cloud.lose(port)
    house.settle()
    assert house.mine()["network/storage"].fields["segment"] == 14


def test_blocked_removal_does_not_delay_a_first_apply(house: SiteHouse) -> None:
    """The first apply was never finished when the list changed."""
    house.ask()
    house.others_network()
    owner = house.visits(2)
    assert "VLAN 13" in owner.reason and "network/storage" in house.mine()
    house.end("storage", None)
    house.change(gateways={"vlan": 14})
    house.ask()
    here = {"network": house.mine()["network/storage"].id, "address": "10.212.0.101"}
    port = house.cloud.add(Kind.PORT, "x", "team-a", None, **here)
    owner = house.visits(4)
    assert owner.state is not PodState.READY and "still in use by port x" in owner.reason, owner.reason
    assert house.mine()["network/gateways"].fields["segment"] == 14 and "port/m1/gw" in house.mine()
    house.cloud.lose(port)
    house.settle()
    assert "network/storage" not in house.mine()


def test_resource_on_a_network_being_removed_is_not_adopted(house: SiteHouse) -> None:
    """It would block the network, which is recreated in another VLAN."""
    house.applied()
    house.cloud.lose(house.mine()["port/nas1/eth0"])
    fields = {
        "network": house.mine()["network/storage"].id,
        "subnet": house.mine()["subnet/storage/storage"].id,
    }
    port = house.cloud.add(
        Kind.PORT, "nas", "service", None, mac="02:00:00:00:00:03", address="10.212.0.5", host="", **fields
    )
    house.change(storage={"vlan": 14})
    plan = house.plan(adopt=True)
    assert not [s for s in plan.steps if s.action == "adopt"]
    assert [c.what for c in plan.conflicts if f"port nas ({port.id})" in c.what]


def test_port_with_a_copied_mark_is_a_conflict(house: SiteHouse) -> None:
    """Everyone who sees the shared network sees the mark of its owner."""
    owner = house.applied()
    network = house.mine()["network/storage"]
    mark = Mark("lab", owner.owner, "port/nas2/eth0")
    port = house.cloud.add(Kind.PORT, "x", "team-b", mark, network=network.id, address="10.212.0.9", mac="")
    filer = {"device": "pdu9", "name": "eth0", "network": "storage", "mac": "02:00:00:00:00:09"}
    row = Interface.model_validate({**filer, "address": "10.212.0.9"})
    house.activate(house.site.model_copy(update={"interfaces": (*house.site.interfaces, row)}))
    (conflict,) = house.plan(adopt=True).conflicts
    assert conflict.id == port.id and not conflict.adoptable
    with pytest.raises(ConflictError, match="in the way"):
        house.ask(adopt=True)


def test_renamed_resource_is_not_adopted_from_itself(house: SiteHouse) -> None:
    """The old one is removed, and a new one created, with everything on it."""
    house.applied()
    old = house.mine()["network/gateways"]
    networks = {("gates" if n == "gateways" else n): net for n, net in house.site.networks.items()}
    rows = tuple(
        i.model_copy(update={"network": "gates"}) if i.network == "gateways" else i
        for i in house.site.interfaces
    )
    house.activate(house.site.model_copy(update={"networks": networks, "interfaces": rows}))
    plan = house.plan(adopt=True)
    assert not [s for s in plan.steps if s.action == "adopt"] and plan.conflicts == ()
    house.applied(adopt=True)
    assert house.mine()["network/gates"].id != old.id and old not in house.cloud.things()
