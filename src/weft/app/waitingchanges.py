"""Changes of waiting orders: planned again and stored, keeping or losing their position in the queue."""

from __future__ import annotations

from dataclasses import replace

from weft.app.orderdesk import OrderDesk
from weft.app.verbs import Request
from weft.engine.queue.waiting import change_waiting
from weft.engine.rows.records import PodRecord
from weft.model.change import PodChange
from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.plan import Plan
from weft.planning.shapes.orderdiff import waiting_change


class WaitingChanges(OrderDesk):
    """Part of the verbs that change pods; see `weft.app.changeverbs`."""

    def _plan_waiting(self, request: Request, pod: PodRecord, order: Order) -> Plan:
        self._check_exclusive(request, pod.project_id, order)
        given, asked = self._gather(pod.project_id, order)
        asked = self._checked(request.caller, asked, given, pod.order)
        order = asked.order
        window = replace(self._window(order, given.site), pod=str(pod.id))
        plan = self._plan(str(pod.id), asked, given, self._store.capacity(), window)
        fields = waiting_change(pod.order, order)
        change = PodChange(
            generation=pod.generation + bool(fields),
            fields=fields,
            nodes_added=plan.placement.held,
            added=tuple(r.key for r in plan.graph.resources),
        )
        return plan.model_copy(update={"change": change if fields else PodChange(generation=pod.generation)})

    def _apply_waiting(self, request: Request, pod: PodRecord, order: Order) -> PodChange:
        """Change a waiting order: it keeps its position if it asks for no more than before, and is booked again."""
        self._check_exclusive(request, pod.project_id, order)
        given, asked = self._gather(pod.project_id, order)
        asked = self._checked(request.caller, asked, given, pod.order)
        order = asked.order
        fields = waiting_change(pod.order, order)
        if not fields:
            return PodChange(generation=pod.generation)
        window = replace(self._window(order, given.site), pod=str(pod.id))
        if order.queue:
            given.check_possible(str(pod.id), asked)
        elif window.start <= window.now:
            allowed = instead(
                "true, since the order is waiting; to order without waiting, release it and order again"
            )
            raise InputError("queue", order.queue, allowed)
        change = PodChange(generation=pod.generation + 1, fields=fields)
        change_waiting(
            self._store, given, pod, asked, window, change, request.caller.named_to(pod.project_id)
        )
        return change
