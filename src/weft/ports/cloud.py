"""Port: what weft asks of a cloud beside the resources themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from weft.model.order import Order
from weft.model.resources import Graph
from weft.model.site import Flavor
from weft.ports.networks import Networks
from weft.ports.occupants import Occupants
from weft.ports.witness import Witnesses


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, as Keystone says it.

    Names are for people: anybody who administers a domain may call a project there as he likes. Ids identify.

    Attributes:
        roles: role names, lower case.
        project_id, project_name, project_domain_id: None for a token that isn't for a project.
        system: the token is for the whole system.
        user_domain_id: the domain that the user belongs to.
    """

    user_id: str
    user_name: str
    project_id: str | None
    project_name: str | None
    roles: frozenset[str]
    expires_at: datetime
    system: bool = False
    project_domain_id: str | None = None
    user_domain_id: str | None = None


class Identity(Protocol):
    """Keystone."""

    def check(self, token: str) -> Caller:
        """Validate a token. Raises `UnauthenticatedError`, or `UnknownError` if Keystone can't be asked."""
        ...


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota that would be exceeded."""

    resource: str
    limit: int
    used: int
    wanted: int


class CloudFacts(Occupants, Networks, Witnesses, Protocol):
    """What must be known of a cloud before anything is made, and of its hosts and networks at all times."""

    def check_order(self, project_id: str, order: Order, flavor: str, counted: Flavor | None = None) -> None:
        """Image, flavor and networks named by the order exist and are usable by the project.

        Args:
            counted: the site's flavor, where servers share nodes: it must count as Nova does.

        Nor is the flavor too small for the image. Raises `InputError` with the order's field.
        """
        ...

    def unfit(self, project_id: str, image: str, flavor: str) -> Mapping[str, str]:
        """Nova host -> why Nova's scheduler would not boot this image with this flavor on it; a host that isn't listed
        will do. Hosts are asked about only if image or flavor need anything of them."""
        ...

    def public_key(self, user_id: str, key_pair: str) -> str:
        """Text of a user's Nova key pair, to be stored as the order's `access.ssh_key`.

        Raises `InputError` for `access.key_pair` if the user has no such key pair.
        """
        ...

    def exceeded_quotas(self, project_id: str, graph: Graph, flavor: str) -> Sequence[QuotaRow]:
        """Quotas of everything that a graph makes: servers, cores, RAM, networks, ports, key pairs …"""
        ...

    def projects(self) -> Mapping[str, str]:
        """Id -> name of every project that weft serves; no other has pods."""
        ...

    def hosts(self) -> Mapping[str, str]:
        """Nova host -> `up`, or why not (`down`, `disabled: reason`); what isn't listed doesn't exist."""
        ...
