"""Servers on machines: requested once Nova can find the machine, and gone by Nova's last action."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from tests.drivers.openstack.tinyironic import NODE
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions
from weft.model.errors import NotYetError, PermanentError, UnknownError
from weft.model.owner import Owner
from weft.model.resources import Outcome, Resource
from weft.model.specs import ServerSpec
from weft.ports.occupants import Ended, OnHost
from weft.ports.resources import Scope

SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
OFFER = f"GET /placement/resource_providers/{NODE}/inventories"
FREE = {"total": 1, "reserved": 0}
OTHER = "00000000-0000-4000-8000-000000000001"
SERVER = "ac89efa9-a34e-4260-b101-29e9e3b49c3d"
IMAGE = "11111111-2222-3333-4444-555555555555"
AT = f"GET /baremetal/v1/nodes/{NODE}"
HYPERVISOR = {"id": "hyper-1", "hypervisor_hostname": NODE, "hypervisor_type": "ironic", "state": "up"}
HYPERVISOR |= {"service": {"host": "metal1"}, "servers": [{"uuid": SERVER, "name": "one"}]}


def server(bare_metal: bool, image: str = "tiny") -> Resource:
    spec = ServerSpec(host=NODE, bare_metal=bare_metal, flavor="metal8", image=image, ports=())
    return Resource(key="server/bm01", name="weft-00000000-server-bm01", where="lab", spec=spec)


@dataclass(frozen=True)
class Rig:
    cloud: TinyCloud
    driver: OpenStackDriver
    facts: OpenStackFacts

    def create(self, bare_metal: bool = True, image: str = "tiny") -> Outcome:
        return self.driver.create(SCOPE, [server(bare_metal, image)], {})["server/bm01"]

    def deployed(self, *lies: tuple[str, Reply], **node: Any) -> OnHost:
        """What is on the machine after Nova deployed a server on it."""
        node_row = {"uuid": NODE, "provision_state": "active", "instance_uuid": SERVER, **node}
        self.cloud.lies = [
            *lies,
            ("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": [HYPERVISOR]})),
            ("GET /compute/os-hypervisors/hyper-1", Reply(200, {"hypervisor": HYPERVISOR})),
            (
                "GET /placement/resource_providers/hyper-1/allocations",
                Reply(200, {"allocations": {SERVER: {}}}),
            ),
            (AT, Reply(200, node_row)),
        ]
        return self.facts.on_hosts([NODE])[NODE]

    def asked_for(self) -> bool:
        return "POST /compute/servers" in self.cloud.asked


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with tiny_cloud() as (cloud, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions, machines=True)
        yield Rig(cloud, driver, OpenStackFacts(sessions, machines=[NODE]))
        driver.close()
        sessions.close()


@pytest.fixture
def rig(house: Rig) -> Rig:
    house.cloud.reset()
    house.cloud.things["images"] = [{"id": "image-1", "name": "tiny", "status": "active"}]
    house.cloud.things["flavors"] = [{"id": "flavor-1", "name": "metal8"}]
    made = ("POST /compute/servers", Reply(202, {"server": {"id": SERVER}}))
    free = {"uuid": NODE, "provision_state": "available", "deploy_interface": "direct"}
    house.cloud.lies = [
        (AT, Reply(200, free)),
        made,
        (OFFER, Reply(200, {"inventories": {"CUSTOM_METAL": FREE}})),
    ]
    return house


def offer(rig: Rig, reply: Reply) -> None:
    rig.cloud.lies[-1] = (OFFER, reply)


def test_server_is_requested_only_on_a_machine_free_in_placement(rig: Rig) -> None:
    assert rig.create().id == SERVER and rig.asked_for()


NOT_YET = {
    "unknown to Placement": Reply(
        404, {"errors": [{"detail": f"No resource provider with uuid {NODE} found"}]}
    ),
    "reserved, as while it is cleaned": Reply(
        200, {"inventories": {"CUSTOM_METAL": {"total": 1, "reserved": 1}}}
    ),
    "without anything yet": Reply(200, {"inventories": {}}),
}


@pytest.mark.parametrize("reply", NOT_YET.values(), ids=NOT_YET.keys())
def test_new_machine_is_waited_for_in_placement(rig: Rig, reply: Reply) -> None:
    """If it were requested now the scheduler would find no valid host, and the server would be broken."""
    offer(rig, reply)
    outcome = rig.create()
    assert isinstance(outcome.error, NotYetError) and "Placement doesn't have it" in str(outcome.error)
    assert not rig.asked_for()
    offer(rig, Reply(200, {"inventories": {"CUSTOM_METAL": FREE}}))
    assert rig.create().id == SERVER


LIES = {
    "a proxy's 404": Reply(404, "<html>no such page</html>", "text/html", own=False),
    "no inventories": Reply(200, {}),
    "no amounts": Reply(200, {"inventories": {"CUSTOM_METAL": {}}}),
    "words": Reply(200, {"inventories": {"CUSTOM_METAL": {"total": "one", "reserved": 0}}}),
    "an error": Reply(503, {"errors": []}),
}


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES.keys())
def test_malformed_answer_offers_no_machine(rig: Rig, lie: Reply) -> None:
    offer(rig, lie)
    outcome = rig.create()
    assert isinstance(outcome.error, UnknownError) and not rig.asked_for()


def test_virtual_machine_hosts_are_left_to_the_scheduler(rig: Rig) -> None:
    offer(rig, Reply(503, {}))
    assert rig.create(bare_metal=False).id == SERVER


def test_servers_on_a_machine_are_those_in_placement(rig: Rig) -> None:
    """For each machine Nova lists the servers of all machines of its nova-compute."""
    ids = {NODE: "hyper-1", OTHER: "hyper-2"}
    on = {"hyper-1": {SERVER: {}}, "hyper-2": {"srv-2": {}, "claim-3": {}}}
    every = [{"uuid": SERVER, "name": "one"}, {"uuid": "srv-2", "name": "two"}]
    rows = [
        {
            "id": id_,
            "hypervisor_hostname": machine,
            "hypervisor_type": "ironic",
            "state": "up",
            "service": {"host": "metal1"},
            "servers": every,
        }
        for machine, id_ in ids.items()
    ]
    rig.cloud.lies = [("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": rows}))]
    for row in rows:
        path = f"GET /compute/os-hypervisors/{row['id']}"
        rig.cloud.lies.append((path, Reply(200, {"hypervisor": row})))
        path = f"GET /placement/resource_providers/{row['id']}/allocations"
        rig.cloud.lies.append((path, Reply(200, {"allocations": on[str(row["id"])]})))
    for machine, state in ((NODE, "active"), (OTHER, "deploying")):
        node = {"uuid": machine, "provision_state": state}
        rig.cloud.lies.append((f"GET /baremetal/v1/nodes/{machine}", Reply(200, node)))
    seen = rig.facts.on_hosts([NODE, OTHER])
    assert (seen[NODE].busy, seen[OTHER].busy) == ("", "Ironic has it in state deploying")
    assert [(o.id, o.nova, o.placement) for o in seen[NODE].occupants] == [(SERVER, True, True)]
    assert [(o.id, o.nova, o.placement) for o in seen[OTHER].occupants] == [
        ("claim-3", False, True),
        ("srv-2", True, True),
    ]
    listed = rig.facts.servers_on_hosts()
    assert set(listed) == {NODE, OTHER}, "each machine is a host of its own"


GONE = Reply(404, {"error_message": f"Node {NODE} could not be found."})


@pytest.mark.parametrize(("lie", "why"), [(Reply(503, {}), "503"), (GONE, "not in Ironic")])
def test_machine_whose_use_ironic_omits_is_unknown(rig: Rig, lie: Reply, why: str) -> None:
    """Its adapters stay as they are, and whether its server runs isn't known.

    Ironic also answers 404 for what a user may not see, as after a mistake in its rights.
    """
    seen = rig.deployed((AT, lie))
    assert [o.id for o in seen.occupants] == [SERVER] and why in seen.unknown and not seen.busy


DOWN = [
    "GET /compute/os-hypervisors/detail",
    "GET /compute/os-hypervisors/hyper-1",
    "GET /placement/resource_providers/hyper-1/allocations",
]


@pytest.mark.parametrize("down", DOWN)
@pytest.mark.parametrize("known", [True, False])
def test_use_of_a_machine_is_known_while_nova_is_silent(rig: Rig, down: str, known: bool) -> None:
    rig.facts._ids = {NODE: ("hyper-1",)} if known else {}
    seen = rig.deployed((down, Reply(503, {})), provision_state="rescuing")
    assert seen.busy == "Ironic has it in state rescuing"
    assert bool(seen.unknown) is not (known and down == DOWN[0]), (
        "known only if Nova's ids were cached and only its listing fails"
    )
    quiet = rig.deployed((down, Reply(503, {})), (AT, Reply(503, {})), provision_state="rescuing")
    assert quiet.unknown and not quiet.busy


GOING_BY_PROPERTIES = ["ramdisk", "site-ramdisk", "anaconda", "autodetect"]


@pytest.mark.parametrize("interface", GOING_BY_PROPERTIES)
def test_image_with_tenant_controlled_boot_properties_is_refused(rig: Rig, interface: str) -> None:
    """Nova's driver gives Ironic only the image's id, and Ironic reads its kernel_id with the rights of Nova's user."""
    image = {
        "id": IMAGE,
        "name": f"mine-{interface}",
        "status": "active",
        "visibility": "shared",
        "owner": "p2",
    }
    settled = {**image, "name": f"all-{interface}", "visibility": "public"}
    rig.cloud.things["images"] = [image, settled]
    rig.cloud.lies[0] = (
        AT,
        Reply(200, {"uuid": NODE, "provision_state": "available", "deploy_interface": interface}),
    )
    error = rig.create(image=f"mine-{interface}").error
    assert isinstance(error, PermanentError) and f"deploy interface {interface}" in str(error)
    assert not rig.asked_for()
    assert rig.create(image=f"all-{interface}").id == SERVER


