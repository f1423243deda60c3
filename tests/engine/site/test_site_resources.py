"""A site's resources in its clouds: planned, applied by the loop, kept and destroyed."""

from __future__ import annotations

from collections.abc import Generator

import psycopg
import pytest

from tests.engine.sitehouse import KEYS, SiteHouse
from tests.engine.timehouse import make
from tests.helpers.paths import EXAMPLES
from weft.app.sitefile import checked, load_site
from weft.engine.base.database import Database
from weft.model.errors import ConflictError, ForbiddenError, NotFoundError, UnknownError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import SiteNetwork
from weft.planning.site.plantext import site_plan_text
from weft.testing.cloud import Fault


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[SiteHouse]:
    house = SiteHouse(database, database_url)
    yield house
    house.close()


# -- from nothing to a receipt ----------------------------------------------------------------------------------


def test_site_is_planned_applied_and_destroyed_with_a_receipt(house: SiteHouse) -> None:
    """Everything described, and nothing else; a second apply does nothing and says so."""
    plan = house.plan()
    assert {f"{s.action} {s.key}" for s in plan.steps} == {f"create {key}" for key in KEYS}
    assert house.cloud.things() == [] and plan.conflicts == ()
    house.applied()
    assert house.mine().keys() == KEYS
    there = house.mine()
    assert there["network/storage"].fields["shared_with"] == ("team-a", "team-b")
    assert there["network/gateways"].fields["shared_with"] == ()
    assert there["network/storage"].fields["mtu"] == 9000
    assert {t.name for t in there.values()} >= {"gateways", "m1-bmc", "lab-storage", "storage-storage"}
    port = there["port/m1/bmc"]
    assert (port.fields["mac"], port.fields["address"], port.fields["dns_name"]) == (
        "02:00:00:00:00:01",
        "10.201.0.11",
        "m1-bmc",
    )
    before = dict(house.cloud.calls)
    again = house.ask()
    assert again.nothing and "Nothing to change" in site_plan_text(again)
    assert not {c for c in house.cloud.calls if house.cloud.calls[c] != before.get(c)} - _READS
    assert house.service.audits.run(house.operator).findings == ()
    owner = house.destroyed()
    receipt = house.service.site.receipt(house.operator).receipt
    assert receipt.clean and receipt.kind == "site" and receipt.pod_id == str(owner.id)
    assert {i.plane for i in receipt.items} >= {"network", "subnet", "port", "router", "security_group"}
    assert house.cloud.things() == []


_READS = {f"find {k}" for k in Kind} | {"alike", "check None", "check", "facts"}


def test_destroyed_site_can_be_applied_again(house: SiteHouse) -> None:
    """By another owner: the first one's receipt stays true."""
    first = house.applied()
    house.destroyed()
    with pytest.raises(NotFoundError, match="nothing of site lab is applied"):
        house.service.site.destroy(house.operator)
    second = house.applied()
    assert first.id != second.id and house.mine().keys() == KEYS


def test_activated_site_changes_nothing_until_applied(house: SiteHouse) -> None:
    """A site that is active with another description changes no cloud by that."""
    house.applied()
    house.change(storage={"mtu": 1500, "shared_with": ["team-a"]})
    house.visit(house.site_owner())
    assert house.mine()["network/storage"].fields["mtu"] == 9000
    steps = house.plan().steps
    assert {(f.field, f.was, f.becomes) for s in steps for f in s.fields} == {
        ("mtu", "9000", "1500"),
        ("shared_with", "team-a, team-b", "team-a"),
    }
    house.applied()
    assert house.mine()["network/storage"].fields["mtu"] == 1500
    assert house.mine()["network/storage"].fields["shared_with"] == ("team-a",)
    assert house.mine()["security_group/lab/storage"].fields["shared_with"] == ("team-a",)


def test_resource_that_cannot_change_in_place_is_recreated_with_its_dependents(house: SiteHouse) -> None:
    """A row that isn't described any more is removed; the others stay unchanged."""
    house.applied()
    ids = {key: t.id for key, t in house.mine().items()}
    house.change(storage={"vlan": 14})
    rows = [i for i in house.site.interfaces if i.device != "m1"]
    house.activate(house.site.model_copy(update={"interfaces": tuple(rows)}))
    steps = house.steps()
    assert "recreate network/storage" in steps and "recreate port/nas1/eth0" in steps
    assert steps[-2:] == ["remove port/m1/gw", "remove port/m1/bmc"]
    house.applied()
    there = house.mine()
    assert there["network/storage"].fields["segment"] == 14
    assert "port/m1/bmc" not in there and there["network/gateways"].id == ids["network/gateways"]
    assert house.plan().nothing


