"""Uses of weft's resources in Neutron: each is listed, and ended without changing anything else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, tiny_cloud
from tests.drivers.openstack.tinyneutron import Neutron, Row
from weft.app.tenanttext import reason
from weft.drivers.openstack import OpenStackFacts, Sessions, extensions
from weft.drivers.openstack.network import Networks
from weft.drivers.openstack.neutron import NeutronKind
from weft.drivers.openstack.port import FloatingIPs, Ports
from weft.drivers.openstack.router import Routers
from weft.drivers.openstack.security_group import SecurityGroups
from weft.drivers.openstack.uses import in_the_way
from weft.model.errors import OutsideError, UnknownError
from weft.model.kinds import Kind
from weft.model.pod import PodState
from weft.model.uses import SUBPORT, InUseError, Use
from weft.ports.fences import unfenced

OTHER, UNSERVED = "fedcba9876543210fedcba9876543210", "00000000000000000000000000000001"
Cloud = tuple[Neutron, OpenStackFacts]
MINE = {Kind.SECURITY_GROUP: ["group"], Kind.PORT: ["p1", "p2"], Kind.ROUTER: ["router"]}


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A pod's network, group, router and two ports, with a role of weft's user in a second project."""
    with tiny_cloud(Neutron) as (tiny, text):
        assert isinstance(tiny, Neutron)
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        tiny.served = {OTHER}
        tiny.make("networks", "net")
        tiny.make("security_groups", "group")
        tiny.make("routers", "router")
        for id_ in ("p1", "p2"):
            tiny.port(id_, security_groups=["group"])
        tiny.things |= {name: [] for name in ("trunks", "floatingips", "rbac_policies", "subnets")}
        yield tiny, OpenStackFacts(sessions)
        sessions.close()


def others(cloud: Cloud) -> list[Use]:
    """The uses, without the pod's own."""
    _, facts = cloud
    return [use for use in facts.uses(PROJECT, MINE) if use.id not in ("p1", "p2")]


def in_group(tiny: Neutron, project: str) -> Row:
    return tiny.port("theirs", project, "elsewhere", security_groups=["default", "group"])


@pytest.mark.parametrize("project", [PROJECT, OTHER])
def test_port_is_removed_only_from_the_given_group(cloud: Cloud, project: str) -> None:
    """It keeps its other groups, and weft sends the revision that it read."""
    tiny, facts = cloud
    port = in_group(tiny, project)
    (use,) = others(cloud)
    assert (use.kind, use.id, use.of, use.project_id) == ("port", "theirs", Kind.SECURITY_GROUP, project)
    facts.take_off(PROJECT, use)
    assert port["security_groups"] == ["default"] and others(cloud) == []


@pytest.mark.parametrize("project", [PROJECT, OTHER])
@pytest.mark.parametrize("device", ["router", "gone", "a text"])
def test_port_with_an_owner_of_neutrons_leaves_the_group_and_stays(
    cloud: Cloud, project: str, device: str
) -> None:
    """On a network that isn't the pod's: whatever its owner has written there."""
    tiny, facts = cloud
    port = in_group(tiny, project)
    port |= {"device_owner": "network:router_interface", "device_id": device, "forged": True}
    uses = [use for use in others(cloud) if use.of is Kind.SECURITY_GROUP]
    for use in uses:
        facts.take_off(PROJECT, use)
    assert uses and port in tiny.things["ports"] and port["security_groups"] == ["default"]
    assert (port["device_owner"], port["device_id"]) == ("network:router_interface", device)


def test_port_of_an_unserved_project_is_named_and_stays(cloud: Cloud) -> None:
    """Neutron answers 404 to others, which doesn't end the use."""
    tiny, facts = cloud
    port = in_group(tiny, UNSERVED)
    (use,) = others(cloud)
    with pytest.raises(UnknownError, match=f"it is of project {UNSERVED}"):
        facts.take_off(PROJECT, use)
    assert port["security_groups"] == ["default", "group"]


