"""Servers straight through Ironic: one instance on one machine, whatever is lost, late, twice, or somebody else's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, tiny_cloud
from tests.drivers.openstack.tinyironic import NODE, TinyIronic
from weft.app import sayings
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.drivers.openstack.lookups import Lookups
from weft.drivers.openstack.networkdata import network_data
from weft.model.errors import (
    ConflictError,
    InputError,
    NotYetError,
    OutsideError,
    PermanentError,
    TemporaryError,
    UnknownError,
    WeftError,
)
from weft.model.order import NodesOrder, Order
from weft.model.owner import Owner
from weft.model.resources import Observed, Outcome, Resource, Status
from weft.model.specs import MachineSpec, PortSpec, ServerSpec
from weft.ports.occupants import Ended, OnHost
from weft.ports.resources import Scope
from weft.ports.servers import Action

SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
OTHER = replace(SCOPE, owner=Owner.pod("99999999-1111-2222-3333-444444444444"))
MACHINE = Resource(
    key="machine/bm01", name="weft-00000000-machine-bm01", where="lab", spec=MachineSpec(machine=NODE)
)
SERVER = Resource(
    key="server/bm01",
    name="weft-00000000-server-bm01",
    where="lab",
    spec=ServerSpec(
        host=NODE,
        bare_metal=True,
        by="ironic",
        flavor="metal8",
        image="tiny",
        key_pair="key_pair",
        user_data="#!/bin/sh",
        ports=("port/bm01/management", "port/bm01/mlx5_0"),
    ),
)
IDS = {"port/bm01/management": "port-1", "port/bm01/mlx5_0": "port-2", "key_pair": "weft-key"}
AT = f"/baremetal/v1/nodes/{NODE}"
STEPS = {
    "the machine given": f"PATCH {AT}",
    "the first port": f"POST {AT}/vifs",
    "the deployment": f"PUT {AT}/states/provision",
}


OWN, KERNEL = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
"""Images: the tenant's, and what is a part of it."""
STOLEN = "66666666-2222-3333-4444-555555555555"
"""Another tenant's image, which is shared with weft's project."""


@dataclass(frozen=True)
class Rig:
    ironic: TinyIronic
    driver: OpenStackDriver
    facts: OpenStackFacts
    sessions: Sessions

    @property
    def node(self) -> dict[str, Any]:
        return self.ironic.nodes[NODE]

    def take(self, scope: Scope = SCOPE) -> None:
        outcome = self.driver.create(scope, [MACHINE], {})[MACHINE.key]
        assert outcome.error is None, outcome.error

    def create(self, scope: Scope = SCOPE) -> Outcome:
        return self.driver.create(scope, [SERVER], IDS)[SERVER.key]

    def see(self, server: str | None = None, scope: Scope = SCOPE) -> Observed:
        ids = {**IDS, SERVER.key: server} if server else IDS
        return self.driver.find(scope, [SERVER], ids)[SERVER.key]

    def update(self, server: str) -> WeftError | None:
        return self.driver.update(SCOPE, [SERVER], {**IDS, SERVER.key: server})[SERVER.key].error

    def delete(self, server: str | None = None, scope: Scope = SCOPE) -> WeftError | None:
        ids = {**IDS, SERVER.key: server} if server else IDS
        return self.driver.delete(scope, [SERVER], ids)[SERVER.key].error

    def give_back(self) -> WeftError | None:
        return self.driver.delete(SCOPE, [MACHINE], {})[MACHINE.key].error

    def running(self) -> str:
        self.take()
        made = self.create()
        assert made.id is not None, made.error
        self.ironic.deployed(NODE)
        return made.id

    def forget_images(self) -> None:
        self.driver._lookups = Lookups()  # pyright: ignore[reportPrivateUsage] - they are remembered for a minute

    def changes(self) -> list[str]:
        return [line for line in self.ironic.asked if not line.startswith("GET") and "baremetal" in line]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tiny_cloud(TinyIronic) as (cloud, text):
        assert isinstance(cloud, TinyIronic)
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions, machines=True)
        facts = OpenStackFacts(sessions, machines=[NODE], site="lab", by_ironic=True)
        yield Rig(cloud, driver, facts, sessions)
        driver.close()
        sessions.close()


@pytest.fixture
def rig(house: Rig) -> Rig:
    ironic = house.ironic
    ironic.reset()
    house.forget_images()
    ironic.things["images"] = [{"id": "image-1", "name": "tiny", "status": "active"}]
    ironic.things["keypairs"] = [{"id": "weft-key", "public_key": "ssh-ed25519 AAAA weft"}]
    macs = {"port-1": "02:00:00:00:b0:01", "port-2": "00:02:c9:50:00:01"}
    ironic.things["ports"] = [
        {
            "id": i,
            "name": i,
            "mac_address": m,
            "network_id": f"net-{i}",
            "fixed_ips": [{"subnet_id": f"sub-{i}", "ip_address": "10.1.0.5"}],
        }
        for i, m in macs.items()
    ]
    ironic.things["networks"] = [{"id": f"net-{i}", "name": i, "mtu": 1500} for i in macs]
    ironic.things["subnets"] = [
        {
            "id": f"sub-{i}",
            "name": i,
            "ip_version": 4,
            "cidr": "10.1.0.0/24",
            "enable_dhcp": i == "port-1",
            "gateway_ip": None,
            "host_routes": [],
            "dns_nameservers": [],
        }
        for i in macs
    ]
    ironic.ports = [{"uuid": f"nic-{i}", "node_uuid": NODE, "address": m} for i, m in macs.items()]
    return house


