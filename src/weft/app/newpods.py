"""Orders of new pods: planned, and placed or put into the queue."""

from __future__ import annotations

from uuid import uuid4

from weft.app.desk import Desk
from weft.app.orderdesk import Orders
from weft.app.verbs import Request
from weft.engine.base.epoch import check_epoch
from weft.engine.queue.claim import claim_now
from weft.engine.queue.waiting import order_waiting
from weft.engine.rows.orderkeys import OrderKey, OrderKeys
from weft.model.errors import ConflictError
from weft.model.order import Order
from weft.model.plan import Plan
from weft.planning.shapes.plan import NOT_ORDERED


class NewPods:
    """Creates pods. The caller's permission is checked here; the verbs that call this log the request."""

    def __init__(self, desk: Desk, orders: Orders) -> None:
        self._desk, self._orders = desk, orders

    def plan(self, request: Request, order: Order) -> Plan:
        project = self._desk.project(request, "pods:plan")
        self._orders.check_exclusive(request, project, order)
        given, asked = self._orders.gather(project, order)
        asked = self._orders.checked(request.caller, asked, given)
        window = self._orders.window(order, given.site)
        plan = self._orders.plan(NOT_ORDERED, asked, given, self._desk.store.capacity(), window)
        if window.start <= window.now:
            given.check_quotas(project, plan)
        return plan

    def order(self, request: Request, order: Order, key: str = "") -> str:
        """The id of a new pod, or of the one that the key stands for."""
        project = self._desk.project(request, "pods:create")
        self._orders.check_exclusive(request, project, order)
        if not key:
            return self._place(request, project, order, str(uuid4()))
        keys = OrderKeys(self._desk.store.database)
        pod_id = keys.pod_of(OrderKey(project, request.caller.user_id, key), order)
        if keys.is_made(pod_id, order.name):
            return str(pod_id)
        try:
            return self._place(request, project, order, str(pod_id))
        except ConflictError:  # perhaps with itself, sent twice at once
            if not keys.is_made(pod_id, order.name):
                raise
            return str(pod_id)

    def _place(self, request: Request, project: str, order: Order, pod_id: str) -> str:
        """Claim nodes and numbers in one transaction; for a later start book nodes; if queued, only store the order."""
        return self._orders.by_active_site(
            lambda: self._write_order(request, project, order, pod_id), order.name
        )

    def _write_order(self, request: Request, project: str, order: Order, pod_id: str) -> str:
        """Write the pod's rows, and return its id. Raises `SiteChangedError`, with nothing written, if another site
        became active meanwhile."""
        given, asked = self._orders.gather(project, order)
        asked = self._orders.checked(request.caller, asked, given)
        by = request.caller.user_name
        if order.queue:
            given.check_possible(pod_id, asked)
        else:
            cloud = given.world.clouds[asked.cloud]
            check_epoch(self._desk.store.database, cloud, given.site.name, asked.cloud)
        window = self._orders.window(order, given.site)
        if order.queue or window.start > window.now:
            order_waiting(self._desk.store, given, pod_id, by, asked, window)
        else:
            claim_now(self._desk.store, given, pod_id, by, asked, window)
        return pod_id
