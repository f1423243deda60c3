"""The verbs about health: of nodes, of a pod, and of the whole site."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from weft.app.desk import DeskVerbs
from weft.app.verbs import Request
from weft.engine.book.capacity import Capacity
from weft.engine.nodes.nodehealth import Signs, health_counts, health_of_nodes, health_values, worst
from weft.engine.nodes.parthistory import part_history
from weft.engine.store.store import WORKER_SECONDS
from weft.model.errors import NotFoundError
from weft.model.messages import maintenance, nodehealth
from weft.model.messages.pods import STATE
from weft.model.pod import Aspect, PodState
from weft.model.site import Site
from weft.model.views import (
    HealthCount,
    HealthGroup,
    HealthReason,
    HealthValue,
    NodeHealth,
    PartHistory,
    PodHealth,
    PodNodeHealth,
    PodView,
    SiteHealth,
)

_FAILING = frozenset({Aspect.NODES_FAIL, Aspect.FAILED})
_WARNING = frozenset({Aspect.MAINTENANCE, Aspect.CHECKS_FAIL})
_SERVING = frozenset({PodState.READY, PodState.DEGRADED, PodState.FAILED})


class HealthVerbs(DeskVerbs):
    """See `weft.app.verbs`."""

    def of_nodes(self, request: Request, names: Collection[str] | None = None) -> list[NodeHealth]:
        """Health of these nodes and IPU-Machines, or of all; nothing outside is asked."""
        self._desk.policy.check("nodes:list", request.caller)
        return list(self._healths(names))

    def values(self, request: Request) -> Mapping[str, HealthValue]:
        """Node -> its health alone, as `of_nodes` has it; the same object while none changes."""
        self._desk.policy.check("nodes:list", request.caller)
        return health_values(*self._read())

    def page(
        self, request: Request, by: HealthGroup, health: HealthValue | None, limit: int
    ) -> tuple[SiteHealth, list[NodeHealth], int]:
        """`of_site`, the first nodes with this health (None: all that aren't ok), and how many there are, by one
        reading."""
        self._desk.policy.check("nodes:list", request.caller)
        site, capacity, signs = self._read()
        values = health_values(site, capacity, signs)
        found = [name for name, value in values.items() if (value == health if health else value != "ok")]
        nodes = list(health_of_nodes(site, capacity, signs, found[:limit]))
        return _site_health(health_counts(site, capacity, values, by), by), nodes, len(found)

    def of_node(self, request: Request, node: str) -> NodeHealth:
        """Health of one node. Raises `NotFoundError`."""
        self._desk.policy.check("nodes:list", request.caller)
        found = next(self._healths({node}), None)
        if found is None:
            raise NotFoundError(maintenance.NODE_UNKNOWN(node=node))
        return found

    def of_site(self, request: Request, by: HealthGroup = "type") -> SiteHealth:
        """All nodes, counted by health in groups."""
        self._desk.policy.check("nodes:list", request.caller)
        site, capacity, signs = self._read()
        return _site_health(health_counts(site, capacity, health_values(site, capacity, signs), by), by)

    def part_history(self, request: Request, serial: str) -> PartHistory:
        """Where a part with this number was, and what failed of it. Raises `NotFoundError`."""
        self._desk.policy.check("nodes:history", request.caller)
        found = part_history(self._desk.store.database, serial)
        if found is None:
            raise NotFoundError(nodehealth.PART_UNKNOWN())
        return found

    def of_pod(self, request: Request, name: str) -> PodHealth:
        """Health of a pod and its nodes; unknown before it serves and after."""
        pod = self._desk.view_of(
            self._desk.allowed(request, "pods:show", name, self._desk.store.pods.find_shown)
        )
        mine = {one.node for one in (*pod.placed, *pod.spares)}
        nodes = tuple(self._nodes(mine)) if pod.state in _SERVING else ()
        reasons = tuple(self._reasons(pod))
        return PodHealth(
            id=pod.id,
            name=pod.name,
            project_id=pod.project_id,
            state=pod.state,
            health=worst([*(one.health for one in reasons), *(_inherited(one) for one in nodes)]),
            reasons=reasons,
            nodes=nodes,
        )

    def _reasons(self, pod: PodView) -> Iterator[HealthReason]:
        if pod.state not in _SERVING:
            yield _reason("unknown", STATE(state=str(pod.state), why=pod.reason or None), pod)
            return
        if not self._desk.store.count_workers():
            yield _reason("unknown", nodehealth.NO_WORKERS(seconds=round(WORKER_SECONDS)), None)
        if pod.state is not PodState.READY:
            ready = next((c for c in pod.conditions if c.type is Aspect.READY), None)
            read = ready is None or ready.status != "unknown"
            yield _reason(
                "failed" if read else "unknown", STATE(state=str(pod.state), why=pod.reason or None), pod
            )
        for one in pod.conditions:
            value = "failed" if one.type in _FAILING else "warning" if one.type in _WARNING else None
            if value is not None and one.status == "true" and one.type is not Aspect.FAILED:
                given = {"health": value, "reason": one.message, "since": one.since}
                yield HealthReason.model_validate(given)

    def _nodes(self, names: Collection[str]) -> Iterator[PodNodeHealth]:
        """Health of a pod's nodes; unknown if the active site doesn't describe the node."""
        found = {one.node: _of_pod(one) for one in self._healths(names)}
        for name in sorted(names):
            if name in found:
                yield found[name]
            else:
                reason = _reason("unknown", nodehealth.NOT_IN_SITE(), None)
                yield PodNodeHealth(node=name, health="unknown", reasons=(reason,))

    def _read(self) -> tuple[Site, Capacity, Signs]:
        return (
            self._desk.store.site().site,
            self._desk.store.capacity(),
            Signs.read(self._desk.store.database),
        )

    def _healths(self, names: Collection[str] | None = None) -> Iterator[NodeHealth]:
        return health_of_nodes(*self._read(), names)


_VALUES: tuple[HealthValue, ...] = ("ok", "warning", "failed", "unknown")


def _inherited(node: PodNodeHealth) -> HealthValue:
    """A node's health as its pod's health counts it: quarantine is only a warning, since the pod stays as it is."""
    lesser: HealthValue = "warning"
    values = [lesser if one.code == nodehealth.IN_QUARANTINE.name else one.health for one in node.reasons]
    return worst(values)


def _of_pod(node: NodeHealth) -> PodNodeHealth:
    """A node's health as its pod's project sees it: without reports, which other projects may have made."""
    reasons = tuple(one for one in node.reasons if one.code != nodehealth.REPORTED.name)
    return PodNodeHealth(node=node.node, health=worst([one.health for one in reasons]), reasons=reasons)


def _reason(value: HealthValue, text: str, pod: PodView | None) -> HealthReason:
    return HealthReason.model_validate({"health": value, "reason": text, "since": pod and pod.since})


def _site_health(counts: Mapping[str, Mapping[HealthValue, int]], by: HealthGroup) -> SiteHealth:
    groups = tuple(_count(name, found) for name, found in sorted(counts.items()))
    total: dict[HealthValue, int] = {value: sum(getattr(one, value) for one in groups) for value in _VALUES}
    return SiteHealth(by=by, total=_count("", total), groups=groups)


def _count(group: str, found: Mapping[HealthValue, int]) -> HealthCount:
    return HealthCount.model_validate({"group": group, "nodes": sum(found.values()), **found})
