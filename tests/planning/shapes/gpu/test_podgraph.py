"""The graph of a pod: its resources, their dependencies, and that it depends on nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.smallsite import POD_ID, SSH_KEY, order, small_site
from weft.model.errors import ConflictError, InputError
from weft.model.fabrictypes import Mode
from weft.model.order import Order
from weft.model.placement import Explanation, PlacedNode, Placement
from weft.model.plan import Allotment
from weft.model.resources import Graph, Kind, Resource
from weft.model.site import Qos, Site
from weft.model.specs import (
    FloatingIPSpec,
    KeyPairSpec,
    NetworkSpec,
    PortSpec,
    RouterSpec,
    SecurityGroupSpec,
    SegmentSpec,
    ServerSpec,
    SubnetSpec,
)
from weft.planning.shapes.gpu.graph import podgraph
from weft.planning.shapes.graph import in_order

NUMBERS = Allotment(
    segment="0x65",
    rdma_cidr="10.128.0.0/24",
    management_cidr="10.16.0.0/24",
    numbers={"segment/ib": 101, "vlan/main": 1000},
)


def placed(*names: str) -> Placement:
    nodes = tuple(PlacedNode(node=n, rack=None, leaf="leaf01", block="-") for n in names)
    return Placement(nodes=nodes, level="leaf", explanation=Explanation(considered=0))


def graph(ordered: Order, *names: str, site: Site | None = None) -> Graph:
    return podgraph(POD_ID, ordered, placed(*names), NUMBERS, site or small_site(), "main", "ib", "h100.8")


def test_pod_without_router_has_minimal_graph() -> None:
    """Two nodes with four adapters each: a partition, two networks, ten ports, two servers."""
    keys = [r.key for r in graph(order(2), "gpu01", "gpu02").resources]
    ports = [
        f"port/{n}/{p}"
        for n in ("gpu01", "gpu02")
        for p in ("management", "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3")
    ]
    assert sorted(keys) == sorted(
        [
            "partition",
            "network/rdma",
            "subnet/rdma",
            "network/management",
            "subnet/management",
            "security_group",
            *ports,
            "server/gpu01",
            "server/gpu02",
        ]
    )


def test_dependencies_exist_and_come_first() -> None:
    """In the list every dependency comes before its dependents."""
    ordered = order(2, access={"floating_ip": "each", "ssh_key": f"{SSH_KEY} me@home"})
    seen: set[str] = set()
    for resource in graph(ordered, "gpu01", "gpu02").resources:
        assert set(resource.needs) <= seen, resource.key
        seen.add(resource.key)


def test_partition_has_exactly_the_nodes_adapters() -> None:
    """All adapters of the nodes on the fabric, sorted, and no others; the resource's place is the fabric."""
    resource = graph(order(2), "gpu02", "gpu01").by_key()["partition"]
    spec = resource.spec
    assert isinstance(spec, SegmentSpec)
    site = small_site()
    wanted = sorted((h.port_id, Mode.FULL) for n in ("gpu01", "gpu02") for h in site.node_by_name[n].hcas)
    assert (resource.where, spec.number, spec.named) == ("ib", 101, "P_Key 0x65")
    assert [(m.port, m.mode) for m in spec.members] == wanted


def test_fewer_adapters_mean_fewer_ports_and_the_same_members() -> None:
    """Nova chooses the function of a port, so all of the node's adapters stay members."""
    ordered = order(1, fabric={"hcas_per_node": 1})
    found = graph(ordered, "gpu01").by_key()
    assert {k for k in found if k.startswith("port/")} == {"port/gpu01/management", "port/gpu01/mlx5_0"}
    segment = found["partition"].spec
    assert isinstance(segment, SegmentSpec)
    assert len(segment.members) == 4


