"""What a tenant is shown of each document: a table, closed by default.

A tenant sees its own pods with node, rack and leaf names, segment, VLAN and addresses. Of plans and resources it sees
the fields that the table of kinds names (`weft.model.kinds`); reasons and events as `weft.app.tenanttext` has them;
of a refusal how many nodes are in use, not by whom or why. Times that follow from others' leases are rounded. A receipt
is shown whole: it is signed, and a pod's servers saw the ports' ids in it. So is the certificate of a bandwidth test:
what a tenant isn't shown, such as names of upper switches, isn't in that of a pod.

A field that a row doesn't name, and a document that has no row, is hidden, wherever it stands in an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from weft.app import tenanttext
from weft.app.shownplacement import offers, why_chosen, why_refused
from weft.app.tenanttext import HIDDEN
from weft.model.bandwidth import BandwidthPlan, SignedCertificate
from weft.model.change import FieldChange, Impossible, PodChange
from weft.model.ipuorder import PodIpus
from weft.model.kinds import kind_named
from weft.model.messages import message, queue
from weft.model.messages.values import USER, later
from weft.model.nodetests import NodeTest, NodeTestReceipt
from weft.model.order import Order
from weft.model.ordernames import OrderNames
from weft.model.placement import PlacedNode, Placement, QuotaExcess, Refusal
from weft.model.plan import Allotment, Plan
from weft.model.pod import Condition
from weft.model.receipt import ReceiptKey, SignedReceipt
from weft.model.resources import Difference, Graph, Resource
from weft.model.site import AcceleratorCount
from weft.model.specs import PortSpec, Spec
from weft.model.views import (
    Acceptance,
    ActionView,
    Applied,
    CapacityRowView,
    CapacityView,
    ConsoleView,
    CountView,
    EventPage,
    EventView,
    Health,
    HealthReason,
    HoldView,
    LargestView,
    NetworkPortView,
    NetworkSummary,
    NetworkView,
    NewWebhook,
    NodeHistory,
    NodeHistoryEntry,
    PodHealth,
    PodLink,
    PodLinks,
    PodNodeHealth,
    PodSummary,
    PodView,
    ProjectEvent,
    ReportView,
    ResourceView,
    SearchHit,
    SearchResult,
    ServerView,
    SoonView,
    TopologyFile,
    UseReport,
    UseRow,
    WebhookTest,
    WebhookView,
)

_READABLE = frozenset({"members", "ssh_from", "ingress", "gateway", "subnets"})
"""Fields of resources whose changes are shown with values; of a segment's members only the number."""
_WITHOUT_VALUES = {"was": HIDDEN, "becomes": HIDDEN}
_T = TypeVar("_T")
_D = TypeVar("_D", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class DocumentRow:
    """What is shown of one document.

    Attributes:
        fields: shown as they are; documents in them by their own rows.
        otherwise: field -> makes what is shown in its place, from the whole document.
    """

    fields: frozenset[str]
    otherwise: Mapping[str, Callable[[Any], object]]


def shown(value: _T) -> _T:
    """An answer as a tenant may see it: a document, several of them, or a plain value."""
    return cast(_T, _shown(value))


def _shown(value: object) -> object:
    match value:
        case None | str() | bool() | int() | float() | datetime():
            return value
        case BaseModel():
            return _document(value)
        case tuple() | list():
            values = cast(Sequence[object], value)
            visible = [s for one in values if (s := _shown(one)) is not None]
            return visible if isinstance(value, list) else tuple(visible)
        case Mapping():
            plain = cast(Mapping[str, object], value)
            return {name: _shown(one) for name, one in plain.items()}
        case _:
            return None


def _document(value: BaseModel) -> BaseModel | None:
    if isinstance(value, WHOLE):
        return value
    row = _row_of(type(value))
    if row is None:
        return None
    changes: dict[str, object] = {}
    for name, field in type(value).model_fields.items():
        was = getattr(value, name)
        if name in row.otherwise:
            now = row.otherwise[name](value)
        elif name in row.fields:
            now = _shown(was)
        elif field.is_required():
            now = nothing(was)
        else:
            now = field.get_default(call_default_factory=True)
        if now is not was:
            changes[name] = now
    return value.model_copy(update=changes) if changes else value


@cache
def _row_of(model: type[BaseModel]) -> DocumentRow | None:
    """The row of a document: what it has of its own, and what its bases have."""
    rows = [TABLE[base] for base in model.__mro__ if base in TABLE]
    if not rows:
        return None
    otherwise = {name: make for row in reversed(rows) for name, make in row.otherwise.items()}
    return DocumentRow(frozenset().union(*(row.fields for row in rows)), otherwise)


def nothing(value: object) -> object:
    """What stands where a value is hidden: of its type, and always the same."""
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


# -- pods ------------------------------------------------------------------------------------------------------------


def _expected(pod: PodSummary) -> datetime | None:
    """A start that follows from others' leases is rounded; one's own stays."""
    start = pod.expected_start
    return start if start is None or message(pod.reason).code == queue.STARTS_AT.name else later(start)


def _conditions(pod: PodView) -> tuple[Condition, ...]:
    return tuple(
        c.model_copy(update={"message": tenanttext.reason(c.message, pod.state)})
        for c in shown(pod.conditions)
    )


def _is_shown(resource: ResourceView) -> bool:
    """Whether tenants may know that such a resource exists."""
    kind = kind_named(resource.kind)
    return kind is not None and kind.row.shown is not None


def _id(resource: ResourceView) -> str:
    """The id as the tenant's own cloud would show it: neither the machine, nor the node of a server."""
    kind, id_ = kind_named(resource.kind), resource.id or ""
    return HIDDEN if id_ and kind is not None and kind.row.cleaned else id_.partition("@")[0]


def _applied_change(applied: Applied) -> PodChange | None:
    there = {r.key for r in applied.pod.resources if _is_shown(r)}
    return applied.change and _change(applied.change, there)


# -- plans -----------------------------------------------------------------------------------------------------------


def _planned_change(plan: Plan) -> PodChange | None:
    there = {r.key for r in plan.graph.resources if _shown_fields(r) is not None}
    return plan.change and _change(plan.change, there)


def _change(change: PodChange, there: Collection[str]) -> PodChange:
    """A difference with only those resources that are shown, whose keys are in `there`."""
    return PodChange(
        generation=change.generation,
        fields=shown(change.fields),
        nodes_added=change.nodes_added,
        nodes_removed=change.nodes_removed,
        spares_used=change.spares_used,
        added=tuple(key for key in change.added if key in there),
        removed=_resources(change.removed),
        changed=tuple(
            c if c.field in _READABLE else c.model_copy(update=_WITHOUT_VALUES)
            for c in change.changed
            if c.key in there
        ),
        impossible=shown(change.impossible),
    )


def _graph(graph: Graph) -> tuple[Resource, ...]:
    resources = _resources(graph.resources)
    there = {r.key for r in resources}
    return tuple(r.model_copy(update={"needs": tuple(n for n in r.needs if n in there)}) for r in resources)


def _resources(resources: Iterable[Resource]) -> tuple[Resource, ...]:
    return tuple(shown(r) for r in resources if _shown_fields(r) is not None)


def _shown_fields(resource: Resource) -> frozenset[str] | None:
    """Fields of its spec by the table of kinds; None: the resource is hidden from tenants."""
    row = resource.kind.row
    fields = row.shown_of_site if resource.owner == "site" else row.shown
    spec = resource.spec
    if (
        fields is not None
        and resource.owner == "site"
        and isinstance(spec, PortSpec)
        and spec.site_network is None
    ):
        fields |= {"address"}  # on the tenant's own network, where the user API listens
    return fields


def _spec(resource: Resource) -> Spec:
    """A spec with the fields of the table; others are marked as hidden, or empty."""
    fields = _shown_fields(resource) or frozenset()
    hidden = {name: nothing(v) for name, v in resource.spec if name not in fields and name != "kind"}
    return resource.spec.model_copy(update=hidden)


# -- the table -------------------------------------------------------------------------------------------------------


def _once(rows: Iterable[tuple[type[BaseModel], DocumentRow]]) -> dict[type[BaseModel], DocumentRow]:
    """The rows by document. Raises `ValueError` for a document with two: which of them counts would be an accident."""
    table: dict[type[BaseModel], DocumentRow] = {}
    for model, row in rows:
        if model in table:
            raise ValueError(f"{model.__name__} has two rows")
        table[model] = row
    return table


def _row(
    model: type[_D], fields: str, **otherwise: Callable[[_D], object]
) -> tuple[type[BaseModel], DocumentRow]:
    row = DocumentRow(frozenset(fields.split()), otherwise)
    unknown = (row.fields | otherwise.keys()) - model.model_fields.keys()
    assert not unknown, f"{model.__name__} has no {unknown}"
    return model, row


WHOLE = (Order, SignedReceipt, ReceiptKey, SignedCertificate, BandwidthPlan)
"""Shown with all that is in them: the tenant's own words, and what is signed."""
TABLE: Mapping[type[BaseModel], DocumentRow] = _once(
    (
        _row(
            PodSummary,
            "id name project_id phase state since created_at nodes nodes_failing fabric segment lease_end position",
            reason=lambda pod: tenanttext.reason(pod.reason, pod.state),
            expected_start=_expected,
        ),
        _row(
            PodView,
            "created_by generation changing_since site cloud flavor vlan order placed spares servers ipus has_receipt",
            conditions=_conditions,
            resources=lambda pod: shown(tuple(r for r in pod.resources if _is_shown(r))),
        ),
        _row(Condition, "type status reason message since"),
        _row(ActionView, "server node action password"),
        _row(ConsoleView, "type url"),
        # Of the pod's own servers and switches, which a tenant sees in the pod, too.
        _row(TopologyFile, "format media_type text tag left_out"),
        _row(
            PodLinks,
            "pod id fabric pattern routes_age exact equal_paths adapters unseen lost shared_with links more_links",
        ),
        # Leaves are those of the pod's own servers. What a shared link carries would show others' traffic.
        _row(
            PodLink,
            "sender_level receiver_level paths shared_with",
            sender=lambda link: HIDDEN if link.sender_level == "other" else link.sender,
            receiver=lambda link: HIDDEN if link.receiver_level == "other" else link.receiver,
        ),
        _row(PodIpus, "count ipu_pod machines controller data_vlan data_addresses"),
        _row(ServerView, "name node management_address rdma_addresses floating_ip"),
        _row(
            ResourceView,
            "key kind name where state started_at finished_at differences",
            id=_id,
            reason=lambda one: tenanttext.step(one.reason, at_rest=one.state in ("settled", "absent")),
        ),
        _row(
            Difference,
            "",
            field=lambda d: tenanttext.difference(d.field, d.wanted, d.observed)[0],
            wanted=lambda d: tenanttext.difference(d.field, d.wanted, d.observed)[1],
            observed=lambda d: tenanttext.difference(d.field, d.wanted, d.observed)[2],
        ),
        _row(
            NetworkSummary,
            "id name project_id cloud fabric segment state since ports_in waiting out read_at",
            reason=lambda one: tenanttext.reason(one.reason, one.state),
        ),
        _row(NetworkView, "ports"),
        # Nova doesn't show tenants a server's host and adapters either.
        _row(
            NetworkPortView, "id name vnic_type state since", why=lambda port: tenanttext.why_not_in(port.why)
        ),
        # A tenant's search looks among its own pods and networks only.
        _row(SearchResult, "text hits more"),
        _row(SearchHit, "kind name what id project_id state"),
        _row(EventView, "sequence at type key", message=lambda event: tenanttext.event(event.message)),
        _row(ProjectEvent, "position pod_id pod project_id"),
        _row(EventPage, "events position more removed"),
        # Its own words, and what its own receivers answered.
        _row(
            WebhookView,
            "id project_id name url events state created_by created_at failing_since next_at delivered delivered_at "
            "old_secret_until revision",
            reason=lambda hook: tenanttext.known(hook.reason),
        ),
        _row(NewWebhook, "secret"),
        _row(WebhookTest, "delivered status seconds", reason=lambda test: tenanttext.known(test.reason)),
        _row(UseReport, "since until at kept rows"),
        _row(UseRow, "project_id pod pod_id type state node_hours accelerator_hours"),
        _row(PodHealth, "id name project_id state health reasons nodes"),
        _row(PodNodeHealth, "node health reasons"),
        _row(HealthReason, "health since", reason=lambda one: tenanttext.why_not_in(one.reason)),
        _row(Applied, "outcome pod", change=_applied_change),
        _row(
            Plan,
            "generation pod_id project site order cloud fabric flavor placement allotment graph limits names_taken",
            change=_planned_change,
        ),
        _row(Placement, "nodes spares level rails", explanation=why_chosen),
        # Only operators see which accelerators of a shared node weft assigns to whom.
        _row(PlacedNode, "node rack leaf block nvlink_domain"),
        _row(
            Refusal,
            "quotas",
            reason=lambda refusal: tenanttext.refusal(refusal.reason),
            explanation=why_refused,
            would_fit=offers,
            earliest_start=lambda refusal: refusal.earliest_start and later(refusal.earliest_start),
        ),
        _row(QuotaExcess, "resource limit used wanted"),
        _row(Allotment, "segment rdma_cidr management_cidr numbers hosts rails"),
        _row(Graph, "", resources=_graph),
        _row(Resource, "key name where owner needs node", spec=_spec),
        _row(FieldChange, "field was becomes"),
        _row(Impossible, "field value was allowed"),
        _row(OrderNames, "flavors images"),
        _row(CapacityView, "at duration rows waiting"),
        _row(
            CapacityRowView,
            "shape cloud place_kind place accelerators unit total free orders largest soon counts",
        ),
        _row(AcceleratorCount, "type count"),
        _row(LargestView, "count level flavor accelerators"),
        _row(SoonView, "count level", at=lambda soon: later(soon.at)),
        _row(CountView, "name total free each"),
        # For programs that accept nodes: only the rules for holds name them.
        _row(HoldView, "node what since held_by tests revision", why=lambda hold: tenanttext.known(hold.why)),
        _row(NodeTest, "test status at started"),
        _row(NodeTestReceipt, "node what accepted tests"),
        _row(Acceptance, "node accepted missing"),
        # Its own words; an operator may have reported the node before it, for the same reason.
        _row(
            ReportView,
            "node project_id pod at reason",
            reported_by=lambda report: USER.shown(report.reported_by),
        ),
        _row(NodeHistory, "node in_site kept entries next"),
        _row(
            NodeHistoryEntry,
            "sequence at type",
            message=lambda entry: tenanttext.event(entry.message),
        ),
        # Which part fails, never how: anyone may ask.
        _row(
            Health,
            "ready",
            checks=lambda health: {part: tenanttext.health(said) for part, said in health.checks.items()},
        ),
    )
)
