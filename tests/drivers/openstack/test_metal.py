"""Servers through Ironic without Nova: one instance on one machine, whatever is lost, late, duplicated or
another's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.drivers.openstack.metalrig import AT, IDS, MACHINE, SCOPE, STEPS, Rig
from tests.drivers.openstack.metalrig import house as house
from tests.drivers.openstack.metalrig import rig as rig
from tests.drivers.openstack.tinycloud import PROJECT, Reply
from tests.drivers.openstack.tinyironic import NODE
from weft.app import tenanttext
from weft.drivers.openstack.networkdata import network_data
from weft.model.errors import NotYetError, OutsideError, TemporaryError, WeftError
from weft.model.owner import Owner
from weft.model.resources import Resource, Status
from weft.model.specs import PortSpec

OTHER = replace(SCOPE, owner=Owner.pod("99999999-1111-2222-3333-444444444444"))


def test_machine_is_assigned_connected_deployed_and_torn_down(rig: Rig) -> None:
    rig.claim()
    rig.ironic.asked.clear()
    server = rig.create().id
    assert server is not None and server == f"{rig.node['instance_uuid']}@{NODE}"
    assert rig.changes() == [
        f"PATCH {AT}",
        f"POST {AT}/vifs",
        f"POST {AT}/vifs",
        f"PUT {AT}/states/provision",
    ]
    info = rig.node["instance_info"]
    assert info["image_source"] == "image-1" and "project_id" not in info, (
        "the tenant doesn't become the lessee"
    )
    (sent,) = rig.ironic.provisioned
    assert sent["target"] == "active"
    drive = sent["configdrive"]
    assert drive["meta_data"]["public_keys"] == {"weft-key": "ssh-ed25519 AAAA weft"}
    assert drive["meta_data"]["uuid"] == rig.node["instance_uuid"]
    assert drive["user_data"] == "#!/bin/sh"
    first, second = drive["network_data"]["links"]
    assert (first["ethernet_mac_address"], second["ethernet_mac_address"]) == (
        "02:00:00:00:b0:01",
        "00:02:c9:50:00:01",
    )
    management, rdma = drive["network_data"]["networks"]
    assert management["type"] == "ipv4_dhcp" and "ip_address" not in management
    assert (rdma["type"], rdma["ip_address"], rdma["netmask"]) == ("ipv4", "10.1.0.5", "255.255.255.0")
    assert (rig.see(server).status, rig.see(server).reason) == (Status.PENDING, "deploying")
    rig.ironic.deployed(NODE)
    seen = rig.see(server)
    assert (seen.status, seen.differences, seen.facts["status"]) == (Status.SETTLED, (), "ACTIVE")
    assert rig.delete(server) is None
    assert rig.see(server).status is Status.PENDING
    assert rig.delete(server) is None, "a second deletion is no error"
    rig.ironic.torn_down(NODE)
    proof = rig.see(server)
    assert proof.status is Status.ABSENT
    assert "its machine is cleaning, with no instance; conductor ironic1 is alive" in proof.reason


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("lost", ["before", "after"])
def test_any_lost_answer_leaves_one_instance_deployed_once(rig: Rig, step: str, lost: str) -> None:
    """`before`: the request didn't arrive; `after`: it took effect. In both cases the loop asks again."""
    rig.claim()
    pattern = STEPS[step]
    if lost == "before":
        rig.ironic.lies = [(pattern, Reply(502, "bad gateway", "text/html", own=False))]
        error = rig.create().error
        assert error is not None
        rig.ironic.lies = []
    else:
        rig.ironic.losing = [pattern]
        error = rig.create().error
    first = rig.node["instance_uuid"]
    seen = rig.see()
    assert seen.there == (first is not None)
    made = rig.create()
    assert made.error is None or isinstance(made.error, NotYetError), made.error
    assert first in (None, rig.node["instance_uuid"])
    assert rig.ironic.attached[NODE] == ["port-1", "port-2"]
    assert rig.node["provision_state"] == "deploying"
    assert sum(line == STEPS["the deployment"] for line in rig.changes()) <= 2
    rig.ironic.deployed(NODE)
    seen = rig.see()
    assert (seen.status, seen.differences) == (Status.SETTLED, ())


