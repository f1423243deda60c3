"""Which adapters and functions belong in the segments of tenants' networks: every case that was seen in Neutron."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.smallsite import small_site
from weft.model.fabric import Capabilities, Membership
from weft.model.fabrictypes import FabricKind
from weft.model.ids import format_guid
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.planning.fabric.functions import guid_of, mac_of
from weft.planning.owners.tenantports import (
    OTHERS,
    KnownPorts,
    PlannedPort,
    guid_of_client_id,
    members_of,
    plan_ports,
    segment_graph,
)
from weft.planning.site.fabrictypes import check_fabric_types
from weft.ports.tenantnetworks import TenantNetwork, TenantPort

UFM = Capabilities(virtual_functions=True)
OPENSM = Capabilities(virtual_functions=False, why_no_virtual_functions="no virtual ports here")
NET, OTHER = "net-a", "net-b"
PF0 = small_site().node_by_name["gpu01"].hcas[0]
PF1 = small_site().node_by_name["gpu01"].hcas[1]


def client_id(guid: int) -> str:
    """The client-id as Ironic writes it."""
    text = guid.to_bytes(8, "big").hex(":")
    return f"ff:00:00:00:00:00:02:00:00:02:c9:00:{text}"


def port(id_: str = "p1", **more: Any) -> TenantPort:
    values = {"name": "", "mac": "fa:16:3e:00:00:01", "host": "gpu01"}
    return TenantPort(**{"id": id_, **values, **more})


def pf(id_: str = "p1", **more: Any) -> TenantPort:
    bound = {"vnic_type": "direct-physical", "vif_type": "hostdev_physical", "pci_slot": PF0.pci}
    return port(id_, **{**bound, **more})


def vf(id_: str = "p1", **more: Any) -> TenantPort:
    return port(id_, **{"vnic_type": "direct", "vif_type": "hw_veb", "pci_slot": "0000:0c:01.3", **more})


def bare(id_: str = "p1", **more: Any) -> TenantPort:
    bound = {"vnic_type": "baremetal", "vif_type": "other", "client_ids": (client_id(PF0.port_guid),)}
    return port(id_, **{**bound, **more})


def network(*ports: TenantPort, id_: str = NET, number: int = 110) -> TenantNetwork:
    return TenantNetwork(id_, "mine", "team-b", number, ports)


def plan(
    *networks: TenantNetwork,
    around: KnownPorts | None = None,
    can: Capabilities = UFM,
    site: Site | None = None,
) -> dict[str, tuple[PlannedPort, ...]]:
    return dict(plan_ports(site or small_site(), "main", "ib", can, networks, around or KnownPorts()))


def alone(one: TenantPort, **more: Any) -> PlannedPort:
    (found,) = plan(network(one), **more)[NET]
    return found


def in_segment(one: TenantPort, **more: Any) -> str:
    """Id of the fabric's port that it puts in."""
    found = alone(one, **more)
    assert found.member is not None and found.why == "", found
    return found.member.port


def why_not(one: TenantPort, **more: Any) -> str:
    found = alone(one, **more)
    assert found.member is None and found.why
    return found.why


# -- members ----------------------------------------------------------------------------------------------------


def test_whole_adapter_is_found_by_host_and_pci_address() -> None:
    assert in_segment(pf()) == PF0.port_id
    assert in_segment(pf(mac="b8:59:9f:00:01:11")) == PF0.port_id
    assert in_segment(pf(pci_slot=PF1.pci.upper())) == PF1.port_id


def test_function_is_a_member_by_mac_before_it_exists() -> None:
    """With the test vector of networking-mlnx: two zero bytes in the middle."""
    found = alone(vf(mac="01:23:45:67:89:ab"))
    assert found.member is not None
    assert found.member.port == "0x01234500006789ab"
    assert found.member.behind == tuple(h.port_id for h in small_site().node_by_name["gpu01"].hcas_on("ib"))
    assert in_segment(vf(vif_type="ib_hostdev")) == format_guid(guid_of("fa:16:3e:00:00:01"))


def test_function_with_known_adapter_is_behind_it() -> None:
    site = small_site()
    node = site.node_by_name["gpu01"]
    first = PF1.model_copy(update={"vf_pci": "0000:4b:01.0", "vfs": 8})
    hcas = tuple(first if h.name == PF1.name else h for h in node.hcas)
    nodes = tuple(n.model_copy(update={"hcas": hcas}) if n is node else n for n in site.nodes)
    found = alone(vf(pci_slot="0000:4b:01.3"), site=site.model_copy(update={"nodes": nodes}))
    assert found.member is not None and found.member.behind == (PF1.port_id,)


def test_bare_metal_adapter_is_found_by_client_id() -> None:
    assert in_segment(bare()) == PF0.port_id
    short = "20:" + PF1.port_guid.to_bytes(8, "big").hex(":")
    assert in_segment(bare(client_ids=(short,))) == PF1.port_id
    assert in_segment(bare(client_ids=(client_id(PF0.port_guid),) * 2)) == PF0.port_id  # of IPv4 and of IPv6


