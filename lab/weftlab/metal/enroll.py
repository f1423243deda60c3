"""What Ironic must find: its account and network; and the machines in Ironic, enrolled and cleaned once."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openstack
import yaml
from openstack.connection import Connection

from weft.app.enroll import Enroller, read_input
from weft.drivers.openstack import Sessions
from weft.drivers.openstack.cleaning import Demands
from weft.drivers.openstack.enrollment import Enrollment
from weft.model.site import Node, Site
from weft.planning.fabric.addressing import client_id, mac_of_guid
from weftlab.bootstrap import ACCOUNTS, connect, enroller
from weftlab.config import REGION, SECRET
from weftlab.layout import LabError, Layout
from weftlab.metal.config import CLEANING_NETWORK, USER, secret_path
from weftlab.metal.machines import FLAVOR, GPU, PHYSICAL_NETWORK, RESOURCE_CLASS, mac, machines

CLEANING_VLAN = 2900
"""One of the VLANs that weft doesn't assign."""
PATIENCE = 240.0
MEMORY_GIB = 1024
GPU_IDS = "10de:2335"
SWITCH, SWITCH_MAC = "mgmt", "02:00:00:00:ff:00"
"""The switch to which the machines' Ethernet ports are cabled: a bridge if the machines boot, otherwise only a name."""


def write_secret(layout: Layout) -> None:
    """Write name and password of the BMCs' account, unless the file exists."""
    path = secret_path(layout)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_text(f"bmc {secrets.token_hex(16)}\n")


def accounts(layout: Layout) -> None:
    """Create Ironic's user and its entry in the catalog."""
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


def cleaning_network(layout: Layout) -> None:
    """Create the network for cleaning in Neutron, unless it exists."""
    network: Any = connect(layout).network
    found = network.find_network(CLEANING_NETWORK) or network.create_network(
        name=CLEANING_NETWORK,
        provider_network_type="vlan",
        provider_physical_network=PHYSICAL_NETWORK,
        provider_segmentation_id=CLEANING_VLAN,
    )
    if not list(network.subnets(network_id=found.id)):
        network.create_subnet(
            network_id=found.id,
            ip_version=4,
            cidr="10.77.0.0/24",
            gateway_ip=None,
            is_dhcp_enabled=False,  # nothing boots over it
        )


def flavor(layout: Layout) -> None:
    """Create the machines' flavor in Nova: it requests a machine by resource class; other amounts are for quotas."""
    compute: Any = connect(layout).compute
    if not compute.find_flavor(FLAVOR):
        made = compute.create_flavor(name=FLAVOR, vcpus=96, ram=1024 * 1024, disk=1)
        amounts = dict.fromkeys(("resources:VCPU", "resources:MEMORY_MB", "resources:DISK_GB"), "0")
        own = "resources:CUSTOM_" + RESOURCE_CLASS.upper().replace("-", "_")
        compute.create_flavor_extra_specs(made, {own: "1", **amounts})


def system(layout: Layout) -> Connection:
    """A connection with the rights to enroll machines, of the whole system."""
    return openstack.connect(
        load_yaml_config=False, load_envvars=False, app_name="weft-lab", **enroller(layout)
    )


def list_path(layout: Layout) -> Path:
    """The hardware list of `weft site enroll`."""
    return layout.etc / "bmc" / "machines.yaml"


def write_list(layout: Layout, site: Site, boots: bool = False) -> None:
    """Write the list, and a file of what an inspection will find of each machine, which a test may falsify."""
    found = machines(site)
    ports = {node.name: mac(index) for index, node in enumerate(found)}
    listed: dict[str, Any] = {
        "defaults": {
            "driver": "lab",
            "resource_class": RESOURCE_CLASS,
            "account": secret_path(layout).name,
            "verify_ca": "false",  # there is no TLS
            "memory_gib": MEMORY_GIB,
            "disks": 1,
            **({"boot_mode": "bios"} if boots else {}),
        },
        "accelerators": {GPU: GPU_IDS},
        "machines": {
            node.name: {
                "bmc": layout.url("bmc"),
                "system": f"/redfish/v1/Systems/{node.machine}",
                "ports": [
                    {
                        "mac": ports[node.name],
                        "physical_network": PHYSICAL_NETWORK,
                        "switch": SWITCH,
                        "switch_port": node.name,
                        "switch_mac": SWITCH_MAC,
                    }
                ],
            }
            for node in found
        },
    }
    list_path(layout).parent.mkdir(parents=True, exist_ok=True)
    list_path(layout).write_text(yaml.safe_dump(listed, sort_keys=False))
    for node in found:
        path = layout.data / "inspections" / f"{node.machine}.json"
        if not path.exists():
            path.write_text(json.dumps(inspection(node, ports[node.name]), indent=1))


def inspection(node: Node, address: str) -> dict[str, Any]:
    """Inspection data as Ironic's agent and the hook parse-lldp write it. Args: address: of the Ethernet port."""
    return {
        "inventory": {
            "interfaces": [
                {"name": "eno1", "mac_address": address, "client_id": None, "pci_address": "0000:01:00.0"},
                *(
                    {
                        "name": f"ib{number}",
                        "mac_address": mac_of_guid(hca.port_guid),
                        "client_id": client_id(hca.port_guid),
                        "pci_address": hca.pci,
                    }
                    for number, hca in enumerate(node.hcas)
                ),
            ],
            "memory": {"total": MEMORY_GIB << 30, "physical_mb": MEMORY_GIB * 1024},
            "disks": [{"name": "/dev/sda", "size": 1000 << 30}],
        },
        "plugin_data": {
            "pci_devices": [
                {"vendor_id": GPU_IDS[:4], "product_id": GPU_IDS[5:], "bus": gpu.pci}
                for gpu in node.accelerators
            ],
            "parsed_lldp": {"eno1": {"switch_system_name": SWITCH, "switch_port_id": node.name}},
        },
    }


def machines_step(layout: Layout, site: Site) -> None:
    """Enroll the machines with `weft site enroll`, and wait until all were inspected and cleaned. Raises `LabError`."""
    demands = Demands.of(site.clouds[str(machines(site)[0].cloud)])
    sessions = Sessions("enroller", [layout.clouds_yaml], cleaning=demands)
    try:
        given = read_input(layout.site_path, list_path(layout))
        seen = Enroller(given, Enrollment(sessions), False, False, lambda _: None).run(PATIENCE)
    finally:
        sessions.close()
    for one in seen.machines:
        if not one.good:
            raise LabError(
                f"machine {one.machine}: {one.state}: {'; '.join(one.differences) or 'not ready yet'}"
            )


def offered(layout: Layout, site: Site) -> Callable[[], str | None]:
    """Ready once Placement offers all machines as free: before that no order finds a valid host."""
    placement: Any = connect(layout).placement

    def check() -> str | None:
        for node in machines(site):
            answer = placement.get(f"/resource_providers/{node.machine}/inventories")
            found = answer.json().get("inventories", {}).values() if answer.ok else ()
            if not any(one["total"] > one["reserved"] for one in found):
                return f"Nova's Placement doesn't have {node.name} as free"
        return None

    return check
