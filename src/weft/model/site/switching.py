"""An Ethernet fabric's switches, how weft manages them, and the links between them by the vendors' names of ports."""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, model_validator

from weft.model.base import Document
from weft.model.ids import Name

SwitchPort = Annotated[str, StringConstraints(pattern=r"^[^\s/]+/[!-~]+$", max_length=128)]
"""A switch's name and the vendor's name of a port or link aggregation, such as `leaf01/Port-Channel7`."""


class SwitchAccess(Document):
    """How one switch is managed."""

    name: Name = Field(description="Name of the switch, as in the table of switches.")
    interface: Literal["eos", "nvue", "sonic", "ovs", "generic"] = Field(
        description="eos: Arista eAPI; nvue: NVIDIA Cumulus Linux NVUE REST; sonic: SONiC RESTCONF; "
        "ovs: Open vSwitch by its database; generic: any other, by SSH through networking-generic-switch "
        "(`device_type`), which can't be read back."
    )
    url: str = Field(
        pattern=r"^((https|ssh)://[^\s/@]+/?|unix:/\S+)$",
        description="URL of its API: https://host:port, for Open vSwitch unix:/path of its database's socket, "
        "for generic ssh://host:port. It contains no credentials.",
    )
    device_type: str | None = Field(
        default=None,
        pattern=r"^netmiko_[a-z0-9_]+$",
        description="Interface generic: a device type of networking-generic-switch, such as netmiko_juniper.",
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        scheme = {"ovs": "unix:", "generic": "ssh://"}.get(self.interface, "https://")
        if not self.url.startswith(scheme):
            raise ValueError(f"a url that begins with {scheme} for interface {self.interface}")
        if self.interface != "ovs" and not _has_possible_port(self.url):
            raise ValueError("a url with a host and, if one is given, a port of 1 to 65535")
        if (self.interface == "generic") != (self.device_type is not None):
            raise ValueError("a device_type for interface generic, and for no other")
        return self


def _has_possible_port(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # no number, more than 65535, or half an IPv6 address
        return False


class SwitchLink(Document):
    """A link between two switches, by ports or link aggregations; pods' VLANs are added to it as needed."""

    a: SwitchPort = Field(description="One end, such as leaf01/Ethernet49.")
    b: SwitchPort = Field(description="The other end.")
    peer: bool = Field(default=False, description="It is the peer link of an MLAG pair.")
    rate_gbps: int | None = Field(
        default=None,
        ge=1,
        description="Line rate in Gb/s, of all links of an aggregation together. Default: that of the fabric's fastest "
        "adapter.",
    )


class Bundle(Document):
    """Ports that are one bond of a host: link aggregations of the two switches of an MLAG pair."""

    ports: tuple[SwitchPort, ...] = Field(
        min_length=2, max_length=8, description="Ends; an adapter's switch_port names any of them."
    )


class Switching(Document):
    """What weft must know of an Ethernet fabric to put ports into VLANs."""

    configured_by: Literal["weft", "neutron"] = Field(
        default="weft",
        description="Who puts ports into VLANs. weft: through the switches' own APIs. neutron: an ML2 driver, "
        "such as networking-generic-switch, when Neutron binds a port; weft then only reads the "
        "switches, and reports differences.",
    )
    switches: tuple[SwitchAccess, ...] = Field(min_length=1, description="Every switch of the fabric.")
    links: tuple[SwitchLink, ...] = Field(default=(), description="Links between switches.")
    bundles: tuple[Bundle, ...] = Field(default=(), description="Bonds of hosts with several ends.")
    parking: int = Field(
        ge=2,
        le=4094,
        description="VLAN of ports that are in no pod's VLAN, outside of the fabric's range; no link carries it. With "
        "neutron: ngs_port_default_vlan, without which a released port may be a trunk of every VLAN.",
    )
    credentials: str | None = Field(
        default=None,
        description="JSON file with user and password of each switch, or of `default`, readable by its owner "
        "only; none: WEFT_SWITCH_USER and WEFT_SWITCH_PASSWORD.",
    )
    known_hosts: str | None = Field(
        default=None,
        description="Interface generic: file of the switches' SSH host keys; none: that of weft's user.",
    )
    ca: str | None = Field(
        default=None, description="PEM file of the CA that signed the switches' certificates."
    )
