"""What a site left in its cloud after `site abandon`, or with a lost database."""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.engine.sitehouse import KEYS, SiteHouse
from tests.engine.timehouse import make
from weft.app.sitefile import checked
from weft.engine.audit.sweep import Sweeper
from weft.engine.base.database import Database
from weft.engine.site.siteowner import desired_of, set_desired
from weft.model.errors import ConflictError, RefusedError
from weft.model.mark import Mark
from weft.model.order import Order
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import SiteNetwork
from weft.planning.site.graph import site_graph
from weft.testing.cloud_state import Thing

OUTSIDE: dict[str, Any] = {
    "role": "external",
    "addresses": "203.0.113.0/24",
    "gateway": "203.0.113.1",
    "dhcp": False,
    "pool": {"first": "203.0.113.100", "last": "203.0.113.254"},
}
OTHER = {"gateway": "198.51.100.1", "pool": {"first": "198.51.100.100", "last": "198.51.100.254"}}


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[SiteHouse]:
    house = SiteHouse(database, database_url)
    yield house
    house.close()


def sweep(house: SiteHouse) -> None:
    house.clock.sleep(900)
    keeper = house.keeper
    Sweeper(house.store, keeper.world, keeper.site, house.time).sweep()


def abandoned(house: SiteHouse) -> Thing:
    """The site was being destroyed, a tenant put a port on its storage network, and an operator abandoned it; the
    port."""
    house.applied()
    network = house.mine()["network/storage"]
    house.service.site.destroy(house.operator)
    port = house.cloud.add(Kind.PORT, "theirs", "team-a", None, network=network.id, address="10.212.0.101")
    house.visits(3)
    house.service.site.abandon(house.operator, "it hangs")
    house.visit(house.site_owner(), PodState.RELEASED)
    house.clock.sleep(900)
    assert port in house.cloud.things() and network in house.cloud.things()
    return port


def test_repair_leaves_tenants_ports_on_the_sites_networks(house: SiteHouse) -> None:
    """They may be running servers' ports: they are reported, and what they are on stays until they are gone."""
    port = abandoned(house)
    for repair in (False, True):
        report = house.service.audits.run(house.operator, repair=repair)
        [found] = [f for f in report.findings if f.kind == "network"]
        said = f"others use network storage: port theirs ({port.id}) of project team-a"
        assert said in str(found.repair), found
        assert not found.repaired and port in house.cloud.things()
    house.cloud.lose(port)
    house.service.audits.run(house.operator, repair=True)
    assert house.cloud.things() == []


# -- taken over -------------------------------------------------------------------------------------------------


def left(house: SiteHouse, owner: Owner | None = None) -> list[Thing]:
    """Everything of the site, with the mark of an owner that the database doesn't know, or of this one."""
    house.applied()
    old = sorted(house.mine().values(), key=lambda t: list(Kind).index(t.kind))
    house.destroyed()
    ids, made = dict[str, str](), list[Thing]()

    def now(value: object) -> object:
        return tuple(map(now, value)) if isinstance(value, tuple) else ids.get(str(value), value)

    for thing in old:
        assert thing.mark is not None
        mark = replace(thing.mark, owner=owner or house.site_owner().owner)
        fields = {name: now(value) for name, value in thing.fields.items()}
        made.append(house.cloud.add(thing.kind, thing.name, "service", mark, **fields))
        ids[thing.id] = made[-1].id
    return made


@pytest.mark.parametrize("owner", [Owner("site", str(UUID(int=7))), None], ids=["unknown", "released"])
def test_resources_with_a_lost_owners_mark_are_adopted(house: SiteHouse, owner: Owner | None) -> None:
    """By the site's next owner, on request, as with a switch's VLANs; all keep their ids."""
    things = left(house, owner)
    conflicts = house.plan().conflicts
    assert {c.key for c in conflicts} == KEYS and all(c.adoptable for c in conflicts)
    assert all("take it over with --adopt" in c.what for c in conflicts)
    with pytest.raises(ConflictError, match="--adopt"):
        house.ask()
    house.applied(adopt=True)
    assert {t.id for t in house.mine().values()} == {t.id for t in things} and house.plan().nothing
    house.clock.sleep(900)
    assert house.service.audits.run(house.operator, repair=True).findings == ()
    house.destroyed()
    assert house.cloud.things() == []