def test_next_worker_completes_an_interrupted_deployment(rig: Rig) -> None:
    rig.claim()
    rig.ironic.lies = [(STEPS["the first port"], Reply(500, "{}", own=False))]
    assert rig.create().error is not None
    rig.ironic.lies = []
    seen = rig.see()
    assert seen.id is not None and [d.field for d in seen.differences] == ["deployed"]
    assert rig.update(seen.id) is None
    assert rig.see(seen.id).reason == "deploying"


def test_undeployed_instance_is_removed(rig: Rig) -> None:
    rig.claim()
    rig.ironic.lies = [(STEPS["the deployment"], Reply(500, "{}", own=False))]
    assert rig.create().error is not None
    rig.ironic.lies = []
    assert rig.delete() is None
    assert (rig.node["instance_uuid"], rig.node["instance_info"], rig.ironic.attached[NODE]) == (None, {}, [])
    assert rig.see().status is Status.ABSENT
    machine = rig.driver.delete(SCOPE, [MACHINE], {})[MACHINE.key].error
    assert machine is None and rig.node["extra"] == {}


def test_quicker_competitor_keeps_the_machine(rig: Rig) -> None:
    """Another Nova takes the node between weft's look and its change, so Ironic answers 409."""
    rig.claim()
    theirs = "77777777-0000-4000-8000-000000000000"

    def another() -> None:
        rig.node.update(instance_uuid=theirs, instance_info={"display_name": "theirs"})

    rig.ironic.asides = [(STEPS["the machine given"], another)]
    error = rig.create().error
    assert isinstance(error, TemporaryError) and theirs in str(error)
    assert rig.node["instance_info"] == {"display_name": "theirs"} and rig.ironic.attached.get(NODE, []) == []
    assert rig.see().status is Status.ABSENT
    assert isinstance(rig.create().error, TemporaryError)
    assert rig.delete() is None and rig.node["instance_uuid"] == theirs
    (one,) = rig.facts.on_hosts([NODE])[NODE].occupants
    assert one.runs and one.text() == f"server {theirs}@{NODE} 'theirs' (by Ironic)"


@pytest.mark.parametrize(
    ("change", "kind", "why"),
    [
        ({"provision_state": "cleaning"}, NotYetError, "in state cleaning"),
        ({"provision_state": "clean failed", "last_error": "disk sda"}, TemporaryError, "disk sda"),
        ({"provision_state": "manageable"}, TemporaryError, "in state manageable"),
        ({"provision_state": "error"}, TemporaryError, "in state error"),
        ({"maintenance": True, "maintenance_reason": "bad fan"}, TemporaryError, "in maintenance: bad fan"),
        ({"instance_uuid": "srv-9"}, TemporaryError, "has instance srv-9"),
        ({"power_state": None}, TemporaryError, "power state is unknown"),
        ({"extra": {}}, TemporaryError, "doesn't carry this pod's mark"),
        ({"extra": {"weft": OTHER.mark("machine/bm01").text()}}, TemporaryError, "this pod's mark"),
    ],
)
def test_machine_not_free_or_not_the_pods_gets_no_server(
    rig: Rig, change: dict[str, Any], kind: type[WeftError], why: str
) -> None:
    rig.claim()
    rig.node.update(change)
    rig.ironic.asked.clear()
    error = rig.create().error
    assert isinstance(error, kind) and why in str(error)
    alarming = isinstance(error, TemporaryError) and error.alarming
    assert alarming == ("provision_state" in change and kind is TemporaryError)
    assert rig.changes() == []


def test_ports_left_by_another_are_detached_before_it_is_deployed(rig: Rig) -> None:
    rig.claim()
    rig.ironic.attached[NODE] = ["port-of-another"]
    assert rig.create().error is None
    assert rig.ironic.attached[NODE] == ["port-1", "port-2"]


def test_port_without_an_adapter_of_its_own_takes_no_rails(rig: Rig) -> None:
    """If management and rails are on one physical network, Ironic uses the first free port for a port without an
    adapter.
    """
    rig.claim()
    rail, boot = rig.ironic.ports[1], {"uuid": "nic-boot", "node_uuid": NODE, "address": "02:00:00:00:b0:09"}
    rig.ironic.ports = [rail, boot]
    made = rig.create()
    assert made.error is None, made.error
    assert rig.ironic.at == {"port-1": "nic-boot", "port-2": rail["uuid"]}


