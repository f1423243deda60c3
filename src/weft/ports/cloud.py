"""Port: what weft needs to know about a cloud besides its own resources there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from weft.model.messages.values import OPERATOR
from weft.model.order import Order
from weft.model.ordernames import OrderNames
from weft.model.resources import NOTHING, Graph
from weft.model.site import Flavor, Storage
from weft.model.storageorder import StorageOrder
from weft.ports.existing import ExistingThings
from weft.ports.networks import CloudNetworks
from weft.ports.occupants import Occupants
from weft.ports.servers import ServerActions
from weft.ports.tenantnetworks import TenantNetworks
from weft.ports.witness import Witnesses


@dataclass(frozen=True, slots=True)
class AccessRule:
    """A request that an application credential allows: service type, method, and pattern of a path."""

    service: str
    method: str
    path: str


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, according to Keystone.

    Names are for people: a domain administrator can name projects freely. Only ids identify.

    Attributes:
        roles: role names, lower case.
        project_id, project_name, project_domain_id: None for a token without a project.
        system: the token has system scope.
        user_domain_id: the domain that the user belongs to.
        itself: it is weft itself, acting on an order rather than on a request.
        access_rules: those of the application credential that was used; None: every request is allowed.
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
    access_rules: tuple[AccessRule, ...] | None = None
    itself: bool = False

    def named_to(self, project_id: str | None) -> str:
        """The user's name as a project's tenants read it; marked if the user acts from outside the project."""
        inside = self.itself or self.project_id == project_id
        return self.user_name if inside else self.user_name + OPERATOR


class Identity(Protocol):
    """Keystone."""

    def check(self, token: str) -> Caller:
        """Validate a token. Raises `UnauthenticatedError`, or `UnknownError` if Keystone is unreachable."""
        ...

    def remembered(self, token: str) -> Caller | None:
        """The caller, if the token was validated recently enough to need no request; never blocks."""
        ...


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota that would be exceeded."""

    resource: str
    limit: int
    used: int
    wanted: int


class StorageOffers(Protocol):
    """Checks of an order's storage: share types, volume types, and existing shares and volumes."""

    def check_storage(
        self, project_id: str, entries: Sequence[StorageOrder], offer: Storage, mine: Collection[str] = ()
    ) -> tuple[StorageOrder, ...]:
        """The entries, with existing shares and volumes replaced by their ids. The cloud confirms that these and the
        types exist.

        Args:
            offer: the site's storage, with the types for entries that name none.
            mine: ids that the pod already uses: a volume that is attached to one of its servers is accepted.

        Raises `InputError` with the order's field.
        """
        ...


class CloudFacts(
    Occupants,
    CloudNetworks,
    TenantNetworks,
    Witnesses,
    ExistingThings,
    ServerActions,
    StorageOffers,
    Protocol,
):
    """What weft reads of a cloud: before anything is created, and about its hosts and networks at any time."""

    def order_names(self, project_id: str) -> OrderNames:
        """Names of flavors and active images that the project may use, as it gives them."""
        ...

    def check_order(self, project_id: str, order: Order, flavor: str, counted: Flavor | None = None) -> None:
        """Check that image, flavor and networks of the order exist, that the project may use them, and that the flavor
        is large enough for the image.

        Args:
            counted: the site's flavor, if servers share nodes: it must match Nova's.

        Raises `InputError` with the order's field.
        """
        ...

    def unfit(self, project_id: str, image: str, flavor: str) -> Mapping[str, str]:
        """Nova host -> why Nova's scheduler would not boot this image with this flavor on it; hosts that aren't listed
        are suitable. Hosts are only queried if image or flavor have requirements."""
        ...

    def public_key(self, user_id: str, key_pair: str) -> str:
        """Public key of a user's Nova key pair, to be stored as the order's `access.ssh_key`.

        Raises `InputError` for `access.key_pair` if the user has no such key pair.
        """
        ...

    def exceeded_quotas(
        self, project_id: str, graph: Graph, flavor: str, freed: Graph = NOTHING
    ) -> Sequence[QuotaRow]:
        """Quotas for everything that a graph creates: servers, cores, RAM, networks, ports, key pairs …

        Args:
            freed: resources that exist now and are deleted before the graph is created.
        """
        ...

    def projects(self) -> Mapping[str, str]:
        """Id -> name of every project that weft serves; no others have pods."""
        ...

    def hosts(self) -> Mapping[str, str]:
        """Nova host -> `up`, or why not (`down`, `disabled: reason`); hosts that aren't listed don't exist."""
        ...
