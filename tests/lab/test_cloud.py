"""The lab's cloud with plain openstacksdk: permissions, and whether a server gets its node's own adapters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from keystoneauth1.exceptions import Unauthorized
from openstack import exceptions
from openstack.config import OpenStackConfig
from openstack.connection import Connection

from tests.helpers.waiting import wait_for
from weft.app.sitefile import load_site
from weftlab.config import compute_nodes
from weftlab.lab import Lab
from weftlab.layout import free_ports
from weftlab.processes import everyone, read_records

pytestmark = pytest.mark.cloud

HOST = "gpu03"
SEGMENT = 381
VLAN = 1998


def connect(lab: Lab, name: str) -> Connection:
    """A connection for a profile of the lab's clouds.yaml."""
    clouds = OpenStackConfig(config_files=[str(lab.clouds_yaml)], load_envvars=False)
    return Connection(config=clouds.get_one(cloud=name))


@pytest.fixture
def weft_for_team_a(lab: Lab) -> Connection:
    """weft's service user in the tenant's project, by its inherited roles and not by the tenant's password."""
    return connect(lab, "weft").connect_as_project("team-a")


@pytest.fixture
def server(lab: Lab, weft_for_team_a: Connection) -> Iterator[Any]:
    """An eight-GPU server of team-a with both HCAs of gpu03 and a management port; `.wired` has its ports."""
    cloud = weft_for_team_a
    with ExitStack() as undo:
        networks = []
        for physical, segment, cidr in (("ibnet", SEGMENT, "10.3.0.0/24"), ("physnet1", VLAN, "10.4.0.0/24")):
            network = cloud.network.create_network(
                name=f"lab-test-{physical}",
                provider_network_type="vlan",
                provider_physical_network=physical,
                provider_segmentation_id=segment,
            )
            undo.callback(cloud.network.delete_network, network)
            cloud.network.create_subnet(network_id=network.id, ip_version=4, cidr=cidr, gateway_ip=None)
            networks.append(network)
        ports = [
            cloud.network.create_port(
                network_id=networks[0].id,
                name=f"lab-test-{hca.name}",
                binding_vnic_type="direct-physical",
                port_security_enabled=False,
            )
            for hca in lab.site.node_by_name[HOST].hcas
        ]
        ports.append(cloud.network.create_port(network_id=networks[1].id, name="lab-test-management"))
        for port in ports:
            undo.callback(cloud.network.delete_port, port)
        made: Any = cloud.compute.create_server(
            name="lab-test",
            image_id=cloud.image.find_image("tiny").id,
            flavor_id=cloud.compute.find_flavor("gpu8").id,
            networks=[{"port": p.id} for p in ports],
            host=HOST,
        )
        undo.callback(wait_for, lambda: cloud.compute.find_server(made.id) is None, pause=0.5)
        undo.callback(cloud.compute.delete_server, made)

        def settled() -> Any:
            seen = cloud.compute.get_server(made)
            return seen if seen.status in ("ACTIVE", "ERROR") else None

        yield wait_for(settled, pause=0.5)


def test_all_services_are_up(lab: Lab) -> None:
    """Every service and host of the status, except weft if the lab was started without it."""
    states = lab.status()
    assert [s for s in states if not s.up and s.name != "weft"] == []
    rows = {s.name for s in states}
    assert {f"nova-compute@{n.nova_host}" for n in compute_nodes(lab.site)} <= rows


def test_weft_reads_the_labs_site(lab: Lab) -> None:
    """The file that the lab wrote is valid, and has the hosts that the cloud has."""
    site = load_site(lab.site_path)
    hosts = {n.nova_host for n in compute_nodes(site)}
    services = connect(lab, "weft").compute.services(binary="nova-compute")
    assert {s.host for s in services if s.state == "up"} == hosts


def test_server_lands_on_the_requested_host(lab: Lab, weft_for_team_a: Connection, server: Any) -> None:
    """ACTIVE on gpu03 in team-a's project, with exactly that node's adapters, their VLAN, and ACTIVE ports."""
    assert server.status == "ACTIVE", server.fault
    assert server.compute_host == HOST
    network, node = weft_for_team_a.network, lab.site.node_by_name[HOST]

    def all_active() -> Any:
        ports = list(network.ports(device_id=server.id))
        return ports if len(ports) == len(node.hcas) + 1 and {p.status for p in ports} == {"ACTIVE"} else None

    ports = wait_for(all_active, pause=0.5)
    rdma = [p for p in ports if p.binding_vnic_type == "direct-physical"]
    assert {p.binding_profile["pci_slot"] for p in rdma} == {h.pci for h in node.hcas}
    assert {(p.binding_host_id, p.binding_vif_type) for p in rdma} == {(HOST, "hostdev_physical")}
    assert {p.binding_vif_details["vlan"] for p in rdma} == {str(SEGMENT)}
    assert {p.project_id for p in ports} == {connect(lab, "team-a").current_project_id}
    # Its project sees it, another one doesn't, and weft's user sees it among all.
    assert [s.id for s in connect(lab, "team-a").compute.servers(name="lab-test")] == [server.id]
    assert [s.id for s in connect(lab, "team-a-reader").compute.servers(name="lab-test")] == [server.id]
    assert list(connect(lab, "team-b").compute.servers(name="lab-test")) == []
    audit = connect(lab, "weft")
    assert server.id in {s.id for s in audit.compute.servers(all_projects=True)}
    assert {p.id for p in ports} <= {p.id for p in audit.network.ports()}