def test_failed_deployment_is_broken_with_ironics_reason_and_removable(rig: Rig) -> None:
    rig.claim()
    server = rig.create().id
    assert server is not None
    rig.node.update(provision_state="deploy failed", last_error="Timeout reached while waiting for callback")
    seen = rig.see(server)
    assert (seen.status, seen.reason) == (
        Status.BROKEN,
        "deploy failed: Timeout reached while waiting for callback",
    )
    assert rig.delete(server) is None
    assert rig.see(server).status is Status.PENDING


@pytest.mark.parametrize("state", ["wait call-back", "rescue wait", "service wait"])
def test_server_whose_agent_never_boots_is_deleted(rig: Rig, state: str) -> None:
    """As after a rescue right before the lease's end: Ironic waits half an hour for the agent."""
    rig.claim()
    server = rig.create().id
    rig.node.update(provision_state=state)
    assert rig.delete(server) is None
    assert rig.node["provision_state"] == "deleting"


def test_ironic_lock_is_waited_for(rig: Rig) -> None:
    rig.claim()
    rig.node["reservation"] = "ironic1"
    assert isinstance(rig.create().error, NotYetError)
    rig.node["reservation"] = None
    assert rig.create().error is None


@pytest.mark.parametrize("state", ["clean failed", "manageable", "error"])
def test_machine_broken_before_its_deployment_is_an_alarm(rig: Rig, state: str) -> None:
    """Waiting doesn't help, a person must act."""
    rig.claim()
    rig.ironic.asides = [(STEPS["the machine given"], lambda: rig.node.update(provision_state=state))]
    rig.ironic.lies = [(STEPS["the machine given"], Reply(409, {"error_message": "no"}))]
    error = rig.create().error
    assert isinstance(error, TemporaryError) and error.alarming and not isinstance(error, NotYetError)


def test_deletion_waits_while_ironic_works_on_the_node(rig: Rig) -> None:
    rig.claim()
    server = rig.create().id
    assert isinstance(rig.delete(server), NotYetError)
    rig.ironic.deployed(NODE)
    rig.ironic.lies = [(STEPS["the deployment"], Reply(409, {"error_message": "Node is locked"}))]
    rig.node["reservation"] = "ironic1"
    assert isinstance(rig.delete(server), NotYetError)


@pytest.mark.parametrize("attached", [["port-1", "port-2"], []])
def test_late_worker_leaves_the_next_pods_instance(rig: Rig, attached: list[str]) -> None:
    """It is delayed while it reads the attached ports, or after the first port; the machine is given to the next
    pod.
    """
    rig.claim()
    rig.ironic.lies = [(STEPS["the deployment"], Reply(500, "{}", own=False))]
    assert rig.create().error is not None
    rig.ironic.lies, rig.ironic.attached[NODE] = [], list(attached)
    theirs = {"instance_uuid": "theirs", "instance_info": {"display_name": "theirs"}}
    step = f"DELETE {AT}/vifs/port-1" if attached else f"GET {AT}/vifs"
    rig.ironic.asides = [(step, lambda: rig.node.update(theirs))]
    error = rig.delete()
    assert isinstance(error, TemporaryError) and "another instance by now" in str(error)
    assert {k: rig.node[k] for k in theirs} == theirs
    assert rig.ironic.attached[NODE] == attached[1:]


def test_late_worker_neither_deletes_nor_deploys_the_next_pods_server(rig: Rig) -> None:
    server = rig.running()

    def another() -> None:
        rig.node.update(instance_uuid="theirs")

    rig.node["console_enabled"] = True
    rig.ironic.asides = [(f"PUT {AT}/states/console", another)]
    assert "another instance by now" in str(rig.delete(server))
    assert rig.node["provision_state"] == "active"
    rig.node.update(instance_uuid=None, provision_state="available")
    rig.ironic.attached[NODE] = ["port-1", "port-2"]
    rig.ironic.asides = [(f"GET {AT}/vifs", another)]
    assert "another instance by now" in str(rig.create().error)
    assert rig.node["provision_state"] == "available"


