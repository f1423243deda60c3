"""Contents of a lab's cloud: identities, catalog, flavors, an image, the external network; and clouds.yaml.

Everything goes through the services' own APIs and only on a fresh database; then it is in the golden image.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openstack
import yaml
from openstack.connection import Connection

from weftlab.catalog import API_SERVICES, endpoints
from weftlab.config import REGION, SECRET
from weftlab.layout import Layout

DOMAIN = "default"
TEAMS = ("team-a", "team-b")
FLAVORS: dict[str, tuple[int, int, int, dict[str, str]]] = {
    "gpu8": (96, 1024 * 1024, 100, {"pci_passthrough:alias": "h100:8"}),
    "a100x8": (96, 1024 * 1024, 100, {"pci_passthrough:alias": "a100:8"}),
    "a100x2": (16, 128 * 1024, 10, {"pci_passthrough:alias": "a100:2"}),
    "gpu1": (8, 64 * 1024, 10, {"pci_passthrough:alias": "h100:1"}),
    "cpu1": (1, 512, 1, {}),
}
"""Name -> virtual processors, MiB of memory, GiB of disk, extra specifications."""

ACCOUNTS = {
    "operator": ("operator", "admin"),
    "weft": ("weft", "service"),
    **{team: (f"{team}-member", team) for team in TEAMS},
    **{f"{team}-reader": (f"{team}-reader", team) for team in TEAMS},
}
"""Name in clouds.yaml -> user, project."""


def login(layout: Layout, user: str, project: str, keystone: str = "keystone") -> dict[str, Any]:
    """One entry of clouds.yaml. `keystone`: name of Keystone's port."""
    return {
        "auth": {
            "auth_url": f"{layout.url(keystone)}/v3",
            "username": user,
            "password": SECRET,
            "project_name": project,
            "user_domain_id": DOMAIN,
            "project_domain_id": DOMAIN,
        },
        "region_name": REGION,
        "interface": "public",
        "identity_api_version": 3,
    }


def enroller(layout: Layout) -> dict[str, Any]:
    """Entry of clouds.yaml of an administrator of the system: who enrolls machines in Ironic."""
    given = login(layout, *ACCOUNTS["operator"])
    for name in ("project_name", "project_domain_id"):
        del given["auth"][name]
    given["auth"]["system_scope"] = "all"
    return given


def write_clouds(layout: Layout) -> None:
    """clouds.yaml for people and weft, one for weft behind the liar, and one for the agents alone."""
    clouds = {name: login(layout, user, project) for name, (user, project) in ACCOUNTS.items()}
    clouds["enroller"] = enroller(layout)
    _write(layout.clouds_yaml, clouds)
    _write(layout.liar_clouds_yaml, {"weft": login(layout, *ACCOUNTS["weft"], keystone="liar-keystone")})
    _write(layout.etc / "neutron" / "clouds.yaml", {"neutron": login(layout, "neutron", "service")})


def _write(path: Any, clouds: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(yaml.safe_dump({"clouds": clouds}, sort_keys=False))


def connect(layout: Layout, name: str = "operator") -> Connection:
    """A connection as one of the accounts, independent of the caller's environment and files."""
    user, project = ACCOUNTS[name]
    return openstack.connect(
        load_yaml_config=False, load_envvars=False, app_name="weft-lab", **login(layout, user, project)
    )


def fill(layout: Layout) -> None:
    """Fill the cloud; identities first, since every service validates tokens with its own user."""
    cloud = connect(layout)
    _identities(cloud)
    _catalog(cloud, layout)
    cloud = connect(layout)  # a token contains the catalog of the moment when it was issued
    with ThreadPoolExecutor(max_workers=4) as pool:
        work = [pool.submit(f, cloud) for f in (_flavors, _image, _external_network)]
        for each in work:
            each.result()


def _identities(cloud: Connection) -> None:
    identity: Any = cloud.identity  # version 3; the SDK's types allow version 2 too
    roles = {r.name: r for r in identity.roles()}
    roles["weft"] = identity.create_role(name="weft", description="What weft may do beyond a member")
    projects = {p.name: p for p in identity.projects()}
    for name in ("service", *TEAMS):
        projects[name] = identity.create_project(name=name, domain_id=DOMAIN)

    def user(name: str, project: str, *granted: str) -> Any:
        made = identity.create_user(
            name=name, password=SECRET, domain_id=DOMAIN, default_project_id=projects[project].id
        )
        for role in granted:
            identity.assign_project_role_to_user(projects[project], made, roles[role])
        return made

    for api in API_SERVICES:
        if api.name != "keystone":
            user(api.name, "service", "admin", "service")
    for team in TEAMS:
        user(f"{team}-member", team, "member")
        user(f"{team}-reader", team, "reader")
    weft = user("weft", "service", "service", "weft")
    for role in ("member", "weft"):
        # Inherited: in every project of the domain, not in the domain itself.
        identity.assign_domain_role_to_user(DOMAIN, weft, roles[role], inherited=True)


def _catalog(cloud: Connection, layout: Layout) -> None:
    identity: Any = cloud.identity
    for name, kind, url in endpoints(layout):
        if name == "keystone":
            continue  # made by keystone-manage bootstrap
        service = identity.create_service(name=name, type=kind)
        for interface in ("public", "internal"):
            identity.create_endpoint(service_id=service.id, interface=interface, region_id=REGION, url=url)


def _flavors(cloud: Connection) -> None:
    for name, (vcpus, ram, disk, extra) in FLAVORS.items():
        flavor = cloud.compute.create_flavor(name=name, vcpus=vcpus, ram=ram, disk=disk)
        if extra:
            cloud.compute.create_flavor_extra_specs(flavor, extra)


def _image(cloud: Connection) -> None:
    """Upload an image of one mebibyte of zeros: no hypervisor ever boots it."""
    cloud.image.create_image(
        name="tiny",
        disk_format="raw",
        container_format="bare",
        visibility="public",
        data=bytes(1 << 20),
        allow_duplicates=True,
        wait=True,
    )


def _external_network(cloud: Connection) -> None:
    network = cloud.network.create_network(
        name="public",
        is_router_external=True,
        provider_network_type="flat",
        provider_physical_network="physext",
    )
    cloud.network.create_subnet(
        network_id=network.id,
        name="public",
        ip_version=4,
        cidr="203.0.113.0/24",
        is_dhcp_enabled=False,
    )