VM_HOST = {
    "id": "hv-1",
    "hypervisor_hostname": "gpu01",
    "state": "up",
    "service": {"host": "gpu01"},
    "cpu_info": {"arch": "x86_64"},
    "servers": [{"uuid": "vm-1", "name": "train-1"}],
}


def new_facts(rig: Rig, *machines: str) -> OpenStackFacts:
    """Of a process that has listed nothing yet; the cloud has a virtual machine."""
    rig.ironic.things["hypervisors"] = [VM_HOST]
    rig.ironic.things["flavors"] = [{"id": "gpu", "name": "gpu", "extra_specs": {}}]
    return OpenStackFacts(rig.sessions, machines=machines, site="lab", by_ironic=True)


def test_a_machine_is_given_connected_deployed_and_torn_down(rig: Rig) -> None:
    rig.take()
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
    assert info["image_source"] == "image-1" and "project_id" not in info, "the tenant becomes no lessee"
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
    assert rig.delete(server) is None, "twice is once"
    rig.ironic.torn_down(NODE)
    proof = rig.see(server)
    assert proof.status is Status.ABSENT
    assert "its machine is cleaning, with no instance; conductor ironic1 is alive" in proof.reason


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("lost", ["before", "after"])
def test_whatever_answer_is_lost_there_is_one_instance_deployed_once(rig: Rig, step: str, lost: str) -> None:
    """`before`: the request never arrived. `after`: it took effect. Either way the loop asks again."""
    rig.take()
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


def test_a_worker_that_dies_after_the_machine_was_given_leaves_what_the_next_one_completes(rig: Rig) -> None:
    rig.take()
    rig.ironic.lies = [(STEPS["the first port"], Reply(500, "{}", own=False))]
    assert rig.create().error is not None
    rig.ironic.lies = []
    seen = rig.see()
    assert seen.id is not None and [d.field for d in seen.differences] == ["deployed"]
    assert rig.update(seen.id) is None
    assert rig.see(seen.id).reason == "deploying"


def test_what_was_given_and_never_deployed_is_taken_off_again(rig: Rig) -> None:
    rig.take()
    rig.ironic.lies = [(STEPS["the deployment"], Reply(500, "{}", own=False))]
    assert rig.create().error is not None
    rig.ironic.lies = []
    assert rig.delete() is None
    assert (rig.node["instance_uuid"], rig.node["instance_info"], rig.ironic.attached[NODE]) == (None, {}, [])
    assert rig.see().status is Status.ABSENT
    machine = rig.driver.delete(SCOPE, [MACHINE], {})[MACHINE.key].error
    assert machine is None and rig.node["extra"] == {}


def test_another_who_is_quicker_keeps_the_machine(rig: Rig) -> None:
    """Somebody's Nova takes the node between weft's look and its change: Ironic answers 409."""
    rig.take()
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
def test_a_machine_that_is_not_the_pods_and_free_gets_no_server(
    rig: Rig, change: dict[str, Any], kind: type[WeftError], why: str
) -> None:
    rig.take()
    rig.node.update(change)
    rig.ironic.asked.clear()
    error = rig.create().error
    assert isinstance(error, kind) and why in str(error)
    alarming = isinstance(error, TemporaryError) and error.alarming
    assert alarming == ("provision_state" in change and kind is TemporaryError)
    assert rig.changes() == []


