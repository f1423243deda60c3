"""Hardware other than hosts and IPU-Machines, and the interfaces that all hardware has on the site's networks."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from weft.model.base import Document
from weft.model.ids import Mac, Name
from weft.model.site.hostnames import DnsName, host_label
from weft.model.site.ipus import PORT, Address
from weft.model.site.switching import SwitchPort

MOST_PORTS = 1024
"""Ports of one switch at most; chassis switches have fewer."""
_PATTERN = re.compile(
    r"(?P<before>[!-Z\\^-~]{0,40})(?:\[(?P<first>[0-9]{1,4})-(?P<last>[0-9]{1,4})(?::(?P<step>[0-9]{1,2}))?\]"
    r"(?P<after>[!-Z\\^-~]{0,40}))?"
)
PORT_NAME = re.compile(r"[!-Z\\^-~]{1,40}")
"""The name of one port of a switch as weft writes it."""
PORT_PATTERN = "port names such as Ethernet[1-48], swp[1-32]s0 or Ethernet[0-124:4] (each fourth number)"


@cache
def port_names(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Names of a switch's ports in front-panel order: `Ethernet[1-48]` is Ethernet1 to Ethernet48.

    Raises ValueError with what is allowed.
    """
    names: list[str] = []
    for pattern in patterns:
        match = _PATTERN.fullmatch(pattern)
        if match is None:
            raise ValueError(PORT_PATTERN)
        if match["first"] is None:
            names.append(pattern)
            continue
        first, last, step = int(match["first"]), int(match["last"]), int(match["step"] or 1)
        if first > last or not step:
            raise ValueError(PORT_PATTERN)
        names += [f"{match['before']}{n}{match['after']}" for n in range(first, last + 1, step)]
    if len(names) > MOST_PORTS:
        raise ValueError(f"at most {MOST_PORTS} ports")
    if len(set(names)) < len(names):
        twice = next(n for i, n in enumerate(names) if n in names[:i])
        raise ValueError(f"each port once; {twice} is there twice")
    return tuple(names)


def plain_port(name: str) -> str:
    """A port's name as weft writes it, without blanks: management switches call theirs `Port 1`."""
    return "".join(name.split())


def _split(value: object) -> object:
    """A cell of a CSV file is a single string."""
    return tuple(value.split()) if isinstance(value, str) else value


def _expandable(value: tuple[str, ...]) -> tuple[str, ...]:
    port_names(value)
    return value


PortPatterns = Annotated[tuple[str, ...], BeforeValidator(_split), AfterValidator(_expandable)]
Macs = Annotated[tuple[Mac, ...], BeforeValidator(_split), Field(max_length=16)]
SwitchPorts = Annotated[tuple[SwitchPort, ...], BeforeValidator(_split), Field(max_length=16)]


class Device(Document):
    """Hardware that isn't a host, an IPU-Machine or a switch of an RDMA fabric."""

    name: Name = Field(description="Name of the device.")
    kind: Literal["switch", "pdu", "storage", "router", "other"] = Field(description="What it is.")
    rack: Name | None = Field(default=None, description="Rack.")
    ports: PortPatterns = Field(
        default=(),
        description="Switches: names of its ports in front-panel order, with ranges in brackets, such as "
        "`Ethernet[1-48] Ethernet[49-52]/1`; separated by spaces.",
    )
    port_gbps: float | None = Field(
        default=None, gt=0, le=10_000, description="Switches: line rate of its ports in Gb/s."
    )
    mtu: int | None = Field(
        default=None,
        ge=1280,
        le=16_384,
        description="Switches: largest IP packet that its ports carry, in bytes.",
    )


class Interface(Document):
    """A network interface of a piece of hardware on one of the site's networks.

    BMCs, gateways and RNICs of IPU-Machines are in the table `ipu_machines`, adapters of hosts on a fabric in `hcas`.
    """

    device: Name = Field(description="Host, IPU-Machine, switch or device that it belongs to.")
    name: Name = Field(description="Name of the interface on it, such as bmc, mgmt or eth0.")
    network: Name = Field(description="Network of the site.")
    mac: Mac = Field(description="MAC address.")
    address: Address = Field(description="IPv4 address, in a subnet of the network and outside of its pool.")
    dns_name: DnsName | None = Field(
        default=None,
        description="Host name in the cloud's DNS, without the domain. Default: `<device>-<name>`, with dashes for "
        "other characters.",
    )
    switch: Name | None = Field(default=None, description="Switch that it is cabled to.")
    port: str | None = Field(
        default=None,
        pattern=PORT,
        description="Port of that switch, by the vendor's name or by its number from 1.",
    )
    rate_gbps: float | None = Field(
        default=None, gt=0, le=10_000, description="Line rate that it needs in Gb/s."
    )

    bond_macs: Macs = Field(
        default=(),
        description="Of a bond: MAC addresses of its links that aren't its own; separated by spaces.",
    )
    bond_ports: SwitchPorts = Field(
        default=(),
        description="Of a bond: where its further links are cabled to besides `switch` and `port`, as switch/port with "
        "the vendor's port name; separated by spaces.",
    )

    @property
    def host_name(self) -> str:
        """Its name in DNS, as given or made of device and interface."""
        return self.dns_name or host_label(self.device, self.name)

    @property
    def ends(self) -> tuple[tuple[str, str], ...]:
        """Switch and port of every link of it that is cabled."""
        first = ((self.switch, self.port),) if self.switch is not None and self.port is not None else ()
        others = (end.partition("/") for end in self.bond_ports)
        return (*first, *((switch, port) for switch, _, port in others))
