"""What a tenant may see, in one place: what isn't named here, by field and by sentence, isn't shown.

A tenant sees its own pods with node, rack and leaf names, segment, VLAN and addresses. Of what is planned and built it
sees the fields that the table of kinds names (`weft.model.kinds`); reasons, events and errors as `weft.app.sayings` has
them; of a refusal how many nodes are taken, not by whom or why. Times that follow from others' leases are rounded. A
receipt is shown whole: it is signed, and a pod's servers saw the ports' ids in it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar, cast

from weft.app import sayings
from weft.app.policy import Policy
from weft.app.sayings import HIDDEN
from weft.app.verbs import Request, Verbs
from weft.model.base import Document
from weft.model.change import PodChange
from weft.model.errors import (
    ConflictError,
    ForbiddenError,
    InputError,
    InputErrors,
    NotFoundError,
    OutsideError,
    RefusedError,
    TemporaryError,
    UnauthenticatedError,
    WeftError,
)
from weft.model.ids import Duration
from weft.model.kinds import kind_named
from weft.model.order import Level, Order
from weft.model.placement import Explanation, FilterReport, PlacedNode
from weft.model.plan import Plan
from weft.model.receipt import SignedReceipt
from weft.model.reservation import Reservation, ReservationView
from weft.model.resources import Difference, Graph, PortSpec, Resource, Spec
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
    ResourceView,
    SiteView,
)

OWN_FILTERS = frozenset({"cloud", "fabric", "accelerators", "image", "exclude", "stays", "ipu_pod"})
"""Filters that go by what the order asks for. What any other removes is taken, in one sum: busy, kept for others, kept
apart, out of order or in maintenance are the same to a tenant."""
TAKEN = "busy"
_TOLD = frozenset({"members", "ssh_from", "ingress", "gateway", "subnets"})
"""Fields of resources whose change is told with its values: of a partition's members only how many they are."""
_UNTOLD = {"was": HIDDEN, "becomes": HIDDEN}
_T = TypeVar("_T")
_V = TypeVar("_V", bound=PodSummary)


def plan(value: Plan) -> Plan:
    resources = tuple(r for one in value.graph.resources if (r := _resource(one)) is not None)
    there = {r.key for r in resources}
    resources = tuple(
        r.model_copy(update={"needs": tuple(n for n in r.needs if n in there)}) for r in resources
    )
    told = {"explanation": explanation(value.placement.explanation), "nodes": _whole(value.placement.nodes)}
    shown = value.placement.model_copy(update=told)
    graph = value.graph.model_copy(update={"resources": resources})
    told = value.change and change(value.change, graph)
    return value.model_copy(update={"placement": shown, "graph": graph, "change": told})


def change(value: PodChange, graph: Graph | None = None) -> PodChange:
    """A difference with what the plan shows.

    Args:
        graph: the resources that are shown; None: keys of others are left out by their kinds.
    """
    there = {r.key: r.kind for r in graph.resources} if graph else None
    changed = (c for c in value.changed if there is None or c.key in there)
    update = {
        "added": tuple(k for k in value.added if there is None or k in there),
        "removed": tuple(r for one in value.removed if (r := _resource(one)) is not None),
        "changed": tuple(c if c.field in _TOLD else c.model_copy(update=_UNTOLD) for c in changed),
    }
    return value.model_copy(update=update)


def applied(value: Applied) -> Applied:
    told = value.change and change(value.change)
    return value.model_copy(update={"pod": pod(value.pod), "change": told})


def _whole(nodes: Sequence[PlacedNode]) -> tuple[PlacedNode, ...]:
    """Which accelerators of a shared node weft counts as whose is nobody's business but the operator's."""
    return tuple(n if n.part is None else n.model_copy(update={"part": None}) for n in nodes)


def explanation(value: Explanation) -> Explanation:
    """How many nodes there are for such an order, and how many are taken."""
    return Explanation(
        considered=value.considered, filters=_filters(value.filters), chosen=sayings.chosen(value.chosen)
    )


