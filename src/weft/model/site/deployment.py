"""How a cloud is deployed: what `weft site export` must know beside the hardware to configure the deployment tools.

There are no secrets here: passwords stay where the tools keep theirs (Kolla Ansible: passwords.yml).
"""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints

from weft.model.base import Document
from weft.model.ids import Name
from weft.model.site.ipus import Address
from weft.model.site.networks import AddressRange

MOST_CPU = 4095
"""Highest number of a CPU that is accepted; Linux is built for at most 8192."""
_LABEL = r"[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
HOST_NAME = rf"^{_LABEL}(\.{_LABEL})*$"
INTERFACE_NAME = r"^[A-Za-z][A-Za-z0-9_.-]{0,14}$"
ROLE_NAME = r"^[A-Za-z][A-Za-z0-9]{0,39}$"
PCI_ID = r"^[0-9a-fA-F]{4}$"
DISTINGUISHED_NAME = r"^[A-Za-z]+=[^\n\r{}%$]+$"
ATTRIBUTE_NAME = r"^[A-Za-z][A-Za-z0-9-]*$"
LDAP_URLS = r"^ldaps?://[^\s,/?#@{}%$]+(,ldaps?://[^\s,/?#@{}%$]+)*$"
PEM_PATH = r"^/[^\s{}%$]+$"
SDN_URL = r"^https?://[^\s?#@{}%$]+$"
API_URL = r"^https?://[^\s/?#@{}%$]+$"
USER_NAME = r"^[a-z_][a-z0-9_-]{0,31}$"

HostName = Annotated[str, StringConstraints(to_lower=True, max_length=253, pattern=HOST_NAME)]
"""A host name or a domain (RFC 1123); IPv4 addresses are such names too."""
InterfaceName = Annotated[str, StringConstraints(pattern=INTERFACE_NAME)]
"""A Linux network interface: at most 15 characters. Aliases with a colon aren't interfaces."""
RoleName = Annotated[str, StringConstraints(pattern=ROLE_NAME)]
"""A role's name: TripleO makes identifiers of it, and Ansible a group."""
PciId = Annotated[str, StringConstraints(to_lower=True, pattern=PCI_ID)]
Dn = Annotated[str, StringConstraints(max_length=255, pattern=DISTINGUISHED_NAME)]
"""A distinguished name in LDAP, without braces, % and `$`: Ansible's templates, oslo.config or envsubst expand them."""


def reachable(value: str) -> str:
    """The URL; raises ValueError if its host or port is impossible."""
    try:
        parts = urlsplit(value)
        if parts.hostname and parts.port != 0:
            return value
    except ValueError:  # no number, more than 65535, or half an IPv6 address
        pass
    raise ValueError("a URL with a host and, if one is given, a port of 1 to 65535")


Url = Annotated[str, StringConstraints(max_length=300), AfterValidator(reachable)]
Attribute = Annotated[str, StringConstraints(max_length=64, pattern=ATTRIBUTE_NAME)]
Function = Literal["control", "network", "compute", "storage", "monitoring"]


def cpus_of(text: str) -> frozenset[int]:
    """CPUs of a list as Linux and Nova write it: `0-3,8` is 0 to 3, and 8. Raises ValueError with what is allowed."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError("CPU numbers and ranges such as 0-3,8")
        low, high = int(first), int(last or first)
        if not low <= high <= MOST_CPU:
            raise ValueError(f"CPU numbers up to {MOST_CPU}, ranges from the lower to the higher")
        found |= set(range(low, high + 1))
    return frozenset(found)


def _cpus(value: str) -> str:
    cpus_of(value)
    return value.replace(" ", "")


CpuSet = Annotated[str, StringConstraints(max_length=1000), AfterValidator(_cpus)]


class DeploymentRole(Document):
    """Hosts that are deployed alike: the same services, the same names of interfaces, the same CPUs."""

    functions: tuple[Function, ...] = Field(
        min_length=1,
        description="control: APIs, database, messages; network: DHCP, routers, and the load balancer; compute: "
        "servers; storage: volumes; monitoring: Prometheus and Grafana.",
    )
    nodes: tuple[Name, ...] = Field(
        default=(),
        description="Names of its hosts. Default, for one role with function compute: all hosts of the cloud "
        "on which servers are booted and that no other role names.",
    )
    interfaces: dict[Name, InterfaceName] = Field(
        default_factory=dict,
        description="Network of the site -> its hosts' interface there, such as eno1 or bond0.12. On "
        "InfiniBand: the IPoIB interface of the adapter, such as ib0; the network's `vlan` is the "
        "P_Key.",
    )
    bridges: dict[Name, InterfaceName] = Field(
        default_factory=dict,
        description="Physical network in Neutron -> interface of its Open vSwitch bridge.",
    )
    adapters: dict[Name, InterfaceName] = Field(
        default_factory=dict,
        description="Adapter (`hcas`) -> its network interface, such as ens5f0np0 or ib0; required for every "
        "adapter of hosts with servers. An adapter that carries the host's own networks is never "
        "assigned to a tenant as a whole.",
    )
    bonds: dict[InterfaceName, tuple[InterfaceName, ...]] = Field(
        default_factory=dict,
        description="Bond -> its interfaces; required for bonds over adapters.",
    )
    cpu_dedicated_set: CpuSet | None = Field(
        default=None, description="CPUs for servers with dedicated CPUs, such as 8-63 (Nova's option)."
    )
    cpu_shared_set: CpuSet | None = Field(
        default=None,
        description="CPUs that other servers and emulator threads share, disjoint from those (Nova's option).",
    )
    reserved_memory_mib: int | None = Field(
        default=None,
        ge=0,
        description="Memory of a host that is kept from servers: Nova's reserved_host_memory_mb.",
    )


class PciDevice(Document):
    """How the cloud's accelerators of one type look on the PCI bus."""

    vendor_id: PciId = Field(description="PCI vendor, such as 10de.")
    product_id: PciId = Field(description="PCI product, such as 20f1.")
    device_type: Literal["type-PCI", "type-PF", "type-VF"] = Field(
        default="type-PCI",
        description="Nova's device_type: type-PF if the device supports SR-IOV, as an A100 does.",
    )