def test_networks_and_subnets_match_the_fabric() -> None:
    """The RDMA network's segment is the P_Key; it has no DHCP, gateway or port security."""
    found = graph(order(1), "gpu01").by_key()
    assert found["network/rdma"].spec == NetworkSpec(
        physical_network="physnet-ib", segment=101, port_security=False
    )
    assert found["network/management"].spec == NetworkSpec(
        physical_network="physnet-mgmt", segment=1000, port_security=True
    )
    assert found["subnet/rdma"].spec == SubnetSpec(
        network="network/rdma", cidr="10.128.0.0/24", gateway=False, dhcp=False
    )
    assert found["subnet/management"].spec == SubnetSpec(
        network="network/management",
        cidr="10.16.0.0/24",
        gateway=False,
        dhcp=True,
        pool=("10.16.0.2", "10.16.0.15"),
    )


def test_rdma_network_has_the_fabrics_mtu() -> None:
    """Its own, else that of the fabric's settings for RoCE, else Neutron's default."""
    site = small_site()
    for fields, mtu in (({}, None), ({"qos": Qos(mtu=4200)}, 4200), ({"qos": Qos(), "mtu": 4000}, 4000)):
        fabric = site.fabrics["ib"].model_copy(update=fields)
        changed = site.model_copy(update={"fabrics": {**site.fabrics, "ib": fabric}})
        spec = graph(order(1), "gpu01", site=changed).by_key()["network/rdma"].spec
        assert isinstance(spec, NetworkSpec) and spec.mtu == mtu
        assert (f"MTU {mtu}" in spec.summary()) == (mtu is not None)


def test_ports_have_address_host_and_vnic_type() -> None:
    """Management ports are filtered; adapters are passed through whole, with consecutive addresses."""
    found = graph(order(2), "gpu01", "gpu02").by_key()
    assert found["port/gpu02/management"].spec == PortSpec(
        network="network/management",
        subnet="subnet/management",
        address="10.16.0.17",
        vnic_type="normal",
        security_groups=("security_group",),
        host="gpu02",
    )
    assert found["port/gpu02/mlx5_1"].spec == PortSpec(
        network="network/rdma",
        subnet="subnet/rdma",
        address="10.128.0.6",
        vnic_type="direct-physical",
        host="gpu02",
    )


def test_server_has_its_ports_in_order_and_waits_for_the_partition() -> None:
    """Management first, then the adapters by number."""
    ordered = order(1, access={"key_pair": "k", "user_data": "#cloud-config\n"})
    server = graph(ordered, "gpu01").by_key()["server/gpu01"]
    spec = server.spec
    assert isinstance(spec, ServerSpec)
    ports = ("port/gpu01/management", *(f"port/gpu01/mlx5_{i}" for i in range(4)))
    assert (spec.ports, spec.host, spec.flavor, spec.image) == (ports, "gpu01", "h100.8", "ubuntu")
    assert (spec.key_pair, spec.user_data) == ("key_pair", "#cloud-config")
    assert set(server.needs) == {"partition", "key_pair", *ports}


def test_key_pair_has_the_key_without_comment() -> None:
    """weft's mark replaces the comment. Without a key there is no resource."""
    key = graph(order(1, access={"ssh_key": f"{SSH_KEY} me@home"}), "gpu01").by_key()["key_pair"]
    assert key.spec == KeyPairSpec(public_key=SSH_KEY)
    assert "key_pair" not in graph(order(1), "gpu01").by_key()


def test_ssh_sources_are_sorted_and_unique() -> None:
    """The same sources in another order give the same security group."""
    ordered = order(1, access={"ssh_from": ["203.0.113.0/24", "9.0.0.0/8", "203.0.113.0/24"]})
    assert graph(ordered, "gpu01").by_key()["security_group"].spec == SecurityGroupSpec(
        ssh_from=("9.0.0.0/8", "203.0.113.0/24")
    )


