"""The verbs: everything that the API offers. `weft.app.service.Service` is the real implementation.

Every verb checks the caller's roles by policy, writes the audit log for a change, and raises only `WeftError`s.
`name` of a pod may be its id too. A pod that the caller may not see is `NotFoundError`, as if it didn't exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from weft.model.ids import Duration
from weft.model.order import Level, Order
from weft.model.plan import Plan
from weft.model.receipt import SignedReceipt
from weft.model.reservation import Reservation, ReservationView
from weft.model.siteparts import MissingParts, StoredPart
from weft.model.views import (
    FIRST_PAGE,
    Applied,
    AuditLogEntry,
    AuditLogSearch,
    AuditReport,
    CapacityView,
    EventView,
    FabricComparison,
    Health,
    NodeView,
    PodSearch,
    PodSummary,
    PodView,
    SiteView,
)
from weft.ports.cloud import Caller

TENANTS = frozenset(
    {
        "may",
        "plan_pod",
        "apply_pod",
        "create_pod",
        "list_pods",
        "show_pod",
        "pod_events",
        "release_pod",
        "extend_pod",
        "retry_pod",
        "abandon_pod",
        "pod_receipt",
        "capacity",
    }
)
"""Verbs that answer others than operators, as far as the policy lets them ask."""


@dataclass(frozen=True, slots=True)
class Request:
    """The caller, and where the request came from."""

    caller: Caller
    address: str
    request_id: str
    user_agent: str = ""


class Verbs(Protocol):
    """See the module's docstring. `RefusedError` carries the explanation as `detail`."""

    def may(self, request: Request, rule: str, pod: str | None = None) -> None:
        """Raise what a verb with this rule would raise for a caller without permission, before anything is read.

        Args:
            pod: name or id of the pod that it is about; None: the caller's own project, or the site.
        """
        ...

    def plan_pod(self, request: Request, order: Order, remove: Sequence[str] = ()) -> Plan:
        """Plan an order; for an existing pod of that name in the caller's project, `Plan.change` has the difference."""
        ...

    def create_pod(self, request: Request, order: Order) -> PodView: ...

    def apply_pod(
        self,
        request: Request,
        name: str,
        order: Order,
        remove: Sequence[str] = (),
        generation: int | None = None,
    ) -> Applied:
        """Create or change the pod of that name in the caller's project; by id, change any that the caller may change.

        Args:
            remove: nodes to remove if the order asks for fewer; weft chooses the rest.
            generation: `ConflictError` unless the pod has this one.

        Raises `InputErrors` with everything that can't be changed in place, before anything is changed.
        """
        ...

    def list_pods(self, request: Request, search: PodSearch = FIRST_PAGE) -> list[PodSummary]:
        """Live pods, and released ones of the last day, by name; no more than `search.limit`."""
        ...

    def show_pod(self, request: Request, name: str) -> PodView: ...

    def pod_events(self, request: Request, name: str, after: int = 0, wait: float = 0.0) -> list[EventView]:
        """Events with a sequence above `after`; waits up to `wait` seconds (at most 30) for the first."""
        ...

    def release_pod(self, request: Request, name: str) -> PodView: ...

    def extend_pod(self, request: Request, name: str, until: datetime) -> PodView:
        """A later end of the lease. `ConflictError` if some of its nodes are booked by others by then."""
        ...

    def retry_pod(self, request: Request, name: str) -> PodView:
        """Resume a FAILED pod where it failed."""
        ...

    def abandon_pod(self, request: Request, name: str, reason: str) -> PodView:
        """End a release that can't finish; its receipt is never clean. `ConflictError` in other states."""
        ...

    def capacity(
        self,
        request: Request,
        accelerator: str | None = None,
        level: Level | None = None,
        duration: Duration = "24h",
    ) -> CapacityView:
        """What can be ordered now and later, for orders that run for `duration`."""
        ...

    def reservations(self, request: Request) -> list[ReservationView]: ...

    def create_reservation(self, request: Request, reservation: Reservation) -> ReservationView: ...

    def delete_reservation(self, request: Request, name: str) -> ReservationView: ...

    def pod_receipt(self, request: Request, name: str) -> SignedReceipt: ...

    def audit(self, request: Request, repair: bool = False, unknown_pods: Sequence[str] = ()) -> AuditReport:
        """Compare; with `repair` repair what is weft's.

        `unknown_pods`: ids of pods that the database doesn't know and whose resources may be removed anyway (`all`: of
        any): after a restore of the database they may be live.
        """
        ...

    def accept_database(self, request: Request) -> AuditReport:
        """Compare, and allow placement again with a database that was restored from a dump, or is new."""
        ...

    def audit_log(self, request: Request, search: AuditLogSearch) -> list[AuditLogEntry]: ...

    def apply_site(self, request: Request, document: dict[str, object], base: int | None = None) -> SiteView:
        """Args:
        document: long tables may be `{"parts": [digest, …]}` of parts that were uploaded before.
        base: generation that the document is based on, 0 for the first; `ConflictError` if it isn't active.
        """
        ...

    def missing_parts(self, request: Request, digests: Sequence[str]) -> MissingParts:
        """Which of these parts of a site must be uploaded."""
        ...

    def send_part(self, request: Request, digest: str, body: bytes) -> StoredPart:
        """Store rows of a table, a JSON list, for a site that will be applied.

        Raises `InputError` if `digest` isn't the SHA-256 of the body, `ConflictError` if too much is stored already.
        """
        ...

    def site_part(self, request: Request, digest: str) -> bytes:
        """A part of the active site."""
        ...

    def show_site(self, request: Request) -> SiteView: ...

    def compare_fabric(self, request: Request, fabric: str | None = None) -> FabricComparison:
        """The cables of the active site against those discovered now; None: the only fabric."""
        ...

    def adopt_cabling(self, request: Request, fabric: str | None = None) -> SiteView:
        """Activate a new generation of the site with the discovered cabling."""
        ...

    def nodes(self, request: Request) -> list[NodeView]: ...

    def quarantine_node(self, request: Request, node: str, reason: str) -> NodeView: ...

    def clear_node(self, request: Request, node: str) -> NodeView:
        """Take a node out of quarantine."""
        ...

    def health(self) -> Health: ...
