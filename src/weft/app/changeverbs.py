"""The verbs that change existing pods: apply an order, extend a lease. Both use the same path internally
(`weft.app.generations`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from weft.app.desk import Desk
from weft.app.generations import Generations, NextGeneration
from weft.app.newpods import NewPods
from weft.app.orderdesk import Orders, check_extension, check_longest
from weft.app.verbs import Request
from weft.app.waitingchanges import WaitingChanges
from weft.engine.book.capacity import Capacity, read_capacity
from weft.engine.book.claimrows import name_taken
from weft.engine.queue.changes import (
    check_confirmed,
    check_gone,
    note_change,
    overtaken,
    write_change,
)
from weft.engine.queue.gather import PlanningInput
from weft.engine.queue.waiting import lengthen_waiting
from weft.engine.rows.records import PodRecord
from weft.model.change import PodChange
from weft.model.errors import (
    ConflictError,
    InputError,
    InputErrors,
    NotFoundError,
    PreconditionError,
    RefusedError,
)
from weft.model.ids import is_uuid
from weft.model.messages import orders, pods
from weft.model.messages.orders import instead
from weft.model.order import LeaseOrder, Order
from weft.model.plan import Plan
from weft.model.pod import ENDED
from weft.model.views import Applied, PodView
from weft.planning.shapes.graph import new_names
from weft.planning.shapes.orderdiff import order_change
from weft.planning.shapes.storage import check_storage


def _any(_: PodChange) -> None:
    """Accepts every difference: the default of `ChangeVerbs.apply`."""


class ChangeVerbs:
    """Verbs of tenants that change pods; see `weft.app.verbs`."""

    def __init__(self, desk: Desk, orders: Orders, new: NewPods, generations: Generations) -> None:
        self._desk, self._orders, self._new, self._generations = desk, orders, new, generations
        self._waiting = WaitingChanges(desk, orders)

    def plan(self, request: Request, order: Order, remove: Sequence[str] = ()) -> Plan:
        """Plan an order; for an existing pod of that name in the caller's project, `Plan.change` has the difference."""
        plan = self._plan_of(request, order, remove)
        names, facts = new_names(plan), self._desk.keeper.world().clouds.get(plan.cloud)
        if not names or facts is None:
            return plan
        taken = facts.servers_named(plan.project, names)
        return plan.model_copy(update={"names_taken": tuple(sorted(taken))})

    def _plan_of(self, request: Request, order: Order, remove: Sequence[str]) -> Plan:
        project = self._desk.project(request, "pods:plan")
        pod = self._live(project, order.name)
        if pod is None or pod.wanted == "absent":
            _nobody_to_remove(remove)
            return self._new.plan(request, order)
        if pod.placed is None:
            _nobody_to_remove(remove)
            return self._waiting.plan(request, pod, order)
        order = self._named(request, pod, order)
        able = order_change(pod.plan, order, self._desk.store.site().site).order
        found = self._generations.next(
            pod, order, self._given_for(pod, able), self._desk.store.capacity(), remove
        )
        with self._desk.store.database.statement() as tx:
            check_gone(tx, pod.id, found.plan.graph)
        return found.plan

    def apply(
        self,
        request: Request,
        name: str,
        order: Order,
        remove: Sequence[str] = (),
        generation: int | None = None,
        exists: bool | None = None,
        agreed: Callable[[PodChange], None] = _any,
    ) -> Applied:
        """Create or change the pod of that name in the caller's project; by id, change any that the caller may change.

        Args:
            remove: nodes to remove if the order asks for fewer; weft chooses the rest.
            generation: `PreconditionError` unless the pod has this one.
            exists: `PreconditionError` unless there is such a pod, or unless there is none; None: either is fine.
            agreed: raises for another difference than it was shown; asked before anything is changed.

        Raises `InputErrors` with everything that can't be changed in place, before anything is changed.
        """
        with self._desk.logged(request, "pod apply", order.name):
            pod = self._target(request, name)
            _check_named(pod, name, order)
            _check_there(pod, name, generation, exists)
            if pod is None:
                _nobody_to_remove(remove)
                try:
                    made = UUID(self._new.order(request, order))
                except (ConflictError, RefusedError):
                    # Two concurrent requests created it: the second one changes it.
                    pod = None if exists is False else self._target(request, name)
                    if pod is None:
                        raise
                else:
                    return Applied(outcome="created", pod=self._desk.view(made))
            change = self._change(request, pod, order, remove, generation, agreed)
            self._desk.store.database.gate.hurry()
            outcome = "unchanged" if change.nothing else "changed"
            return Applied(outcome=outcome, change=change, pod=self._desk.view(pod.id))

    def may_apply(self, request: Request, name: str) -> None:
        """Raise what `apply` would raise for a caller without permission: `pods:change` for the pod of this name or
        id, `pods:create` for a free name. A refusal is logged."""
        with self._desk.refusals(request, "pods:change", name):
            self._target(request, name)

    def _change(
        self,
        request: Request,
        pod: PodRecord,
        order: Order,
        remove: Sequence[str],
        generation: int | None,
        agreed: Callable[[PodChange], None],
    ) -> PodChange:
        if pod.wanted == "absent":
            raise ConflictError(orders.APPLY_AFTERWARDS(pod=pod.name))
        if generation is not None and generation != pod.generation:
            with self._desk.store.database.transaction() as tx:
                raise PreconditionError(overtaken(tx, replace(pod, generation=generation)))
        if pod.placed is None:
            _nobody_to_remove(remove)
            return self._orders.by_active_site(
                lambda: self._waiting.apply(request, pod, order, agreed), order.name
            )
        with self._desk.store.database.statement() as tx:
            check_confirmed(tx, pod)
        return self._orders.by_active_site(
            lambda: self._apply_placed(request, pod, order, remove, agreed), order.name
        )

    def extend(self, request: Request, name: str, until: datetime, generation: int | None = None) -> PodView:
        """Set a later end of the lease, unless bookings of others conflict with it.

        Args:
            generation: `PreconditionError` unless the pod has this one.
        """
        with self._desk.logged(request, "pod extend", name):
            pod = self._desk.find(request, "pods:extend", name)
            by = request.caller.named_to(pod.project_id)
            with self._desk.store.database.placing() as tx:
                # No other site becomes active while the lock is held.
                capacity, at, site = read_capacity(tx), tx.now(), self._desk.store.site().site
                check_longest("until", until, until.timestamp(), at.timestamp(), site)
                # As read under the lock: another extension may have come first, and the later end wins.
                pod = self._desk.store.pods.under(tx, pod.id)
                if generation is not None and generation != pod.generation:
                    raise PreconditionError(orders.CHANGED_MEANWHILE(pod=pod.name, now=pod.generation))
                if pod.placed is None and pod.state not in ENDED:
                    if not lengthen_waiting(tx, pod, until, capacity, site, by):
                        raise ConflictError(orders.NOT_WAITING(pod=pod.name))
                else:
                    check_confirmed(tx, pod)
                    check_extension(pod, until, capacity, site)
                    if pod.wanted == "absent":
                        raise ConflictError(orders.NOT_EXTENDABLE(pod=pod.name, state="being released"))
                    lease = LeaseOrder(start=pod.order.lease.start, end=until)
                    order = pod.order.model_copy(update={"lease": lease})
                    found = self._generations.next(pod, order, self._generations.blank(), capacity, ())
                    write_change(tx, pod, found.plan, site, found.lease_end, by)
                note_change(tx, pod.id, "lease", pods.EXTENDED(end=until, user=by))
            self._desk.store.database.gate.hurry()
            return self._desk.view(pod.id)

    # -- a pod that has nodes ------------------------------------------------------------------------------------

    def _apply_placed(
        self,
        request: Request,
        pod: PodRecord,
        order: Order,
        remove: Sequence[str],
        agreed: Callable[[PodChange], None],
    ) -> PodChange:
        order = self._named(request, pod, order)
        asked = order_change(pod.plan, order, self._desk.store.site().site)
        if asked.impossible:
            raise InputErrors([InputError(i.field, i.value, i.allowed) for i in asked.impossible])
        given = self._given_for(pod, order)

        def following(pod: PodRecord, given: PlanningInput, capacity: Capacity) -> NextGeneration:
            found = self._generations.next(pod, order, given, capacity, remove)
            agreed(found.change)
            return found

        return self._generations.write(request, pod, given, following)

    def _given_for(self, pod: PodRecord, order: Order) -> PlanningInput:
        """The planning input; the cloud is read only if nodes are added."""
        before, nodes = pod.plan.order.nodes, order.nodes
        if nodes.count <= before.count and nodes.spare <= before.spare:
            return self._generations.blank()
        return self._generations.given_now(pod, order)

    def _named(self, request: Request, pod: PodRecord, order: Order) -> Order:
        """The order with its key pair resolved, projects and existing storage by id."""
        if order.locality.exclusive or order.locality.apart_from:
            self._orders.check_exclusive(request, pod.project_id, order)
        world, cloud, site = self._desk.keeper.world(), pod.plan.cloud, self._desk.store.site().site
        if order.storage != pod.order.storage:
            check_storage(order, cloud, site.clouds[cloud], site.clouds[cloud].flavors[pod.plan.flavor])
        offer = site.clouds[cloud].storage
        return self._orders.by_id(
            request.caller, pod.project_id, order, world.clouds[cloud], offer, pod.order
        )

    # -- which pod -----------------------------------------------------------------------------------------------

    def _target(self, request: Request, name: str) -> PodRecord | None:
        """The pod that an order under this name changes: by id any that the caller may change, by name only a live one
        of its own project. None: the name is free, and the caller may create a pod.
        """
        if is_uuid(name):
            return self._desk.find(request, "pods:change", name)
        caller = request.caller
        pod = self._live(caller.project_id, name) if caller.project_id else None
        if pod is None or not self._desk.policy.allows("pods:show", caller, pod.project_id):
            self._desk.project(request, "pods:create")
        return pod and self._desk.find(request, "pods:change", str(pod.id))

    def _live(self, project: str, name: str) -> PodRecord | None:
        """The project's live pod with this name; None: the name is free."""
        try:
            pod = self._desk.store.pods.find(name, project)
        except NotFoundError:
            return None
        return None if pod.state in ENDED or pod.name != name else pod


def _check_named(pod: PodRecord | None, name: str, order: Order) -> None:
    """Raise unless the order is one for this pod, or for a new one of this name."""
    if not is_uuid(name) and name != order.name:
        raise InputError("name", order.name, instead("the name that the order is applied to"))
    if pod is not None and pod.name != order.name:
        raise InputError("name", order.name, instead("{name}: a pod's name can't be changed", name=pod.name))
    if pod is not None and pod.state in ENDED:
        raise ConflictError(orders.ORDER_AGAIN(pod=pod.name, state=str(pod.state)))


def _check_there(pod: PodRecord | None, name: str, generation: int | None, exists: bool | None) -> None:
    if pod is None and (generation is not None or exists):
        if generation is None:
            raise PreconditionError(orders.NOTHING_TO_CHANGE(pod=name))
        raise PreconditionError(orders.NO_SUCH_GENERATION(pod=name, generation=generation))
    if pod is not None and exists is False:
        raise PreconditionError(name_taken(pod.name).message)


def _nobody_to_remove(remove: Sequence[str]) -> None:
    if remove:
        raise InputError("remove", ", ".join(remove), instead("must be omitted: the pod has no nodes yet"))