TENANT = "ffffffffffffffffffffffffffffffff"
DEPLOYED: dict[str, tuple[dict[str, str], bool]] = {
    "weft's own": ({"owner": PROJECT, "visibility": "private"}, True),
    "public": ({"owner": "p2", "visibility": "public"}, True),
    "public, and the tenant's own": ({"owner": TENANT, "visibility": "public"}, False),
    "another's": ({"owner": "p2", "visibility": "community"}, False),
    "no project's": ({"visibility": "public"}, False),
}


@pytest.mark.parametrize(("image", "settled"), DEPLOYED.values(), ids=DEPLOYED.keys())
@pytest.mark.parametrize("source", ["image_source", "original_image_source"])
def test_deployed_image_is_checked_after_any_deployment(
    rig: Rig, image: dict[str, str], settled: bool, source: str
) -> None:
    """A tenant may rebuild its server with an image that was never checked."""
    rig.cloud.lies = []
    read = (f"GET /image/images/{IMAGE}", Reply(200, {"id": IMAGE, "status": "active", **image}))
    info = {source: IMAGE, "project_id": TENANT}
    seen = rig.deployed(read, deploy_interface="ramdisk", instance_info=info)
    said = f"Ironic deployed image {IMAGE} with ramdisk, by properties that its tenant may change"
    assert (seen.busy, seen.unknown) == ("" if settled else said, "")
    switched = {**info, "deploy_interface": "ramdisk"}
    assert rig.deployed(read, deploy_interface="direct", instance_info=switched).busy == seen.busy
    assert not rig.deployed(read, deploy_interface="direct", instance_info=info).busy, (
        "the image was written to its disk"
    )