# -- attacks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.NETWORK, Kind.SUBNET, Kind.PORT, Kind.ROUTER, Kind.SECURITY_GROUP])
@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.ERROR_500])
def test_lost_or_failed_creation_happens_once(house: SiteHouse, kind: Kind, fault: Fault) -> None:
    house.cloud.plant(fault, kind=kind, verb="create")
    house.applied()
    assert house.mine().keys() == KEYS and len(house.cloud.things()) == len(KEYS)
    assert house.plan().nothing


def test_killed_worker_is_followed_by_another(house: SiteHouse) -> None:
    """Half built, twice: nothing is created twice."""

    class DiedError(BaseException):
        pass

    def die() -> None:
        raise DiedError

    house.ask()
    for _ in range(2):
        house.cloud.meanwhile("create", die)
        with pytest.raises(DiedError):
            house.visit(house.site_owner())
        house.run_out()
    house.settle()
    assert house.mine().keys() == KEYS and len(house.cloud.things()) == len(KEYS)


def test_drift_is_planned_and_repaired(house: SiteHouse) -> None:
    house.applied()
    house.cloud.lose(house.mine()["port/m1/gw"])
    house.mine()["network/storage"].fields["shared_with"] = ("team-a", "team-b", "mallory")
    house.mine()["security_group/lab/storage"].name = "renamed"
    changes = {"change network/storage", "change security_group/lab/storage"}
    assert set(house.steps()) == {"create port/m1/gw", *changes}
    house.applied()
    assert house.mine().keys() == KEYS
    assert house.mine()["security_group/lab/storage"].name == "lab-storage"
    assert house.mine()["network/storage"].fields["shared_with"] == ("team-a", "team-b")


def test_names_forgotten_by_the_cloud_are_reported(house: SiteHouse) -> None:
    house.cloud.offers.keeps_names = False
    house.ask()
    owner = house.visits(5)
    assert owner.state is not PodState.READY and "set dns_domain" in owner.reason
    house.cloud.offers.keeps_names = True
    house.settle()
    assert house.mine()["port/m1/bmc"].fields["dns_name"] == "m1-bmc"


@pytest.mark.parametrize("name", ["nas1-eth0", "NAS1-eth0.lab.example.", "m1-bmc"])
def test_audit_finds_a_tenant_that_takes_a_name(house: SiteHouse, name: str) -> None:
    """Also with the cloud's domain, which Neutron accepts, and that of hardware on another network."""
    house.applied()
    network = house.mine()["network/storage"].id
    taken = house.cloud.add(
        Kind.PORT, "x", "team-b", None, network=network, mac="02:00:00:00:00:99", address="10.212.0.101"
    )
    assert house.service.audits.run(house.operator).findings == ()
    taken.fields["dns_name"] = name
    (found,) = house.service.audits.run(house.operator).findings
    assert (found.category, found.kind, found.id) == ("foreign", "port", taken.id)
    assert name in found.what and "team-b" in found.what
    # Beneath a domain of its own it is another name.
    taken.fields["dns_name"] = f"x.{name}"
    assert house.service.audits.run(house.operator).findings == ()


@pytest.mark.parametrize("where", ["lab", "other"])
def test_audit_finds_a_tenant_that_takes_an_rnics_name(house: SiteHouse, where: str) -> None:
    """Its own port belongs to the pod that it is in. In another cloud, this one's name server isn't asked for it."""
    house.applied()
    example = load_site(EXAMPLES / "sites" / "ipupod64" / "site.yaml")
    machine, *_ = example.ipu_machines
    pods = {name: pod.model_copy(update={"cloud": where}) for name, pod in example.ipu_pods.items()}
    house.activate(house.site.model_copy(update={"ipu_machines": (machine,), "ipu_pods": pods}))
    network, name = house.mine()["network/storage"].id, f"{machine.name}-RNIC"
    taken = house.cloud.add(
        Kind.PORT, "x", "team-b", None, network=network, address="10.212.0.101", dns_name=name
    )
    found = [f for f in house.service.audits.run(house.operator).findings if f.category == "foreign"]
    assert [f.id for f in found] == ([taken.id] if where == "lab" else [])
    assert all(name in f.what for f in found)


def test_audit_finds_a_strangers_port_on_a_privileged_network(house: SiteHouse) -> None:
    house.applied()
    network = house.mine()["network/gateways"].id
    port = house.cloud.add(
        Kind.PORT, "x", "team-b", None, network=network, address="10.202.0.201", dns_name=""
    )
    (found,) = house.service.audits.run(house.operator).findings
    assert found.id == port.id and "gateways" in found.what


