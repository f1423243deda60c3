"""What others use of a site's networks stays, whatever is removed: ports' ways out, and undescribed subnets."""

from __future__ import annotations

import re
from collections.abc import Generator
from uuid import UUID

import pytest

from tests.engine.house import lost_hold
from tests.engine.site.test_site_left import left, on_external, sweep
from tests.engine.sitehouse import SiteHouse
from weft.engine.base.database import Database
from weft.model.errors import ConflictError, UnknownError
from weft.model.owner import Owner
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.views import AuditReport
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing

LOST = Owner("site", str(UUID(int=7)))
STORAGE = {"network/storage", "subnet/storage/storage", "router/storage", "port/nas1/eth0"}
OUTSIDE = {"network/public", "subnet/public/p"}


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[SiteHouse]:
    house = SiteHouse(database, database_url)
    yield house
    house.close()


def marked(house: SiteHouse) -> set[str]:
    """Keys of resources with a mark of the site's."""
    return {t.mark.key for t in house.cloud.things() if t.mark and t.mark.owner.kind == "site"}


def lost(house: SiteHouse, owner: Owner | None = LOST) -> None:
    """Let all of a site be left in the cloud long ago, under a lost owner, or under a released one that had a request
    under way when its worker lost its hold."""
    for thing in left(house, owner):
        thing.created = None
    if owner is None:
        lost_hold(house.database, house.site_owner().id)
    house.clock.sleep(900)


def in_use(house: SiteHouse) -> Thing:
    """A tenant's server is on the storage network, whose router leads outside; its port."""
    by_key = {t.mark.key: t for t in house.cloud.things() if t.mark and t.mark.owner.kind == "site"}
    network, router = by_key["network/storage"].id, by_key["router/storage"].id
    ways = {"network:router_interface": (network, "10.212.0.3")}
    if outside := by_key.get("network/public"):
        ways["network:router_gateway"] = (outside.id, "203.0.113.9")
    for owner, (on, address) in ways.items():
        project = "service" if owner.endswith("interface") else ""  # a gateway's port has none
        more = {"device_owner": owner, "device": router, "address": address}
        house.cloud.add(Kind.PORT, "", project, None, network=on, **more)
    return house.cloud.add(Kind.PORT, "theirs", "team-a", None, network=network, address="10.212.0.101")


def repaired(house: SiteHouse) -> AuditReport:
    return house.service.audits.run(house.operator, repair=True, unknown_pods=(LOST.id,))


def without_ways(house: SiteHouse) -> None:
    """Remove the router's ports: Neutron's router takes them along, which the simulated one doesn't."""
    for port in [p for p in house.cloud.ports if p.mark is None]:
        house.cloud.lose(port)


@pytest.mark.parametrize("owner", [LOST, None], ids=["unknown", "released"])
def test_repair_keeps_the_router_of_a_network_in_use(house: SiteHouse, owner: Owner | None) -> None:
    """Even with a lost database: the router for their packets, the addresses of hardware there, and the external
    network behind it stay; the rest is removed."""
    on_external(house)
    lost(house, owner)
    port = in_use(house)
    report = repaired(house)
    assert marked(house) == STORAGE | OUTSIDE
    repairs = {str(f.repair) for f in report.findings if f.category == "orphan" and not f.repaired}
    assert repairs == {
        f"others use network storage: port theirs ({port.id}) of project team-a; remove them first"
    }
    without_ways(house)
    repaired(house)
    assert marked(house) == set()


def test_repair_removes_nothing_while_users_are_unknown(house: SiteHouse) -> None:
    """Neutron protects a network in use, but neither its router nor its hardware's ports."""
    lost(house)
    before = marked(house)
    silent = house.cloud.plant(Fault.UNREACHABLE, verb="alike", times=None)
    report = repaired(house)
    assert marked(house) == before
    assert {f.category for f in report.findings} >= {"unknown", "orphan"}
    assert all("unknown" in str(f.repair) for f in report.findings if f.category == "orphan")
    silent.lift()
    repaired(house)
    assert marked(house) == set()


def test_sweep_keeps_the_router_of_a_network_in_use(house: SiteHouse) -> None:
    """An operator abandoned the end of a site of which nothing could be removed; tenants came."""
    house.applied()
    broken = house.cloud.plant(Fault.ERROR_500, verb="delete", times=None)
    house.service.site.destroy(house.operator)
    house.visits(1)
    house.service.site.abandon(house.operator, "changed my mind")
    house.visit(house.site_owner(), PodState.RELEASED)
    broken.lift()
    assert marked(house) >= STORAGE
    in_use(house)
    for _ in range(4):
        sweep(house)
    assert marked(house) >= STORAGE
    without_ways(house)
    for _ in range(12):
        sweep(house)
    assert marked(house) == set()