def test_tenant_lacks_wefts_permissions(lab: Lab) -> None:
    """Neither member nor reader may choose a P_Key or a host; a reader may create nothing."""
    for name in ("team-a", "team-a-reader"):
        cloud = connect(lab, name)
        with pytest.raises(exceptions.ForbiddenException):
            cloud.network.create_network(
                name="stolen",
                provider_network_type="vlan",
                provider_physical_network="ibnet",
                provider_segmentation_id=SEGMENT,
            )
        with pytest.raises(exceptions.ForbiddenException):
            list(cloud.compute.services())
    reader = connect(lab, "team-a-reader")
    with pytest.raises(exceptions.ForbiddenException):
        reader.network.create_network(name="stolen")
    with pytest.raises(exceptions.ForbiddenException):
        reader.compute.create_server(
            name="stolen",
            image_id=reader.image.find_image("tiny").id,
            flavor_id=reader.compute.find_flavor("cpu1").id,
            networks="none",
        )


def test_neutron_gives_tenants_no_segment_of_weft(lab: Lab) -> None:
    """A tenant's own network is a VXLAN, and VLANs that Neutron chooses are outside of weft's range."""
    tenant, operator = connect(lab, "team-b"), connect(lab, "operator")
    network = tenant.network.create_network(name="own")
    try:
        seen = operator.network.get_network(network)
        assert (seen.provider_network_type, seen.provider_physical_network) == ("vxlan", None)
        segments = lab.site.clouds["lab"].management.segments
        vlan = operator.network.create_network(
            name="vlan", provider_network_type="vlan", provider_physical_network="physnet1"
        )
        assert segments is not None and vlan.provider_segmentation_id not in segments
        operator.network.delete_network(vlan)
    finally:
        tenant.network.delete_network(network)


def test_wefts_user_is_not_an_admin(lab: Lab) -> None:
    """It has role `admin` in no project, and can't create users."""
    audit = connect(lab, "weft")
    identity: Any = audit.identity
    projects = identity.get("/auth/projects").json()["projects"]
    assert {p["name"] for p in projects} >= {"service", "team-a", "team-b"}
    for project in projects:
        token = audit.connect_as_project(project["name"])
        roles = set(token.session.auth.get_access(token.session).role_names)
        assert "weft" in roles and "admin" not in roles
    with pytest.raises(exceptions.ForbiddenException):
        identity.create_user(name="stolen", password="x", domain_id="default")


def test_external_network_gives_floating_ips(lab: Lab) -> None:
    """From the network that the site names."""
    tenant = connect(lab, "team-a")
    external = tenant.network.find_network(lab.site.clouds["lab"].external_network)
    address = tenant.network.create_ip(floating_network_id=external.id)
    try:
        assert address.floating_ip_address.startswith("203.0.113.")
    finally:
        tenant.network.delete_ip(address)


@pytest.mark.nightly(
    reason="minutes of processor time; by day tests/lab/test_cli.py starts and stops a lab with a fabric only"
)
def test_second_lab_is_separate_and_leaves_nothing_behind(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Hosts and tokens of the two clouds are separate; after `down` there are no processes and no used ports."""
    state = tmp_path_factory.mktemp("second")
    second = Lab(state, ports=free_ports(), nodes=2, computes=1, left_out=("weft",), say=print)
    second.up()
    try:
        assert second.up() is False
        assert [s for s in second.status() if not s.up] == []
        theirs = connect(second, "operator")
        hosts = {h.host for h in theirs.compute.services(binary="nova-compute")}
        assert hosts == {"gpu01", "generic1", "poplar1"}
        token = connect(lab, "operator").auth_token
        with pytest.raises(Unauthorized):  # a token of one lab isn't valid in the other
            theirs.session.get(
                second.layout.url("keystone") + "/v3/auth/tokens",
                headers={"X-Auth-Token": token, "X-Subject-Token": token},
                authenticated=False,
            )
        pids = {r.pid for r in read_records(second.layout.run)}
        assert len(pids) > 10
    finally:
        assert second.down() is True
    assert not pids & {p.pid for p in everyone() if p.alive}
    assert second.layout.taken_ports() == {}
    assert not state.exists()
    assert second.down() is False
    assert [s for s in lab.status() if not s.up and s.name != "weft"] == []