def test_audit_finds_a_strangers_router_on_a_privileged_network(house: SiteHouse) -> None:
    """Its port is Neutron's, of the router's project: an administrator attached it, or it was there before."""
    house.applied()
    network = house.mine()["network/gateways"].id
    fields = {"address": "10.202.0.201", "dns_name": "", "device_owner": "network:router_interface"}
    port = house.cloud.add(Kind.PORT, "", "team-b", None, network=network, **fields)
    (found,) = house.service.audits.run(house.operator).findings
    assert found.id == port.id and "a port of project team-b on network gateways" in found.what


def test_gateway_address_is_kept_from_tenants(house: SiteHouse) -> None:
    """Neutron would give it to any router of a project with access, if no router of Neutron's has it."""
    house.change(storage=_with_gateway(house, nat=False))
    house.applied()
    kept = house.mine()["gateway/storage/storage"]
    assert (kept.fields["address"], kept.fields["mac"], kept.name) == (
        "10.212.0.3",
        None,
        "storage-storage-gateway",
    )
    house.change(storage=_with_gateway(house, nat=True))
    house.applied()
    assert house.mine().keys() == KEYS, "the site's own router has it"
    house.change(storage=_with_gateway(house, nat=False) | {"shared_with": []})
    house.applied()
    assert "gateway/storage/storage" not in house.mine(), "no one else is there"


def _with_gateway(house: SiteHouse, nat: bool) -> dict[str, object]:
    now = house.site.networks["storage"].model_dump(mode="json")
    return {"subnets": {"storage": {**now["subnets"]["storage"], "nat": nat}}, "shared_with": ["team-a"]}


def test_audit_finds_the_holder_of_the_gateway_address(house: SiteHouse) -> None:
    house.applied()
    network = house.mine()["network/storage"].id
    port = house.cloud.add(Kind.PORT, "", "team-b", None, network=network, address="10.212.0.3", dns_name="")
    (found,) = house.service.audits.run(house.operator).findings
    assert found.id == port.id and "has the gateway's address 10.212.0.3 on network storage" in found.what


def test_listing_without_wefts_own_ports_proves_nothing(house: SiteHouse) -> None:
    """Neither for the audit, nor for a removal that a tenant's port would block halfway."""
    house.applied()
    network = house.mine()["network/storage"].id
    house.cloud.add(Kind.PORT, "x", "team-a", None, network=network, address="10.212.0.101")
    house.cloud.plant(Fault.EMPTY, times=None)
    found = [f for f in house.service.audits.run(house.operator).findings if f.category == "unknown"]
    assert len(found) == 1 and "none of the 3 of weft's own" in found[0].what
    with pytest.raises(UnknownError, match="none of the 3 of weft's own"):
        house.service.site.destroy(house.operator)
    assert house.site_owner().wanted == "present" and house.mine().keys() == KEYS


def test_unknown_project_is_noted(house: SiteHouse) -> None:
    """Neutron would share the network with it without an error."""
    house.request("team-b")
    note, reached = house.plan().notes
    assert "network/storage is shared with project team-a" in note and note in site_plan_text(house.plan())
    house.request("team-a")
    assert house.plan().notes == (reached,)


def test_planned_nat_is_noted_as_reachable_from_outside(house: SiteHouse) -> None:
    """Neutron's router forwards what comes from outside (tests/e2e/test_routers_live.py)."""
    (note,) = (n for n in house.plan().notes if "(nat)" in n)
    assert (
        note.startswith("network storage: hosts of storage that don't filter") and "tenants' routers" in note
    )


def test_site_resources_are_for_operators_only(house: SiteHouse) -> None:
    member = house.request("team-a")
    for verb in ("plan", "apply", "resources", "destroy", "receipt"):
        with pytest.raises(ForbiddenError):
            getattr(house.service.site, verb)(member)


# -- in use, and the end ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["name", "id"])
def test_network_under_live_pods_stays(house: SiteHouse, by: str) -> None:
    """Neither is it recreated by apply, nor removed by destroy; the site may name it by its id."""
    house.applied()
    pod = house.ready()
    known = "gateways" if by == "name" else house.mine()["network/gateways"].id
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE resource SET document = jsonb_set(document, '{spec,site_network}', to_jsonb(%s::text)) "
            "WHERE owner_id = %s AND kind = 'port'",
            [known, pod.id],
        )
    with pytest.raises(ConflictError, match="train on gateways; release them first"):
        house.service.site.destroy(house.operator)
    house.change(gateways={"vlan": 14})
    (conflict,) = house.plan().conflicts
    assert conflict.what.startswith("network gateways would be removed, and pods use it: train")
    with pytest.raises(ConflictError, match="pods use it: train"):
        house.ask()