def test_trunk_of_a_port_is_deleted(cloud: Cloud) -> None:
    """Not while its server exists; its subports are others' and stay."""
    tiny, facts = cloud
    tiny.port("child", network="elsewhere")
    tiny.trunk("trunk", "p1", "child")
    (use,) = others(cloud)
    assert (use.kind, use.id, use.of, use.on) == ("trunk", "trunk", Kind.PORT, "p1")
    facts.take_off(PROJECT, use)
    assert others(cloud) == [] and any(p["id"] == "child" for p in tiny.things["ports"])


def test_subport_is_removed_from_its_trunk(cloud: Cloud) -> None:
    """The trunk and its other subports stay."""
    tiny, facts = cloud
    tiny.port("parent", network="elsewhere")
    tiny.port("child", network="elsewhere")
    trunk = tiny.trunk("trunk", "parent", "child", "p2")
    (use,) = others(cloud)
    assert (use.kind, use.id, use.on, use.owner) == ("trunk", "trunk", "p2", SUBPORT)
    facts.take_off(PROJECT, use)
    assert trunk["sub_ports"] == [{"port_id": "child"}] and others(cloud) == []


@pytest.mark.parametrize("by", [{"port_id": "p1"}, {"port_id": "far", "router_id": "router"}])
def test_floating_ip_is_removed_from_its_port(cloud: Cloud, by: Row) -> None:
    """The address stays its owner's."""
    tiny, facts = cloud
    address = tiny.make("floatingips", "fip", floating_ip_address="203.0.113.9", **{"router_id": None, **by})
    (use,) = others(cloud)
    assert (use.kind, use.id, use.name) == ("floating_ip", "fip", "203.0.113.9")
    facts.take_off(PROJECT, use)
    assert address["port_id"] is None and others(cloud) == []


def test_port_forwarding_through_a_pods_router_is_ended(cloud: Cloud) -> None:
    """It keeps the router's interface. It has no port, and its floating IP's port isn't about it."""
    tiny, facts = cloud
    tiny.things["extensions"].append({"alias": "floating-ip-port-forwarding"})
    of = {"port_id": None, "router_id": "router", "forwardings": ["f1", "f2"]}
    address = tiny.make("floatingips", "fip", OTHER, floating_ip_address="203.0.113.9", **of)
    (use,) = others(cloud)
    facts.take_off(PROJECT, use)
    assert address in tiny.things["floatingips"] and not address["forwardings"] and others(cloud) == []


def test_pods_floating_ip_goes_with_the_port_forwardings_that_its_tenant_set(cloud: Cloud) -> None:
    """Neutron doesn't delete it before, and weft created it."""
    tiny, facts = cloud
    of = {"port_id": None, "router_id": "router", "forwardings": ["f1"], "floating_ip_address": "203.0.113.9"}
    row, kind = FloatingIPs().row(tiny.make("floatingips", "fip", **of)), FloatingIPs()
    with pytest.raises(OutsideError, match="in use"):  # if Neutron doesn't list the extension
        kind.remove(facts._sessions.project(PROJECT), row, unfenced)
    tiny.things["extensions"].append({"alias": "floating-ip-port-forwarding"})
    sessions = facts._sessions
    sessions._extensions._read = None
    kind.remove(sessions.project(PROJECT), row, unfenced)
    assert not tiny.things["floatingips"]


def test_interface_on_a_pods_router_is_removed(cloud: Cloud) -> None:
    """Of a network that the router's owner attached."""
    tiny, facts = cloud
    tiny.port("interface", OTHER, "elsewhere", device_owner="network:router_interface", device_id="router")
    (use,) = others(cloud)
    assert (use.kind, use.of, use.network) == ("port", Kind.ROUTER, "elsewhere")
    facts.take_off(PROJECT, use)
    assert others(cloud) == []


@pytest.mark.parametrize(("project", "ends"), [(OTHER, True), (UNSERVED, False)])
def test_interface_of_anothers_router_is_removed_with_that_projects_rights(
    cloud: Cloud, project: str, ends: bool
) -> None:
    """Neutron doesn't show the router to the network's owner, so a 404 ends nothing."""
    tiny, facts = cloud
    tiny.make("routers", "theirs", project)
    tiny.port("interface", project, device_owner="network:router_interface", device_id="theirs")
    use = next(u for u in facts.on_networks(PROJECT, ["net"]) if u.id == "interface")
    if ends:
        facts.take_off(PROJECT, use)
    else:
        with pytest.raises(UnknownError, match="in which weft's user has no role"):
            facts.take_off(PROJECT, use)
    assert any(p["id"] == "interface" for p in tiny.things["ports"]) is not ends