def test_router_with_interfaces_of_others_is_not_adopted(house: SiteHouse) -> None:
    """It would lose their interfaces, since it may only have its own subnets."""
    others = house.cloud.add(
        Kind.ROUTER, "lab-storage", "service", None, external_network="public", subnets=("s-7",)
    )
    (conflict,) = house.plan(adopt=True).conflicts
    assert (
        conflict.key == "router/storage"
        and "subnets that the site doesn't give it: s-7; remove" in conflict.what
    )
    with pytest.raises(ConflictError, match="cut off"):
        house.ask(adopt=True)
    others.fields["subnets"] = ()
    house.applied(adopt=True)
    assert house.mine()["router/storage"] is others


def test_group_with_ports_of_others_is_not_adopted_with_other_rules(house: SiteHouse) -> None:
    """Their servers would be under the site's rules at once. A group with the site's rules is adopted."""
    house.applied()
    fields = dict(house.mine()["security_group/lab/storage"].fields)
    house.destroyed()
    group = house.cloud.add(
        Kind.SECURITY_GROUP, "lab-storage", "service", None, **{**fields, "ssh_from": ("0.0.0.0/0",)}
    )
    port = house.cloud.add(Kind.PORT, "theirs", "team-a", None, network="n-7", security_groups=(group.id,))
    (conflict,) = house.plan(adopt=True).conflicts
    assert conflict.key == "security_group/lab/storage"
    assert f"others have ports in it: port theirs ({port.id})" in conflict.what
    with pytest.raises(ConflictError, match="the site's rules"):
        house.ask(adopt=True)
    assert group.mark is None and group.fields["ssh_from"] == ("0.0.0.0/0",)
    group.fields["ssh_from"] = fields["ssh_from"]
    house.applied(adopt=True)
    assert house.mine()["security_group/lab/storage"] is group


def like_the_sites(house: SiteHouse, key: str, kind: Kind, name: str, **fields: object) -> Thing:
    """What an operator created before the site had it, with some fields different."""
    house.applied()
    made = {**house.mine()[key].fields, **fields}
    house.destroyed()
    return house.cloud.add(kind, name, "service", None, **made)


def refused(house: SiteHouse, said: str) -> None:
    """Check that an adoption is refused for now: the resource is unchanged, and the reason says why."""
    for _ in range(3):
        owner = house.visit(house.site_owner())
        assert owner.state is not PodState.READY and said in owner.reason, owner.reason
    assert house.service.site.resources(house.operator).needs_person


def test_port_that_joins_a_group_before_its_adoption_blocks_it(house: SiteHouse) -> None:
    """Between the plan and the first visit, however long that takes."""
    group = like_the_sites(
        house, "security_group/lab/storage", Kind.SECURITY_GROUP, "lab-storage", ssh_from=("0.0.0.0/0",)
    )
    house.ask(adopt=True)
    port = house.cloud.add(Kind.PORT, "theirs", "team-a", None, network="n-7", security_groups=(group.id,))
    refused(house, f"others have ports in it: port theirs ({port.id}) of project team-a")
    assert group.mark is None and group.fields["ssh_from"] == ("0.0.0.0/0",)
    port.fields["security_groups"] = ()
    house.settle()
    assert house.mine()["security_group/lab/storage"] is group and group.fields["ssh_from"] == ()


def test_group_with_unknown_ports_is_not_adopted(house: SiteHouse) -> None:
    """Neither planned nor done: a listing without weft's own ports hides others' as well."""
    house.applied()
    described, fields = house.site, dict(house.mine()["security_group/lab/storage"].fields)
    house.end("storage", None)
    house.applied()
    wrong = {**fields, "ssh_from": ("0.0.0.0/0",)}
    group = house.cloud.add(Kind.SECURITY_GROUP, "lab-storage", "service", None, **wrong)
    house.cloud.add(Kind.PORT, "theirs", "team-a", None, network="n-7", security_groups=(group.id,))
    house.activate(described)
    lie = house.cloud.plant(Fault.EMPTY, times=None)
    with pytest.raises(UnknownError, match="none of the 2 of weft's own"):
        house.ask(adopt=True)
    lie.lift()
    with pytest.raises(ConflictError, match="others have ports in it"):
        house.ask(adopt=True)
    port = house.cloud.ports[-1]
    port.fields["security_groups"] = ()
    house.ask(adopt=True)
    port.fields["security_groups"] = (group.id,)
    lie = house.cloud.plant(Fault.EMPTY, times=None)
    owner = house.visits(3)
    assert "of weft's own" in owner.reason and group.mark is None
    lie.lift()
    refused(house, "others have ports in it")
    house.cloud.lose(port)
    house.settle()