def test_pods_router_uses_the_sites_external_network(house: SiteHouse) -> None:
    outside = {"cloud": "lab", "physical_network": "physext", "subnets": {"p": {**OUTSIDE}}}
    networks = {**house.site.networks, "public": SiteNetwork.model_validate(outside)}
    house.activate(checked(house.site.model_copy(update={"networks": networks})))
    house.applied()
    house.ready(make("routed", 1, access={"ssh_from": ["192.0.2.0/24"], "floating_ip": "first"}))
    with pytest.raises(ConflictError, match="routed on public"):
        house.service.site.destroy(house.operator)


OUTSIDE = {
    "role": "external",
    "addresses": "203.0.113.0/24",
    "gateway": "203.0.113.1",
    "dhcp": False,
    "pool": {"first": "203.0.113.100", "last": "203.0.113.254"},
}


def test_applied_resources_stay_reachable(house: SiteHouse) -> None:
    """A site of another name, or without the cloud, isn't activated before it is destroyed."""
    house.applied()
    document = house.site.model_dump(mode="json")
    with pytest.raises(ConflictError, match="name: other is another site than lab, which is applied"):
        house.service.site.activate(house.operator, {**document, "name": "other"})
    both = {"lab": document["clouds"]["lab"], "new": document["clouds"]["lab"]}
    moved: dict[str, object] = {**document, "clouds": both, "networks": {}, "interfaces": [], "devices": []}
    nodes = [{**n, "cloud": "new" if n["cloud"] else None} for n in document["nodes"]]
    pods = {name: {**p, "cloud": "new"} for name, p in document["ipu_pods"].items()}
    moved |= {"nodes": nodes, "ipu_pods": pods, "clouds": {"new": both["new"]}}
    with pytest.raises(ConflictError, match="clouds: lab is missing, but resources of the site are there"):
        house.service.site.activate(house.operator, moved)
    house.destroyed()
    assert house.service.site.activate(house.operator, {**document, "name": "other"}).name == "other"


def test_last_receipt_is_available_after_another_apply(house: SiteHouse) -> None:
    first = house.applied()
    with pytest.raises(NotFoundError, match="nothing of site lab was destroyed yet"):
        house.service.site.receipt(house.operator)
    house.destroyed()
    house.applied()
    assert house.service.site.receipt(house.operator).receipt.pod_id == str(first.id)


def test_site_needs_a_person_while_something_is_in_its_way(house: SiteHouse) -> None:
    house.ask()
    network = house.others_network()
    house.visit(house.site_owner())
    assert house.service.site.resources(house.operator).needs_person
    house.cloud.lose(network)
    house.settle()
    assert not house.service.site.resources(house.operator).needs_person


@pytest.mark.parametrize("project", ["team-a", "service"])
def test_destroy_is_refused_while_others_have_ports(house: SiteHouse, project: str) -> None:
    """The hardware would lose its names, and the network would stay, for as long as they like."""
    house.applied()
    there, network = house.mine(), house.mine()["network/storage"]
    port = house.cloud.add(Kind.PORT, "theirs", project, None, network=network.id, address="10.212.0.101")
    with pytest.raises(ConflictError, match=rf"port theirs \({port.id}\) of project {project} on storage"):
        house.service.site.destroy(house.operator)
    house.visit(house.site_owner())
    assert house.mine() == there and house.plan().nothing
    house.cloud.lose(port)
    house.destroyed()


def test_tenants_ports_block_the_end_until_they_are_gone(house: SiteHouse) -> None:
    """Those created after it began."""
    house.applied()
    network = house.mine()["network/storage"]
    house.service.site.destroy(house.operator)
    port = house.cloud.add(Kind.PORT, "theirs", "team-a", None, network=network.id, address="10.212.0.101")
    owner = house.visits(3)
    assert owner.state is PodState.RELEASING and "theirs" in owner.reason
    assert house.service.site.destroy(house.operator).state is PodState.RELEASING, "again, to follow it"
    assert port in house.cloud.things()
    with pytest.raises(ConflictError, match="being destroyed"):
        house.ask()
    house.cloud.lose(port)
    house.visit(house.site_owner(), PodState.RELEASED)
    assert house.service.site.receipt(house.operator).receipt.clean


def test_older_generation_does_not_undo_a_newer_one(house: SiteHouse) -> None:
    """Two operators apply at the same time."""
    from weft.engine.site.siteowner import set_desired
    from weft.planning.site.graph import site_graph

    house.applied()
    old, graph = house.store.site().generation, site_graph(house.site)
    house.change(storage={"mtu": 1500})
    house.applied()
    with pytest.raises(ConflictError, match="newer generation"):
        set_desired(house.database, "lab", old, graph, {}, "late")
    assert house.plan().nothing