def _filters(rows: Sequence[FilterReport]) -> tuple[FilterReport, ...]:
    """What the order's own wishes removed, then everything else as one row."""
    left = rows[0].left + rows[0].removed if rows else 0
    shown: list[FilterReport] = []
    for row in rows:
        if row.filter in OWN_FILTERS:
            left -= row.removed
            shown.append(FilterReport(filter=row.filter, removed=row.removed, left=left))
    if taken := sum(row.removed for row in rows if row.filter not in OWN_FILTERS):
        shown.append(FilterReport(filter=TAKEN, removed=taken, left=left - taken))
    return tuple(shown)


def pod(value: PodView) -> PodView:
    resources = tuple(_resource_view(r) for r in value.resources if _is_told(r))
    conditions = tuple(
        c.model_copy(update={"message": sayings.reason(c.message, value.state)}) for c in value.conditions
    )
    seen = {"resources": resources, "conditions": conditions, "placed": _whole(value.placed)}
    return summary(value).model_copy(update=seen)


def summary(value: _V) -> _V:
    changes: dict[str, object] = {}
    reason = sayings.reason(value.reason, value.state)
    if reason != value.reason:
        changes["reason"] = reason
    if value.expected_start is not None and not value.reason.startswith("starts at "):
        changes["expected_start"] = sayings.later(value.expected_start)
    return value.model_copy(update=changes) if changes else value


def capacity(value: CapacityView) -> CapacityView:
    """Sizes, not places; times rounded."""
    return value.model_copy(
        update={
            "rows": tuple(
                row.model_copy(
                    update={"largest": tuple(_anywhere(x) for x in row.largest), "soon": _soon(row.soon)}
                )
                for row in value.rows
            ),
            "ipus": tuple(
                one.model_copy(update={"largest": _anywhere(one.largest), "soon": _soon(one.soon)})
                for one in value.ipus
            ),
        }
    )


def _anywhere(largest: Any) -> Any:
    return largest.model_copy(update={"where": ""})


