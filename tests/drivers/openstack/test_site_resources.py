"""A site's resources in Neutron: request bodies, closed groups, cached names, and similar resources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.security_group import SecurityGroups
from weft.model.errors import PermanentError, TemporaryError, UnknownError
from weft.model.owner import Owner
from weft.model.resources import Resource
from weft.model.specs import (
    Egress,
    FlavorSpec,
    Ingress,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    Spec,
    SubnetSpec,
)
from weft.ports.resources import Scope

OWNER = Owner("site", "00000000-1111-2222-3333-444444444444")
SCOPE = Scope("lab", OWNER, "lab", "")
IDS = {"network/gw": "net-1", "subnet/gw/bmc": "sub-1"}


class Recording(TinyCloud):
    """Keeps the requests' bodies."""

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        if method in ("POST", "PUT") and "/auth/" not in path:
            SENT.append((method, path, body))
        return super().answer(method, path, query, seer, body)


SENT: list[tuple[str, str, Any]] = []


@pytest.fixture
def cloud(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[TinyCloud, OpenStackDriver, OpenStackFacts]]:
    SENT.clear()
    with tiny_cloud(Recording) as (cloud, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        yield cloud, driver, OpenStackFacts(sessions)
        driver.close()
        sessions.close()


def made(key: str, spec: Spec, name: str = "") -> Resource:
    return Resource(key=key, name=name or key.rpartition("/")[2], where="lab", owner="site", spec=spec)


def port(name: str, mac: str, address: str) -> Resource:
    spec = PortSpec(
        network="network/gw",
        subnet="subnet/gw/bmc",
        address=address,
        mac=mac,
        vnic_type="normal",
        host="",
        dns_name=name,
    )
    return made(f"port/{name}", spec, name)


PORTS = [port("m1-bmc", "02:00:00:00:00:01", "10.1.0.1"), port("m2-bmc", "02:00:00:00:00:02", "10.1.0.2")]


def network(vlan: int | None = 13, **more: Any) -> Resource:
    spec = NetworkSpec(physical_network="physnet1", segment=vlan, port_security=True, mtu=1500, **more)
    return made("network/gw", spec)


def raw(resource: Resource, number: int, **more: object) -> dict[str, object]:
    """A row of Neutron's as weft created it."""
    common = {
        "id": f"id-{number}",
        "name": resource.name,
        "project_id": PROJECT,
        "created_at": "2026-01-01T00:00:00Z",
    }
    return {**common, "description": SCOPE.mark(resource.key).text(), **more}


@pytest.mark.parametrize(
    ("resource", "said"),
    [
        (network(), {"provider:network_type": "vlan", "provider:segmentation_id": 13, "mtu": 1500}),
        (network(None), {"provider:network_type": "flat", "provider:physical_network": "physnet1"}),
        (network(external=True), {"router:external": True}),
    ],
)
def test_networks_request_has_the_specs_fields(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts], resource: Resource, said: dict[str, object]
) -> None:
    tiny, driver, _ = cloud
    row = raw(resource, 1, **{"provider:network_type": "vlan"})
    tiny.lies = [("POST .*/networks", Reply(201, {"network": row}))]
    assert driver.create(SCOPE, [resource], {})[resource.key].id == "id-1"
    (_, _, body), *_ = SENT
    assert said.items() <= body["network"].items()
    assert ("router:external" in body["network"]) is resource.spec.external  # type: ignore[attr-defined]
    if resource.spec.segment is None:  # type: ignore[attr-defined]
        assert "provider:segmentation_id" not in body["network"]