@pytest.mark.parametrize(
    ("image", "node", "wanted"),
    [
        ({}, {}, {}),
        ({"hw_firmware_type": "uefi"}, {}, {"capabilities": {"boot_mode": "uefi"}}),
        ({"os_secure_boot": "required"}, {}, {"capabilities": {"secure_boot": "true"}}),
        ({"trait:CUSTOM_NVME": "required", "trait:X": "forbidden"}, {}, {"traits": ["CUSTOM_NVME"]}),
        ({"kernel_id": KERNEL, "ramdisk_id": KERNEL}, {"properties": {"local_gb": "1000"}}, {"root_gb": 999}),
        ({"kernel_id": KERNEL, "ramdisk_id": KERNEL}, {"deploy_interface": "ramdisk"}, {}),
        ({"img_type": "partition"}, {"properties": {"local_gb": "1000"}}, {"root_gb": 999}),
        ({"ramdisk_id": KERNEL}, {"properties": {"local_gb": "1000"}}, {"root_gb": 999}),
        ({"img_type": "whole-disk", "kernel_id": KERNEL, "ramdisk_id": KERNEL}, {}, {}),
    ],
)
def test_an_image_says_how_it_is_deployed(
    rig: Rig, image: dict[str, Any], node: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """Whole disk, partition, ramdisk, boot mode, secure boot, traits."""
    rig.ironic.things["images"] = [
        {"id": f"image-{'-'.join(image)}", "name": "special", "status": "active", **image}
    ]
    rig.ironic.readers = {KERNEL: {PROJECT}}
    rig.take()
    rig.node.update(node)
    spec = SERVER.spec.model_copy(update={"image": "special"})
    rig.forget_images()
    made = rig.driver.create(SCOPE, [SERVER.model_copy(update={"spec": spec})], IDS)[SERVER.key]
    assert made.error is None, made.error
    info = rig.node["instance_info"]
    told = ("capabilities", "traits", "root_gb")
    assert {name: info[name] for name in told if name in info} == wanted


LATE = {"kernel_id": STOLEN, "ramdisk_id": STOLEN, "boot_iso_id": STOLEN, "img_type": "partition"}
"""What a tenant writes into its image after weft has checked it."""


@pytest.mark.parametrize(
    ("image", "interface", "booted"),
    [
        ({}, "direct", {"image_source": OWN, "image_type": "whole-disk"}),
        (
            {"img_type": "whole-disk", "kernel_id": KERNEL},
            "direct",
            {"image_source": OWN, "image_type": "whole-disk"},
        ),
        (
            {"kernel_id": KERNEL, "ramdisk_id": KERNEL},
            "direct",
            {"image_source": OWN, "image_type": "partition", "kernel": KERNEL, "ramdisk": KERNEL},
        ),
        ({"kernel_id": KERNEL, "ramdisk_id": KERNEL}, "ramdisk", {"kernel": KERNEL, "ramdisk": KERNEL}),
        ({"boot_iso_id": KERNEL}, "ramdisk", {"boot_iso": KERNEL}),
    ],
)
def test_what_a_tenant_changes_in_its_image_after_it_was_checked_is_not_booted(
    rig: Rig, image: dict[str, str], interface: str, booted: dict[str, str]
) -> None:
    """Ironic reads the properties itself when it deploys, with weft's rights."""
    row = with_image(rig, interface, image)
    rig.ironic.asides = [(STEPS["the deployment"], lambda: row.update(LATE))]
    made = rig.create()
    assert made.error is None, made.error
    rig.ironic.deployed(NODE)
    info = rig.node["instance_info"]
    given = ("image_source", "image_type", "kernel", "ramdisk", "boot_iso")
    assert {name: info[name] for name in given if name in info} == booted
    seen = rig.see(made.id)
    assert (seen.status, seen.differences, seen.facts["image"]) == (Status.SETTLED, (), OWN), seen.reason


def test_a_server_that_boots_what_weft_did_not_check_is_broken(rig: Rig) -> None:
    with_image(rig, "ramdisk", {"kernel_id": KERNEL, "ramdisk_id": KERNEL})
    made = rig.create()
    rig.ironic.deployed(NODE)
    rig.node["instance_info"]["kernel"] = STOLEN
    seen = rig.see(made.id)
    assert (seen.status, seen.reason) == (
        Status.BROKEN,
        f"Ironic boots what weft didn't check: kernel {STOLEN}",
    )
    assert rig.delete(made.id) is None and rig.node["provision_state"] == "deleting"


@pytest.mark.parametrize(
    "image", [{}, {"kernel_id": KERNEL}, {"img_type": "whole-disk", "ramdisk_id": KERNEL}]
)
def test_a_machine_that_boots_a_ramdisk_takes_no_image_without_one(rig: Rig, image: dict[str, str]) -> None:
    """Ironic would take what the image has by the time that it deploys."""
    with_image(rig, "ramdisk", image)
    error = rig.create().error
    assert isinstance(error, PermanentError) and "no kernel_id and ramdisk_id" in str(error)
    assert rig.node["instance_uuid"] is None


@pytest.mark.parametrize("interface", ["anaconda", "autodetect"])
def test_an_interface_that_goes_by_an_images_properties_takes_only_images_of_wefts_project(
    rig: Rig, interface: str
) -> None:
    row = with_image(rig, interface, {"kernel_id": KERNEL, "ramdisk_id": KERNEL, "owner": "p2"})
    error = rig.create().error
    assert isinstance(error, PermanentError) and f"deploy interface {interface}" in str(error)
    assert rig.node["instance_uuid"] is None
    row["owner"] = PROJECT
    rig.forget_images()
    assert rig.create().error is None


def with_image(rig: Rig, interface: str, image: dict[str, str]) -> dict[str, Any]:
    """The pod's machine has this deploy interface, and the image these properties. Returns the image."""
    row = {"id": OWN, "name": "tiny", "status": "active", **image}
    rig.ironic.things["images"], rig.ironic.readers = [row], {KERNEL: {PROJECT}}
    rig.take()
    rig.forget_images()
    rig.node.update(deploy_interface=interface, properties={"local_gb": "1000"})
    return row


def test_a_partition_for_a_machine_with_an_unknown_disk_is_refused_and_nothing_taken(rig: Rig) -> None:
    rig.ironic.things["images"] = [{"id": "image-p", "name": "part", "status": "active", "kernel_id": KERNEL}]
    rig.ironic.readers = {KERNEL: {PROJECT}}
    rig.take()
    rig.forget_images()
    spec = SERVER.spec.model_copy(update={"image": "part"})
    error = rig.driver.create(SCOPE, [SERVER.model_copy(update={"spec": spec})], IDS)[SERVER.key].error
    assert isinstance(error, PermanentError) and "set properties/local_gb" in str(error)
    assert rig.node["instance_uuid"] is None


def test_ports_left_by_another_are_detached_before_it_is_deployed(rig: Rig) -> None:
    rig.take()
    rig.ironic.attached[NODE] = ["port-of-another"]
    assert rig.create().error is None
    assert rig.ironic.attached[NODE] == ["port-1", "port-2"]


def test_a_port_without_an_adapter_of_its_own_takes_no_rails(rig: Rig) -> None:
    """Management and rails may be on one physical network: Ironic takes the first that is free for a port without."""
    rig.take()
    rail, boot = rig.ironic.ports[1], {"uuid": "nic-boot", "node_uuid": NODE, "address": "02:00:00:00:b0:09"}
    rig.ironic.ports = [rail, boot]
    made = rig.create()
    assert made.error is None, made.error
    assert rig.ironic.at == {"port-1": "nic-boot", "port-2": rail["uuid"]}


def test_a_deployment_that_failed_is_broken_with_irons_reason_and_can_be_removed(rig: Rig) -> None:
    rig.take()
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


def test_a_lock_of_ironics_is_waited_for(rig: Rig) -> None:
    rig.take()
    rig.node["reservation"] = "ironic1"
    assert isinstance(rig.create().error, NotYetError)
    rig.node["reservation"] = None
    assert rig.create().error is None


@pytest.mark.parametrize("state", ["clean failed", "manageable", "error"])
def test_a_machine_that_is_broken_by_the_time_it_is_deployed_is_an_alarm(rig: Rig, state: str) -> None:
    """Waiting helps nothing: a person must look at it."""
    rig.take()
    rig.ironic.asides = [(STEPS["the machine given"], lambda: rig.node.update(provision_state=state))]
    rig.ironic.lies = [(STEPS["the machine given"], Reply(409, {"error_message": "no"}))]
    error = rig.create().error
    assert isinstance(error, TemporaryError) and error.alarming and not isinstance(error, NotYetError)


def test_what_ironic_works_on_is_deleted_later(rig: Rig) -> None:
    rig.take()
    server = rig.create().id
    assert isinstance(rig.delete(server), NotYetError)
    rig.ironic.deployed(NODE)
    rig.ironic.lies = [(STEPS["the deployment"], Reply(409, {"error_message": "Node is locked"}))]
    rig.node["reservation"] = "ironic1"
    assert isinstance(rig.delete(server), NotYetError)


@pytest.mark.parametrize(
    "lie",
    [
        Reply(404, {"error_message": f"Node {NODE} could not be found."}),
        Reply(404, "<html>no such page</html>", "text/html", own=False),
        Reply(200, {}),
        Reply(200, {"uuid": "another", "provision_state": "available", "instance_uuid": None}),
        Reply(200, {"uuid": NODE, "provision_state": "available"}),
        Reply(503, "", own=False),
    ],
)
def test_no_answer_without_the_node_makes_a_server_absent(rig: Rig, lie: Reply) -> None:
    server = rig.running()
    rig.ironic.lies = [(f"GET {AT}", lie)]
    with pytest.raises(UnknownError):
        rig.see(server)


def test_without_a_conductor_nothing_is_absent(rig: Rig) -> None:
    server = rig.running()
    rig.ironic.torn_down(NODE)
    rig.ironic.conductors = [{"hostname": "ironic1", "alive": False}]
    with pytest.raises(UnknownError, match="none that is alive"):
        rig.see(server)
    assert "none that is alive" in rig.facts.on_hosts([NODE])[NODE].unknown


def test_a_mark_that_was_taken_off_is_a_difference_and_put_back(rig: Rig) -> None:
    server = rig.running()
    del rig.node["instance_info"]["weft"]
    seen = rig.see(server)
    assert seen.there and [d.field for d in seen.differences] == ["mark"]
    assert rig.update(server) is None
    assert rig.see(server).differences == ()


def test_a_machine_that_is_off_or_lost_a_port_differs(rig: Rig) -> None:
    server = rig.running()
    rig.node["power_state"] = "power off"
    rig.ironic.attached[NODE] = ["port-1"]
    assert sorted(d.field for d in rig.see(server).differences) == ["ports", "status"]


def _gone(rig: Rig) -> None:
    rig.ironic.torn_down(NODE)


def _another(rig: Rig) -> None:
    rig.ironic.torn_down(NODE)
    rig.node.update(provision_state="active", instance_uuid="another")


def _unnamed(rig: Rig) -> None:
    rig.node.update(instance_uuid=None)


def _forgotten(rig: Rig) -> None:
    del rig.ironic.nodes[NODE]


@pytest.mark.parametrize(
    ("done", "how"),
    [
        (_gone, Ended.DESTROYED),
        (_another, Ended.UNKNOWN),
        (_unnamed, Ended.NOT_DESTROYED),
        (lambda rig: None, Ended.NOT_DESTROYED),
        (_forgotten, Ended.UNKNOWN),
    ],
)
def test_how_a_server_ended_is_read_of_its_machine(rig: Rig, done: Callable[[Rig], None], how: Ended) -> None:
    server = rig.running()
    done(rig)
    ending = rig.facts.endings(PROJECT, [server])[server]
    assert (ending.how, ending.by) == (how, "Ironic")


@pytest.mark.parametrize(
    ("state", "how"),
    [
        *((s, Ended.NOT_DESTROYED) for s in ("rescue wait", "rescue failed", "unrescue failed", "servicing")),
        *((s, Ended.NOT_DESTROYED) for s in ("deploy failed", "deleting", "error", "a state of tomorrow")),
        *((s, Ended.UNKNOWN) for s in ("enroll", "manageable", "adopting")),
        *((s, Ended.DESTROYED) for s in ("cleaning", "clean failed", "available")),
    ],
)
def test_a_server_was_destroyed_where_only_a_teardown_leads(rig: Rig, state: str, how: Ended) -> None:
    """Its id may have been taken off by hand, or the node been enrolled again, while it ran."""
    server = rig.running()
    rig.node.update(instance_uuid=None, provision_state=state)
    assert rig.facts.endings(PROJECT, [server])[server].how is how


SECOND = "5c435abb-55d9-5c17-8131-5edcbcd52778"
ANSWERS = {
    "an outage": Reply(503, {"error_message": "busy"}),
    "a node without its instance": Reply(200, {"nodes": [{"uuid": NODE, "provision_state": "available"}]}),
    "a node without its state": Reply(200, {"nodes": [{"uuid": NODE}]}),
    "no nodes": Reply(200, {"error": "proxy"}),
}


@pytest.mark.parametrize("lie", ANSWERS.values(), ids=ANSWERS.keys())
def test_virtual_machines_hosts_are_listed_whatever_ironic_answers(rig: Rig, lie: Reply) -> None:
    rig.ironic.lies = [("GET /baremetal/v1/nodes", lie)]
    seen = new_facts(rig, NODE).servers_on_hosts()
    assert seen[NODE].unknown and seen[NODE].by == "Ironic"
    assert [o.id for o in seen["gpu01"].occupants] == ["vm-1"] and not seen["gpu01"].unknown


def test_one_node_in_another_shape_is_unknown_alone(rig: Rig) -> None:
    rows = [{"uuid": NODE, "provision_state": "available"}, {**rig.node, "uuid": SECOND}]
    rig.ironic.lies = [("GET /baremetal/v1/nodes", Reply(200, {"nodes": rows}))]
    seen = new_facts(rig, NODE, SECOND).servers_on_hosts()
    assert "without instance_uuid" in seen[NODE].unknown
    assert seen[SECOND] == OnHost(by="Ironic")


def test_what_an_image_needs_of_virtual_machines_hosts_is_known_while_ironic_is_away(
    rig: Rig,
) -> None:
    """A flavor that only the site has is for machines: nothing is known then."""
    rig.ironic.things["images"] = [
        {"id": "image-t", "name": "picky", "status": "active", "trait:CUSTOM_NVME": "required"}
    ]
    rig.ironic.lies = [
        ("GET /baremetal/.*", Reply(503, {"error_message": "busy"})),
        ("GET /placement/.*", Reply(200, {"resource_providers": []})),
    ]
    facts = new_facts(rig, NODE)
    unfit = facts.unfit(PROJECT, "picky", "gpu")
    assert "busy" in unfit[NODE] and "CUSTOM_NVME" in unfit["gpu01"]
    with pytest.raises(OutsideError, match="busy"):
        facts.unfit(PROJECT, "picky", "metal8")


def test_an_image_that_weft_itself_can_not_read_is_refused_until_it_is_shared(rig: Rig) -> None:
    """Ironic reads it with weft's rights, and would refuse it only after the machine was taken."""
    image = {"id": "11111111-2222-3333-4444-555555555555", "name": "mine", "status": "active"}
    rig.ironic.things["images"] = [image]
    read = f"GET /image/images/{image['id']}"
    nodes = NodesOrder(kind="bare_metal", count=1, flavor="m", image="mine")
    order, facts = Order(name="train", nodes=nodes), new_facts(rig, NODE)
    rig.ironic.lies = [(read, Reply(404, f"<body>No image found with ID {image['id']}</body>"))]
    with pytest.raises(InputError, match=f"shared with weft's project {PROJECT}") as refused:
        facts.check_order(PROJECT, order, "m")
    assert (refused.value.field, refused.value.value) == ("nodes.image", "mine")
    rig.ironic.lies = [(read, Reply(503, "busy"))]
    with pytest.raises(OutsideError):
        facts.check_order(PROJECT, order, "m")
    rig.ironic.lies = [(read, Reply(200, image))]
    facts.check_order(PROJECT, order, "m")


READERS = {
    "another tenant's, shared with weft's project": {PROJECT},
    "its own, not shared with weft's project": {"p2"},
    "nobody's": set[str](),
}


@pytest.mark.parametrize("name", ["kernel_id", "ramdisk_id", "boot_iso_id", "stage2_id"])
@pytest.mark.parametrize("readers", READERS.values(), ids=READERS.keys())
def test_an_image_lends_its_tenant_no_image_that_it_can_not_read_itself(
    rig: Rig, name: str, readers: set[str]
) -> None:
    """Ironic follows an image's properties with weft's rights, and their tenant writes what it likes into them."""
    rig.ironic.served, rig.ironic.readers = {"p2"}, {KERNEL: readers, OWN: {PROJECT, "p2"}}
    rig.ironic.things["images"] = [{"id": OWN, "name": "mine", "status": "active", name: KERNEL}]
    nodes = NodesOrder(kind="bare_metal", count=1, flavor="m", image="mine")
    with pytest.raises(InputError, match=f"it has {name} {KERNEL}, an image that"):
        new_facts(rig, NODE).check_order("p2", Order(name="train", nodes=nodes), "m")
    rig.take()
    rig.forget_images()
    rig.ironic.things["images"][0]["name"] = "tiny"
    error = rig.create(replace(SCOPE, project_id="p2")).error
    assert isinstance(error, PermanentError) and f"{name} {KERNEL}" in str(error)
    assert rig.node["instance_uuid"] is None, "no machine is taken for it"
    rig.ironic.readers[KERNEL] = {PROJECT, "p2"}
    rig.ironic.things["images"][0]["name"] = "mine"
    new_facts(rig, NODE).check_order("p2", Order(name="train", nodes=nodes), "m")


@pytest.mark.parametrize("part", ["file:///etc/ironic/ironic.conf", "http://10.0.0.1/", "other", ["x"]])
def test_a_part_of_an_image_that_is_no_image_is_refused(rig: Rig, part: object) -> None:
    """Ironic would fetch it, from inside of the cloud."""
    rig.ironic.readers = {OWN: {PROJECT}}
    image = {"id": OWN, "name": "mine", "status": "active", "kernel_id": part}
    rig.ironic.things["images"] = [image]
    nodes = NodesOrder(kind="bare_metal", count=1, flavor="m", image="mine")
    with pytest.raises(InputError, match="which is no image's id"):
        new_facts(rig, NODE).check_order(PROJECT, Order(name="train", nodes=nodes), "m")


def test_what_is_on_machines_is_ironics_word_and_nova_is_not_asked(rig: Rig) -> None:
    server = rig.running()
    (one,) = rig.facts.on_hosts([NODE])[NODE].occupants
    assert (one.id, one.name) == (server, SERVER.name)
    listed = rig.facts.servers_on_hosts()
    assert NODE in listed
    rig.ironic.torn_down(NODE)
    seen = rig.facts.on_hosts([NODE])[NODE]
    assert (seen.occupants, seen.busy, seen.by) == ((), "Ironic has it in state cleaning", "Ironic")
    assert not any("os-hypervisors/" in line and NODE in line for line in rig.ironic.asked)


def test_a_machine_that_ironic_does_not_have_is_unknown(rig: Rig) -> None:
    del rig.ironic.nodes[NODE]
    assert "not in Ironic" in rig.facts.on_hosts([NODE])[NODE].unknown


def test_an_audit_sees_it_and_removes_it_by_its_mark(rig: Rig) -> None:
    server = rig.running()
    rig.ironic.things["keypairs"] = []  # Nova lists them in another shape than it shows one
    found = [m for m in rig.driver.marked("lab", []) if m.kind == "server"]
    assert [(m.id, m.owner, m.facts["key"]) for m in found] == [(server, SCOPE.owner, SERVER.key)]
    assert rig.driver.remove_marked(found)[server].error is None
    assert rig.node["provision_state"] == "deleting"


def test_what_booted_is_told_by_ironic(rig: Rig) -> None:
    server = rig.running()
    early, late = datetime(2026, 11, 22, 19, 0, tzinfo=UTC), datetime(2026, 11, 22, 23, 0, tzinfo=UTC)

    def built(since: datetime) -> set[str]:
        return set(rig.facts.built(since, lambda: [server]))

    assert built(early) == {server} and built(late) == set()
    rig.node["provision_state"] = "deploy failed"
    assert built(early) == {server}
    for state in ("deploying", "rescue", "available"):  # the last: given to it, and not deployed yet
        rig.node["provision_state"] = state
        assert built(early) == set()
    rig.node.update(provision_state="active", provision_updated_at=None)
    assert built(early) == set(), "it would be asked for every second"
    rig.node.update(instance_uuid="another", provision_updated_at="2026-11-22T20:00:01+00:00")
    assert built(early) == set()


def test_what_booted_is_asked_of_ironic_only_where_it_is_awaited_and_not_of_all_machines(rig: Rig) -> None:
    server = rig.running()
    rig.ironic.nodes |= {f"other-{i}": {**rig.node, "uuid": f"other-{i}"} for i in range(50)}
    rig.ironic.asked.clear()
    assert rig.facts.built(datetime(2026, 11, 22, 19, 0, tzinfo=UTC), list) == set()
    assert not [line for line in rig.ironic.asked if "baremetal" in line]
    assert rig.facts.built(datetime(2026, 11, 22, 19, 0, tzinfo=UTC), lambda: [server]) == {server}
    asked = [line for line in rig.ironic.asked if "baremetal" in line]
    assert len(asked) == 4 and f"GET {AT}" in asked


@pytest.mark.parametrize(("away", "left"), [("compute", True), ("baremetal", False)])
def test_what_booted_is_told_of_one_service_while_the_other_is_away(rig: Rig, away: str, left: bool) -> None:
    server, since = rig.running(), datetime(2026, 11, 22, 19, 0, tzinfo=UTC)
    rig.ironic.things["servers"] = [{"id": "vm-1", "status": "ACTIVE"}]
    assert rig.facts.built(since, lambda: [server]) == {server, "vm-1"}
    rig.ironic.lies = [(f"GET /{away}/.*", Reply(503, {"error_message": "busy"}))]
    assert rig.facts.built(since, lambda: [server]) == ({server} if left else {"vm-1"})
    with pytest.raises(OutsideError, match="busy"):
        rig.ironic.lies = [("GET .*", Reply(503, {"error_message": "busy"}))]
        rig.facts.built(since, lambda: [server])


def test_a_tenants_actions_go_to_the_machine_while_it_is_its_server(rig: Rig) -> None:
    server = rig.running()
    assert rig.facts.act(PROJECT, server, Action.REBOOT) is None
    assert f"PUT {AT}/states/power" in rig.ironic.asked
    rig.ironic.torn_down(NODE)
    rig.ironic.asked.clear()
    for action in Action:
        with pytest.raises(ConflictError, match="another instance or none") as refused:
            rig.facts.act(PROJECT, server, action)
        told = sayings.conflict(str(refused.value))
        assert told.startswith(f"the cloud refuses to {action} server {server.split('@')[0]} now"), told
    with pytest.raises(ConflictError, match="another instance or none") as refused:
        rig.facts.console(PROJECT, server, serial=True)
    assert NODE not in sayings.conflict(str(refused.value)), "no tenant is told which machine it is"
    assert rig.changes() == []


def test_a_rescue_has_a_password_that_is_shown_once(rig: Rig) -> None:
    server = rig.running()
    rig.ironic.lies = [(STEPS["the deployment"], Reply(202))]
    first, second = (rig.facts.act(PROJECT, server, Action.RESCUE) for _ in range(2))
    assert first and second and first != second and len(first) >= 20


@pytest.mark.parametrize(
    ("reply", "url"),
    [
        (
            {"console_enabled": True, "console_info": {"type": "shellinabox", "url": "http://c:1"}},
            "http://c:1",
        ),
        ({"console_enabled": False, "console_info": None}, None),
    ],
)
def test_a_console_is_ironics(rig: Rig, reply: dict[str, Any], url: str | None) -> None:
    server = rig.running()
    rig.ironic.lies = [
        (f"GET {AT}/states/console", Reply(200, reply)),
        (f"PUT {AT}/states/console", Reply(202)),
    ]
    if url is None:
        with pytest.raises(ConflictError, match="is starting it"):
            rig.facts.console(PROJECT, server, serial=True)
    else:
        assert rig.facts.console(PROJECT, server, serial=True).url == url


NOT_ITS_OWN = [
    "deploying",
    "wait call-back",
    "rescuing",
    "rescue wait",
    "servicing",
    "clean wait",
    "deploy failed",
]


@pytest.mark.parametrize("state", NOT_ITS_OWN)
def test_while_something_else_runs_on_its_machine_a_tenant_has_neither_its_console_nor_its_power(
    rig: Rig, state: str
) -> None:
    """Who types at the boot loader of Ironic's agent is root in the network in which all machines are deployed; who
    switches a machine off while its firmware is written has broken it."""
    server = rig.running()
    rig.node["provision_state"] = state
    rig.ironic.asked.clear()
    for ask in (
        lambda: rig.facts.console(PROJECT, server, serial=True),
        lambda: rig.facts.act(PROJECT, server, Action.RESET),
        lambda: rig.facts.act(PROJECT, server, Action.REBOOT),
    ):
        with pytest.raises(ConflictError, match=f"its machine is {state}"):
            ask()
    assert rig.changes() == [] and rig.node["console_enabled"] is False


def test_a_console_that_was_opened_as_another_deployment_began_is_closed_and_not_shown(rig: Rig) -> None:
    server = rig.running()
    rig.ironic.asides = [
        (f"PUT {AT}/states/console", lambda: rig.node.update(provision_state="wait call-back"))
    ]
    with pytest.raises(ConflictError, match="its machine is wait call-back"):
        rig.facts.console(PROJECT, server, serial=True)
    assert rig.node["console_enabled"] is False


def test_a_rescue_begins_with_its_console_off_and_has_one_when_it_is_its_tenants(rig: Rig) -> None:
    server = rig.running()
    assert rig.facts.console(PROJECT, server, serial=True).url
    with pytest.raises(ConflictError, match="console is being switched off: ask again"):
        rig.facts.act(PROJECT, server, Action.RESCUE)
    assert (rig.node["provision_state"], rig.node["console_enabled"]) == ("active", False)
    rig.ironic.lies = [(STEPS["the deployment"], Reply(202))]
    assert rig.facts.act(PROJECT, server, Action.RESCUE)
    rig.node["provision_state"] = "rescue"
    assert rig.facts.console(PROJECT, server, serial=True).url
    assert rig.facts.act(PROJECT, server, Action.RESET) is None


def test_a_console_is_off_before_its_server_is_deleted(rig: Rig) -> None:
    """Ironic would start it again for the next server on the machine, under the URL that this tenant knows."""
    server = rig.running()
    assert rig.facts.console(PROJECT, server, serial=True).url == "tcp://10.0.0.9:8023"
    rig.ironic.asked.clear()
    assert rig.delete(server) is None
    assert rig.changes() == [f"PUT {AT}/states/console", STEPS["the deployment"]]
    assert rig.node["console_enabled"] is False


def test_a_console_that_is_being_switched_off_is_waited_for(rig: Rig) -> None:
    server = rig.running()
    rig.node["console_enabled"] = True
    rig.ironic.lies = [(f"PUT {AT}/states/console", Reply(202))]
    assert isinstance(rig.delete(server), NotYetError)
    rig.ironic.lies = [(f"PUT {AT}/states/console", Reply(409, {"error_message": "Node is locked"}))]
    assert isinstance(rig.delete(server), NotYetError)
    assert rig.node["provision_state"] == "active"


def test_a_console_that_can_not_be_switched_off_holds_no_teardown_up_and_the_machine_back(rig: Rig) -> None:
    server = rig.running()
    rig.node["console_enabled"], rig.ironic.stuck = True, True
    assert isinstance(rig.delete(server), NotYetError)
    assert rig.delete(server) is None and rig.node["provision_state"] == "deleting"
    rig.ironic.torn_down(NODE)
    rig.ironic.clean(NODE, "2026-11-22T21:30:00+00:00")
    rig.node["power_state"] = "power off"
    error = rig.give_back()
    assert isinstance(error, TemporaryError) and error.alarming and "disabling the console" in str(error)
    assert rig.node["extra"] != {}
    rig.ironic.stuck = False
    assert rig.give_back() is not None, "it was told of the last failure, and asked again"
    assert rig.give_back() is None and rig.node["extra"] == {}


def test_a_console_switched_on_by_a_late_request_is_off_before_the_next_server(rig: Rig) -> None:
    rig.take()
    rig.node["console_enabled"] = True
    assert isinstance(rig.create().error, NotYetError)
    assert (rig.node["console_enabled"], rig.node["instance_uuid"]) == (False, None)

    def late() -> None:
        rig.node["console_enabled"] = True

    rig.ironic.asides = [(STEPS["the first port"], late)]
    assert isinstance(rig.create().error, NotYetError)
    assert (rig.node["console_enabled"], rig.node["provision_state"]) == (False, "available")
    assert rig.create().error is None and rig.node["provision_state"] == "deploying"


def test_a_machine_whose_console_is_on_is_not_free(rig: Rig) -> None:
    rig.node["console_enabled"] = True
    assert "its console is on" in rig.facts.hosts()[NODE]
    error = rig.driver.create(SCOPE, [MACHINE], {})[MACHINE.key].error
    assert isinstance(error, TemporaryError) and error.alarming and "its console is on" in str(error)
    assert rig.changes() == [], "nobody's machine is nobody's to switch off"


def test_a_console_is_not_shown_of_a_machine_that_is_the_next_ones_by_now(rig: Rig) -> None:
    server = rig.running()
    theirs = "77777777-0000-4000-8000-000000000000"
    rig.ironic.asides = [(f"GET {AT}/states/console", lambda: rig.node.update(instance_uuid=theirs))]
    with pytest.raises(ConflictError, match="another instance"):
        rig.facts.console(PROJECT, server, serial=True)
    assert rig.node["console_enabled"] is False


@pytest.mark.parametrize("attached", [["port-1", "port-2"], []])
def test_a_late_worker_leaves_the_next_pods_instance(rig: Rig, attached: list[str]) -> None:
    """It stalls while it reads what is attached, or after the first port: the machine is given to the next pod."""
    rig.take()
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


def test_a_late_worker_deletes_and_deploys_nothing_of_the_next_pods(rig: Rig) -> None:
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
def test_a_worker_that_lost_its_pod_while_it_read_removes_nothing(rig: Rig, state: str) -> None:
    rig.running()
    rig.node["provision_state"] = state
    lost: list[bool] = []

    def fence() -> None:
        if lost:
            raise RuntimeError("another worker has it")

    def lose() -> None:
        rig.ironic.asides = [(f"GET {AT}", lambda: lost.append(True))]

    rig.ironic.asides = [(f"GET {AT}", lose)]  # the second reading is the last before the request
    rig.ironic.asked.clear()
    with pytest.raises(RuntimeError, match="another worker"):
        rig.delete(scope=replace(SCOPE, fence=fence))
    assert rig.changes() == []


def test_networks_of_a_config_drive_have_routes_and_names_where_nobody_tells_them() -> None:
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
    told = network_data([port], {"n": {"mtu": 9000}}, {"s": subnet, "v6": six})
    assert told["links"] == [
        {
            "id": "iface0",
            "type": "phy",
            "ethernet_mac_address": "02:00:00:00:00:01",
            "vif_id": "p",
            "mtu": 9000,
        }
    ]
    (one,) = told["networks"]
    assert one["routes"] == [
        {"network": "10.9.0.0", "netmask": "255.255.0.0", "gateway": "10.64.0.2"},
        {"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "10.64.0.1"},
    ]
    assert told["services"] == [{"type": "dns", "address": "9.9.9.9"}]


def test_a_machines_port_is_freed_before_it_is_deleted(rig: Rig) -> None:
    """Neutron forbids projects to delete ports of machines, and Ironic's teardown leaves their user on them."""
    mark = SCOPE.mark("port/bm01/mlx5_0").text()
    common = {"project_id": PROJECT, "description": mark, "created_at": "2026-11-22T20:00:00Z"}
    port = next(p for p in rig.ironic.things["ports"] if p["id"] == "port-2")
    port |= {**common, "device_owner": "baremetal:none", "device_id": "an-instance"}
    spec = PortSpec(network="n", subnet="s", address="10.1.0.5", vnic_type="baremetal", host=NODE)
    wanted = Resource(key="port/bm01/mlx5_0", name="port-2", where="lab", spec=spec)
    assert rig.driver.delete(SCOPE, [wanted], IDS)[wanted.key].error is None
    changes = [line for line in rig.ironic.asked if line.endswith("/ports/port-2") and "GET" not in line]
    assert [line.split()[0] for line in changes] == ["PUT", "DELETE"]
