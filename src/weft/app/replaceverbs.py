"""The verb that replaces a node of a pod by another one; see docs/decisions/a-node-is-replaced.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.app.desk import Desk
from weft.app.generations import Generations, NextGeneration, Replacing
from weft.app.orderdesk import Orders
from weft.app.verbs import Request
from weft.engine.base.database import Tx
from weft.engine.book.capacity import Capacity
from weft.engine.nodes.failures import nodes_without_adapters
from weft.engine.nodes.nodehistory import note_replaced
from weft.engine.queue.changes import check_confirmed, check_gone, check_lease, overtaken
from weft.engine.queue.gather import PlanningInput
from weft.engine.rows.holds import check_unaccepted, hold_replaced
from weft.engine.rows.records import PodRecord
from weft.model.change import PodChange, Replacement
from weft.model.errors import ConflictError, PreconditionError
from weft.model.messages import orders
from weft.model.plan import Plan
from weft.model.pod import ENDED
from weft.model.site import Site
from weft.model.views import Applied
from weft.planning.shapes.gpu.replacing import replaced_by
from weft.planning.shapes.resolve import shape_of


@dataclass(frozen=True, slots=True)
class Unasked:
    """A replacement that weft makes without a request.

    Attributes:
        cause: why, for holds and histories.
        check, also: as in `weft.app.generations.Replacing`.
    """

    cause: str
    check: Callable[[Tx, PodRecord], None]
    also: Callable[[Tx, NextGeneration], None]


class ReplaceVerbs:
    """See `weft.app.verbs`."""

    def __init__(self, desk: Desk, orders: Orders, generations: Generations) -> None:
        self._desk, self._orders, self._generations = desk, orders, generations

    def plan_replacement(self, request: Request, name: str, asked: Replacement) -> Plan:
        """The plan that `replace_node` would make now, with the difference in `change`; nothing is changed.

        Raises as `replace_node`.
        """
        pod = self._desk.find(request, "pods:plan", name)
        self._check_may_replace(request, pod, asked)
        given = self._given_to_replace(pod)
        found = self._replacement(pod, given, self._desk.store.capacity(), asked)
        self._generations.check_quotas(pod, found, given, beside=_is_shared(pod))
        with self._desk.store.database.transaction() as tx:
            check_gone(tx, pod.id, found.plan.graph)
            check_lease(pod, found.lease_end, tx.now())
            for node in found.change.nodes_removed if _holds(pod, asked) else ():
                check_unaccepted(tx, node, self._limited(request, pod), self._desk.store.site().site)
        return found.plan

    def replace_node(
        self,
        request: Request,
        name: str,
        asked: Replacement,
        generation: int | None = None,
        comes: Sequence[str] | None = None,
    ) -> Applied:
        """Replace a node of a pod by its spare, the nearest free node, or the named one, as its next generation.

        The replaced node is held until an operator accepts it, unless `asked.hold` is false, or it is shared: others
        have parts of it, and a project does without it by reporting it.

        Args:
            generation: `PreconditionError` unless the pod has this one.
            comes: `ConflictError` unless exactly these nodes come, as a plan said; None: any.

        Raises `InputError` for a node that can't be replaced or can't take the place, `RefusedError` if there is none.
        """
        with self._desk.logged(request, "pod replace", f"{name} {asked.node}"):
            pod = self._desk.find(request, "pods:replace", name)
            self._check_may_replace(request, pod, asked)
            if generation is not None and generation != pod.generation:
                with self._desk.store.database.transaction() as tx:
                    raise PreconditionError(overtaken(tx, replace(pod, generation=generation)))
            with self._desk.store.database.statement() as tx:
                check_confirmed(tx, pod)
            change = self.make(request, pod, asked, self._limited(request, pod), comes=comes)
            return Applied(outcome="changed", change=change, pod=self._desk.view(pod.id))

    def _check_may_replace(self, request: Request, pod: PodRecord, asked: Replacement) -> None:
        """Raise unless the pod has nodes and isn't ending, and the caller may choose the node if one is named, and may
        accept nodes if the replaced one isn't to be held."""
        if asked.by is not None:
            self._desk.policy.check("pods:choose_node", request.caller, pod.project_id)
        if not asked.hold:
            self._desk.policy.check("nodes:accept", request.caller)
        if pod.state in ENDED:
            raise ConflictError(orders.ORDER_AGAIN(pod=pod.name, state=str(pod.state)))
        if pod.wanted == "absent":
            raise ConflictError(orders.NOT_CHANGEABLE(pod=pod.name))
        if pod.placed is None:
            raise ConflictError(orders.NO_NODES_YET(pod=pod.name, why=pod.reason))
        if (why := shape_of(pod.order).why_kept(pod.order)) is not None:
            raise ConflictError(why)
        found = replaced_by(pod.plan, asked.node)
        if found is not None and self._is_new(pod, found[0]):
            node, before = found
            raise ConflictError(
                orders.REPLACED_ALREADY(pod=pod.name, server=asked.node, node=before, by=node)
            )

    def _is_new(self, pod: PodRecord, node: str) -> bool:
        """Whether what a node has came with a change that isn't done: until then a request by the server's name may be
        a repeated one, also once the old node is free."""
        if pod.ready_generation >= pod.generation:
            return False
        rows = (r for r in self._desk.store.pods.resources(pod.id) if r.wanted and r.resource.node == node)
        return any(r.generation > pod.ready_generation for r in rows)

    def make(
        self,
        request: Request,
        pod: PodRecord,
        asked: Replacement,
        project: str | None,
        unasked: Unasked | None = None,
        comes: Sequence[str] | None = None,
    ) -> PodChange:
        """Write the replacement as the pod's next generation.

        Args:
            project: project whose limit of replaced nodes counts.
            unasked: set if weft replaces without a request.
            comes: as in `replace_node`.
        """

        def following(pod: PodRecord, given: PlanningInput, capacity: Capacity) -> NextGeneration:
            found = self._replacement(pod, given, capacity, asked)
            if comes is not None and list(found.change.coming) != list(comes):
                raise ConflictError(
                    "another node would come now: look at the plan again. Nothing was changed"
                )
            return found

        user, cause = request.caller.named_to(pod.project_id), unasked.cause if unasked else ""

        def check(tx: Tx, pod: PodRecord) -> None:
            if unasked is not None:
                unasked.check(tx, pod)

        def also(tx: Tx, found: NextGeneration, site: Site) -> None:
            note_replaced(tx, pod, found.change, user, cause)
            for node in found.change.nodes_removed if _holds(pod, asked) else ():
                hold_replaced(tx, node, pod, user, project, site, cause)
            if unasked is not None:
                unasked.also(tx, found)

        def write() -> PodChange:
            given = self._given_to_replace(pod)
            replacing = Replacing(also, check, beside=_is_shared(pod))
            return self._generations.write(request, pod, given, following, replacing)

        gate = self._desk.store.database.gate
        if _holds(pod, asked):
            gate.foretell()
        done = self._orders.by_active_site(write, pod.name)
        gate.hurry()
        return done

    def _given_to_replace(self, pod: PodRecord) -> PlanningInput:
        """The planning input for a replacement: nodes whose adapters their fabric doesn't show count as down."""
        given = self._generations.given_now(pod, pod.order)
        return replace(given, down={**nodes_without_adapters(self._desk.store.database), **given.down})

    def _limited(self, request: Request, pod: PodRecord) -> str | None:
        """The project whose limit of replaced nodes counts; None: an operator asks."""
        return None if self._desk.policy.allows("nodes:hold", request.caller) else pod.project_id

    def _replacement(
        self, pod: PodRecord, given: PlanningInput, capacity: Capacity, asked: Replacement
    ) -> NextGeneration:
        return self._generations.next(pod, pod.order, given, capacity, replaces=asked)


def _holds(pod: PodRecord, asked: Replacement) -> bool:
    """Whether the replaced node is held."""
    return asked.hold and not _is_shared(pod)


def _is_shared(pod: PodRecord) -> bool:
    return shape_of(pod.order).shares_nodes