@pytest.mark.parametrize(
    ("parts", "router", "floating"),
    [
        ({}, False, []),
        ({"network": {"router": True}}, True, []),
        ({"access": {"floating_ip": "first"}}, True, ["floating_ip/gpu02"]),
        ({"access": {"floating_ip": "each"}}, True, ["floating_ip/gpu01", "floating_ip/gpu02"]),
    ],
)
def test_floating_ip_implies_a_router(parts: dict[str, Any], router: bool, floating: list[str]) -> None:
    """None, one on the first node, or one on each; with a router the management subnet has its gateway."""
    found = graph(order(2, **parts), "gpu02", "gpu01").by_key()
    assert ("router" in found) is router
    assert sorted(k for k in found if k.startswith("floating_ip/")) == floating
    subnet = found["subnet/management"].spec
    assert isinstance(subnet, SubnetSpec)
    assert subnet.gateway is router
    if router:
        assert found["router"].spec == RouterSpec(external_network="public", subnets=("subnet/management",))
    for key in floating:
        node = key.partition("/")[2]
        assert found[key].spec == FloatingIPSpec(external_network="public", port=f"port/{node}/management")
        assert set(found[key].needs) == {"router", f"port/{node}/management"}


def test_router_without_external_network_is_refused() -> None:
    """The field of the floating IP is named."""
    site = small_site()
    cloud = site.clouds["main"].model_copy(update={"external_network": None})
    without = site.model_copy(update={"clouds": {"main": cloud}})
    with pytest.raises(
        InputError, match=r"access.floating_ip: 'first' .* cloud main has no external network"
    ):
        graph(order(1, access={"floating_ip": "first"}), "gpu01", site=without)


def test_names_combine_pod_id_and_key() -> None:
    """After a lost answer a resource is found by this name; servers are found by their marks only."""
    for resource in graph(order(1), "gpu01").resources:
        named = resource.kind is Kind.SERVER
        assert resource.name == ("p-0" if named else f"weft-1f0c9a3b-{resource.key.replace('/', '-')}")
        assert resource.where == ("ib" if resource.kind is Kind.SEGMENT else "main")


def test_replacement_changes_no_other_address() -> None:
    """gpu09 for gpu02 in the middle: no other resource but the partition changes."""
    before = graph(order(3), "gpu01", "gpu02", "gpu03").by_key()
    after = graph(order(3), "gpu01", "gpu09", "gpu03").by_key()
    changed = {k for k in before if before[k] != after.get(k)}
    assert changed == {"partition"} | {k for k in before if "gpu02" in k}


def test_nodes_with_unequal_adapters_keep_address_strides() -> None:
    """A node with one adapter and one with four: addresses are unique, and only existing adapters are members."""
    site = small_site()
    poor = site.node_by_name["gpu02"].model_copy(update={"hcas": site.node_by_name["gpu02"].hcas[:1]})
    mixed = site.model_copy(update={"nodes": tuple(poor if n.name == "gpu02" else n for n in site.nodes)})
    found = graph(order(3), "gpu01", "gpu02", "gpu03", site=mixed)
    addresses = [
        r.spec.address
        for r in found.resources
        if isinstance(r.spec, PortSpec) and r.spec.vnic_type != "normal"
    ]
    assert len(addresses) == len(set(addresses)) == 9
    port = found.by_key()["port/gpu03/mlx5_0"].spec
    assert isinstance(port, PortSpec)
    assert port.address == "10.128.0.9"
    segment = found.by_key()["partition"].spec
    assert isinstance(segment, SegmentSpec)
    assert len(segment.members) == 9


def test_node_missing_from_the_site_is_a_conflict() -> None:
    """The graph of an undescribed node can't be computed."""
    with pytest.raises(ConflictError, match="node gpu99 of pod p is no longer in site small"):
        graph(order(1), "gpu99")
    with pytest.raises(ConflictError, match="node gpu01 of pod p has 4 adapters on fabric ib"):
        graph(order(1, fabric={"hcas_per_node": 5}), "gpu01")


def test_circular_dependencies_are_detected() -> None:
    """Such a fault of the program raises an error instead of an endless loop."""
    spec = SecurityGroupSpec(ssh_from=())
    a = Resource(key="a", name="a", where="main", needs=("b",), spec=spec)
    b = Resource(key="b", name="b", where="main", needs=("a",), spec=spec)
    with pytest.raises(ValueError, match="circular"):
        in_order([a, b])