def test_another_sites_resources_are_not_adopted(house: SiteHouse) -> None:
    network = house.others_network()
    network.mark = Mark("elsewhere", Owner("site", str(UUID(int=7))), "network/gateways")
    (conflict,) = house.plan(adopt=True).conflicts
    assert "of site elsewhere: release that first" in conflict.what and not conflict.adoptable


def test_next_owner_adopts_what_an_abandoned_one_left(house: SiteHouse) -> None:
    """They are no trace of the first owner any more, and no sweep takes them from the second one."""
    port = abandoned(house)
    network = next(t for t in house.cloud.things(Kind.NETWORK))
    sweep(house)
    assert network in house.cloud.things(), "it is in use"
    house.applied(adopt=True)
    assert house.mine()["network/storage"] is network
    house.cloud.lose(port)
    sweep(house)
    assert house.mine().keys() == KEYS
    [trace] = house.service.audits.run(house.operator, repair=True).findings
    assert trace.category == "late" and trace.repaired, trace


@pytest.mark.parametrize("by", ["repair", "sweep"])
def test_resource_about_to_be_adopted_is_left_alone(house: SiteHouse, by: str) -> None:
    """Applied, and not yet visited: neither a repair nor a sweep removes what its next owner will have."""
    port = abandoned(house)
    network = next(t for t in house.cloud.things(Kind.NETWORK))
    house.ask(adopt=True)
    house.cloud.lose(port)
    if by == "repair":
        report = house.service.audits.run(house.operator, repair=True)
        assert not [f for f in report.findings if f.category == "orphan"], report.findings
    else:
        sweep(house)
    assert network in house.cloud.things()
    house.settle()
    assert house.mine()["network/storage"] is network


def test_resource_with_a_live_owner_is_not_adopted(house: SiteHouse) -> None:
    """This is checked when the apply is recorded: another process may have applied the site since the plan."""
    live = house.applied().owner
    generation = house.store.site().generation
    with pytest.raises(ConflictError, match=f"live owner: {live}"):
        set_desired(house.database, "lab", generation, site_graph(house.site), {}, "late", {live})


def test_adoption_is_not_permanent(house: SiteHouse) -> None:
    """A network that is recreated, or comes back later, is another one than that which was adopted."""
    network = house.others_network()
    house.applied(adopt=True)
    house.change(gateways={"vlan": 14})
    house.applied()
    assert network not in house.cloud.things()
    described = house.site
    only = {"networks": {"storage": described.networks["storage"]}, "interfaces": ()}
    house.activate(checked(described.model_copy(update=only)))
    house.applied()
    with house.database.transaction() as tx:
        desired = desired_of(tx, house.site_owner().id)
    assert desired is not None and desired.adopted == {}


# -- no new use of what is being removed ------------------------------------------------------------------------


def routed(name: str) -> Order:
    return make(name, 1, access={"ssh_from": ["192.0.2.0/24"], "floating_ip": "first"})


def on_external(house: SiteHouse, vlan: int | None = None, **subnet: object) -> None:
    """The site's own external network is this one."""
    public = {
        "cloud": "lab",
        "physical_network": "physext",
        "vlan": vlan,
        "subnets": {"p": {**OUTSIDE, **subnet}},
    }
    networks = {**house.site.networks, "public": SiteNetwork.model_validate(public)}
    house.activate(checked(house.site.model_copy(update={"networks": networks})))


@pytest.mark.parametrize(
    "change", [{"vlan": 4}, {"addresses": "198.51.100.0/24", **OTHER}], ids=["vlan", "subnet"]
)
def test_order_does_not_use_what_apply_is_removing(house: SiteHouse, change: dict[str, Any]) -> None:
    """From the apply until it is recreated; before, a pod blocked the removal, or lost its network."""
    on_external(house)
    house.applied()
    on_external(house, **change)
    house.ask()
    for _ in range(2):
        with pytest.raises(RefusedError, match="the site is removing network public"):
            house.order(routed("late"))
        on = {"network": house.mine()["network/public"].id, "subnet": house.mine()["subnet/public/p"].id}
        port = house.cloud.add(Kind.PORT, "x", "service", None, **on)
        house.visits(1)
        house.cloud.lose(port)
    house.settle()
    assert house.ready(routed("late")).state is PodState.READY


