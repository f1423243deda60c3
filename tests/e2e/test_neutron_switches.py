"""Ethernet ports on the lab's real Neutron: switched by networking-generic-switch with weft's drivers, and VF-LAG."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

import openstack
import pytest
from openstack.connection import Connection

from tests.drivers.switches.rigs import scope
from tests.e2e.people import connection, wait_for
from tests.e2e.switchedneutron import VLAN, adapter, operator_of, read_switches, switched_neutron
from weft.drivers.openstack.base import Call
from weft.drivers.openstack.port import Ports
from weft.drivers.switches import EthernetFabric
from weft.model.fabric import Membership
from weft.model.fabrictypes import FabricKind, Mode
from weft.model.resources import Resource, Status
from weft.model.specs import PortSpec, SegmentSpec
from weftlab import config
from weftlab.lab import Lab
from weftlab.switches.hosts import Reach
from weftlab.switches.labsite import FABRIC, PHYSICAL_NETWORK, host_name, lab_ovs

pytestmark = [pytest.mark.cloud, pytest.mark.landing]

MEMBERS = ("roce01", "roce03")
"""On both leaves, which are an Arista's and a Cumulus Linux's interface."""


@pytest.fixture(scope="module")
def neutron(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Generator[Callable[[], Connection]]:
    """Connections of an administrator to the Neutron that sets switches."""
    with switched_neutron(lab, tmp_path_factory.mktemp("neutron")) as url:
        yield lambda: operator_of(lab, url)


@pytest.fixture
def fabric(lab: Lab) -> Generator[EthernetFabric]:
    with read_switches(lab) as driver:
        yield driver


def plugged(neutron: Connection, network: str, port: str, name: str) -> Any:
    """A port of a machine, with the switch port that it is cabled to, as Ironic creates it."""
    switch, _, end = port.partition("/")
    link = {"switch_id": "00:00:00:00:00:00", "switch_info": switch, "port_id": end}
    return neutron.network.create_port(
        network_id=network,
        name=name,
        binding_vnic_type="baremetal",
        binding_host_id=str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
        binding_profile={"local_link_information": [link]},
        device_owner="baremetal:none",
        is_port_security_enabled=False,
    )


@contextlib.contextmanager
def network_of(cloud: Connection) -> Generator[Any]:
    """On the VLAN; gone in the end, if the test has not deleted it."""
    made = cloud.network.create_network(
        name="lab-test-machines",
        provider_network_type="vlan",
        provider_physical_network=PHYSICAL_NETWORK,
        provider_segmentation_id=VLAN,
    )
    try:
        yield made
    finally:
        cloud.network.delete_network(made, ignore_missing=True)


def wanted(lab: Lab) -> Resource:
    members = tuple(
        Membership(port=p, mode=Mode.ACCESS) for p in sorted(adapter(lab, node) for node in MEMBERS)
    )
    spec = SegmentSpec(number=VLAN, fabric_type=FabricKind.ETHERNET, members=members)
    return Resource(key="partition", name="weft-partition", where=FABRIC, spec=spec)


def spec_of(resource: Resource) -> SegmentSpec:
    assert isinstance(resource.spec, SegmentSpec)
    return resource.spec


AT_NIGHT = pytest.mark.nightly(
    reason="a Neutron of its own; by day generic-switch sets the same switches by weft's drivers, and Neutron is a fake"
)


@AT_NIGHT
def test_neutron_configures_switches_and_weft_verifies_them(
    lab: Lab, neutron: Callable[[], Connection], fabric: EthernetFabric
) -> None:
    """From Neutron's port to frames and back: ACTIVE, one VLAN on two vendors' switches, none once the port is gone."""
    cloud, resource = neutron(), wanted(lab)
    spaces = [host_name(node, "mlx5_0") for node in MEMBERS]
    rogue = {space: f"10.129.0.{n}/24" for n, space in enumerate(spaces, 1)}
    pairs = {(spaces[0], "10.129.0.2"), (spaces[1], "10.129.0.1")}
    reach, pod = Reach(lab_ovs(lab.layout)), scope()
    with ExitStack() as undo:
        network = undo.enter_context(network_of(cloud))
        assert fabric.create(pod, [resource], {})["partition"].error is None
        seen = fabric.check(spec_of(resource), fabric.snapshot())
        assert len(seen.problems) == len(MEMBERS), "weft itself sets nothing here"
        ports = [plugged(cloud, network.id, adapter(lab, node), f"lab-test-{node}") for node in MEMBERS]
        for port in ports:
            undo.callback(cloud.network.delete_port, port.id, ignore_missing=True)
        wait_for(lambda: {cloud.network.get_port(p.id).status for p in ports} == {"ACTIVE"}, 60)
        assert {cloud.network.get_port(p.id).binding_vif_type for p in ports} == {"other"}
        assert fabric.check(spec_of(resource), fabric.snapshot()).problems == ()
        assert fabric.find(pod, [resource], {})["partition"].status is Status.SETTLED
        undo.enter_context(reach.taken(rogue))
        assert reach.awaited(pairs, 40) == pairs

        cloud.network.delete_port(ports[0].id)
        wait_for(lambda: not in_vlan(fabric, adapter(lab, MEMBERS[0])), 60)
        assert reach.answered(pairs) == set()
        assert "not clean" in {i.result for i in fabric.clean(spec_of(resource), fabric.snapshot()).items}
        cloud.network.delete_port(ports[1].id)
        wait_for(lambda: not in_vlan(fabric, adapter(lab, MEMBERS[1])), 60)
        assert {i.result for i in fabric.clean(spec_of(resource), fabric.snapshot()).items} == {"clean"}
        assert reach.answered(pairs) == set(), "parked ports are in no used VLAN"
        cloud.network.delete_network(network)
        assert VLAN not in fabric.snapshot().carriers, "links between switches carry it no longer"


def in_vlan(fabric: EthernetFabric, end: str) -> bool:
    return VLAN in fabric.snapshot().ends[end].numbers


@AT_NIGHT
def test_missing_switch_port_binds_no_neutron_port(
    lab: Lab, neutron: Callable[[], Connection], fabric: EthernetFabric
) -> None:
    """Neutron says so: never ACTIVE; and no other port is changed for it."""
    cloud = neutron()
    with ExitStack() as undo:
        network = undo.enter_context(network_of(cloud))
        before = fabric.snapshot().ends
        with contextlib.suppress(openstack.exceptions.HttpException):
            undo.callback(
                cloud.network.delete_port,
                plugged(cloud, network.id, "tor01/Ethernet99", "lab-test-nowhere").id,
            )
        time.sleep(3)
        assert [p.status for p in cloud.network.ports(network_id=network.id)] in ([], ["DOWN"])
        assert fabric.snapshot().ends == before


@pytest.mark.parametrize(("switchdev", "vif"), [(True, "ovs"), (False, "hw_veb")])
def test_function_behind_an_embedded_switch_is_bound_by_open_vswitch(
    lab: Lab, switchdev: bool, vif: str
) -> None:
    """By the request that weft makes (VF-LAG), and bound as Nova does it; any other function by the SR-IOV agent."""
    own = connection(lab, "weft").connect_as_project("team-a")
    node = lab.site.node_by_name[MEMBERS[0]]
    with ExitStack() as undo:
        network = undo.enter_context(network_of(own))
        subnet = own.network.create_subnet(
            network_id=network.id, ip_version=4, cidr="10.130.0.0/24", gateway_ip=None, enable_dhcp=False
        )
        spec = PortSpec(
            network="n",
            subnet="s",
            address="10.130.0.5",
            vnic_type="direct",
            host=node.nova_host,
            switchdev=switchdev,
        )
        ids = {"n": network.id, "s": subnet.id}
        body = Ports().body(
            cast(Call, SimpleNamespace(id_of=ids.__getitem__)),
            Resource(key="port/x", name="weft-port", where="lab", spec=spec),
        )
        made: Any = own.network.post("/ports", json={"port": body})
        assert made.status_code == 201, made.text
        port = made.json()["port"]
        undo.callback(own.network.delete_port, port["id"])
        assert (port["binding:profile"].get("capabilities") == ["switchdev"]) is switchdev
        slot = {"pci_slot": "0000:40:00.2", "pci_vendor_info": "15b3:101e"}
        profile = {**port["binding:profile"], **slot, "physical_network": PHYSICAL_NETWORK}
        bound = {
            "binding:host_id": node.nova_host,
            "binding:profile": profile,
            "device_owner": "compute:nova",
        }
        bound["device_id"] = str(uuid.uuid4())
        freed = {"binding:host_id": "", "device_owner": "", "device_id": ""}
        binder: Any = nova(lab).network
        undo.callback(binder.put, f"/ports/{port['id']}", json={"port": freed})
        answer = binder.put(f"/ports/{port['id']}", json={"port": bound})
        assert answer.status_code == 200, answer.text
        port = answer.json()["port"]
        assert port["binding:vif_type"] == vif, port
        assert port["binding:vif_details"].get("vlan", str(VLAN)) == str(VLAN)
        wait_for(lambda: own.network.get_port(port["id"]).status == "ACTIVE", 90)


def nova(lab: Lab) -> Connection:
    """Nova's own account: a port's binding is its to write, and not an administrator's."""
    login = config.login(lab.layout, "nova")
    region = login.pop("region_name")
    return openstack.connect(auth_type=login.pop("auth_type"), auth=login, region_name=region)
