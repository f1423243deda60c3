"""Changes of waiting orders: planned again and stored, keeping or losing their position in the queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.app.desk import Desk
from weft.app.orderdesk import Orders
from weft.app.verbs import Request
from weft.engine.queue.waiting import change_waiting
from weft.engine.rows.records import PodRecord
from weft.model.change import PodChange
from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.order import Order
from weft.model.plan import Plan
from weft.planning.shapes.orderdiff import waiting_change


class WaitingChanges:
    """Changes of pods that have no nodes yet; see `weft.app.changeverbs`."""

    def __init__(self, desk: Desk, orders: Orders) -> None:
        self._desk, self._orders = desk, orders

    def plan(self, request: Request, pod: PodRecord, order: Order) -> Plan:
        self._orders.check_exclusive(request, pod.project_id, order)
        given, asked = self._orders.gather(pod.project_id, order)
        asked = self._orders.checked(request.caller, asked, given, pod.order)
        order = asked.order
        window = replace(self._orders.window(order, given.site), pod=str(pod.id))
        plan = self._orders.plan(str(pod.id), asked, given, self._desk.store.capacity(), window)
        fields = waiting_change(pod.order, order)
        change = PodChange(
            generation=pod.generation + bool(fields),
            fields=fields,
            nodes_added=plan.placement.held,
            added=tuple(r.key for r in plan.graph.resources),
        )
        return plan.model_copy(update={"change": change if fields else PodChange(generation=pod.generation)})

    def apply(
        self, request: Request, pod: PodRecord, order: Order, agreed: Callable[[PodChange], None]
    ) -> PodChange:
        """Change a waiting order: it keeps its position if it asks for no more than before, and is booked again."""
        self._orders.check_exclusive(request, pod.project_id, order)
        given, asked = self._orders.gather(pod.project_id, order)
        asked = self._orders.checked(request.caller, asked, given, pod.order)
        order = asked.order
        fields = waiting_change(pod.order, order)
        change = PodChange(generation=pod.generation + bool(fields), fields=fields)
        agreed(change)
        if not fields:
            return change
        window = replace(self._orders.window(order, given.site), pod=str(pod.id))
        if order.queue:
            given.check_possible(str(pod.id), asked)
        elif window.start <= window.now:
            allowed = instead(
                "true, since the order is waiting; to order without waiting, release it and order again"
            )
            raise InputError("queue", order.queue, allowed)
        change_waiting(
            self._desk.store, given, pod, asked, window, change, request.caller.named_to(pod.project_id)
        )
        return change