class LdapDomain(Document):
    """A Keystone domain whose users are in an LDAP directory, read only."""

    url: str = Field(
        pattern=LDAP_URLS,
        description="URLs of its servers, separated by commas, such as ldaps://ldap1.example.net. With "
        "ldap:// the connection is upgraded (StartTLS).",
    )
    ca: str | None = Field(
        default=None,
        pattern=PEM_PATH,
        description="PEM file on the controllers with the CA of its certificates, inside Keystone's "
        "container. Default: the system's.",
    )
    user: Dn = Field(
        description="Distinguished name that Keystone binds as. Its password isn't exported: the exported "
        "file refers to the tool's own secrets."
    )
    users: Dn = Field(description="Base DN of users.")
    groups: Dn | None = Field(default=None, description="Base DN of groups; by default none are read.")
    user_class: Attribute = Field(default="inetOrgPerson", description="Object class of users.")
    user_id: Attribute = Field(default="uid", description="Attribute that identifies a user.")
    user_name: Attribute = Field(default="uid", description="Attribute with which a user logs in.")
    user_mail: Attribute = Field(default="mail", description="Attribute with the e-mail address.")
    group_class: Attribute = Field(default="groupOfNames", description="Object class of groups.")
    group_name: Attribute = Field(default="cn", description="Attribute with a group's name.")
    group_member: Attribute = Field(default="member", description="Attribute with a group's members.")


class Deployment(Document):
    """The cloud's own configuration, for `weft site export`."""

    domain: HostName = Field(description="DNS domain of its hosts and of the APIs' names.")
    internal_vip: Address = Field(
        description="Address of the internal APIs, which Keepalived moves between hosts; in a subnet with the role "
        "internal-api, outside of its pool."
    )
    external_vip: Address = Field(description="Address of the public APIs, in another network of the site.")
    internal_name: HostName | None = Field(
        default=None, description="Host name of internal_vip. Default: api-internal in the domain."
    )
    external_name: HostName | None = Field(
        default=None, description="Host name of external_vip. Default: api in the domain."
    )
    virtual_router_id: int = Field(
        default=51,
        ge=1,
        le=255,
        description="Keepalived's virtual router id (VRRP): unique on the networks of both addresses.",
    )
    dns: tuple[Address, ...] = Field(min_length=1, max_length=3, description="Name servers of its hosts.")
    ntp: tuple[HostName, ...] = Field(min_length=1, max_length=8, description="Time servers of its hosts.")
    tls: Literal["everywhere", "external", "none"] = Field(
        default="everywhere",
        description="everywhere: public and internal APIs, and from the load balancer to the services; external: "
        "public APIs only.",
    )
    firewall: bool = Field(
        default=True, description="Whether hosts filter traffic that the public APIs don't need."
    )
    distribution: Literal["rocky", "centos", "ubuntu", "debian"] = Field(
        default="rocky", description="Operating system of hosts and containers."
    )
    user: Annotated[str, StringConstraints(pattern=USER_NAME)] = Field(
        default="stack", description="User as which the deployment tool logs in to hosts."
    )
    seed: Name | None = Field(
        default=None,
        description="Node (role service) from which hosts are installed: Kayobe's seed or TripleO's "
        "undercloud. Required for both.",
    )
    inspection: AddressRange | None = Field(
        default=None,
        description="Addresses for machines that are being inspected, on the provisioning network and outside of its "
        "pool. Required for Kayobe and TripleO.",
    )
    roles: dict[RoleName, DeploymentRole] = Field(min_length=1, description="Roles of hosts, by name.")
    devices: dict[Name, PciDevice] = Field(
        default_factory=dict,
        description="Accelerator type -> its PCI device; the type is the alias that flavors request.",
    )
    ldap_domains: dict[Name, LdapDomain] = Field(
        default_factory=dict,
        description="Keystone domains of customers, by name; service accounts stay in the local domain.",
    )
    sdn_url: Url | None = Field(
        default=None,
        pattern=SDN_URL,
        description="InfiniBand: URL to which Neutron's driver mlnx_sdn_assist reports networks and ports. "
        "Default: weft, through the front on each controller, if a fabric has tenant_networks; "
        "otherwise the driver isn't used.",
    )
    weft_url: Url | None = Field(
        default=None,
        pattern=API_URL,
        description="URL of weft's API as seen from controllers; required if Neutron reports networks to weft.",
    )