def test_refused_share_is_its_networks_error_with_a_known_id(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """A duplicate is no error, since an earlier answer may have been lost."""
    tiny, driver, _ = cloud
    resource = network(shared_with=("p1", "p2"))
    created = ("POST .*/networks", Reply(201, {"network": raw(resource, 1)}))
    duplicate = {"NeutronError": {"type": "DuplicateRbacPolicy", "message": "there", "detail": ""}}
    tiny.lies = [created, ("POST .*/rbac-policies", Reply(409, duplicate))]
    assert driver.create(SCOPE, [resource], {})[resource.key].error is None
    shared = [b["rbac_policy"] for _, path, b in SENT if path.endswith("/rbac-policies")]
    assert sorted((s["target_tenant"], s["action"]) for s in shared) == [
        ("p1", "access_as_shared"),
        ("p2", "access_as_shared"),
    ]
    quota = {"NeutronError": {"type": "OverQuota", "message": "Quota exceeded", "detail": ""}}
    tiny.lies = [created, ("POST .*/rbac-policies", Reply(409, quota))]
    outcome = driver.create(SCOPE, [resource], {})[resource.key]
    assert outcome.id == "id-1" and outcome.error is not None and "Quota exceeded" in str(outcome.error)


@pytest.mark.parametrize("wanted", [PORTS, PORTS[:1]])
def test_dns_name_dropped_by_neutron_is_reported(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts], wanted: list[Resource]
) -> None:
    """In bulk and alone, at creation and at repair."""
    tiny, driver, _ = cloud
    rows = [raw(r, i, dns_name="") for i, r in enumerate(wanted)]
    body = {"ports": rows} if len(rows) > 1 else {"port": rows[0]}
    tiny.lies = [("POST .*/ports", Reply(201, body))]
    outcomes = driver.create(SCOPE, wanted, IDS)
    for resource in wanted:
        error = outcomes[resource.key].error
        assert isinstance(error, PermanentError) and "dns_domain" in str(error)
    tiny.lies = []
    sent = SENT[0][2]
    assert [p["dns_name"] for p in sent.get("ports", [sent.get("port")])] == [r.name for r in wanted]


def test_closed_group_has_its_rules_and_no_others(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """Neutron's two rules of a new group are removed; an open rule that was added from outside is a difference."""
    tiny, driver, _ = cloud
    spec = SecurityGroupSpec(
        ssh_from=(),
        ingress=(Ingress(protocol="udp", port=514, source="10.1.0.0/24"),),
        egress=(Egress(protocol="tcp", port=443, to="10.1.0.0/24"),),
    )
    group = made("security_group/bmc", spec)
    own = [{"id": f"r{n}", "direction": "egress", "ethertype": n, "protocol": None} for n in ("IPv4", "IPv6")]
    row = raw(group, 1, security_group_rules=own)
    tiny.lies = [
        ("POST .*/security-groups", Reply(201, {"security_group": row})),
        ("POST .*/security-group-rules", Reply(201, {})),
    ]
    assert driver.create(SCOPE, [group], {})[group.key].error is None
    rules = next(b["security_group_rules"] for _, path, b in SENT if path.endswith("-rules"))
    assert {(r["direction"], r["protocol"], r["port_range_min"], r["remote_ip_prefix"]) for r in rules} == {
        ("ingress", "udp", 514, "10.1.0.0/24"),
        ("egress", "tcp", 443, "10.1.0.0/24"),
    }
    assert {a for a in tiny.asked if a.startswith("DELETE")} == {
        "DELETE /network/security-group-rules/rIPv4",
        "DELETE /network/security-group-rules/rIPv6",
    }
    tiny.lies = []
    exact = [{"id": f"x{i}", **rule} for i, rule in enumerate(rules)]
    tiny.things["security_groups"].append({**row, "security_group_rules": exact})
    tiny.things["rbac_policies"] = []
    assert driver.find(SCOPE, [group], {})[group.key].differences == ()
    tiny.things["security_groups"][-1]["security_group_rules"] = [*exact, *own]
    (found,) = driver.find(SCOPE, [group], {})[group.key].differences
    assert found.field == "rules" and "missing" in found.observed
    assert SecurityGroups.updatable >= {"rules"}


@pytest.mark.parametrize("kind", ["networks", "security_groups"])
def test_resource_with_another_name_is_renamed(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts], kind: str
) -> None:
    """As an adopted resource may have one: pods find networks by name, and tenants groups."""
    tiny, driver, _ = cloud
    group = made("security_group/bmc", SecurityGroupSpec(ssh_from=(), ingress=(), egress=()), "lab-bmc")
    wanted = network() if kind == "networks" else group
    provider = {"provider:network_type": "vlan", "provider:physical_network": "physnet1"}
    there = {**provider, "provider:segmentation_id": 13, "mtu": 1500} if kind == "networks" else {}
    tiny.things.setdefault(kind, []).append(
        {**raw(wanted, 1), "name": "nas-net", "security_group_rules": [], **there}
    )
    tiny.things["rbac_policies"] = []
    (found,) = driver.find(SCOPE, [wanted], {})[wanted.key].differences
    assert (found.field, found.wanted, found.observed) == ("name", wanted.name, "nas-net")
    path = f"/{kind.replace('_', '-')}/id-1"
    tiny.lies = [(f"PUT .*{path}", Reply(200, {kind[:-1]: raw(wanted, 1)}))]
    assert driver.update(SCOPE, [wanted], {wanted.key: "id-1"})[wanted.key].error is None
    assert [body for _, at, body in SENT if at.endswith(path)] == [{kind[:-1]: {"name": wanted.name}}]


