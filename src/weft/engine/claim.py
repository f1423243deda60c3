"""The claim: nodes and numbers become an order's in one transaction, and only then who is on these nodes is read.

In that order, many can be placed at the same time: whoever read first would find, when the lock is had, that the nodes
were taken by somebody faster, and would read again and again. Nothing is made outside before the nodes were seen to be
free: workers leave the pod alone until the claim is confirmed. If we die in between, a worker takes the pod when
`UNCONFIRMED` is over; it looks for itself before it makes anything.
"""

from __future__ import annotations

from uuid import UUID

from weft.engine.capacity import read_capacity
from weft.engine.gather import PlanningInput, Window, refused
from weft.engine.store import Store
from weft.model.errors import TemporaryError
from weft.model.order import Order
from weft.model.placement import Refusal
from weft.model.plan import Plan

UNCONFIRMED = 120.0
"""Seconds for which workers leave a pod alone whose claim wasn't confirmed: longer than clouds take to answer."""
MOST_TRIES = 8
"""Times that nodes are chosen for an order while somebody else is seen on them."""


def claim_now(
    store: Store, given: PlanningInput, pod_id: str, project: str, user: str, order: Order, window: Window
) -> None:
    """Claim nodes for an order that starts now.

    Raises `RefusedError` if it can't be placed or is over quota, or the outside's error if it can't be told what is on
    its nodes or how much of the quotas is left: then nothing is claimed.
    """
    for _ in range(MOST_TRIES):
        with store.database.transaction() as tx:
            tx.row("lock_capacity")
            plan = given.plan(pod_id, project, order, read_capacity(tx), window)
            if isinstance(plan, Refusal):
                raise refused(plan)
            store.insert_pod(tx, plan, project, user, UNCONFIRMED)
        try:
            without = _looked_at(store, given, project, plan)
        except BaseException:
            if not store.drop_claim(
                plan
            ):  # a worker has it by now: what was refused must not go on being built
                store.release(UUID(plan.pod_id), "the order was refused after its nodes were claimed")
            raise
        if without is None:
            store.confirm(plan)
            return
        if not store.drop_claim(plan):
            return  # its release was asked for meanwhile, or it took so long that a worker has it
        given = without
    why = f"the chosen nodes were in use by others, {MOST_TRIES} times in a row"
    raise TemporaryError(f"place pod {order.name}", "weft", why, "order again")


def _looked_at(store: Store, given: PlanningInput, project: str, plan: Plan) -> PlanningInput | None:
    """None: the plan may stay; else what is left without the nodes that somebody else is on."""
    without = given.without_occupied(plan, store.servers_on(plan.placement.held))
    if without is None:
        given.check_quotas(project, plan)
    return without