def test_members_are_unique_and_complete() -> None:
    ports = plan(network(bare("p3"), pf("p1"), vf("p2"), port("p0", vnic_type="normal", vif_type="ovs")))[NET]
    assert [p.port.id for p in ports] == ["p1", "p2", "p3"]
    assert [m.port for m in members_of(ports)] == sorted(
        {PF0.port_id, format_guid(guid_of("fa:16:3e:00:00:01"))}
    )


def test_network_without_ports_has_no_members() -> None:
    assert plan(network()) == {NET: ()}


# -- ports that are no members ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (pf(vif_type="unbound"), "not bound"),
        (pf(vif_type="", host=""), "not bound"),
        # Nova's first PUT and POST: with a host, without a binding
        (pf(vif_type="unbound", host="gpu01"), "not bound"),
        # unbound again, without host and client-id; Neutron sent no DELETE
        (bare(vif_type="unbound", host="", client_ids=()), "not bound"),
        (pf(vif_type="hostdev_physical", host=""), "not bound"),
        (bare(vif_type="binding_failed"), "could not bind it"),
        (bare(vif_type="binding_failed", has_address=False), "give its network a subnet"),
        (vf(vif_type="hostdev_physical"), "a direct port counts as hw_veb or ib_hostdev"),
        (pf(vif_type="other"), "counts as hostdev_physical or ib_hostdev"),
        (vf(vif_type="ovs"), "bound as ovs"),
        (pf(host="elsewhere"), "host elsewhere is no node"),
        (pf(pci_slot=""), "has not said which PCI device"),
        (pf(pci_slot="0000:ff:00.0"), "no adapter on ib at PCI address 0000:ff:00.0"),
        (bare(client_ids=()), "no DHCP option client-id"),
        (bare(client_ids=("hello",)), "isn't that of an InfiniBand adapter"),
        (bare(client_ids=("01:fa:16:3e:00:00:01",)), "isn't that of an InfiniBand adapter"),
        (bare(client_ids=(client_id(0),)), "isn't that of an InfiniBand adapter"),
        (bare(client_ids=(client_id(PF0.port_guid), client_id(PF1.port_guid))), "different adapters"),
        (vf(mac=""), "is not six bytes"),
        (vf(mac="80:00:00:28:fe:80:00:00:00:00:00:00:00:11:22:03:00:33:44:56"), "is not six bytes"),
    ],
)
def test_port_without_adapter_is_left_out_with_a_reason(one: TenantPort, why: str) -> None:
    assert why in why_not(one)


def test_client_id_never_selects_another_hosts_adapter() -> None:
    """Tenants may change extra_dhcp_opts, which must not put another tenant's adapter in their segment."""
    victim = small_site().node_by_name["gpu02"].hcas[0]
    assert "isn't an adapter of node gpu01" in why_not(bare(client_ids=(client_id(victim.port_guid),)))


def test_chosen_mac_never_matches_site_hardware() -> None:
    """The GUID that follows from a tenant's MAC address must not be an adapter's or a pod's function's."""
    site = small_site()
    node = site.node_by_name["gpu01"]
    taken = PF0.model_copy(update={"port_guid": guid_of("02:00:00:00:00:09"), "vfs": 4})
    nodes = tuple(n.model_copy(update={"hcas": (taken, *n.hcas[1:])}) if n is node else n for n in site.nodes)
    site = site.model_copy(update={"nodes": nodes})
    for mac in ("02:00:00:00:00:09", mac_of(taken, 3)):
        assert "is the site's own" in why_not(vf(mac=mac), site=site)
    assert in_segment(vf(mac=mac_of(taken, 4)), site=site)


def test_manager_without_virtual_ports_accepts_only_whole_adapters() -> None:
    assert why_not(vf(), can=OPENSM) == "no virtual ports here"
    assert in_segment(pf(), can=OPENSM) == PF0.port_id


def test_port_on_a_pods_node_is_refused() -> None:
    whole = KnownPorts(whole=frozenset({"gpu01"}))
    for one in (pf(), vf(), bare()):
        assert why_not(one, around=whole) == "node gpu01 is a pod's"
    shared = KnownPorts(shared=frozenset({"gpu01"}))
    assert why_not(pf(), around=shared) == "node gpu01 is a pod's"
    assert in_segment(vf(), around=shared)


def test_hosts_of_another_cloud_do_not_match() -> None:
    networks = [network(pf())]
    (found,) = plan_ports(small_site(), "another", "ib", UFM, networks, KnownPorts())[NET]
    assert "is no node of the site" in found.why


# -- in two networks --------------------------------------------------------------------------------------------


def test_adapter_bound_in_two_networks_stays_where_it_is() -> None:
    both = [network(pf("p1")), network(bare("p2"), id_=OTHER, number=111)]
    assert [p.why for ports in plan(*both).values() for p in ports] == [OTHERS, OTHERS]
    found = plan(*both, around=KnownPorts(granted={OTHER: {PF0.port_id}}))
    assert found[NET][0].why == OTHERS and found[OTHER][0].member is not None
    found = plan(*both, around=KnownPorts(granted={OTHER: {PF0.port_id}, NET: {PF0.port_id}}))
    assert [p.why for ports in found.values() for p in ports] == [OTHERS, OTHERS]


