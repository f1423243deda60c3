"""What a tenant may not see, in one place.

A tenant sees its own pods with node, rack and leaf names, P_Key, VLAN and addresses. Hidden are: GUIDs, Nova's
names of hosts, addresses of services and agents, and, in explanations, which other nodes were refused for what
(that names other projects' pods). A receipt is shown whole: it is signed, and a pod's servers saw these GUIDs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TypeVar, cast

from weft.app.policy import Policy
from weft.app.verbs import Request, Verbs
from weft.model.errors import OutsideError, RefusedError, TemporaryError, WeftError
from weft.model.ids import Duration
from weft.model.order import Level, Order
from weft.model.placement import Explanation
from weft.model.plan import Plan
from weft.model.receipt import SignedReceipt
from weft.model.reservation import Reservation, ReservationView
from weft.model.resources import (
    Difference,
    PartitionSpec,
    PortSpec,
    Resource,
    ServerSpec,
    Spec,
    VipuAgentSpec,
    VipuAllocationSpec,
    VipuClusterSpec,
    VipuUserSpec,
)
from weft.model.views import (
    AuditLogEntry,
    AuditLogSearch,
    AuditReport,
    CapacityView,
    EventView,
    FabricComparison,
    Health,
    NodeView,
    PodSummary,
    PodView,
    ResourceView,
    SiteView,
)

HIDDEN = "(hidden)"
_GUID = re.compile(r"\b0x[0-9a-fA-F]{9,16}\b|\b(?:[0-9a-fA-F]{4}:){3}[0-9a-fA-F]{4}\b|\b[0-9a-fA-F]{16}\b")
_URL = re.compile(r"\b(?:https?|postgresql|amqp)://[^\s;,)\"']+")
_SERVICE = re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}:\d+\b")
_T = TypeVar("_T")
_V = TypeVar("_V", bound=PodSummary)


def text(value: str) -> str:
    """A sentence without GUIDs, URLs and addresses of services."""
    return _SERVICE.sub(HIDDEN, _URL.sub(HIDDEN, _GUID.sub(HIDDEN, value)))


def plan(value: Plan) -> Plan:
    resources = tuple(_resource(r) for r in value.graph.resources)
    return value.model_copy(
        update={
            "placement": value.placement.model_copy(
                update={"explanation": explanation(value.placement.explanation)}
            ),
            "graph": value.graph.model_copy(update={"resources": resources}),
        }
    )


def explanation(value: Explanation) -> Explanation:
    """How many nodes each filter removed stays; which, and why, goes."""
    filters = tuple(f.model_copy(update={"examples": ()}) for f in value.filters)
    return value.model_copy(update={"filters": filters})


def pod(value: PodView) -> PodView:
    return summary(value).model_copy(update={"resources": tuple(_resource_view(r) for r in value.resources)})


def summary(value: _V) -> _V:
    reason = text(value.reason)
    return value if reason == value.reason else value.model_copy(update={"reason": reason})


def capacity(value: CapacityView) -> CapacityView:
    """Sizes, not places."""
    rows = tuple(
        row.model_copy(update={"largest": tuple(x.model_copy(update={"where": ""}) for x in row.largest)})
        for row in value.rows
    )
    ipus = tuple(
        pod.model_copy(update={"largest": pod.largest.model_copy(update={"where": ""})}) for pod in value.ipus
    )
    return value.model_copy(update={"rows": rows, "ipus": ipus})


def event(value: EventView) -> EventView:
    return value.model_copy(update={"message": text(value.message)})


def error(value: WeftError) -> WeftError:
    """The same error, fit for a tenant."""
    if isinstance(value, RefusedError):
        return RefusedError(text(str(value)), cast(dict[str, object], _detail(value.detail)))
    if isinstance(value, TemporaryError):
        return type(value)(*_outside(value), delay=value.delay)
    if isinstance(value, OutsideError):
        return type(value)(*_outside(value))
    return value


def _outside(value: OutsideError) -> tuple[str, str, str, str]:
    return text(value.asked), text(value.of), text(value.answer), text(value.then)


def _resource(value: Resource) -> Resource:
    if value.owner == "site":
        return value.model_copy(update={"spec": _sites_own(value.spec)})
    match value.spec:
        case VipuAgentSpec():
            spec = value.spec.model_copy(update={"controller": HIDDEN, "address": HIDDEN})
        case VipuClusterSpec() | VipuAllocationSpec() | VipuUserSpec():
            spec = value.spec.model_copy(update={"controller": HIDDEN})
        case PartitionSpec():
            spec = value.spec.model_copy(update={"members": ()})
        case ServerSpec() | PortSpec():
            spec = value.spec.model_copy(update={"host": HIDDEN})
        case _:
            return value
    return value.model_copy(update={"spec": spec})


def _sites_own(spec: Spec) -> Spec:
    """What the site has made for the pod in its own project: that it is there, and not how it is reached."""
    hidden = {"user_data": None, "secrets": (), "host": HIDDEN, "image": HIDDEN, "flavor": HIDDEN}
    hidden |= {"ingress": (), "ssh_from": (), "address": HIDDEN}
    if isinstance(spec, PortSpec) and spec.site_network is None:
        del hidden["address"]  # the tenant's own network: there its users' door is
    elif isinstance(spec, PortSpec):
        hidden["site_network"] = HIDDEN
    return spec.model_copy(update={n: v for n, v in hidden.items() if n in type(spec).model_fields})


def _resource_view(value: ResourceView) -> ResourceView:
    return value.model_copy(
        update={
            "reason": text(value.reason),
            "differences": tuple(
                Difference(field=d.field, wanted=text(d.wanted), observed=text(d.observed))
                if d.field != "host"
                else Difference(field=d.field, wanted=HIDDEN, observed=HIDDEN)
                for d in value.differences
            ),
        }
    )


def _detail(value: object) -> object:
    if isinstance(value, Mapping):
        shown = {str(k): _detail(v) for k, v in value.items() if k not in ("examples", "members", "host")}
        if isinstance(changes := shown.get("would_fit"), list):
            shown["would_fit"] = list(dict.fromkeys(_change(str(change)) for change in changes))
        return shown
    if isinstance(value, list | tuple):
        return [_detail(item) for item in value]
    return text(value) if isinstance(value, str) else value


def _change(change: str) -> str:
    """What is the tenant's own to change stays; "when pod x is released" or a quarantine names others' things."""
    return "later, when other nodes have become free" if change.startswith("when ") else change


class RedactedVerbs:
    """Any `Verbs`, with what the caller may not see taken out of answers and errors."""

    def __init__(self, verbs: Verbs, policy: Policy) -> None:
        self._verbs = verbs
        self._policy = policy

    def may(self, request: Request, rule: str, pod: str | None = None) -> None:
        with self._errors(request):
            self._verbs.may(request, rule, pod)

    def plan_pod(self, request: Request, order: Order) -> Plan:
        with self._errors(request):
            return self._for(request, plan)(self._verbs.plan_pod(request, order))

    def create_pod(self, request: Request, order: Order) -> PodView:
        with self._errors(request):
            return self._for(request, pod)(self._verbs.create_pod(request, order))

    def list_pods(self, request: Request, all_projects: bool = False) -> list[PodSummary]:
        with self._errors(request):
            shown = self._for(request, summary)
            return [shown(p) for p in self._verbs.list_pods(request, all_projects)]

    def show_pod(self, request: Request, name: str) -> PodView:
        with self._errors(request):
            return self._for(request, pod)(self._verbs.show_pod(request, name))

    def pod_events(self, request: Request, name: str, after: int = 0, wait: float = 0.0) -> list[EventView]:
        with self._errors(request):
            shown = self._for(request, event)
            return [shown(e) for e in self._verbs.pod_events(request, name, after, wait)]

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

    def audit_log(self, request: Request, search: AuditLogSearch) -> list[AuditLogEntry]:
        with self._errors(request):
            return self._verbs.audit_log(request, search)

    def apply_site(self, request: Request, document: dict[str, object]) -> SiteView:
        with self._errors(request):
            return self._verbs.apply_site(request, document)

    def show_site(self, request: Request) -> SiteView:
        with self._errors(request):
            return self._verbs.show_site(request)

    def compare_fabric(self, request: Request, fabric: str | None = None) -> FabricComparison:
        with self._errors(request):
            return self._verbs.compare_fabric(request, fabric)

    def take_in_cables(self, request: Request, fabric: str | None = None) -> SiteView:
        with self._errors(request):
            return self._verbs.take_in_cables(request, fabric)

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
        return health.model_copy(update={"checks": {k: text(v) for k, v in health.checks.items()}})

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