@pytest.mark.parametrize(("kind", "thing"), [("network", "net"), ("security_group", "group")])
def test_share_is_deleted(cloud: Cloud, kind: str, thing: str) -> None:
    """A network's, and a group's."""
    tiny, facts = cloud
    tiny.share("policy", kind, thing, OTHER)
    found = [*facts.on_networks(PROJECT, ["net"]), *others(cloud)]
    (use,) = [u for u in found if u.kind == "share"]
    assert (use.on, use.project_id) == (thing, OTHER)
    facts.take_off(PROJECT, use)
    assert tiny.things["rbac_policies"] == []


@pytest.mark.parametrize("collection", ["ports", "trunks", "floatingips", "rbac-policies", "vpnservices"])
def test_uses_are_unknown_if_others_are_listed(cloud: Cloud, collection: str) -> None:
    """An operator's repair ends what is listed, so each row must be what was asked for."""
    tiny, facts = cloud
    row = {"id": "x", "name": "", "project_id": PROJECT, "network_id": "n", "device_id": "other"}
    row |= {"device_owner": "", "port_id": "other", "router_id": "other", "object_id": "other"}
    with_vpn(tiny)
    tiny.lies = [(f"GET /network/{collection}", Reply(200, {collection.replace("-", "_"): [row]}))]
    with pytest.raises(UnknownError):
        facts.uses(PROJECT, MINE)


def test_neutron_without_trunks_is_not_queried_for_them(cloud: Cloud) -> None:
    """It would answer 404."""
    tiny, _ = cloud
    tiny.things["extensions"] = [{"alias": "router"}]
    assert others(cloud) == [] and "GET /network/trunks" not in tiny.asked


def test_empty_list_of_extensions_proves_nothing(cloud: Cloud) -> None:
    tiny, facts = cloud
    tiny.things["extensions"] = []
    with pytest.raises(UnknownError):
        facts.uses(PROJECT, MINE)


def with_vpn(tiny: Neutron) -> None:
    tiny.things["extensions"] += [{"alias": "vpnaas"}, {"alias": "vpn-endpoint-groups"}]


def test_vpn_service_on_the_router_ends_with_its_connections(cloud: Cloud) -> None:
    """Neutron keeps the router while they exist. Others' services stay."""
    tiny, facts = cloud
    with_vpn(tiny)
    tiny.vpn("vpn", None)
    tiny.make("vpnservices", "far", router_id="other", subnet_id=None)
    tiny.make("ipsec_site_connections", "far-connection", vpnservice_id="far", local_ep_group_id=None)
    assert [(u.kind, u.id) for u in refusal(cloud, Routers(), "router").uses] == [("vpn_service", "vpn")]
    (use,) = others(cloud)
    assert (use.kind, use.of, use.on) == ("vpn_service", Kind.ROUTER, "router")
    assert use.end == "it will be removed with its site connections"
    facts.take_off(PROJECT, use)
    assert others(cloud) == []
    left = {name: [r["id"] for r in tiny.things[name]] for name in ("vpnservices", "ipsec_site_connections")}
    assert left == {"vpnservices": ["far"], "ipsec_site_connections": ["far-connection"]}


def test_vpn_endpoints_on_a_subnet_end_with_their_connections(cloud: Cloud) -> None:
    """One group of endpoints is on a subnet of the pod's network, one elsewhere; a service belongs to its router."""
    tiny, facts = cloud
    with_vpn(tiny)
    tiny.make("subnets", "sub", network_id="net")
    tiny.vpn("vpn", "sub", "group-1")
    tiny.things["ports"] = []
    (use,) = [u for u in facts.on_networks(PROJECT, ["net"]) if u.kind.startswith("vpn")]
    assert (use.kind, use.id, use.of, use.on) == ("vpn_endpoint_group", "group-1", Kind.NETWORK, "net")
    assert [u.id for u in in_the_way(facts._sessions.project(PROJECT), Kind.SUBNET, "sub")] == ["group-1"]
    facts.take_off(PROJECT, use)
    assert [g["id"] for g in tiny.things["endpoint_groups"]] == ["group-1-peers"]
    assert tiny.things["ipsec_site_connections"] == []
    assert [r["id"] for r in tiny.things["vpnservices"]] == ["vpn"]


