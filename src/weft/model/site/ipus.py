"""A site's IPU-PODs: the IPU-Machines with three addresses each, and the networks that they are on.

Source of the terms and the address plan: Graphcore's reference design for OpenStack (BMC and IPU-Gateway on the
1GbE management network, the RNIC on the 100GbE data network) and the V-IPU guides.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from weft.model.base import Document
from weft.model.ids import Mac, Name, Reason
from weft.model.ranges import Range
from weft.model.site.hostnames import host_label

IPUS_PER_MACHINE = 4
"""An IPU-M2000 and a Bow-2000 have four IPUs (data sheets)."""

AGENT_PORT = 8080
USER_PORT = 8090
ADMIN_PORT = 8091
METRICS_PORT = 2113
NODE_EXPORTER_PORT = 9100
SYSLOG_PORT = 514
"""Ports of the V-IPU agent, the controller's user and admin API, the exporters and the log collector
(docs/openvipu.md).
"""


def _text(value: Any) -> Any:
    """Refuses integers and booleans, which ipaddress takes for addresses."""
    if isinstance(value, bool | int):
        raise ValueError("an IPv4 address such as 10.2.1.1")
    return value


PORT = r"^[!-~]{1,64}$"
"""A switch's port as a site file names it."""

Address = Annotated[IPv4Address, BeforeValidator(_text)]


LEGS = ("bmc", "gw", "rnic")
"""Interfaces of an IPU-Machine."""


class IpuMachine(Document):
    """An IPU-Machine (IPU-M2000): four IPUs, a gateway that its V-IPU agent runs on, a BMC, a 100GbE RNIC."""

    name: Name = Field(description="Name of the machine; also its agent's id in the V-IPU controller.")
    ipu_pod: Name = Field(description="IPU-POD that the machine belongs to.")
    position: int = Field(ge=1, le=16, description="Position in the chain of IPU-Link cables, from 1.")
    rack: Name | None = Field(default=None, description="Rack.")
    maintenance: Reason = Field(
        default=None, description="Set while the machine must not be assigned: the reason."
    )
    rnic_mac: Mac = Field(description="MAC address of the RNIC, on the data network.")
    rnic_address: Address = Field(
        description="IPv4 address of the RNIC, inside the IPU-POD's data addresses."
    )
    rnic_switch: Name = Field(description="Data network switch that the RNIC is cabled to.")
    rnic_port: int = Field(ge=1, le=254, description="Port number on that switch.")
    rnic_switch_port: str | None = Field(
        default=None,
        pattern=r"^[!-.0-~][!-~]*$",
        description="That port by the vendor's name, such as Ethernet7; required if the data network is a `fabric`.",
    )
    bmc_mac: Mac = Field(description="MAC address of the BMC.")
    bmc_address: Address = Field(description="IPv4 address of the BMC.")
    bmc_switch: Name | None = Field(default=None, description="Switch that the BMC is cabled to.")
    bmc_port: str | None = Field(
        default=None,
        pattern=PORT,
        description="Port of that switch, by the vendor's name or by its number from 1.",
    )
    gw_mac: Mac = Field(description="MAC address of the IPU-Gateway.")
    gw_address: Address = Field(description="IPv4 address of the IPU-Gateway, where the V-IPU agent listens.")
    gw_switch: Name | None = Field(default=None, description="Switch that the IPU-Gateway is cabled to.")
    gw_port: str | None = Field(
        default=None,
        pattern=PORT,
        description="Port of that switch, by the vendor's name or by its number from 1.",
    )
    agent_port: int = Field(default=AGENT_PORT, ge=1, le=65535, description="TCP port of the V-IPU agent.")

    @property
    def is_whole(self) -> bool:
        """Always true: pods get whole machines. The same property as nodes have."""
        return True

    @property
    def port_id(self) -> str:
        """Id under which the fabric's driver knows the RNIC's port, if the data network is a fabric."""
        return f"{self.rnic_switch}/{self.rnic_switch_port}"

    def host_name(self, interface: str) -> str:
        """Host name of one of its interfaces (`LEGS`), as in the reference design."""
        return host_label(self.name, interface)


class IpuDataNetwork(Document):
    """IPU over Fabric: RoCE between Poplar servers and RNICs, with one VLAN per pod."""

    fabric: Name | None = Field(
        default=None,
        description="Ethernet fabric that the RNICs and the Poplar servers' adapters are cabled to: weft puts their "
        "switch ports in the pod's VLAN there. Physical network and VLANs are the fabric's then.",
    )
    physical_network: Name | None = Field(
        default=None, description="Name of the physical network in Neutron; required without `fabric`."
    )
    segments: Range | None = Field(
        default=None, description="VLANs that weft may allocate; required without `fabric`."
    )
    addresses: IPv4Network = Field(
        description="Subnet of every pod's data network. It contains the RNICs' addresses; "
        "its last 32 addresses are for Poplar servers and the cloud's DHCP."
    )


class IpuGatewayNetwork(Document):
    """Controllers and agents: a network of the site, shared by all pods, never visible to tenants."""

    network: str = Field(
        min_length=1,
        max_length=255,
        description="Name of the network in Neutron, in the project of weft's service user.",
    )
    physical_network: Name = Field(description="Name of the physical network in Neutron.")
    vlan: int = Field(ge=1, le=4094, description="VLAN id.")
    addresses: IPv4Network = Field(description="Subnet; contains the gateways' addresses.")
    controllers: IPv4Network = Field(
        description="Range of that subnet from which V-IPU controllers get addresses."
    )
    managed_from: IPv4Network = Field(
        description="Network of weft's own servers, the only one with access to the controllers' admin API."
    )
    agents_ca: str | None = Field(
        default=None,
        max_length=16384,
        description="CA of the V-IPU agents' certificates, as PEM text. "
        "weft and the controllers send keys to agents only over TLS verified with it.",
    )
    keys_in_clear: bool = Field(
        default=False,
        description="Send keys without TLS to agents if there is no agents_ca, and to controllers created before weft "
        "configured TLS on them. Anyone who can sniff the gateway network can then read them.",
    )


class IpuBmcNetwork(Document):
    """BMCs: datacentre administrators only. weft puts nothing on it, and checks that no tenant is on it."""

    physical_network: Name = Field(description="Name of the physical network in Neutron.")
    vlan: int = Field(ge=1, le=4094, description="VLAN id; often that of the gateways, with another subnet.")
    addresses: IPv4Network = Field(description="Subnet.")


class IpuController(Document):
    """The V-IPU controller's virtual machine; one per pod, in the project of weft's service user."""

    image: str = Field(min_length=1, max_length=255, description="Glance image with openvipu and cloud-init.")
    flavor: Name = Field(description="Nova flavor.")


class IpuPod(Document):
    """An IPU-POD: a chain of IPU-Machines connected by IPU-Links, with its data switch."""

    cloud: Name | None = Field(
        default=None, description="Cloud by name; may be omitted if the site has only one."
    )
    topology: Literal["mesh", "torus"] = Field(
        description="mesh: the ends of the chain are open (POD16); torus: they are connected, forming a ring (POD64)."
    )
    data: IpuDataNetwork = Field(description="Data network (IPU over Fabric).")
    gateway: IpuGatewayNetwork = Field(description="Network of gateways and controllers.")
    bmc: IpuBmcNetwork = Field(description="Network of BMCs.")
    controller: IpuController = Field(description="Image and flavor of V-IPU controllers.")
