"""Port: what is in a cloud already that is like a wanted resource, whoever made it."""

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
    """The name without the domain: Neutron takes one that ends with a dot, and with its own domain, as it is."""
    return dns_name.lower().partition(".")[0] if dns_name.endswith(".") else dns_name.lower()


@dataclass(frozen=True, slots=True)
class Existing:
    """One that is in the way of a wanted resource, or can be adopted in its place.

    Attributes:
        like: in what it is like it, such as `VLAN 13 of physnet1`.
        own: it is in the project of weft's service user, which may change and remove it.
        same: it is the same thing, by MAC address, name or CIDR; otherwise it is only in the way.
        mark: weft's mark on it.
        project_id: empty: it is in no cloud, and its name says what it is.
        then: what to do about it, if that isn't what is done about things in clouds.
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
        project_id: empty: it is the cloud's, as of a floating IP.
        own: it is in the project of weft's service user.
        addresses: that it has there.
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
    """A subnet of a network, whosever it is: Neutron deletes it with its network.

    Attributes:
        cidr, project_id: empty: it isn't shown; the network says that it is there.
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
class Part:
    """What belongs to a thing and has an id, but neither name nor mark: a group's rule, a share, a router's interface.

    Attributes:
        kind: in words, such as `rule`.
        of: id of the thing.
        fields: as Neutron has them, without those that are null.
    """

    kind: str
    of: str
    id: str
    fields: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class There:
    """Things of a site that are in a cloud already.

    Attributes:
        ids: key -> id.
        parts: of these things.
    """

    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    parts: Sequence[Part] = ()


class ExistingThings(Protocol):
    def alike(self, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Sequence[Existing]]:
        """Key -> what is like it, of all projects; those that nothing is like are left out.

        What is on a network is looked for where the network has an id, or one that could be adopted.

        Args:
            ids: key -> id of what weft has made; it isn't looked for. On a fabric: of such a segment, `wanted` has the
                members that weft hasn't set yet, and what those have is looked for.

        Raises `UnknownError`.
        """
        ...

    def ports_on(self, networks: Collection[str]) -> Sequence[NamedPort]:
        """Ports of all projects on networks of weft's service user, by the networks' ids. Raises `UnknownError`."""
        ...

    def subnets_on(self, networks: Collection[str]) -> Sequence[NamedSubnet]:
        """All subnets of networks of weft's service user, by the networks' ids, also those that it isn't shown. Raises
        `UnknownError`."""
        ...

    def ports_in(self, groups: Collection[str], known: Collection[str]) -> Sequence[NamedPort]:
        """Ports of all projects in security groups of weft's service user, by their ids, and some of `known`.

        Args:
            known: ids of ports that are there: without any of them the answer says nothing.

        Raises `UnknownError`, also if nothing is shown of a project that shares one of the groups.
        """
        ...


@runtime_checkable
class HasExisting(Protocol):
    """A fabric on which something may be in the way of the site's own segments."""

    def alike(self, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Sequence[Existing]]:
        """As `ExistingThings.alike`. Raises `UnknownError`."""
        ...

    def beside(self, wanted: Sequence[Resource]) -> Sequence[str]:
        """What else reaches these segments, though nothing is in their way: sentences for who plans them. Raises
        `UnknownError`."""
        ...

    def places(self, segment: SegmentSpec) -> Collection[str]:
        """Names of the switches that one is on, by the site that is active."""
        ...
