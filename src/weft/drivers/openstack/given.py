"""What is given to Ironic to deploy: image, boot mode and traits as Nova's driver would write them, and a
config drive.

An image's parts are given with it, as weft checked them: Ironic would otherwise read the image's properties
again when it deploys, and the tenant may have changed them by then.

Sources: ironic 39 `common.images`, `common.pxe_utils`, `drivers.modules` (`deploy_utils`, `image_utils`, `ramdisk`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from weft.drivers.openstack.base import Call
from weft.drivers.openstack.changeable import READING, boots_ramdisk, is_changeable, not_settled
from weft.drivers.openstack.lookups import UUID, Lookups
from weft.drivers.openstack.networkdata import read_network_data
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.drivers.openstack.userdata import user_data
from weft.model.errors import PermanentError
from weft.model.hostneeds import HostNeeds
from weft.model.messages import outside
from weft.model.resources import Resource
from weft.model.specs import ServerSpec

PARTS = ("kernel_id", "ramdisk_id", "boot_iso_id", "stage2_id", "ks_template")
"""Properties of an image that name other images, or URLs, which Ironic reads as well."""
MARK, NAME = "weft", "display_name"
"""Keys in `instance_info`: weft's mark, and the server's name, where Nova's driver has it too."""
BOOTED = ("image_source", "kernel", "ramdisk", "boot_iso")
"""Keys in `instance_info`: what Ironic boots, or writes to the disk."""
_PROPERTIES = {"kernel": "kernel_id", "ramdisk": "ramdisk_id"}
CHECKED = "weft_images"
"""Keys in `instance_info`: ids of the image and of its parts, as weft has checked them."""


def instance_info(call: Call, resource: Resource, node: Json) -> Json:
    """What Ironic deploys, as Nova's driver would write it. Root device and boot mode are in the node's
    properties. No project is named: by default Ironic makes the project in `instance_info` the node's lessee,
    which may write marks.
    """
    spec, asked = resource.spec_as(ServerSpec), outside.REQUEST(verb="create", what=f"server {resource.name}")
    image = call.lookups.image(call.project, spec.image)
    if image is None:
        then = "create it, or order again with another"
        raise PermanentError(asked, "the cloud", f"the project has no image {spec.image}", then)
    if why := foreign_part(call.lookups, call.project, call.own, image):
        raise PermanentError(
            asked, "the cloud", f"image {spec.image} has {why}", "correct it, or order again"
        )
    booted = _booted(asked, call, image, node)
    info: Json = {
        MARK: call.text(resource.key),
        NAME: resource.name,
        CHECKED: [str(image["id"]), *(booted[name] for name in BOOTED[1:] if name in booted)],
        **booted,
    }
    capabilities: dict[str, str] = {}
    if firmware := image.get("hw_firmware_type"):
        capabilities["boot_mode"] = str(firmware)
    if image.get("os_secure_boot") == "required":
        capabilities["secure_boot"] = "true"
    if capabilities:
        info["capabilities"] = capabilities
    if traits := HostNeeds.of(image, {}).required:
        info["traits"] = sorted(traits)
    if info.get("image_type") == "partition":
        info["root_gb"] = _root_gib(asked, node)
    return info


def _booted(asked: str, call: Call, image: Json, node: Json) -> dict[str, str]:
    """The image, or the parts a ramdisk is made of, in fields of `instance_info` that Ironic prefers to
    properties. Local boot doesn't use kernel and ramdisk, but Ironic would derive the kind of image from
    them.
    """
    interface, name = str(node.get("deploy_interface") or ""), image.get("name")
    if interface in READING and is_changeable(image, call.own, call.scope.project_id):
        raise not_settled(asked, interface, name)
    parts = {part: str(image[key]) for part, key in _PROPERTIES.items() if image.get(key)}
    if boots_ramdisk(interface):
        if iso := image.get("boot_iso_id"):
            return {"boot_iso": str(iso)}
        if len(parts) == len(_PROPERTIES):
            return parts  # with an image_source, Ironic would take it for a disk's
        said = (
            f"its machine boots a ramdisk, and image {name} has no kernel_id and ramdisk_id, nor boot_iso_id"
        )
        raise PermanentError(asked, "the cloud", said, "correct it, or order again with another")
    source = {"image_source": str(image["id"])}
    if _is_partition(image):
        return {**source, "image_type": "partition", **parts}
    return {**source, "image_type": "whole-disk"}


def unchecked(info: Json) -> str:
    """What Ironic now boots that weft didn't give it; empty if nothing.

    Args:
        info: a node's `instance_info`.
    """
    checked: object = info.get(CHECKED)
    if not isinstance(checked, list):
        return ""
    others = [f"{name} {info[name]}" for name in BOOTED if info.get(name) and info[name] not in checked]
    return ", ".join(others)


def image_of(info: Json) -> object:
    """Id of the ordered image."""
    checked: object = info.get(CHECKED)
    return (
        cast(list[object], checked)[0] if isinstance(checked, list) and checked else info.get("image_source")
    )


def foreign_part(lookups: Lookups, tenant: Project, own: Project, image: Json) -> str:
    """Part of an image that Ironic would read with rights that the tenant doesn't have; empty if none. A
    tenant can write anything into its image's properties: someone else's private image that is shared with
    weft's project, a URL inside the cloud, a file on the conductor.

    Args:
        own: weft's project, with whose rights Ironic reads.
    """
    for name in PARTS:
        part = image.get(name)
        if not part:
            continue
        if not isinstance(part, str) or not UUID.fullmatch(part):
            return f"{name} {str(part)[:100]!r}, which isn't an image's id"
        for project, whose in ((tenant, "its project"), (own, "weft's project")):
            found = lookups.image(project, part)
            if found is None or found["id"] != part:
                return f"{name} {part}, an image that {whose} can't read"
    return ""


def _is_partition(image: Json) -> bool:
    """Whether it is a partition image, decided as in `ironic.common.images.is_whole_disk_image`."""
    if kind := image.get("img_type"):
        return kind == "partition"
    return bool(image.get("kernel_id") or image.get("ramdisk_id"))


def _root_gib(asked: str, node: Json) -> int:
    """Size of the root partition for a partition image: the disk without the config drive's partition."""
    try:
        return int(node["properties"]["local_gb"]) - 1
    except (KeyError, TypeError, ValueError):
        then = "set properties/local_gb of the node, or order a whole-disk image"
        said = "the image is a partition, and Ironic doesn't know the size of the machine's disk"
        raise PermanentError(asked, "Ironic", said, then) from None


def config_drive(call: Call, resource: Resource, node: Json, vifs: Sequence[str]) -> Json:
    """Metadata, keys, user data and networks, since such a machine has no metadata service."""
    spec = resource.spec_as(ServerSpec)
    meta: Json = {"uuid": node["instance_uuid"], "name": resource.name, "hostname": resource.name}
    if spec.key_pair is not None:
        name = call.id_of(spec.key_pair)
        pair = call.own.compute.item(
            outside.REQUEST(verb="read", what=f"key pair {name}"), f"/os-keypairs/{name}", "keypair"
        )
        meta["public_keys"] = {name: str(pair["public_key"])}
    drive: Json = {"meta_data": meta}
    if vifs:
        asked = f"read the networks of server {resource.name}"
        drive["network_data"] = read_network_data(call.project, asked, vifs)
    if (text := user_data(call, resource.name, spec)) is not None:
        drive["user_data"] = text
    return drive
