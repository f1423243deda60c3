"""What Ironic must find: its account and network; and the machines in Ironic, enrolled and cleaned once."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

import openstack
from openstack.connection import Connection

from weft.model.site import Node, Site
from weft.planning.fabric.addressing import client_id, mac_of_guid
from weftlab.bootstrap import ACCOUNTS, connect, login
from weftlab.config import REGION, SECRET
from weftlab.layout import LabError, Layout
from weftlab.metal.config import CLEANING_NETWORK, USER, secret_path
from weftlab.metal.machines import FLAVOR, PHYSICAL_NETWORK, RESOURCE_CLASS, mac, machines

CLEANING_VLAN = 2900
"""Of the VLANs that weft doesn't give out."""
PATIENCE = 240.0


def write_secret(layout: Layout) -> None:
    """The BMCs' account."""
    path = secret_path(layout)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_text(f"bmc {secrets.token_hex(16)}\n")


def accounts(layout: Layout) -> None:
    """Ironic's user, its place in the catalog, its cleaning network, and the flavor of its machines."""
    cloud = connect(layout)
    identity: Any = cloud.identity
    roles = {r.name: r for r in identity.roles()}
    service = identity.find_project("service", ignore_missing=False)
    user = identity.find_user(USER) or identity.create_user(
        name=USER, password=SECRET, domain_id="default", default_project_id=service.id
    )
    for role in ("admin", "service"):
        identity.assign_project_role_to_user(service, user, roles[role])
    operator = identity.find_user(ACCOUNTS["operator"][0], ignore_missing=False)
    identity.assign_system_role_to_user(operator, roles["admin"], "all")
    if not identity.find_service("ironic"):
        made = identity.create_service(name="ironic", type="baremetal")
        for interface in ("public", "internal"):
            url = layout.url("ironic")
            identity.create_endpoint(service_id=made.id, interface=interface, region_id=REGION, url=url)


def cloud_parts(layout: Layout) -> None:
    """In Neutron and Nova."""
    cloud = connect(layout)
    network: Any = cloud.network
    found = network.find_network(CLEANING_NETWORK) or network.create_network(
        name=CLEANING_NETWORK,
        provider_network_type="vlan",
        provider_physical_network=PHYSICAL_NETWORK,
        provider_segmentation_id=CLEANING_VLAN,
    )
    if not list(network.subnets(network_id=found.id)):
        network.create_subnet(network_id=found.id, ip_version=4, cidr="10.77.0.0/24", gateway_ip=None)
    compute: Any = cloud.compute
    if not compute.find_flavor(FLAVOR):
        # Nova takes the whole machine by its resource class; the amounts are for people and quotas.
        flavor = compute.create_flavor(name=FLAVOR, vcpus=96, ram=1024 * 1024, disk=1)
        amounts = dict.fromkeys(("resources:VCPU", "resources:MEMORY_MB", "resources:DISK_GB"), "0")
        own = "resources:CUSTOM_" + RESOURCE_CLASS.upper().replace("-", "_")
        compute.create_flavor_extra_specs(flavor, {own: "1", **amounts})


def system(layout: Layout) -> Connection:
    """As an administrator of the system: nobody else may enroll."""
    given = login(layout, *ACCOUNTS["operator"])
    for name in ("project_name", "project_domain_id"):
        del given["auth"][name]
    given["auth"]["system_scope"] = "all"
    return openstack.connect(load_yaml_config=False, load_envvars=False, app_name="weft-lab", **given)


def machines_step(layout: Layout, site: Site) -> None:
    """Enroll what isn't there yet, and wait until all were cleaned. Raises `LabError`."""
    bare: Any = system(layout).baremetal
    known = {n.id: n for n in bare.nodes()}
    name, password = secret_path(layout).read_text().split()
    for index, node in enumerate(machines(site)):
        if node.machine not in known:
            _enroll(bare, layout, node, mac(index), (name, password))
    wanted = {n.machine for n in machines(site)}
    end = time.monotonic() + PATIENCE
    while True:
        states = {n.name: n for n in bare.nodes(details=True) if n.id in wanted}
        for one in states.values():
            _push(bare, one)
        late = {k: n.provision_state for k, n in states.items() if n.provision_state in _ON_THEIR_WAY}
        if not late and len(states) == len(wanted):
            return
        stuck = [n for n in states.values() if n.provision_state in ("clean failed", "enroll")]
        if failed := [n for n in stuck if n.last_error]:
            raise LabError(f"machine {failed[0].name}: {failed[0].last_error}")
        if time.monotonic() > end:
            raise LabError(f"machines not ready after {PATIENCE:.0f} s: {late}")
        time.sleep(1)


_ON_THEIR_WAY = frozenset({"enroll", "verifying", "manageable", "cleaning", "clean wait"})
_NEXT = {"enroll": "manage", "manageable": "provide"}


def _push(bare: Any, node: Any) -> None:
    """Towards `available`."""
    if node.provision_state in _NEXT and not node.is_maintenance and not node.reservation:
        if node.provision_state == "manageable" and node.power_state is None:
            return
        bare.set_node_provision_state(node, _NEXT[node.provision_state])


def offered(layout: Layout, site: Site) -> Callable[[], str | None]:
    """Whether Nova's Placement has all machines as free; None: it has. Before that no order finds a valid host."""
    placement: Any = connect(layout).placement

    def check() -> str | None:
        for node in machines(site):
            answer = placement.get(f"/resource_providers/{node.machine}/inventories")
            found = answer.json().get("inventories", {}).values() if answer.ok else ()
            if not any(one["total"] > one["reserved"] for one in found):
                return f"Nova's Placement doesn't have {node.name} as free"
        return None

    return check


def node_body(layout: Layout, node: Node, account: tuple[str, str]) -> dict[str, Any]:
    """What Ironic is told of a machine. Args: account: of its BMC."""
    return {
        "uuid": node.machine,
        "name": node.name,
        "driver": "lab",
        "resource_class": RESOURCE_CLASS,
        "properties": {"cpus": 96, "memory_mb": 1024 * 1024, "local_gb": 1000, "cpu_arch": "x86_64"},
        "driver_info": {
            "redfish_address": layout.url("bmc"),
            "redfish_system_id": f"/redfish/v1/Systems/{node.machine}",
            "redfish_username": account[0],
            "redfish_password": account[1],
            # There is no TLS; and `true` is looked up in a section of ironic.conf that only Ironic's own drivers have.
            "redfish_verify_ca": False,
        },
    }


def _enroll(bare: Any, layout: Layout, node: Node, address: str, account: tuple[str, str]) -> None:
    made = bare.create_node(**node_body(layout, node, account))
    bare.create_port(
        node_id=made.id,
        address=address,
        is_pxe_enabled=True,
        physical_network=PHYSICAL_NETWORK,
        local_link_connection={"switch_id": "02:00:00:00:ff:00", "port_id": node.name, "switch_info": "mgmt"},
    )
    for hca in node.hcas:
        bare.create_port(
            node_id=made.id,
            address=mac_of_guid(hca.port_guid),
            is_pxe_enabled=False,
            physical_network="ibnet",
            extra={"client-id": client_id(hca.port_guid)},
        )