def _soon(rows: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(one.model_copy(update={"at": sayings.later(one.at)}) for one in rows)


def events(values: Iterable[EventView]) -> list[EventView]:
    return [one.model_copy(update={"message": sayings.event(one.message)}) for one in values]


def error(value: WeftError) -> WeftError:
    """The same error, fit for a tenant."""
    match value:
        case RefusedError():
            return RefusedError(sayings.refusal(str(value)), _detail(value.detail))
        case TemporaryError():
            return type(value)(*_outside(value), delay=value.delay)
        case OutsideError():
            return type(value)(*_outside(value))
        case InputErrors():
            return InputErrors([_input(one) for one in value.errors], value.more)
        case InputError():
            return _input(value)
        case ConflictError():
            return ConflictError(sayings.conflict(str(value)))
        case NotFoundError():
            return NotFoundError(sayings.absent(str(value)))
        case ForbiddenError() | UnauthenticatedError():
            return value  # they tell callers of themselves
        case _:
            return WeftError(f"weft failed at this request ({sayings.OPERATORS})")


def _input(value: InputError) -> InputError:
    return InputError(value.field, value.value, sayings.allowed(value.allowed))


def _outside(value: OutsideError) -> tuple[str, str, str, str]:
    return sayings.outside(value.asked, value.of, value.answer, value.then)


def _resource(value: Resource) -> Resource | None:
    row = value.kind.row
    shown = row.shown_of_site if value.owner == "site" else row.shown
    if shown is None:
        return None
    if value.owner == "site" and isinstance(value.spec, PortSpec) and value.spec.site_network is None:
        shown |= {"address"}  # on the tenant's own network: there its users' door is
    return value.model_copy(update={"spec": _only(value.spec, shown)})


def _only(spec: Spec, shown: frozenset[str]) -> Document:
    """A spec with the fields of the table; the others say that they are hidden, or nothing."""
    hidden = {name: _nothing(v) for name, v in spec if name not in shown and name != "kind"}
    return spec.model_copy(update=hidden)


def _nothing(value: object) -> object:
    match value:
        case str():
            return HIDDEN if value else ""
        case tuple():
            return ()
        case bool():
            return False
        case int():
            return 0
        case _:
            return None


def _is_told(value: ResourceView) -> bool:
    """Whether tenants may know that there is such a thing at all."""
    kind = kind_named(value.kind)
    return kind is not None and kind.row.shown is not None


def _resource_view(value: ResourceView) -> ResourceView:
    differences = tuple(
        Difference(**dict(zip(("field", "wanted", "observed"), told, strict=True)))
        for d in value.differences
        for told in [sayings.difference(d.field, d.wanted, d.observed)]
    )
    reason = sayings.step(value.reason, at_rest=value.state in ("settled", "absent"))
    return value.model_copy(update={"reason": reason, "differences": differences})


def _detail(value: Mapping[str, object]) -> dict[str, object]:
    """A refusal's explanation, rebuilt from the parts that are known to be safe."""
    shown: dict[str, object] = {}
    if isinstance(reason := value.get("reason"), str):
        shown["reason"] = sayings.refusal(reason)
    if isinstance(given := value.get("explanation"), dict):
        told = explanation(Explanation.model_validate(given)).model_dump(mode="json")
        told["chosen"] = sayings.refusal(str(cast(dict[str, object], given).get("chosen", "")))
        shown["explanation"] = told
    if isinstance(changes := value.get("would_fit"), list | tuple):
        shown["would_fit"] = list(
            dict.fromkeys(sayings.change(str(c)) for c in cast(Sequence[object], changes))
        )
    if isinstance(start := value.get("earliest_start"), str):
        shown["earliest_start"] = sayings.later(datetime.fromisoformat(start)).isoformat()
    if isinstance(quotas := value.get("quotas"), list):
        shown["quotas"] = [_quota(row) for row in cast(list[Mapping[str, object]], quotas)]
    return shown


def _quota(row: Mapping[str, object]) -> dict[str, object]:
    return {name: row.get(name) for name in ("resource", "limit", "used", "wanted")}


class RedactedVerbs:
    """Any `Verbs`, with what the caller may not see taken out of answers and errors."""

    def __init__(self, verbs: Verbs, policy: Policy) -> None:
        self._verbs = verbs
        self._policy = policy

    def may(self, request: Request, rule: str, pod: str | None = None) -> None:
        with self._errors(request):
            self._verbs.may(request, rule, pod)

    def plan_pod(self, request: Request, order: Order, remove: Sequence[str] = ()) -> Plan:
        with self._errors(request):
            return self._for(request, plan)(self._verbs.plan_pod(request, order, remove))

    def create_pod(self, request: Request, order: Order) -> PodView:
        with self._errors(request):
            return self._for(request, pod)(self._verbs.create_pod(request, order))

    def apply_pod(
        self,
        request: Request,
        name: str,
        order: Order,
        remove: Sequence[str] = (),
        generation: int | None = None,
    ) -> Applied:
        with self._errors(request):
            return self._for(request, applied)(
                self._verbs.apply_pod(request, name, order, remove, generation)
            )

    def list_pods(self, request: Request, search: PodSearch = FIRST_PAGE) -> list[PodSummary]:
        with self._errors(request):
            shown = self._for(request, summary)
            return [shown(p) for p in self._verbs.list_pods(request, search)]

    def show_pod(self, request: Request, name: str) -> PodView:
        with self._errors(request):
            return self._for(request, pod)(self._verbs.show_pod(request, name))

    def pod_events(self, request: Request, name: str, after: int = 0, wait: float = 0.0) -> list[EventView]:
        with self._errors(request):
            return self._for(request, events)(self._verbs.pod_events(request, name, after, wait))

    def release_pod(self, request: Request, name: str) -> PodView:
        with self._errors(request):
            return self._for(request, pod)(self._verbs.release_pod(request, name))

    def extend_pod(self, request: Request, name: str, until: datetime) -> PodView:
        with self._errors(request):
            return self._for(request, pod)(self._verbs.extend_pod(request, name, until))

    def retry_pod(self, request: Request, name: str) -> PodView:
        with self._errors(request):
            return self._for(request, pod)(self._verbs.retry_pod(request, name))

    def abandon_pod(self, request: Request, name: str, reason: str) -> PodView:
        with self._errors(request):
            return self._for(request, pod)(self._verbs.abandon_pod(request, name, reason))

    def capacity(
        self,
        request: Request,
        accelerator: str | None = None,
        level: Level | None = None,
        duration: Duration = "24h",
    ) -> CapacityView:
        with self._errors(request):
            return self._for(request, capacity)(self._verbs.capacity(request, accelerator, level, duration))

    def pod_receipt(self, request: Request, name: str) -> SignedReceipt:
        with self._errors(request):
            return self._verbs.pod_receipt(request, name)

    # The rest is the operator's own: by the default policy no tenant gets an answer at all.

    def audit(self, request: Request, repair: bool = False, unknown_pods: Sequence[str] = ()) -> AuditReport:
        with self._errors(request):
            return self._verbs.audit(request, repair, unknown_pods)

    def accept_database(self, request: Request) -> AuditReport:
        with self._errors(request):
            return self._verbs.accept_database(request)

    def audit_log(self, request: Request, search: AuditLogSearch) -> list[AuditLogEntry]:
        with self._errors(request):
            return self._verbs.audit_log(request, search)

    def apply_site(self, request: Request, document: dict[str, object], base: int | None = None) -> SiteView:
        with self._errors(request):
            return self._verbs.apply_site(request, document, base)

    def missing_parts(self, request: Request, digests: Sequence[str]) -> MissingParts:
        with self._errors(request):
            return self._verbs.missing_parts(request, digests)

    def send_part(self, request: Request, digest: str, body: bytes) -> StoredPart:
        with self._errors(request):
            return self._verbs.send_part(request, digest, body)

    def site_part(self, request: Request, digest: str) -> bytes:
        with self._errors(request):
            return self._verbs.site_part(request, digest)

    def show_site(self, request: Request) -> SiteView:
        with self._errors(request):
            return self._verbs.show_site(request)

    def compare_fabric(self, request: Request, fabric: str | None = None) -> FabricComparison:
        with self._errors(request):
            return self._verbs.compare_fabric(request, fabric)

    def adopt_cabling(self, request: Request, fabric: str | None = None) -> SiteView:
        with self._errors(request):
            return self._verbs.adopt_cabling(request, fabric)

    def reservations(self, request: Request) -> list[ReservationView]:
        with self._errors(request):
            return self._verbs.reservations(request)

    def create_reservation(self, request: Request, reservation: Reservation) -> ReservationView:
        with self._errors(request):
            return self._verbs.create_reservation(request, reservation)

    def delete_reservation(self, request: Request, name: str) -> ReservationView:
        with self._errors(request):
            return self._verbs.delete_reservation(request, name)

    def nodes(self, request: Request) -> list[NodeView]:
        with self._errors(request):
            return self._verbs.nodes(request)

    def quarantine_node(self, request: Request, node: str, reason: str) -> NodeView:
        with self._errors(request):
            return self._verbs.quarantine_node(request, node, reason)

    def clear_node(self, request: Request, node: str) -> NodeView:
        with self._errors(request):
            return self._verbs.clear_node(request, node)

    def health(self) -> Health:
        """Which part fails, never how: anybody may ask."""
        health = self._verbs.health()
        checks = {part: sayings.health(said) for part, said in health.checks.items()}
        return health.model_copy(update={"checks": checks})

    def _for(self, request: Request, redact: Callable[[_T], _T]) -> Callable[[_T], _T]:
        return (lambda value: value) if self._policy.is_operator(request.caller) else redact

    @contextmanager
    def _errors(self, request: Request) -> Generator[None]:
        try:
            yield
        except WeftError as raised:
            if self._policy.is_operator(request.caller):
                raise
            raise error(raised) from raised