def test_functions_with_one_mac_in_two_networks_are_left_out() -> None:
    """A tenant may choose the MAC address of its port, also one of another tenant."""
    both = [network(vf("p1")), network(vf("p2"), id_=OTHER, number=111)]
    assert {p.why for ports in plan(*both).values() for p in ports} == {OTHERS}


def test_function_with_duplicate_mac_leaves_its_network() -> None:
    """They are two devices, and a manager that knows GUIDs would add both to the partition."""
    both = [network(vf("p1")), network(vf("p2"), id_=OTHER, number=111)]
    has = KnownPorts(granted={NET: {format_guid(guid_of("fa:16:3e:00:00:01"))}})
    assert {p.why for ports in plan(*both, around=has).values() for p in ports} == {OTHERS}


def test_function_seen_elsewhere_is_not_a_member() -> None:
    guid = format_guid(guid_of("fa:16:3e:00:00:01"))
    has = KnownPorts(granted={NET: {guid}}, elsewhere={guid: "UFM shows it behind gpu02/mlx5_0"})
    assert why_not(vf(), around=has).endswith("also appears elsewhere: UFM shows it behind gpu02/mlx5_0")


def test_port_in_another_segment_waits_and_member_stays() -> None:
    """An adapter gets to its next server before it leaves its former segment."""
    still = KnownPorts(numbers={PF0.port_id: frozenset({150})})
    assert "has not left another partition" in why_not(pf(), around=still)
    both = KnownPorts(granted={NET: {PF0.port_id}}, numbers={PF0.port_id: frozenset({110, 150})})
    assert in_segment(pf(), around=both) == PF0.port_id
    own = KnownPorts(numbers={PF0.port_id: frozenset({110})})
    assert in_segment(pf(), around=own) == PF0.port_id
    function = format_guid(guid_of("fa:16:3e:00:00:01"))
    assert "has not left" in why_not(vf(), around=KnownPorts(numbers={function: frozenset({150})}))


def test_unread_port_is_neither_added_nor_removed() -> None:
    silent, unread = KnownPorts(silent="no master"), KnownPorts(unread={PF0.port_id: "timeout"})
    assert why_not(pf(), around=silent) == why_not(vf(), around=silent) == "no master"
    assert why_not(pf(), around=unread) == "timeout"
    assert in_segment(pf(), around=KnownPorts(granted={NET: {PF0.port_id}}, silent="no master"))


# -- client-ids -------------------------------------------------------------------------------------------------


def test_waiting_and_refused_ports_are_distinguished() -> None:
    silent = KnownPorts(silent="no master")
    assert alone(pf(), around=silent).waits and not alone(pf(host=""), around=silent).waits


@pytest.mark.parametrize(
    ("text", "guid"),
    [
        ("ff:00:00:00:00:00:02:00:00:02:c9:00:7c:fe:90:03:00:29:26:52", 0x7CFE900300292652),
        ("20:01:23:45:00:00:67:89:ab", 0x01234500006789AB),
        ("20:00:11:22:03:00:33:44:56", 0x0011220300334456),
        (" FF:00:00:00:00:00:02:00:00:02:C9:00:7C:FE:90:03:00:29:26:52 ", 0x7CFE900300292652),
        ("7c:fe:90:03:00:29:26:52", None),
        ("", None),
        ("ff:0", None),
    ],
)
def test_guid_is_parsed_from_client_id(text: str, guid: int | None) -> None:
    assert guid_of_client_id(text) == guid


def test_graph_has_one_segment_even_without_members() -> None:
    found = plan(network(pf(), bare("p2")))[NET]
    (segment,) = segment_graph(
        "1f0c9a3b-0000-4000-8000-000000000001", small_site(), "ib", 110, members_of(found)
    ).resources
    assert (segment.name, segment.where, segment.owner) == ("weft-1f0c9a3b-segment", "ib", "site")
    assert segment.spec == SegmentSpec(number=110, members=(Membership(port=PF0.port_id),))
    empty = segment_graph("1f0c9a3b-0000-4000-8000-000000000001", small_site(), "ib", 110, ())
    assert empty.resources[0].spec == SegmentSpec(number=110, members=())


def test_number_outside_wefts_range_gets_no_segment() -> None:
    (found,) = plan(network(pf(), number=300))[NET]
    assert found.why == "the network's VLAN 300 is not within 101 to 226, which weft manages"
    owner = "1f0c9a3b-0000-4000-8000-000000000001"
    assert segment_graph(owner, small_site(), "ib", 300, ()).resources == ()


def test_only_infiniband_serves_tenant_networks() -> None:
    site = small_site()
    for kind, wrong in (
        (FabricKind.INFINIBAND, []),
        (FabricKind.ETHERNET, [("fabrics", "ib", "tenant_networks")]),
    ):
        fabric = site.fabrics["ib"].model_copy(update={"type": kind, "tenant_networks": True})
        found = check_fabric_types(site.model_copy(update={"fabrics": {"ib": fabric}}))
        assert [path for path, _, _ in found if path[-1] == "tenant_networks"] == wrong