def test_router_interface_added_before_adoption_is_kept(house: SiteHouse) -> None:
    router = like_the_sites(house, "router/storage", Kind.ROUTER, "lab-storage", subnets=())
    house.ask(adopt=True)
    router.fields["subnets"] = ("s-7",)
    refused(house, "subnets that the site doesn't give it: s-7; remove")
    assert router.mark is None and router.fields["subnets"] == ("s-7",)
    router.fields["subnets"] = ()
    house.settle()
    assert house.mine()["router/storage"] is router


def test_port_taken_by_a_server_before_adoption_stays_its_own(house: SiteHouse) -> None:
    """A plan refuses a server's port; this one became one later."""
    house.applied()
    (key, interface), *_ = ((k, t) for k, t in house.mine().items() if k == "port/nas1/eth0")
    fields = dict(interface.fields)
    house.end("storage", 12)  # the same list
    rows = tuple(i for i in house.site.interfaces if i.device != "nas1")
    described = house.site
    house.activate(described.model_copy(update={"interfaces": rows}))
    house.applied()
    port = house.cloud.add(Kind.PORT, "nas", "service", None, **{**fields, "dns_name": "nas"})
    house.activate(described)
    house.ask(adopt=True)
    port.facts["device_id"] = "server-7"
    refused(house, "it is a port of server-7 by now")
    assert port.mark is None and port.fields["dns_name"] == "nas"
    port.facts["device_id"] = ""
    house.settle()
    assert house.mine()[key] is port


# -- subnets --------------------------------------------------------------------------------------------------


def by_hand(house: SiteHouse, network: str = "network/gateways") -> Thing:
    """A subnet that an operator created on a network of the site, or before it became one."""
    on = next(t for t in house.cloud.things() if t.mark and t.mark.key == network)
    return house.cloud.add(Kind.SUBNET, "old", "service", None, network=on.id, cidr="192.0.2.0/24")


def test_destroy_is_refused_if_it_removes_a_subnet_of_others(house: SiteHouse) -> None:
    """For example with an adopted network: Neutron deletes it with all its subnets."""
    house.others_network()
    house.applied(adopt=True)
    subnet = by_hand(house)
    before = house.mine()
    said = f"subnet old ({subnet.id}), 192.0.2.0/24, of project service on gateways; remove them first"
    with pytest.raises(ConflictError, match=re.escape(said)):
        house.service.site.destroy(house.operator)
    assert house.mine() == before and house.site_owner().wanted == "present"
    house.cloud.lose(subnet)
    house.destroyed()
    assert house.service.site.receipt(house.operator).receipt.clean


@pytest.mark.parametrize("vlan", [14, None], ids=["another VLAN", "taken out"])
def test_apply_removes_no_subnet_of_others(house: SiteHouse, vlan: int | None) -> None:
    house.applied()
    subnet = by_hand(house)
    assert house.plan().nothing, "it is no conflict"
    house.end("gateways", vlan)
    (conflict,) = house.plan().conflicts
    assert conflict.key == "network/gateways" and f"others use it: subnet old ({subnet.id})" in conflict.what
    with pytest.raises(ConflictError, match="subnet old"):
        house.ask()
    assert subnet in house.cloud.things()


def test_described_subnet_is_removed_beside_one_of_others(house: SiteHouse) -> None:
    """Only removing the network would remove both."""
    house.applied()
    subnet = by_hand(house)
    subnets = house.site.networks["gateways"].model_dump(mode="json")["subnets"]
    rows = tuple(i for i in house.site.interfaces if i.name != "bmc")
    house.activate(house.site.model_copy(update={"interfaces": rows}))
    house.change(gateways={"subnets": {"gw": subnets["gw"]}})
    assert house.plan().conflicts == ()
    house.applied()
    assert subnet in house.cloud.things()


def test_later_subnet_of_others_blocks_the_removal(house: SiteHouse) -> None:
    house.applied()
    house.service.site.destroy(house.operator)
    subnet = by_hand(house)
    owner = house.visits(4)
    assert owner.state is PodState.RELEASING and "old" in owner.reason
    assert subnet in house.cloud.things()
    house.cloud.lose(subnet)
    house.visit(house.site_owner(), PodState.RELEASED)


def test_repair_removes_no_subnet_of_others(house: SiteHouse) -> None:
    lost(house)
    subnet = by_hand(house)
    repaired(house)
    assert subnet in house.cloud.things()
    gateways = {"network/gateways", "subnet/gateways/bmc", "subnet/gateways/gw"}
    assert marked(house) == gateways | {"port/m1/bmc", "port/m1/gw"}
    house.cloud.lose(subnet)
    repaired(house)
    assert marked(house) == set()
