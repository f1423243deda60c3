"""Images whose properties decide what Ironic boots when it deploys a machine, and whether anyone may change them
meanwhile.

Nova's driver gives Ironic no more than an image's id. With some deploy interfaces Ironic then reads from the image's
properties which kernel, ramdisk or ISO the machine boots, with the rights of Nova's user: the tenant may have
named another's private images there by then, and can name any with each rebuild of its server. So weft
deploys only images there that no tenant can change, and checks which one it is after each deployment, not
only its own.

Sources: nova 34 `virt.ironic.patcher`; ironic 39 `drivers.modules.ramdisk` (`_resolve_image_info_from_glance`),
`common.pxe_utils.get_instance_image_info`, `conductor.deployments.start_deploy` (a rebuild reads them again).
"""

from __future__ import annotations

from weft.drivers.openstack.images import image_or_absent
from weft.drivers.openstack.instances import info_of
from weft.drivers.openstack.lookups import UUID
from weft.drivers.openstack.service import Json
from weft.drivers.openstack.session import Project
from weft.model.errors import PermanentError

READING = frozenset({"anaconda", "autodetect"})
"""Deploy interfaces with which Ironic reads the image's properties, whatever it was given."""


def deploy_interface(node: Json) -> str:
    """The deploy interface that Ironic uses: an instance's takes precedence over the node's
    (`objects.node.get_interface`)."""
    return str(info_of(node).get("deploy_interface") or node.get("deploy_interface") or "")


def boots_ramdisk(interface: str) -> bool:
    """Whether a deploy interface boots a ramdisk instead of writing a disk."""
    return interface == "ramdisk" or interface.endswith("-ramdisk")  # a site's own are named so


def goes_by_properties(node: Json) -> str:
    """The deploy interface with which an image's properties decide what is booted under Nova's driver; empty:
    none."""
    interface = deploy_interface(node)
    return interface if interface in READING or boots_ramdisk(interface) else ""


def is_changeable(image: Json, own: Project, tenant: str) -> bool:
    """Whether someone untrusted may change an image's properties.

    Only an administrator can make an image public (Glance's policy `publicize_image`), but its project may
    still change it.

    Args:
        own: weft's project.
        tenant: id of the project that it is deployed for.
    """
    owner = image.get("owner")
    if owner and owner == own.image.signed_in_project():
        return False
    return image.get("visibility") != "public" or not owner or owner == tenant


def not_settled(asked: str, interface: str, name: object) -> PermanentError:
    """The error for an image that a tenant may change. Args: name: the image's."""
    said = f"its machine's deploy interface {interface} goes by the image's properties, which a tenant may change"
    then = "give the machine another, or order an image that weft's project owns, or another's that is public"
    return PermanentError(asked, "Ironic", f"{said}: image {name}", then)


def unsettled_boot(own: Project, node: Json) -> str:
    """Why it isn't certain that a deployed machine boots only what may be booted there; empty if it is.

    Args:
        node: as it was read, with a server of Nova's on it.

    Raises `UnknownError`.
    """
    interface = goes_by_properties(node)
    if not interface or not node.get("instance_uuid"):
        return ""
    info = info_of(node)
    source = info.get("original_image_source") or info.get("image_source")
    problem = f"Ironic deployed image {source} with {interface}, by properties that its tenant may change"
    if not isinstance(source, str) or not UUID.fullmatch(source):
        return problem
    image = image_or_absent(own, source)
    return problem if image is None or is_changeable(image, own, str(info.get("project_id") or "")) else ""
