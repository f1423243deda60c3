"""The graph of what a site needs in its clouds: an IPU-POD64 from its hardware list, and who may reach what."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

from weft.app.hardwarelists import read_lists
from weft.app.siteimport import import_site
from weft.model.errors import InputError
from weft.model.site import PRIVILEGED, Site, SiteNetwork
from weft.model.specs import NetworkSpec, PortSpec, RouterSpec, SecurityGroupSpec, SubnetSpec
from weft.planning.site.graph import site_graph

HARDWARE = Path(__file__).parents[3] / "examples" / "hardware"
PROJECTS = ("1" * 32, "2" * 32)


@cache
def ipupod64() -> Site:
    errors: list[InputError] = []
    records = read_lists([str(HARDWARE / "ipupod64.csv")], {}, errors)
    return import_site(str(HARDWARE / "ipupod64.yaml"), records, errors).site


def with_network(**fields: object) -> Site:
    network = SiteNetwork.model_validate({"cloud": "main", "physical_network": "physnet-data", **fields})
    site = ipupod64()
    return site.model_copy(update={"networks": {**site.networks, "more": network}})


def subnet(role: str, **more: object) -> dict[str, object]:
    return {"role": role, "addresses": "10.9.0.0/16", "dhcp": False, **more}


def test_every_listed_mac_has_a_port() -> None:
    """Except RNICs, whose network is made for each pod."""
    site = ipupod64()
    ports = [r for r in site_graph(site).resources if isinstance(r.spec, PortSpec)]
    listed = {m.bmc_mac for m in site.ipu_machines} | {m.gw_mac for m in site.ipu_machines}
    listed |= {i.mac for i in site.interfaces}
    assert {p.spec.mac for p in ports if isinstance(p.spec, PortSpec)} == listed
    names = [p.spec.dns_name for p in ports if isinstance(p.spec, PortSpec)]
    assert len(set(names)) == len(names) and {"lr75-ipum1-bmc", "lr75-ipum16-gw", "poplar4-bmc"} <= set(names)
    assert {p.owner for p in ports} == {"site"} and {p.where for p in ports} == {"main"}


def test_graph_is_deterministic_and_ordered_by_dependencies() -> None:
    site = ipupod64()
    again = site.model_copy(update={"networks": dict(reversed(list(site.networks.items())))})
    graph = site_graph(site)
    assert graph == site_graph(again)
    seen: set[str] = set()
    for resource in graph.resources:
        assert seen.issuperset(resource.needs)
        seen.add(resource.key)


def test_privileged_networks_are_not_shared_and_groups_are_closed() -> None:
    """Only what the reference design names is open; ports of hardware aren't filtered."""
    site = ipupod64()
    resources = site_graph(site).by_key()
    for name, network in site.networks.items():
        spec = resources[f"network/{name}"].spec
        assert isinstance(spec, NetworkSpec)
        assert {s.role for s in network.subnets.values()} <= PRIVILEGED and spec.shared_with == ()
    for role in ("bmc", "gateway", "infrastructure"):
        group = resources[f"security_group/main/{role}"].spec
        assert isinstance(group, SecurityGroupSpec)
        assert group.egress and group.ssh_from == () and group.shared_with == ()
        assert {i.port for i in group.ingress} <= {514, 162}
        assert all(e.to != "0.0.0.0/0" for e in group.egress)


def test_gpu_site_networks_are_in_the_graph() -> None:
    """RBAC by name, NAT by a router, no port security for RDMA, the external network, the untagged network."""
    storage = with_network(
        vlan=12, mtu=9000, shared_with=list(reversed(PROJECTS)), subnets={"nas": subnet("storage")}
    )
    resources = site_graph(storage).by_key()
    network, group = resources["network/more"].spec, resources["security_group/main/storage"].spec
    assert isinstance(network, NetworkSpec) and isinstance(group, SecurityGroupSpec)
    assert network.shared_with == group.shared_with == PROJECTS and network.mtu == 9000
    assert group.ingress == () and {e.port for e in group.egress or ()} == {2049, 111}
    data = site_graph(with_network(vlan=11, subnets={"ipu": subnet("data")})).by_key()["network/more"].spec
    assert isinstance(data, NetworkSpec) and not data.port_security
    routed = subnet("tenant", gateway="10.9.0.1", nat=True)
    router = site_graph(with_network(vlan=14, subnets={"t": routed})).by_key()["router/more"]
    assert isinstance(router.spec, RouterSpec) and router.spec.external_network == "public"
    assert router.needs == ("subnet/more/t",)
    flat = site_graph(with_network(subnets={"out": subnet("external", gateway="10.9.0.1")})).by_key()
    outside, one = flat["network/more"].spec, flat["subnet/more/out"].spec
    assert isinstance(outside, NetworkSpec) and isinstance(one, SubnetSpec)
    assert outside.external and outside.segment is None and one.gateway_address == "10.9.0.1"


def test_external_gateway_address_is_reserved_on_shared_networks() -> None:
    """By a port with only this address; not needed with a router of the site, or if the network isn't shared."""

    def kept(shared: tuple[str, ...], nat: bool) -> list[PortSpec]:
        one = subnet("storage", gateway="10.9.0.1", nat=nat)
        graph = site_graph(with_network(vlan=12, shared_with=list(shared), subnets={"nas": one}))
        return [
            r.spec for r in graph.resources if r.key.startswith("gateway/") and isinstance(r.spec, PortSpec)
        ]

    (port,) = kept(PROJECTS, nat=False)
    assert (port.network, port.subnet, port.address) == ("network/more", "subnet/more/nas", "10.9.0.1")
    assert (port.mac, port.dns_name, port.host) == (None, None, "")
    assert kept((), nat=False) == kept(PROJECTS, nat=True) == []


def test_router_depends_on_the_sites_external_network() -> None:
    site = with_network(vlan=14, subnets={"t": subnet("tenant", gateway="10.9.0.1", nat=True)})
    public = SiteNetwork.model_validate(
        {
            "cloud": "main",
            "physical_network": "ext",
            "subnets": {"p": {**subnet("external"), "addresses": "192.0.2.0/24"}},
        }
    )
    site = site.model_copy(update={"networks": {**site.networks, "public": public}})
    router = site_graph(site).by_key()["router/more"]
    assert {"network/public", "subnet/public/p"} <= set(router.needs)


def test_rnics_have_ports_where_the_site_describes_their_network() -> None:
    """As a data network that isn't made for each pod."""
    site = with_network(vlan=11, subnets={"ipu": {**subnet("data"), "addresses": "10.5.1.0/24"}})
    kinds = Counter(
        r.key.rpartition("/")[2] for r in site_graph(site).resources if isinstance(r.spec, PortSpec)
    )
    assert kinds["rnic"] == kinds["gw"] == 16


def test_site_without_networks_needs_nothing() -> None:
    site = ipupod64().model_copy(update={"networks": {}, "interfaces": ()})
    assert site_graph(site).resources == ()
