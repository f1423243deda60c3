"""What a machine boots that Ironic deploys without Nova: images and their parts, which their tenant may change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.drivers.openstack.metalrig import IDS, SCOPE, SERVER, STEPS, Rig, new_facts
from tests.drivers.openstack.metalrig import house as house
from tests.drivers.openstack.metalrig import rig as rig
from tests.drivers.openstack.tinycloud import PROJECT, Reply
from tests.drivers.openstack.tinyironic import NODE
from weft.model.errors import InputError, OutsideError, PermanentError
from weft.model.order import NodesOrder, Order
from weft.model.resources import Status

OWN, KERNEL = "11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555"
"""Images: the tenant's, and a part of it."""
STOLEN = "66666666-2222-3333-4444-555555555555"
"""Another tenant's image, which is shared with weft's project."""


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
def test_image_properties_select_the_deployment(
    rig: Rig, image: dict[str, Any], node: dict[str, Any], wanted: dict[str, Any]
) -> None:
    """Whole disk, partition, ramdisk, boot mode, secure boot, traits."""
    rig.ironic.things["images"] = [
        {"id": f"image-{'-'.join(image)}", "name": "special", "status": "active", **image}
    ]
    rig.ironic.readers = {KERNEL: {PROJECT}}
    rig.claim()
    rig.node.update(node)
    spec = SERVER.spec.model_copy(update={"image": "special"})
    rig.forget_images()
    made = rig.driver.create(SCOPE, [SERVER.model_copy(update={"spec": spec})], IDS)[SERVER.key]
    assert made.error is None, made.error
    info = rig.node["instance_info"]
    names = ("capabilities", "traits", "root_gb")
    assert {name: info[name] for name in names if name in info} == wanted


LATE = {"kernel_id": STOLEN, "ramdisk_id": STOLEN, "boot_iso_id": STOLEN, "img_type": "partition"}
"""What a tenant writes to its image after weft checked it."""


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
def test_later_changes_of_an_image_are_not_booted(
    rig: Rig, image: dict[str, str], interface: str, booted: dict[str, str]
) -> None:
    """Ironic reads the properties when it deploys, with weft's rights."""
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


def test_server_booting_an_unchecked_image_is_broken(rig: Rig) -> None:
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
def test_ramdisk_machine_refuses_an_image_without_a_ramdisk(rig: Rig, image: dict[str, str]) -> None:
    """Ironic would use what the image has when it deploys."""
    with_image(rig, "ramdisk", image)
    error = rig.create().error
    assert isinstance(error, PermanentError) and "no kernel_id and ramdisk_id" in str(error)
    assert rig.node["instance_uuid"] is None


@pytest.mark.parametrize("interface", ["anaconda", "autodetect"])
def test_property_driven_interface_accepts_only_wefts_images(rig: Rig, interface: str) -> None:
    row = with_image(rig, interface, {"kernel_id": KERNEL, "ramdisk_id": KERNEL, "owner": "p2"})
    error = rig.create().error
    assert isinstance(error, PermanentError) and f"deploy interface {interface}" in str(error)
    assert rig.node["instance_uuid"] is None
    row["owner"] = PROJECT
    rig.forget_images()
    assert rig.create().error is None


def with_image(rig: Rig, interface: str, image: dict[str, str]) -> dict[str, Any]:
    """Give the pod's machine this deploy interface and an image these properties; the image."""
    row = {"id": OWN, "name": "tiny", "status": "active", **image}
    rig.ironic.things["images"], rig.ironic.readers = [row], {KERNEL: {PROJECT}}
    rig.claim()
    rig.forget_images()
    rig.node.update(deploy_interface=interface, properties={"local_gb": "1000"})
    return row


def test_partition_image_for_an_unknown_disk_is_refused(rig: Rig) -> None:
    rig.ironic.things["images"] = [{"id": "image-p", "name": "part", "status": "active", "kernel_id": KERNEL}]
    rig.ironic.readers = {KERNEL: {PROJECT}}
    rig.claim()
    rig.forget_images()
    spec = SERVER.spec.model_copy(update={"image": "part"})
    error = rig.driver.create(SCOPE, [SERVER.model_copy(update={"spec": spec})], IDS)[SERVER.key].error
    assert isinstance(error, PermanentError) and "set properties/local_gb" in str(error)
    assert rig.node["instance_uuid"] is None


def test_image_weft_cannot_read_is_refused_until_shared(rig: Rig) -> None:
    """Ironic reads it with weft's rights, and would refuse it only after the machine was claimed."""
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
    "no project's": set[str](),
}


@pytest.mark.parametrize("name", ["kernel_id", "ramdisk_id", "boot_iso_id", "stage2_id"])
@pytest.mark.parametrize("readers", READERS.values(), ids=READERS.keys())
def test_image_gives_no_access_to_an_image_its_tenant_cannot_read(
    rig: Rig, name: str, readers: set[str]
) -> None:
    """Ironic follows an image's properties with weft's rights, and their tenant may write anything there."""
    rig.ironic.served, rig.ironic.readers = {"p2"}, {KERNEL: readers, OWN: {PROJECT, "p2"}}
    rig.ironic.things["images"] = [{"id": OWN, "name": "mine", "status": "active", name: KERNEL}]
    nodes = NodesOrder(kind="bare_metal", count=1, flavor="m", image="mine")
    with pytest.raises(InputError, match=f"it has {name} {KERNEL}, an image that"):
        new_facts(rig, NODE).check_order("p2", Order(name="train", nodes=nodes), "m")
    rig.claim()
    rig.forget_images()
    rig.ironic.things["images"][0]["name"] = "tiny"
    error = rig.create(replace(SCOPE, project_id="p2")).error
    assert isinstance(error, PermanentError) and f"{name} {KERNEL}" in str(error)
    assert rig.node["instance_uuid"] is None, "no machine is used for such an image"
    rig.ironic.readers[KERNEL] = {PROJECT, "p2"}
    rig.ironic.things["images"][0]["name"] = "mine"
    new_facts(rig, NODE).check_order("p2", Order(name="train", nodes=nodes), "m")


@pytest.mark.parametrize("part", ["file:///etc/ironic/ironic.conf", "http://10.0.0.1/", "other", ["x"]])
def test_image_part_that_is_not_an_image_is_refused(rig: Rig, part: object) -> None:
    """Ironic would fetch it as a URL, from inside the cloud."""
    rig.ironic.readers = {OWN: {PROJECT}}
    image = {"id": OWN, "name": "mine", "status": "active", "kernel_id": part}
    rig.ironic.things["images"] = [image]
    nodes = NodesOrder(kind="bare_metal", count=1, flavor="m", image="mine")
    with pytest.raises(InputError, match="which isn't an image's id"):
        new_facts(rig, NODE).check_order(PROJECT, Order(name="train", nodes=nodes), "m")
