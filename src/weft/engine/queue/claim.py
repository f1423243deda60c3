"""The claim: an order gets nodes and numbers in one transaction, and only then their occupants are read.

In that order many orders can be placed concurrently: reading first would mean finding, once the lock is held, that
someone faster has the nodes, and reading again and again. Nothing is created before the nodes were seen free: until the
claim is confirmed, workers leave the pod alone and changes of it are refused. If this process dies in between, a worker
claims the pod after `UNCONFIRMED`, and checks for itself before it creates anything.
"""

from __future__ import annotations

from uuid import UUID

from weft.engine.book.capacity import read_capacity
from weft.engine.book.claimrows import confirm_claim, drop_claim, insert_pod
from weft.engine.queue.gather import PlanningInput, Window, refused
from weft.engine.queue.overdue import check_overdue
from weft.engine.store.store import Store
from weft.model.errors import TemporaryError
from weft.model.placement import Refusal
from weft.model.plan import Plan
from weft.planning.shapes.shape import Resolved

UNCONFIRMED = 120.0
"""Seconds for which workers ignore a pod with an unconfirmed claim: longer than clouds take to respond."""
MOST_TRIES = 8
"""How often to choose nodes for an order if they turn out to be in use by others."""


def claim_now(
    store: Store, given: PlanningInput, pod_id: str, user: str, order: Resolved, window: Window
) -> None:
    """Claim nodes for an order that starts now.

    Raises `RefusedError` if it can't be placed or is over quota, `TemporaryError` if the claim was lost, or the error
    of an external service if the occupants of its nodes or the quotas can't be read, `SiteChangedError` if another site
    became active, `ConflictError` if too many of the project's releases don't end: then nothing is claimed.
    """
    for _ in range(MOST_TRIES):
        with store.database.placing(lock=False) as tx:
            capacity = read_capacity(tx, lock=True)
            given.check_site(capacity)
            check_overdue(tx, order.project, given.site)
            plan = given.plan(pod_id, order, capacity, window)
            if isinstance(plan, Refusal):
                raise refused(plan)
            insert_pod(tx, plan, order.project, user, UNCONFIRMED)
        try:
            without = _looked_at(store, given, plan)
        except BaseException:
            if not drop_claim(
                store.database, plan
            ):  # a worker holds it by now: what was refused must not be built
                store.release(UUID(plan.pod_id), "the order was refused after its nodes were claimed")
            raise
        # Not dropped: its release was requested meanwhile, or it took so long that a worker holds it.
        if without is None or not drop_claim(store.database, plan):
            confirm_claim(store.database, plan)
            return
        given = without
    why = f"the chosen nodes were in use by others, {MOST_TRIES} times in a row"
    raise TemporaryError(f"place pod {order.order.name}", "weft", why, "order again")


def _looked_at(store: Store, given: PlanningInput, plan: Plan) -> PlanningInput | None:
    """None if the plan's nodes are free; otherwise the input without the nodes that are in use by others."""
    without = given.without_occupied(plan, store.pods.servers_on)
    if without is None:
        given.check_quotas(plan.project, plan)
    return without
