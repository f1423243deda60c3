"""IPU-PODs as a site has them: the IPU-Machines, their three addresses each, and the networks that they stand in.

Source of the terms and of the address plan: Graphcore's reference design for OpenStack (BMC and IPU-Gateway on the
1GbE management network, the RNIC on the 100GbE data network) and the V-IPU guides.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from weft.model.base import Document
from weft.model.ids import Mac, Name
from weft.model.ranges import Range

IPUS_PER_MACHINE = 4
"""An IPU-M2000 and a Bow-2000 hold four IPUs (data sheets)."""

AGENT_PORT = 8080
USER_PORT = 8090
ADMIN_PORT = 8091
METRICS_PORT = 2113
NODE_EXPORTER_PORT = 9100
SYSLOG_PORT = 514
"""Ports of the V-IPU agent, the controller's two doors, the exporters and the log collector (docs/openvipu.md)."""


def _text(value: Any) -> Any:
    """ipaddress takes whole numbers and even booleans for addresses; nobody means that."""
    if isinstance(value, bool | int):
        raise ValueError("an IPv4 address such as 10.2.1.1")
    return value


Address = Annotated[IPv4Address, BeforeValidator(_text)]


class IpuMachine(Document):
    """An IPU-Machine (IPU-M2000): four IPUs, a gateway that its V-IPU agent runs on, a BMC, a 100GbE RNIC."""

    name: Name = Field(description="Name of the machine; also its agent's id in the V-IPU controller.")
    ipu_pod: Name = Field(description="IPU-POD that it is cabled in.")
    position: int = Field(ge=1, le=16, description="Place in the row of IPU-Link cables, from 1.")
    rack: Name | None = Field(default=None, description="Rack.")
    maintenance: str | None = Field(default=None, description="Why the machine may not be ordered now.")
    rnic_mac: Mac = Field(description="MAC address of the RNIC, on the data network.")
    rnic_address: Address = Field(
        description="IPv4 address of the RNIC, inside the IPU-POD's data addresses."
    )
    rnic_switch: Name = Field(description="Switch of the data network that the RNIC is cabled to.")
    rnic_port: int = Field(ge=1, le=254, description="Port of that switch.")
    bmc_mac: Mac = Field(description="MAC address of the BMC.")
    bmc_address: Address = Field(description="IPv4 address of the BMC.")
    gw_mac: Mac = Field(description="MAC address of the IPU-Gateway.")
    gw_address: Address = Field(description="IPv4 address of the IPU-Gateway: where the V-IPU agent answers.")
    agent_port: int = Field(default=AGENT_PORT, ge=1, le=65535, description="TCP port of the V-IPU agent.")


class IpuDataNetwork(Document):
    """IPU over Fabric: RoCE between Poplar servers and RNICs; a VLAN of its own for each tenant's pod."""

    physical_network: Name = Field(description="Neutron's name of the physical network.")
    segments: Range = Field(description="VLANs that weft may give out.")
    addresses: IPv4Network = Field(
        description="Subnet that every pod's data network has: the RNICs' addresses are in it; "
        "its last 32 are for Poplar servers and the cloud's DHCP."
    )


class IpuGatewayNetwork(Document):
    """Controllers and agents: shared by all vPODs, the site's own, never a tenant's."""

    network: str = Field(
        min_length=1,
        max_length=255,
        description="Neutron's name of it, in the project of weft's service user.",
    )
    physical_network: Name = Field(description="Neutron's name of the physical network.")
    vlan: int = Field(ge=1, le=4094, description="Its VLAN.")
    addresses: IPv4Network = Field(description="Its addresses, the gateways' among them.")
    controllers: IPv4Network = Field(description="Block inside it that V-IPU controllers get addresses from.")
    managed_from: IPv4Network = Field(
        description="Where weft's own servers are: the only place that reaches controllers' admin API."
    )
    agents_ca: str | None = Field(
        default=None,
        max_length=16384,
        description="Authority of the V-IPU agents' certificates: the text of its PEM file. "
        "weft and the controllers show agents their keys in TLS that this authority vouches for.",
    )
    keys_in_clear: bool = Field(
        default=False,
        description="Send keys without TLS to agents where there is no agents_ca, and to controllers that were made "
        "before weft gave them TLS. Whoever can listen on the gateways' network then has them.",
    )


class IpuBmcNetwork(Document):
    """BMCs: datacentre administrators only. weft puts nothing on it, and checks that no tenant is on it."""

    physical_network: Name = Field(description="Neutron's name of the physical network.")
    vlan: int = Field(ge=1, le=4094, description="Its VLAN; often that of the gateways, with another subnet.")
    addresses: IPv4Network = Field(description="Its addresses.")


class IpuController(Document):
    """The V-IPU controller's virtual machine; one a pod, in the project of weft's service user."""

    image: str = Field(min_length=1, max_length=255, description="Glance image with openvipu and cloud-init.")
    flavor: Name = Field(description="Nova flavor.")


class IpuPod(Document):
    """An IPU-POD: a row of IPU-Machines on IPU-Links with its data switch."""

    cloud: Name | None = Field(default=None, description="Name of the cloud; none: the only one.")
    topology: Literal["mesh", "torus"] = Field(
        description="mesh: the row's ends are open (POD16); torus: they are joined to a ring (POD64)."
    )
    data: IpuDataNetwork = Field(description="IPU over Fabric.")
    gateway: IpuGatewayNetwork = Field(description="Gateways and controllers.")
    bmc: IpuBmcNetwork = Field(description="BMCs.")
    controller: IpuController = Field(description="What V-IPU controllers are made from.")