def test_recreated_site_network_is_looked_up_again(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """Its id was cached by name; a name without a network stays an error."""
    tiny, driver, _ = cloud
    pod = Scope("lab", Owner("pod", OWNER.id), "train", PROJECT)
    spec = PortSpec(network="", subnet="", site_network="storage", address="", vnic_type="normal", host="")
    wanted = made("port/n1/storage", spec)

    def networks(id_: str) -> Reply:
        return Reply(200, {"networks": [{"id": id_, "name": "storage", "project_id": PROJECT}]})

    def made_on(id_: str) -> tuple[str, Reply]:
        there = {"type": "NetworkNotFound", "message": f"Network {id_} could not be found.", "detail": ""}
        return ("POST .*/ports", Reply(404, {"NeutronError": there}))

    tiny.lies = [("GET .*/networks", networks("old")), made_on("another")]
    assert isinstance(driver.create(pod, [wanted], {})[wanted.key].error, PermanentError)
    tiny.lies = [("GET .*/networks", networks("new")), made_on("old")]
    assert isinstance(driver.create(pod, [wanted], {})[wanted.key].error, TemporaryError)
    tiny.lies = [
        ("GET .*/networks", networks("new")),
        ("POST .*/ports", Reply(201, {"port": raw(wanted, 1)})),
    ]
    assert driver.create(pod, [wanted], {})[wanted.key].id == "id-1"
    assert [body["port"]["network_id"] for _, _, body in SENT] == ["old", "old", "new"]


@pytest.mark.parametrize("name", ["gateways", "net-9"], ids=["by name", "by id"])
def test_tenant_port_on_a_closed_network_is_refused(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts], name: str
) -> None:
    """The site's own ports, such as a V-IPU controller's, are allowed."""
    tiny, plain, _ = cloud
    pod = Scope("lab", Owner("pod", OWNER.id), "train", PROJECT)
    spec = PortSpec(network="", subnet="", site_network=name, address="", vnic_type="normal", host="")
    wanted = made("port/n1/storage", spec)
    driver = OpenStackDriver("lab", plain._sessions, closed={"gateways"})  # pyright: ignore[reportPrivateUsage]
    tiny.lies = [
        (
            "GET .*/networks",
            Reply(200, {"networks": [{"id": "net-9", "name": "gateways", "project_id": PROJECT}]}),
        ),
        ("POST .*/ports", Reply(201, {"port": raw(wanted, 1)})),
    ]
    theirs = wanted.model_copy(update={"owner": "tenant"})
    error = driver.create(pod, [theirs], {})[wanted.key].error
    assert isinstance(error, PermanentError) and "gateways, which tenants must never reach" in str(error)
    assert SENT == []
    assert driver.create(pod, [wanted], {})[wanted.key].id == "id-1"


