"""The verbs of operators about drains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from weft.app.desk import DeskVerbs
from weft.app.show import drain_view
from weft.app.verbs import Request
from weft.engine.book.capacity import Capacity
from weft.engine.nodes.drains import (
    DrainTerms,
    drain_nodes,
    orders_on,
    planned_drain,
    pods_on,
    then_of,
    undrain_nodes,
)
from weft.model.errors import ConflictError, InputError
from weft.model.messages import maintenance
from weft.model.site import Site
from weft.model.views import DrainedPod, DrainRequest, DrainResult, DrainView
from weft.planning.fabric.places import nodes_at


class DrainVerbs(DeskVerbs):
    """Verbs of operators; see `weft.app.verbs`."""

    def drain(self, request: Request, wanted: DrainRequest) -> DrainResult:
        """Give no new orders to the nodes of a place; pods there stay, and an event reports it to their projects.
        With `plan` nothing is changed, and the result has what would be.

        At the drain's time, nodes are replaced for pods whose order asks for it, and pods whose order says so are
        released, unless `wait`. Nodes that come to a rack or leaf later aren't drained.

        Raises:
            InputError: the site has no such place, or the time is over.
            ConflictError: reservations or bookings would be broken, and `break_promises` isn't given.
        """
        drain = DrainTerms(wanted.by, wanted.reason, wanted.public, wanted.wait)
        if wanted.plan:
            site, nodes = self._drainable(request, wanted)
            capacity, broken = planned_drain(self._desk.store.database, site, nodes)
            return self._drained(wanted.target, nodes, capacity, drain, broken)
        with self._desk.logged(request, "node drain", wanted.target):
            site, nodes = self._drainable(request, wanted)
            user = request.caller.user_name
            capacity, broken = drain_nodes(
                self._desk.store.database, site, nodes, drain, user, wanted.break_promises
            )
        return self._drained(wanted.target, nodes, capacity, drain, broken)

    def _drained(
        self,
        target: str,
        nodes: Sequence[str],
        capacity: Capacity,
        drain: DrainTerms,
        broken: tuple[str, ...],
    ) -> DrainResult:
        """What a drain concerns, and what happens to each pod at its time."""
        pods = _pods(capacity, nodes)
        orders = orders_on(self._desk.store.database, pods) if drain.until is not None else {}
        holds = (*capacity.holds.values(), *capacity.shared)
        left = {(hold.pod.id, hold.node) for hold in holds if hold.leaving is not None}
        staying = {pod: [n for n in one.nodes if (pod, n) not in left] for pod, one in pods.items()}
        said = {
            pod: then_of(orders[pod], drain, mine, _spares(capacity, pod, mine)) or ""
            for pod, mine in staying.items()
            if pod in orders and mine  # nothing happens to a pod that is leaving all of them
        }
        shown = tuple(one.model_copy(update={"then": said.get(pod, "")}) for pod, one in pods.items())
        return DrainResult(target=target, nodes=tuple(nodes), pods=shown, broken=broken)

    def _drainable(self, request: Request, wanted: DrainRequest) -> tuple[Site, tuple[str, ...]]:
        """The active site, and the nodes of the place. Raises as `drain` does."""
        self._desk.policy.check("nodes:drain", request.caller)
        site = self._desk.store.site().site
        nodes = nodes_at(site, wanted.target)
        if wanted.by is not None and wanted.by <= self._desk.clock.now():
            raise InputError("by", wanted.by.isoformat(), "a time in the future")
        return site, nodes

    def undrain(self, request: Request, target: str, revision: int | None = None) -> DrainResult:
        """End the drains of a place's nodes. Raises `ConflictError` if none of them is drained.

        Args:
            revision: `PreconditionError` unless it is the highest of the drains that end.
        """
        with self._desk.logged(request, "node undrain", target):
            self._desk.policy.check("nodes:drain", request.caller)
            one = self._desk.store.capacity().stops.get(target)
            # A node that left the site may still be drained.
            nodes = (target,) if one and one.drain else nodes_at(self._desk.store.site().site, target)
            user = request.caller.user_name
            capacity, ended = undrain_nodes(self._desk.store.database, nodes, user, revision)
            if not ended:
                raise ConflictError(maintenance.NOT_DRAINED(target=target))
        pods = tuple(_pods(capacity, ended).values())
        return DrainResult(target=target, nodes=tuple(ended), pods=pods)

    def drains(self, request: Request) -> list[DrainView]:
        """All drained nodes, by name; also those that left the site."""
        self._desk.policy.check("nodes:list", request.caller)
        stops = self._desk.store.capacity().stops
        return [drain_view(one.drain) for _, one in sorted(stops.items()) if one.drain]

    def overdue_drains(self, request: Request) -> list[DrainView]:
        """Drained nodes that should be empty by now, whether they are or not."""
        now = self._desk.clock.now()
        return [one for one in self.drains(request) if one.by is not None and one.by <= now]


def _pods(capacity: Capacity, nodes: Sequence[str]) -> dict[UUID, DrainedPod]:
    """Pods that have some of the nodes, by name."""
    rows: Mapping[UUID, tuple[str, str]] = {
        hold.pod.id: (hold.pod.name, hold.pod.project_id)
        for hold in (*capacity.holds.values(), *capacity.shared, *capacity.places)
    }
    found = [(*rows[pod], tuple(mine), pod) for pod, mine in pods_on(capacity, frozenset(nodes)).items()]
    return {
        pod: DrainedPod(pod=name, project_id=project, nodes=mine)
        for name, project, mine, pod in sorted(found)
    }


def _spares(capacity: Capacity, pod: UUID, nodes: Sequence[str]) -> list[str]:
    """Those of these nodes that are idle spares of a pod."""
    return [n for n in nodes if (hold := capacity.holds.get(n)) and hold.pod.id == pod and hold.spare]