@pytest.mark.parametrize("state", ["available", "active"])
def test_worker_that_lost_its_pod_while_reading_removes_nothing(rig: Rig, state: str) -> None:
    rig.running()
    rig.node["provision_state"] = state
    lost: list[bool] = []

    def fence() -> None:
        if lost:
            raise RuntimeError("another worker has it")

    def lose() -> None:
        rig.ironic.asides = [(f"GET {AT}", lambda: lost.append(True))]

    rig.ironic.asides = [(f"GET {AT}", lose)]  # the second reading is the last one before the request
    rig.ironic.asked.clear()
    with pytest.raises(RuntimeError, match="another worker"):
        rig.delete(scope=replace(SCOPE, fence=fence))
    assert rig.changes() == []


def test_config_drive_has_routes_and_names_for_subnets_without_dhcp() -> None:
    subnet = {
        "id": "s",
        "ip_version": 4,
        "cidr": "10.64.0.0/24",
        "enable_dhcp": False,
        "gateway_ip": "10.64.0.1",
        "host_routes": [{"destination": "10.9.0.0/16", "nexthop": "10.64.0.2"}],
        "dns_nameservers": ["9.9.9.9"],
    }
    port = {"id": "p", "mac_address": "02:00:00:00:00:01", "network_id": "n"}
    port |= {
        "fixed_ips": [{"subnet_id": s, "ip_address": a} for s, a in (("s", "10.64.0.5"), ("v6", "fd00::5"))]
    }
    six = {**subnet, "id": "v6", "ip_version": 6, "cidr": "fd00::/64"}
    data = network_data([port], {"n": {"mtu": 9000}}, {"s": subnet, "v6": six})
    assert data["links"] == [
        {
            "id": "iface0",
            "type": "phy",
            "ethernet_mac_address": "02:00:00:00:00:01",
            "vif_id": "p",
            "mtu": 9000,
        }
    ]
    (one,) = data["networks"]
    assert one["routes"] == [
        {"network": "10.9.0.0", "netmask": "255.255.0.0", "gateway": "10.64.0.2"},
        {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.64.0.1"},
    ]
    assert data["services"] == [{"type": "dns", "address": "9.9.9.9"}]


def test_machines_port_is_freed_before_it_is_deleted(rig: Rig) -> None:
    """Projects may not delete ports of machines in Neutron, and Ironic's teardown leaves `device_owner` set."""
    mark = SCOPE.mark("port/bm01/mlx5_0").text()
    common = {"project_id": PROJECT, "description": mark, "created_at": "2026-11-22T20:00:00Z"}
    port = next(p for p in rig.ironic.things["ports"] if p["id"] == "port-2")
    port |= {**common, "device_owner": "baremetal:none", "device_id": "an-instance"}
    spec = PortSpec(network="n", subnet="s", address="10.1.0.5", vnic_type="baremetal", host=NODE)
    wanted = Resource(key="port/bm01/mlx5_0", name="port-2", where="lab", spec=spec)
    assert rig.driver.delete(SCOPE, [wanted], IDS)[wanted.key].error is None
    changes = [line for line in rig.ironic.asked if line.endswith("/ports/port-2") and "GET" not in line]
    assert [line.split()[0] for line in changes] == ["PUT", "DELETE"]


def test_tenant_sees_a_machines_request_and_state(rig: Rig) -> None:
    """As for a server through Nova: which server, and what Ironic is doing with it."""
    rig.claim()
    rig.ironic.lies = [(STEPS["the machine given"], Reply(503, {"error_message": "down"}))]
    error = rig.create().error
    assert isinstance(error, TemporaryError)
    asked = tenanttext.failure(error)[0]
    assert asked == "create server weft-00000000-server-bm01"
    rig.ironic.lies = []
    made = rig.create()
    assert made.id is not None, made.error
    server = made.id
    assert tenanttext.step(rig.see(server).reason, at_rest=False) == "deploying"
    assert tenanttext.failure(_failure(rig.delete(server)))[0] == asked.replace("create", "delete")


def _failure(error: WeftError | None) -> OutsideError:
    assert isinstance(error, OutsideError)
    return error