def test_vpn_service_on_a_subnet_is_found_on_its_network(cloud: Cloud) -> None:
    tiny, facts = cloud
    with_vpn(tiny)
    tiny.make("subnets", "sub", network_id="net")
    tiny.vpn("vpn", "sub")
    (use,) = [u for u in facts.on_networks(PROJECT, ["net"]) if u.kind.startswith("vpn")]
    assert (use.kind, use.id, use.of, use.on) == ("vpn_service", "vpn", Kind.NETWORK, "net")
    said = use.message(PROJECT, "pod")
    assert (said.params["thing"], said.params["of"]) == ("vpn service", "network")


def test_neutron_without_vpn_is_not_queried_for_it(cloud: Cloud) -> None:
    """It would answer 404."""
    tiny, facts = cloud
    tiny.make("subnets", "sub", network_id="net")
    assert [u.kind for u in facts.on_networks(PROJECT, ["net"])].count("subnet") == 1 and others(cloud) == []
    assert not [a for a in tiny.asked if "vpnservices" in a or "endpoint" in a]


def test_extensions_are_read_once_for_many_visits(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each visit to a READY pod reads what is on its networks."""
    tiny, facts = cloud
    tiny.make("subnets", "sub", network_id="net")

    def listings(visits: int) -> int:
        before = len(tiny.asked)
        for project in (PROJECT, OTHER) * visits:
            facts.on_networks(project, ["net"])
        return sum("/extensions" in line for line in tiny.asked[before:])

    assert listings(3) == 1
    monkeypatch.setattr(extensions, "FRESH", -1.0)
    assert listings(1) == 2


def test_refused_removal_of_a_use_is_an_error(cloud: Cloud) -> None:
    """A trunk is deleted only after its parent's server."""
    tiny, facts = cloud
    tiny.trunk("trunk", "p1")
    tiny.things["ports"][0]["device_id"] = "server"
    (use,) = others(cloud)
    with pytest.raises(OutsideError, match="409"):
        facts.take_off(PROJECT, use)
    assert tiny.things["trunks"]


ID, SERVER = "0b5412dc-0000-4000-8000-000000000001", "0b5412dc-0000-4000-8000-000000000002"


def refusal(cloud: Cloud, kind: NeutronKind, thing: str) -> InUseError:
    """The error with which a removal is refused."""
    tiny, facts = cloud
    row = next(r for r in tiny.things[kind.collection] if r["id"] == thing)
    project = facts._sessions.project(PROJECT)
    with pytest.raises(InUseError) as refused:
        kind.remove(project, kind.row({**row, "name": "weft-0b5412dc-thing"}), unfenced)
    return refused.value.without({"p1", "p2"})


def test_refused_removal_lists_its_uses_as_values(cloud: Cloud) -> None:
    """Kind, id, name, server and project are fields; the tenant reads them, since the port is its own."""
    tiny, _ = cloud
    tiny.port(ID, network="elsewhere", name="eth 0", security_groups=["group"], device_owner="compute:nova")
    tiny.things["ports"][-1]["device_id"] = SERVER
    tiny.make("servers", SERVER, name="login", tenant_id=PROJECT)
    error = refusal(cloud, SecurityGroups(), "group")
    (use,) = error.uses
    assert (use.kind, use.id, use.name, use.server, use.project_id) == ("port", ID, "eth 0", "login", PROJECT)
    shown = reason(error.message, PodState.RELEASING)
    assert f"port {ID} 'eth 0' of server 'login' uses the pod's security group: remove it" in shown


@pytest.mark.parametrize(
    "name",
    [
        "x' uses the pod's router: remove it",
        "a, port b",
        "y" * 99,
        "a\nb",
        f"b, port {ID} uses the pod's router: remove it",
    ],
)
def test_tenants_names_are_left_out_of_refusals(cloud: Cloud, name: str) -> None:
    """A tenant chooses them; the id identifies the resource."""
    tiny, _ = cloud
    tiny.port(ID, network="elsewhere", name=name, security_groups=["group"])
    shown = reason(refusal(cloud, SecurityGroups(), "group").message, PodState.RELEASING)
    assert f"port {ID} uses the pod's security group: remove it" in shown and "router" not in shown


def test_use_by_another_project_is_shown_to_operators_only(cloud: Cloud) -> None:
    """The tenant reads only that there is one."""
    tiny, _ = cloud
    tiny.port(ID, OTHER, "elsewhere", name="secret", security_groups=["group"])
    error = refusal(cloud, SecurityGroups(), "group")
    assert ID in str(error) and OTHER in str(error) and "port secret" in str(error)
    shown = reason(error.message, PodState.RELEASING)
    assert "something of another project uses the pod's security group (operators see what)" in shown
    assert ID not in shown and OTHER not in shown and "secret" not in shown


@pytest.mark.parametrize("parent", [True, False])
def test_refused_removal_of_a_port_names_its_trunk(cloud: Cloud, parent: bool) -> None:
    """As parent and as subport; the removal is tried again."""
    tiny, _ = cloud
    tiny.port("theirs", network="elsewhere")
    tiny.trunk(ID, *(("p1", "theirs") if parent else ("theirs", "p1")))
    (use,) = refusal(cloud, Ports(), "p1").uses
    assert (use.kind, use.id) == ("trunk", ID)


def test_refused_removal_of_a_router_names_the_floating_ip(cloud: Cloud) -> None:
    """It goes through the router's interface on a subnet that isn't the pod's."""
    tiny, _ = cloud
    tiny.make("floatingips", ID, floating_ip_address="203.0.113.9", port_id="far", router_id="router")
    (use,) = refusal(cloud, Routers(), "router").uses
    assert (use.kind, use.id, use.name) == ("floating_ip", ID, "203.0.113.9")


def test_interface_kept_by_a_floating_ip_names_it(cloud: Cloud) -> None:
    """The interface is deleted before its router, so it is what Neutron refuses."""
    tiny, _ = cloud
    tiny.port("interface", device_owner="network:router_interface", device_id="router")
    tiny.things["ports"][-1]["fixed_ips"] = [{"subnet_id": "theirs", "ip_address": "10.0.0.1"}]
    tiny.make("floatingips", ID, floating_ip_address="203.0.113.9", port_id="far", router_id="router")
    said = {"type": "RouterInterfaceInUseByFloatingIP", "message": "in use", "detail": ""}
    tiny.refused = {"remove_router_interface": Reply(409, {"NeutronError": said})}
    error = refusal(cloud, Routers(), "router")
    assert [use.id for use in error.uses] == [ID]
    shown = reason(error.message, PodState.RELEASING)
    assert f"floating ip {ID}" in shown and "uses the pod's router: remove it" in shown


def test_removed_router_ends_the_routes_that_its_tenant_set(cloud: Cloud) -> None:
    """They keep its interface; a router that stays keeps them."""
    tiny, facts = cloud
    tiny.port("interface", device_owner="network:router_interface", device_id="router")
    tiny.things["ports"][-1]["fixed_ips"] = [{"subnet_id": "sub", "ip_address": "10.0.0.1"}]
    router = next(r for r in tiny.things["routers"] if r["id"] == "router")
    router["routes"] = [{"destination": "192.0.2.0/24", "nexthop": "10.0.0.9"}]
    kind, project = Routers(), facts._sessions.project(PROJECT)
    row = kind.row({**router, "name": "weft-0b5412dc-thing"})
    with pytest.raises(InUseError):
        kind._detach(project, row, "sub")
    assert router["routes"]
    kind.remove(project, row, unfenced)
    assert "router" not in [r["id"] for r in tiny.things["routers"]]
    assert "interface" not in [p["id"] for p in tiny.things["ports"]]


def test_refused_removal_of_a_network_names_the_port_of_another_project(cloud: Cloud) -> None:
    """Without the pod's own ports, which are deleted before."""
    tiny, _ = cloud
    tiny.port(ID, OTHER)
    assert [use.id for use in refusal(cloud, Networks(), "net").uses] == [ID]


def test_refusal_with_an_unreadable_cause_stays_a_refusal(cloud: Cloud) -> None:
    """It says so, and is tried again."""
    tiny, _ = cloud
    in_group(tiny, PROJECT)
    tiny.lies = [("GET /network/ports", Reply(503, {"error": {"message": "down"}}))]
    error = refusal(cloud, SecurityGroups(), "group")
    assert error.uses == () and "409" in str(error) and "what uses it is unknown" in str(error)


def test_all_ports_allowed_to_send_from_an_address_are_found(cloud: Cloud) -> None:
    """Neutron has no filter for address pairs. A port's own address isn't a pair, and hidden pairs are unknown."""
    tiny, facts = cloud
    mac = "02:00:00:00:00:07"
    plain: Row = {"binding:host_id": "", "binding:vnic_type": "normal", "binding:vif_type": "unbound"}
    plain |= {"binding:profile": {}, "extra_dhcp_opts": [], "mac_address": mac, "allowed_address_pairs": []}
    for row in tiny.things["ports"]:
        row.update(plain)
    pair = {"ip_address": "10.0.0.1", "mac_address": mac.upper()}
    other = {"mac_address": "02:00:00:00:00:08", "allowed_address_pairs": [pair]}
    tiny.port("theirs", OTHER, "elsewhere", **{**plain, **other})
    found, _ = facts.pairs_with(PROJECT, [mac])
    assert {m: [(p.id, p.project_id) for p in ports] for m, ports in found.items()} == {
        mac: [("theirs", OTHER)]
    }
    subnet = {
        "allowed_address_pairs": [{"ip_address": "10.0.0.0/24", "mac_address": mac}],
        "mac_address": mac,
    }
    tiny.port("all-of-it", OTHER, "n", **{**plain, **subnet})
    ends = [("n", "10.0.0.1"), ("n", "10.0.1.1"), ("elsewhere", "10.0.0.1"), ("elsewhere", "10.0.0.2")]
    _, there = facts.pairs_with(PROJECT, [], ends)
    assert {end: [p.id for p in ports] for end, ports in there.items()} == {
        ("n", "10.0.0.1"): ["all-of-it"],
        ("elsewhere", "10.0.0.1"): ["theirs"],
    }
    tiny.things["ports"][-1]["allowed_address_pairs"] = [{"mac_address": mac}]
    with pytest.raises(UnknownError, match="address pairs of port all-of-it in another shape"):
        facts.pairs_with(PROJECT, [], ends)
    del tiny.things["ports"][0]["allowed_address_pairs"]
    with pytest.raises(UnknownError, match="doesn't show allowed_address_pairs"):
        facts.pairs_with(PROJECT, [mac])


@pytest.mark.parametrize(
    ("owner", "device"),
    [
        ("network:mine", ""),
        ("network:dhcp", "dhcp-x"),
        ("network:dhcp", SERVER),
        ("network:distributed", "ovnmeta-elsewhere"),
        ("network:floatingip", "x"),
        ("network:router_centralized_snat", "router"),
    ],
)
def test_port_with_a_device_owner_of_the_clouds_is_a_use(cloud: Cloud, owner: str, device: str) -> None:
    """A network's owner may write any device owner, and Neutron keeps a network for most of them."""
    tiny, facts = cloud
    tiny.port(ID, PROJECT, device_owner=owner, device_id=device)
    assert [use.owner for use in facts.on_networks(PROJECT, ["net"]) if use.id == ID] == [owner]


@pytest.mark.parametrize(
    ("owner", "device"),
    [
        ("network:dhcp", f"dhcp{SERVER}-net"),
        ("network:dhcp", f"dhcp{SERVER}-net-1000"),
        ("network:dhcp", "reserved_dhcp_port"),
        ("network:dhcp", "ovnmeta-net"),
        ("network:distributed", "ovnmeta-net"),
    ],
)
def test_agent_port_does_not_count_as_use_of_its_network(cloud: Cloud, owner: str, device: str) -> None:
    """Neutron deletes it with its network."""
    tiny, facts = cloud
    tiny.port(ID, PROJECT, device_owner=owner, device_id=device)
    assert [use for use in facts.on_networks(PROJECT, ["net"]) if use.id == ID] == []


@pytest.mark.parametrize(
    "owner", ["network:router_interface", "network:router_gateway", "network:floatingip"]
)
def test_pods_port_with_an_owner_of_neutrons_goes(cloud: Cloud, owner: str) -> None:
    """`openstack port set --device-owner … --device …`: the network's owner may, and Neutron then deletes no port."""
    tiny, facts = cloud
    tiny.make("floatingips", "address", port_id=None)
    device = "address" if owner == "network:floatingip" else "router"
    row = tiny.things["ports"][0]
    row |= {"device_owner": owner, "device_id": device, "forged": True}
    ports = Ports()
    ports.remove(facts._sessions.project(PROJECT), ports.row(row), unfenced)
    assert [p["id"] for p in tiny.things["ports"]] == ["p2"]


def test_pods_port_that_is_an_interface_goes(cloud: Cloud) -> None:
    """`openstack router add port`, with the router of the pod or of the tenant: the router has no trace of it."""
    tiny, facts = cloud
    row = tiny.things["ports"][0]
    row |= {"device_owner": "network:router_interface", "device_id": "router"}
    ports = Ports()
    ports.remove(facts._sessions.project(PROJECT), ports.row(row), unfenced)
    assert [p["id"] for p in tiny.things["ports"]] == ["p2"]
    assert "PUT /network/routers/router/remove_router_interface" in tiny.asked


@pytest.mark.parametrize("owner", ["network:router_interface", "network:router_gateway", "network:mine"])
def test_use_with_an_owner_of_neutrons_ends(cloud: Cloud, owner: str) -> None:
    tiny, facts = cloud
    tiny.port(ID, device_owner=owner, device_id="router", forged=True)
    (use,) = [use for use in facts.on_networks(PROJECT, ["net"]) if use.id == ID]
    facts.take_off(PROJECT, use)
    assert ID not in [p["id"] for p in tiny.things["ports"]]


def test_second_port_of_a_distributed_router_does_not_count_as_use(cloud: Cloud) -> None:
    tiny, facts = cloud
    tiny.port("i", PROJECT, device_owner="network:router_interface_distributed", device_id="theirs")
    tiny.port("snat", PROJECT, device_owner="network:router_centralized_snat", device_id="theirs")
    assert [use.id for use in facts.on_networks(PROJECT, ["net"]) if use.of is Kind.NETWORK][-1] == "i"


@pytest.mark.parametrize("owner", ["network:router_interface", SUBPORT, "compute:nova"])
def test_malformed_device_id_makes_no_request(cloud: Cloud, owner: str) -> None:
    """A port's owner may write any text as its device, and weft's requests have weft's rights."""
    tiny, facts = cloud
    tiny.port("port", PROJECT, device_owner=owner, device_id="../networks/victim?x=")
    uses = [*facts.on_networks(PROJECT, ["net"]), *facts.uses(PROJECT, {Kind.PORT: ["port"]})]
    for use in uses:
        if use.owner != "compute:nova" and use.owner == owner:
            with (
                pytest.raises(UnknownError, match="isn't an id")
                if owner == SUBPORT
                else contextlib.nullcontext()
            ):
                facts.take_off(PROJECT, use)
    there = any(p["id"] == "port" for p in tiny.things["ports"])
    assert there == (owner != "network:router_interface"), "no router's: it is deleted"
    refusal(cloud, Networks(), "net")
    assert uses and not [path for path in tiny.asked if "victim" in path]


def test_name_of_anothers_server_is_not_shown(cloud: Cloud) -> None:
    """A port's owner may write any server's id there."""
    tiny, _ = cloud
    tiny.make("servers", SERVER, OTHER, name="theirs-in-secret", tenant_id=OTHER)
    tiny.port(
        ID, network="elsewhere", security_groups=["group"], device_owner="compute:nova", device_id=SERVER
    )
    error = refusal(cloud, SecurityGroups(), "group")
    assert ID in str(error) and "theirs-in-secret" not in str(error)