def test_pod_that_comes_during_planning_is_seen(house: SiteHouse) -> None:
    on_external(house)
    house.applied()
    on_external(house, vlan=4)
    house.cloud.meanwhile("facts", lambda: house.ready(routed("early")))  # the last question of the plan
    with pytest.raises(ConflictError, match=r"network public by early; release them first"):
        house.ask()
    assert house.mine()["network/public"].fields["segment"] is None


@pytest.mark.parametrize("vlan", [14, None], ids=["another VLAN", "taken out"])
def test_apply_removes_nothing_that_others_use(house: SiteHouse, vlan: int | None) -> None:
    """The cloud would keep the network that a port is on, while weft removed the rest: its router, its hardware's
    names. A subnet without others' addresses may go."""
    house.applied()
    network, before = house.mine()["network/storage"], house.mine()
    port = house.cloud.add(Kind.PORT, "theirs", "team-a", None, network=network.id, address="10.212.0.101")
    house.end("storage", vlan)
    (conflict,) = house.plan().conflicts
    said = f"network storage would be removed, and others use it: port theirs ({port.id}) of project team-a"
    assert conflict.key == "network/storage" and conflict.what == f"{said}; remove them first"
    with pytest.raises(ConflictError, match="port theirs"):
        house.ask()
    house.visits(2)
    assert house.mine() == before
    house.cloud.lose(port)
    house.applied()
    assert network not in house.cloud.things()


def test_subnet_with_addresses_of_others_stays(house: SiteHouse) -> None:
    house.applied()
    subnets = house.site.networks["gateways"].model_dump(mode="json")["subnets"]
    network = house.mine()["network/gateways"].id
    port = house.cloud.add(Kind.PORT, "bmc9", "service", None, network=network, address="10.201.0.250")
    rows = tuple(i for i in house.site.interfaces if i.name != "bmc")
    house.activate(house.site.model_copy(update={"interfaces": rows}))
    house.change(gateways={"subnets": {"gw": subnets["gw"]}})
    (conflict,) = house.plan().conflicts
    assert conflict.key == "subnet/gateways/bmc" and "port bmc9" in conflict.what
    port.fields["address"] = "10.202.0.250"
    assert house.plan().conflicts == ()


@pytest.mark.parametrize("owner", ["network:router_gateway", "network:floatingip"])
def test_floating_ips_of_others_block_the_external_network(house: SiteHouse, owner: str) -> None:
    """Such ports have no project in Neutron. The gateway of the site's own router is removed with it."""
    on_external(house)
    house.applied()
    here = {"network": house.mine()["network/public"].id, "device_owner": owner}
    router = house.mine()["router/storage"].id
    own = house.cloud.add(Kind.PORT, "", "", None, **here, device=router, address="203.0.113.9")
    port = house.cloud.add(Kind.PORT, "", "", None, **here, device="r-7", address="203.0.113.7")
    said = "of the site: (the gateway of router|floating IP) r-7 on public; remove them first"
    with pytest.raises(ConflictError, match=said):
        house.service.site.destroy(house.operator)
    assert house.site_owner().wanted == "present"
    house.cloud.lose(port)
    house.service.site.destroy(house.operator)
    house.cloud.lose(own)  # with its router
    house.visit(house.site_owner(), PodState.RELEASED)


def test_port_in_a_shared_group_blocks_it_on_any_network(house: SiteHouse) -> None:
    """A project that sees the storage network has its group, too, for ports of its own."""
    house.applied()
    group = house.mine()["security_group/lab/storage"]
    port = house.cloud.add(Kind.PORT, "theirs", "team-a", None, network="n-7", security_groups=(group.id,))
    said = f"port theirs ({port.id}) of project team-a in security group lab-storage"
    with pytest.raises(ConflictError, match=re.escape(f"{said}; remove them first")):
        house.service.site.destroy(house.operator)
    house.end("storage", None)
    (conflict,) = house.plan().conflicts
    assert conflict.key == "security_group/lab/storage" and said in conflict.what
    house.cloud.lose(port)
    house.applied()
    house.destroyed()
