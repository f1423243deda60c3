"""Port: existing resources of a cloud that resemble a desired one, whatever their origin."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from weft.model.mark import Mark
from weft.model.resources import Resource
from weft.model.specs import SegmentSpec

THE_CLOUDS = "network:"
"""`device_owner` of ports of the cloud's own agents (DHCP, routers)."""
_OUTWARD = {"network:router_gateway": "the gateway of router", "network:floatingip": "floating IP"}
"""`device_owner` of a port on an external network -> what it belongs to."""


def host_name(dns_name: str) -> str:
    """The name without the domain: Neutron keeps a name that ends with a dot and its own domain unchanged."""
    return dns_name.lower().partition(".")[0] if dns_name.endswith(".") else dns_name.lower()


@dataclass(frozen=True, slots=True)
class Existing:
    """An existing resource that is in the way of a desired one, or can be adopted in its place.

    Attributes:
        like: what both have in common, such as `VLAN 13 of physnet1`.
        own: whether it is in the project of weft's service user, which may change and remove it.
        same: whether it is the same resource, by MAC address, name or CIDR; otherwise it is only in the way.
        mark: weft's mark on it.
        project_id: empty: it isn't in a cloud, and its name says what it is.
        then: what to do about it, if that differs from what is done about resources in clouds.
    """

    id: str
    name: str
    project_id: str
    like: str
    own: bool
    same: bool = True
    mark: Mark | None = None
    then: str = ""


@dataclass(frozen=True, slots=True)
class NamedPort:
    """A port on a network with its name in the cloud's DNS.

    Attributes:
        project_id: empty: it belongs to the cloud itself, as for a floating IP.
        own: whether it is in the project of weft's service user.
        addresses: its addresses on the network.
        device: id of what it belongs to, such as a router.
        groups: ids of its security groups.
    """

    id: str
    network: str
    project_id: str
    dns_name: str
    own: bool
    device_owner: str = ""
    name: str = ""
    addresses: frozenset[str] = frozenset()
    device: str = ""
    groups: frozenset[str] = frozenset()

    @property
    def holds(self) -> bool:
        """Whether its network can't be deleted before it: Neutron deletes its agents' ports with the network, and the
        site's own routers go first. Those of gateways and floating IPs have no project."""
        if self.device_owner in _OUTWARD:
            return True
        return bool(self.project_id) and not (self.own and self.device_owner.startswith(THE_CLOUDS))

    def __str__(self) -> str:
        if what := _OUTWARD.get(self.device_owner):
            return f"{what} {self.device}"
        named = f"port {self.name} ({self.id})" if self.name else f"port {self.id}"
        return f"{named} of project {self.project_id}"


@dataclass(frozen=True, slots=True)
class NamedSubnet:
    """A subnet of a network, of any project: Neutron deletes it with its network.

    Attributes:
        cidr, project_id: empty if the subnet isn't visible; the network lists it.
    """

    id: str
    network: str
    project_id: str = ""
    name: str = ""
    cidr: str = ""

    def __str__(self) -> str:
        named = f"subnet {self.name} ({self.id})" if self.name else f"subnet {self.id}"
        return f"{named}, {self.cidr}, of project {self.project_id}" if self.cidr else named


@dataclass(frozen=True, slots=True)
class ResourcePart:
    """A part of a resource with an id, but neither name nor mark: a group's rule, a share, a router's interface.

    Attributes:
        kind: in words, such as `rule`.
        of: id of the resource.
        fields: in Neutron's terms, without those that are null.
    """

    kind: str
    of: str
    id: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ExistingResources:
    """A site's resources that already exist in a cloud.

    Attributes:
        ids: key -> id.
        parts: parts of these resources.
    """

    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: Sequence[ResourcePart] = ()


class ExistingThings(Protocol):
    """Existing resources of a cloud."""

    def alike(self, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Sequence[Existing]]:
        """Key -> existing resources that resemble it, of all projects; keys without any are left out.

        What is on a network is looked for only if the network has an id, or one could be adopted for it.

        Args:
            ids: key -> id of what weft has created; it isn't looked for. On a fabric: for such a segment, `wanted` has
                only the members that weft hasn't set yet, and their present configuration is looked for.

        Raises `UnknownError`.
        """
        ...

    def ports_on(self, networks: Collection[str]) -> Sequence[NamedPort]:
        """Ports of all projects on networks of weft's service user, by the networks' ids. Raises `UnknownError`."""
        ...

    def subnets_on(self, networks: Collection[str]) -> Sequence[NamedSubnet]:
        """All subnets of networks of weft's service user, by the networks' ids, including those that it can't see.
        Raises `UnknownError`."""
        ...

    def ports_in(self, groups: Collection[str], known: Collection[str]) -> Sequence[NamedPort]:
        """Ports of all projects in security groups of weft's service user, by the groups' ids; and some of `known`.

        Args:
            known: ids of ports known to exist: an answer without any of them proves nothing.

        Raises `UnknownError`, also if nothing is shown of a project that shares one of the groups.
        """
        ...


@runtime_checkable
class HasExisting(Protocol):
    """A fabric on which something may be in the way of the site's own segments."""

    def alike(self, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Sequence[Existing]]:
        """As `ExistingThings.alike`, on the fabric. Raises `UnknownError`."""
        ...

    def beside(self, wanted: Sequence[Resource]) -> Sequence[str]:
        """What else is on these segments without being in their way: notes for the plan. Raises `UnknownError`."""
        ...

    def places(self, segment: SegmentSpec) -> Collection[str]:
        """Names of the switches that a segment is on, according to the active site."""
        ...