def test_similar_resources_are_found_by_vlan_cidr_mac_and_name(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """In all projects, on the one network with the VLAN; not for resources that weft has already."""
    tiny, _, facts = cloud
    where = {
        "provider:physical_network": "physnet1",
        "provider:network_type": "vlan",
        "provider:segmentation_id": 13,
    }
    tiny.things["networks"] = [
        {"id": "n1", "name": "other", "description": "", "project_id": "someone", **where},
        {
            "id": "n2",
            "name": "gw",
            "description": "",
            "project_id": PROJECT,
            **where,
            "provider:segmentation_id": 14,
        },
        {
            "id": "n3",
            "name": "gw",
            "description": "",
            "project_id": "someone",
            **where,
            "provider:segmentation_id": 15,
        },
    ]
    subnet = {"name": "", "description": "", "project_id": "someone", "network_id": "n1", "ip_version": 4}
    tiny.things["subnets"] = [
        {"id": "s1", "cidr": "10.1.0.0/25", **subnet},
        {"id": "s6", "cidr": "fd00::/64", **subnet, "ip_version": 6},
    ]
    base = {
        "name": "",
        "description": "",
        "project_id": PROJECT,
        "network_id": "n1",
        "device_owner": "",
        "device_id": "",
    }
    tiny.things["ports"] = [
        {"id": "p1", "mac_address": "02:00:00:00:00:01", "fixed_ips": [{"ip_address": "10.1.0.9"}], **base},
        {"id": "p2", "mac_address": "fa:16:3e:00:00:01", "fixed_ips": [{"ip_address": "10.1.0.2"}], **base},
    ]
    subnet_spec = SubnetSpec(network="network/gw", cidr="10.1.0.0/24", gateway=False, dhcp=False)
    wanted = [network(), made("subnet/gw/bmc", subnet_spec), *PORTS]
    found = facts.alike(wanted, {})
    found_ids = {key: [(e.id, e.like, e.own, e.same) for e in one] for key, one in found.items()}
    assert found_ids == {
        "network/gw": [("n1", "VLAN 13 of physnet1", False, True), ("n2", "the name gw", True, False)],
        "subnet/gw/bmc": [("s1", "overlapping addresses (10.1.0.0/25)", False, False)],
        "port/m1-bmc": [("p1", "the MAC address 02:00:00:00:00:01", True, True)],
        "port/m2-bmc": [("p2", "the address 10.1.0.2", True, False)],
    }
    assert facts.alike(wanted, {r.key: "known" for r in wanted}) == {}


def test_reserved_address_identifies_a_port(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """Neutron chooses its MAC address; a router's port with the address is in the way."""
    tiny, _, facts = cloud
    spec = PortSpec(
        network="network/gw", subnet="subnet/gw/bmc", address="10.1.0.1", vnic_type="normal", host=""
    )
    wanted = made("gateway/gw/bmc", spec)
    row = {
        **{"id": "p1", "name": "", "description": "", "project_id": PROJECT, "network_id": "net-1"},
        **{"mac_address": "fa:16:3e:00:00:01", "fixed_ips": [{"ip_address": "10.1.0.1"}]},
        **{"device_owner": "", "device_id": ""},
    }
    for used, same in (({}, True), ({"device_owner": "network:router_interface", "device_id": "r1"}, False)):
        tiny.things["ports"] = [{**row, **used}]
        (found,) = facts.alike([wanted], {"network/gw": "net-1"})[wanted.key]
        assert (found.id, found.same) == ("p1", same)
        assert found.like.startswith("the address 10.1.0.1")
    (port,) = facts.ports_on(["net-1"])
    assert port.addresses == {"10.1.0.1"} and port.device == "r1"


@pytest.mark.parametrize("wrong", [{"fixed_ips": None}, {"device_owner": ...}, {"fixed_ips": [{}]}, None])
def test_malformed_port_is_unknown(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts], wrong: dict[str, object] | None
) -> None:
    """Not a defect, which would end the whole audit."""
    tiny, _, facts = cloud
    row: dict[str, object] = {
        **{"id": "p1", "name": "", "description": "", "project_id": PROJECT, "network_id": "net-1"},
        **{"mac_address": "fa:16:3e:00:00:01", "fixed_ips": [], "device_owner": "", "device_id": ""},
    }
    rows = [None if wrong is None else {k: v for k, v in {**row, **wrong}.items() if v is not ...}]
    tiny.lies = [("GET .*/ports", Reply(200, {"ports": rows}))]
    with pytest.raises(UnknownError, match=r"malformed|no list"):
        facts.ports_on(["net-1"])
    tiny.lies = [("GET .*/ports", Reply(200, {"ports": [{**row, "mac_address": None}]}))]
    with pytest.raises(UnknownError, match="malformed"):
        facts.alike(PORTS, {"network/gw": "net-1"})


def test_router_without_nat_is_a_difference_only_for_the_site(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """Neutron makes such routers if `enable_snat_by_default` is off, and weft's user must be allowed to set it."""
    tiny, driver, _ = cloud
    wanted = made("router/gw", RouterSpec(external_network="public", subnets=()))
    outside = {"network_id": "ext", "enable_snat": False}
    row = raw(wanted, 1, status="ACTIVE", external_gateway_info=outside)
    tiny.things |= {"routers": [row], "networks": [{"id": "ext", "name": "public"}], "ports": []}
    ids = {wanted.key: "id-1"}
    [difference] = driver.find(SCOPE, [wanted], ids)[wanted.key].differences
    assert (difference.field, difference.wanted, difference.observed) == ("nat", "yes", "no")
    tiny.lies = [("PUT .*/routers/id-1", Reply(200, {"router": row}))]
    assert driver.update(SCOPE, [wanted], ids)[wanted.key].error is None
    assert SENT[-1][2] == {"router": {"external_gateway_info": {"network_id": "ext", "enable_snat": True}}}
    pods = wanted.model_copy(update={"owner": "tenant"})
    pod = Scope("lab", Owner("pod", OWNER.id), "train", PROJECT)
    row["description"] = pod.mark(pods.key).text()
    assert driver.find(pod, [pods], ids)[pods.key].differences == ()
    outside["enable_snat"] = True
    row["description"] = SCOPE.mark(wanted.key).text()
    assert driver.find(SCOPE, [wanted], ids)[wanted.key].differences == ()


def test_malformed_listing_is_unknown(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """Reading it as nothing in the way would create a resource twice."""
    tiny, _, facts = cloud
    tiny.lies = [("GET .*/networks", Reply(200, json.dumps({})))]
    with pytest.raises(UnknownError):
        facts.alike([network()], {})


def test_port_on_another_network_is_a_difference_and_no_tenant_is_asked(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """The site has no project whose view could be read."""
    tiny, driver, _ = cloud
    (wanted, _), fixed = PORTS, [{"ip_address": "10.1.0.1", "subnet_id": "sub-9"}]
    row = raw(wanted, 1, network_id="net-9", fixed_ips=fixed, mac_address="02:00:00:00:00:01", status="DOWN")
    row |= {
        "security_groups": [],
        "port_security_enabled": False,
        "dns_name": "m1-bmc",
        "binding:vnic_type": "normal",
    }
    tiny.things["ports"] = [row]
    differences = driver.find(SCOPE, [wanted], {**IDS, wanted.key: "id-1"})[wanted.key].differences
    assert {d.field for d in differences} == {"network", "subnet"}
    assert set(tiny.scopes) <= {"project"} and not any("/networks" in a for a in tiny.asked)


def test_flavor_of_an_interrupted_creation_is_finished(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """Nova gets extra specs in a second request; without weft's own the flavor would stay when the site is
    destroyed.
    """
    tiny, driver, _ = cloud
    wanted = made("flavor/lab/plain", FlavorSpec(vcpus=4, ram=4096, disk=1, extra_specs={}))
    row: dict[str, Any] = {
        "id": "f-1",
        "name": "plain",
        "vcpus": 4,
        "ram": 4096,
        "disk": 1,
        "extra_specs": {},
    }
    row["description"] = SCOPE.mark(wanted.key).text()
    tiny.things["flavors"] = [row]
    tiny.lies.append(("POST /compute/flavors/f-1/os-extra_specs", Reply(200, {"extra_specs": {}})))
    [difference] = driver.find(SCOPE, [wanted], {})[wanted.key].differences
    assert (difference.field, difference.wanted) == ("extra_specs", "weft:made=yes")
    assert driver.update(SCOPE, [wanted], {wanted.key: "f-1"})[wanted.key].error is None
    assert SENT[-1][2] == {"extra_specs": {"weft:made": "yes"}}
    for said in ("weft:made", "weft:before"):
        row["extra_specs"] = {said: "{}"}
        assert driver.find(SCOPE, [wanted], {})[wanted.key].differences == ()


@pytest.mark.parametrize("public", [True, False])
def test_private_flavor_with_the_same_name_is_in_the_way(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts], public: bool
) -> None:
    """Nova allows no second flavor with the name and can't publish this one; a public one can be adopted."""
    tiny, _, facts = cloud
    wanted = made("flavor/lab/plain", FlavorSpec(vcpus=4, ram=4096, disk=1, extra_specs={}))
    row = {
        "id": "f-1",
        "name": "plain",
        "vcpus": 4,
        "ram": 4096,
        "disk": 1,
        "os-flavor-access:is_public": public,
    }
    tiny.things["flavors"] = [row]
    [found] = facts.alike([wanted], {})[wanted.key]
    assert (found.id, found.same, "private" in found.like) == ("f-1", public, not public)


def test_deleting_a_site_network_spares_others_subnets(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """Neutron deletes all subnets with a network. A pod's network is deleted with what its tenant put on it."""
    tiny, driver, _ = cloud
    wanted = network()
    tiny.things |= {"networks": [raw(wanted, 1, subnets=["sub-7"])], "rbac_policies": [], "ports": []}
    error = driver.delete(SCOPE, [wanted], {wanted.key: "id-1"})[wanted.key].error
    assert isinstance(error, TemporaryError) and "subnets that aren't weft's: sub-7" in str(error)
    del tiny.things["networks"][0]["subnets"]
    error = driver.delete(SCOPE, [wanted], {wanted.key: "id-1"})[wanted.key].error
    assert isinstance(error, UnknownError) and "doesn't say which subnets" in str(error)
    assert not any(line.startswith("DELETE") for line in tiny.asked)
    pod = Scope("lab", Owner("pod", OWNER.id), "train", PROJECT)
    tiny.things["networks"][0]["description"] = pod.mark(wanted.key).text()
    assert driver.delete(pod, [wanted], {wanted.key: "id-1"})[wanted.key].error is None
    assert tiny.things["networks"] == []


def test_others_subnets_are_found_by_their_network(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """Without weft's policies Neutron shows a network's owner another project's subnet only by its id."""
    tiny, _, facts = cloud
    mine = {"id": "s1", "name": "old", "cidr": "192.0.2.0/24", "network_id": "n1", "project_id": PROJECT}
    tiny.things |= {"networks": [{"id": "n1", "subnets": ["s1", "s2"]}], "subnets": [mine]}
    assert [str(s) for s in facts.subnets_on(["n1"])] == [
        f"subnet old (s1), 192.0.2.0/24, of project {PROJECT}",
        "subnet s2",
    ]
    tiny.things["networks"] = [{"id": "n1"}]
    with pytest.raises(UnknownError, match="malformed"):
        facts.subnets_on(["n1"])


def test_group_members_are_known_only_if_others_ports_are_shown(
    cloud: tuple[TinyCloud, OpenStackDriver, OpenStackFacts],
) -> None:
    """weft's own ports show it, and the group `default` of each project that shares one."""
    tiny, _, facts = cloud
    port = {
        **{"name": "", "network_id": "n-7", "device_owner": "", "device_id": "", "fixed_ips": []},
        **{"id": "p1", "project_id": "team-a", "security_groups": ["g1"]},
    }
    share = {"object_id": "g1", "target_tenant": "team-a", "action": "access_as_shared"}
    tiny.things |= {"ports": [port, {**port, "id": "p2", "security_groups": []}], "rbac_policies": [share]}
    with pytest.raises(UnknownError, match="default security group of project team-a"):
        facts.ports_in(["g1"], ["p2"])
    tiny.things["security_groups"].append({"id": "sg-a", "name": "default", "project_id": "team-a"})
    assert [(p.id, p.groups) for p in facts.ports_in(["g1"], ["p2"])] == [
        ("p1", frozenset({"g1"})),
        ("p2", frozenset[str]()),
    ]