def test_server_with_a_no_longer_visible_image_is_not_settled(rig: Rig) -> None:
    """Else its tenant could hide the image once the machine has booted."""
    gone = (f"GET /image/images/{IMAGE}", Reply(404, f"No image found with ID {IMAGE}"))
    info = {"original_image_source": IMAGE, "project_id": TENANT}
    seen = rig.deployed(gone, deploy_interface="ramdisk", instance_info=info)
    assert IMAGE in seen.busy and not seen.unknown
    assert rig.deployed(deploy_interface="ramdisk", instance_info={}).busy, (
        "nor with an image that Ironic doesn't show"
    )


@pytest.mark.parametrize(
    "lie", [Reply(503, {}), Reply(200, {"id": "another"}), Reply(404, "<html>", own=False)]
)
def test_unreadable_image_makes_the_machine_unknown(rig: Rig, lie: Reply) -> None:
    info = {"original_image_source": IMAGE, "project_id": TENANT}
    read = (f"GET /image/images/{IMAGE}", lie)
    seen = rig.deployed(read, deploy_interface="ramdisk", instance_info=info)
    assert seen.unknown and not seen.busy


def test_allocation_of_a_device_alone_is_on_the_host(rig: Rig) -> None:
    """PCI devices and bandwidths may be resource providers of their own below the host's."""
    row = {
        "id": "root-9",
        "hypervisor_hostname": "gpu09",
        "hypervisor_type": "QEMU",
        "state": "up",
        "servers": [],
    }
    row |= {"service": {"host": "gpu09"}}
    of = "GET /placement/resource_providers"
    rig.cloud.lies = [
        ("GET /compute/os-hypervisors/detail", Reply(200, {"hypervisors": [row]})),
        ("GET /compute/os-hypervisors/root-9", Reply(200, {"hypervisor": row})),
        (f"{of}/root-9/allocations", Reply(200, {"allocations": {}})),
        (f"{of}/pci-9/allocations", Reply(200, {"allocations": {"left-over": {}}})),
    ]
    rig.cloud.children = {"root-9": ["pci-9"]}
    seen = rig.facts.on_hosts(["gpu09"])["gpu09"]
    assert [(o.id, o.nova, o.placement) for o in seen.occupants] == [("left-over", False, True)]
    assert not seen.unknown
    rig.cloud.asked.clear()
    rig.facts.on_hosts(["gpu09"])
    assert of not in rig.cloud.asked, "the host's devices are cached for a while"
    rig.cloud.lies[-1] = (f"{of}/pci-9/allocations", Reply(404, {"errors": [{"status": 404}]}))
    assert rig.facts.on_hosts(["gpu09"])["gpu09"].unknown, "a device that is gone proves nothing"
    rig.cloud.children = {}
    assert not rig.facts.on_hosts(["gpu09"])["gpu09"].unknown, "the devices are read again"
    rig.cloud.lies.append((of, Reply(200, {"resource_providers": []})))
    rig.facts._consumers.forget(["root-9"])
    assert "doesn't list root-9" in rig.facts.on_hosts(["gpu09"])["gpu09"].unknown


