"""Changes of orders that still wait: planned again, and stored in the place in the queue that they keep or lose."""

from __future__ import annotations

from dataclasses import replace

from weft.app.orderdesk import OrderDesk
from weft.app.verbs import Request
from weft.engine.capacity import read_capacity
from weft.engine.changes import overtaken, remember
from weft.engine.database import Tx
from weft.engine.documents import written
from weft.engine.gather import PlanningInput, Window, refused
from weft.engine.records import PodRecord
from weft.engine.waiting import time_of, write_booking
from weft.model.change import PodChange
from weft.model.errors import ConflictError, InputError
from weft.model.order import Order
from weft.model.placement import Part, Refusal
from weft.model.plan import Plan
from weft.planning.queue.book import booked, when
from weft.planning.queue.keep import Keep
from weft.planning.shapes.orderdiff import asks_no_more, waiting_change
from weft.planning.shapes.plan import parts_of, takes
from weft.planning.shapes.resolve import shape_of


class WaitingChanges(OrderDesk):
    """Part of the verbs that change pods; see `weft.app.changeverbs`."""

    def _plan_waiting(self, request: Request, pod: PodRecord, order: Order) -> Plan:
        self._check_exclusive(request, pod.project_id, order)
        given = self._gather(pod.project_id, order)
        order = self._checked(request.caller, pod.project_id, order, given, pod.order)
        window = replace(self._window(order, given.site), pod=str(pod.id))
        plan = self._plan(str(pod.id), pod.project_id, order, given, self._store.capacity(), window)
        fields = waiting_change(pod.order, order)
        change = PodChange(
            generation=pod.generation + bool(fields),
            fields=fields,
            nodes_added=plan.placement.held,
            added=tuple(r.key for r in plan.graph.resources),
        )
        return plan.model_copy(update={"change": change if fields else PodChange(generation=pod.generation)})

    def _apply_waiting(self, request: Request, pod: PodRecord, order: Order) -> PodChange:
        """It keeps its place in the queue if it asks for no more than before; a booking is made again."""
        self._check_exclusive(request, pod.project_id, order)
        given = self._gather(pod.project_id, order)
        order = self._checked(request.caller, pod.project_id, order, given, pod.order)
        fields = waiting_change(pod.order, order)
        if not fields:
            return PodChange(generation=pod.generation)
        window = replace(self._window(order, given.site), pod=str(pod.id))
        if order.queue:
            given.check_possible(str(pod.id), pod.project_id, order)
        elif window.start <= window.now:
            allowed = "true, since the order is waiting; to order without waiting, release it and order again"
            raise InputError("queue", order.queue, allowed)
        change = PodChange(generation=pod.generation + 1, fields=fields)
        with self._store.database.placing() as tx:
            self._write_waiting(tx, request, pod, order, given, window, change)
        return change

    def _write_waiting(
        self,
        tx: Tx,
        request: Request,
        pod: PodRecord,
        order: Order,
        given: PlanningInput,
        window: Window,
        change: PodChange,
    ) -> None:
        capacity, now, later = read_capacity(tx), tx.now(), window.start > window.now
        nodes, parts = list[str](), tuple[tuple[str, Part], ...]()
        if later:
            found = given.plan(str(pod.id), pod.project_id, order, capacity, window)
            if isinstance(found, Refusal) and not order.queue:
                raise refused(found)
            nodes, parts = (takes(found), parts_of(found)) if isinstance(found, Plan) else ([], ())
        keeps = asks_no_more(pod.order, order)
        at = when(window.start)
        reason = "in the queue"
        if nodes:
            reason = f"starts at {at}, {booked([n for n, _ in parts] or nodes, shape_of(order).units)}"
        start = time_of(window.start)
        tx.run("first_generation", id=pod.id)
        row = tx.row(
            "change_waiting",
            id=pod.id,
            base=pod.generation,
            ordered=written(order),
            lease_end=time_of(window.end) if nodes else order.lease.end,
            not_before=start if later else None,
            fixed=bool(nodes),
            expected_start=start if nodes else None,
            reason=reason,
            keeps_place=keeps,
            at=now,
        )
        if row is None:
            raise ConflictError(overtaken(tx, pod))
        if not keeps:
            tx.run("leave_place", id=pod.id)
        tx.run("drop_booking", pod_id=pod.id)
        if nodes:
            kept = Keep(str(pod.id), pod.project_id, tuple(nodes), window.start, window.end, parts=parts)
            write_booking(tx, pod.id, kept)
        what = "; ".join(f"{f.field} {f.was} -> {f.becomes}" for f in change.fields)
        remember(tx, pod.id, change.generation, order, request.caller.user_name, what)
