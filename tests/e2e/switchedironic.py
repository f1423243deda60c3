"""Configuration of a real Ironic whose switches are set by Neutron, with its own networks on them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from openstack.connection import Connection

from tests.e2e.switchedneutron import VLAN
from weftlab import config
from weftlab.lab import Lab
from weftlab.switches.labsite import PHYSICAL_NETWORK

CLEANING, PROVISIONING = VLAN + 2, VLAN + 3


@contextmanager
def networks(cloud: Connection) -> Iterator[dict[int, str]]:
    """VLAN -> id of the network. Ironic's own two belong to the operator."""
    made: dict[int, str] = {}
    with ExitStack() as undo:
        for vlan in (CLEANING, PROVISIONING):
            made[vlan] = network_of(cloud, vlan, undo)
        yield made


def network_of(cloud: Connection, vlan: int, undo: ExitStack) -> str:
    network: Any = cloud.network.create_network(
        name=f"lab-test-machines-{vlan}",
        provider_network_type="vlan",
        provider_physical_network=PHYSICAL_NETWORK,
        provider_segmentation_id=vlan,
    )
    undo.callback(cloud.network.delete_network, network.id)
    cloud.network.create_subnet(
        network_id=network.id,
        ip_version=4,
        cidr=f"10.{vlan - 1700}.0.0/24",
        gateway_ip=None,
        is_dhcp_enabled=False,
    )
    return str(network.id)


def ironics(lab: Lab, neutron: str, own: dict[int, str]) -> config.Sections:
    """An Ironic that signs in to the lab's services, and to the Neutron that sets switches."""
    login = config.login(lab.layout, "nova")
    mine = {f"{n}_network": own[CLEANING] for n in ("cleaning", "inspection", "rescuing")}
    mine |= {"provisioning_network": own[PROVISIONING], "endpoint_override": neutron}
    return {
        "DEFAULT": {"enabled_network_interfaces": "neutron"},
        "neutron": {**login, **mine, "fail_on_port_binding_failure": True},
        **{name: dict(login) for name in ("service_catalog", "glance", "nova", "swift")},
    }