def ended(rig: Rig, *events: tuple[str, str, str]) -> Ended:
    """How the server ended.

    Args:
        events: name, result and end of each, oldest first, each of an action of its own.
    """
    path = f"GET /compute/servers/{SERVER}/os-instance-actions"
    about = {"instance_uuid": SERVER}
    actions = [{**about, "request_id": f"req-{n}", "start_time": at} for n, (_, _, at) in enumerate(events)]
    rig.cloud.lies = [(path, Reply(200, {"instanceActions": actions}))]
    for n, (name, result, at) in enumerate(events):
        row = {"event": name, "result": result, "start_time": at, "finish_time": at}
        action = {"instanceAction": {**about, "request_id": f"req-{n}", "action": name, "events": [row]}}
        rig.cloud.lies.append((f"{path}/req-{n}", Reply(200, action)))
    return rig.facts.endings(PROJECT, [SERVER])[SERVER].how


def test_power_notice_after_the_end_does_not_show_a_server_alive(rig: Rig) -> None:
    """As on the lab: the machine is switched on for its cleaning after its server was terminated."""
    made = ("compute__do_build_and_run_instance", "Success", "2026-11-23T01:00:30.000000")
    over = ("compute_terminate_instance", "Success", "2026-11-23T01:03:00.000000")
    power = ("compute_power_update", "Success", "2026-11-23T01:03:02.000000")
    assert ended(rig, made, over, power) is Ended.DESTROYED
    assert ended(rig, made, power) is Ended.NOT_DESTROYED
    assert ended(rig, made, power, over) is Ended.DESTROYED
    assert ended(rig, made, (over[0], "Error", over[2]), power) is Ended.NOT_DESTROYED


@pytest.mark.parametrize(("state", "instance"), [("available", None), ("active", OTHER)])
def test_server_unknown_to_ironic_has_not_ended(rig: Rig, state: str, instance: str | None) -> None:
    """Ironic's database was restored from a backup, so the machine may be deployed for another server at any moment."""
    assert rig.deployed().busy == ""
    seen = rig.deployed(provision_state=state, instance_uuid=instance)
    assert seen.busy == f"Ironic has instance {instance or 'none'} on it, and Nova server {SERVER}"
