"""Writes the rows of an order and its claim, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from psycopg.errors import UniqueViolation
from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Tx
from weft.engine.base.documents import written
from weft.engine.book.partholds import hold_parts
from weft.model.errors import ConflictError, TemporaryError
from weft.model.messages import orders, pods, stored
from weft.model.order import Order
from weft.model.plan import Plan
from weft.planning.shapes.resolve import shape_of

_OF_A_POD = ("pod", "resource")
"""Tables whose unique columns say that another live pod has the name, or that this pod is there: its order was sent
twice at once (`weft.engine.rows.orderkeys`)."""
_ORDERED = pods.STATE(state="PENDING", why=pods.ORDERED())


def insert_pod(tx: Tx, plan: Plan, project_id: str, created_by: str, delay: float = 0.0) -> None:
    """Insert a pod, its resources, holds and first events in the caller's transaction, which holds `lock_capacity`.

    Args:
        delay: seconds for which workers ignore it; see `weft.engine.queue.claim`.
    """
    now = tx.now()
    row = _row(
        plan.order,
        id=plan.pod_id,
        project_id=project_id,
        created_by=created_by,
        at=now,
        plan=written(plan),
        state="PLACED",
        lease_end=plan.order.lease.ends(now),
        placed_at=now,
        delay=delay,
    )
    with _one_of_a_name(plan.order):
        tx.row("claim_new", **row, **_claims(plan), messages=Jsonb([stored(_ORDERED), stored(_placed(plan))]))
    hold_parts(tx, plan)


def confirm_claim(database: Database, plan: Plan) -> None:
    """Give a claimed pod to the workers. Raises `TemporaryError` if the claim is lost: it was written without
    waiting for the disk.
    """
    with database.statement() as tx:
        if tx.row("confirm_pod", id=plan.pod_id) is None:
            lost = "the claim was lost in a crash of the database"
            raise TemporaryError(f"place pod {plan.order.name}", "weft", lost, "order again")
    database.notify_workers()
    database.notify(UUID(plan.pod_id))


def drop_claim(database: Database, plan: Plan) -> bool:
    """Undo a claim that wasn't confirmed, without a trace. False: it was confirmed."""
    with database.transaction() as tx:
        if (claim := tx.row("drop_claim", id=plan.pod_id)) is None:
            return False
        tx.run("give_back_nodes", pod_id=plan.pod_id)
        tx.run("give_back_numbers", owner_id=plan.pod_id, kept=[])
        tx.run("give_back_subnets", owner_id=plan.pod_id)
        tx.run("drop_resources", owner_id=plan.pod_id)
        tx.run("drop_events", owner_id=plan.pod_id)
        tx.run("drop_node_history", pod_id=plan.pod_id, claimed=claim["placed_at"])
        tx.run("touch_queue", at=tx.now())
        tx.run("notify", owner_id=plan.pod_id)
    return True


def insert_order(tx: Tx, order: Order, **values: Any) -> None:
    """Insert a pod's row. Raises `ConflictError` if the project has a live pod of this name."""
    with _one_of_a_name(order):
        tx.run("insert_pod", **_row(order, **values))


def _row(order: Order, **values: Any) -> dict[str, Any]:
    unset: dict[str, Any] = dict.fromkeys(("placed_at", "not_before", "expected_start"))
    waits = {**unset, "fixed": False, "reason": Jsonb(""), "delay": 0.0}
    units = shape_of(order).count(order)
    return {**waits, "name": order.name, "ordered": written(order), "units": units, **values}


def claim_plan(tx: Tx, plan: Plan) -> None:
    """Claim resources, nodes and numbers of a plan, for a pod that already has a row."""
    tx.row("claim", at=tx.now(), project_id=None, **_claims(plan), messages=Jsonb([stored(_placed(plan))]))
    hold_parts(tx, plan)


@contextmanager
def _one_of_a_name(order: Order) -> Generator[None]:
    """Raise `ConflictError` if the project has a live pod of this name."""
    try:
        yield
    except UniqueViolation as error:
        if error.diag.table_name not in _OF_A_POD:
            raise
        raise name_taken(order.name) from None


def name_taken(name: str) -> ConflictError:
    """The error for a second live pod of a name."""
    return ConflictError(orders.POD_EXISTS(pod=name))


def _claims(plan: Plan) -> dict[str, Any]:
    """Parameters of `claim`, without time and messages."""
    spares = {n.node for n in plan.placement.spares}
    shared = {n.node for n in plan.placement.nodes if n.part is not None}
    resources = [
        {"key": r.key, "kind": r.kind, "position": i, "document": written(r).obj}
        for i, r in enumerate(plan.graph.resources)
    ]
    nodes = [{"node": n, "spare": n in spares, "whole": n not in shared} for n in plan.placement.held]
    numbers = [{"space": s, "number": n} for s, n in sorted(plan.allotment.numbers.items())]
    subnets = [{"plane": p, "cidr": c} for p, c in shape_of(plan.order).cut(plan).items()]
    return {
        "owner_id": plan.pod_id,
        "cloud": plan.cloud,
        "generation": plan.generation,
        "resources": Jsonb(resources),
        "nodes": Jsonb(nodes),
        "numbers": Jsonb(numbers),
        "subnets": Jsonb(subnets),
    }


def _placed(plan: Plan) -> str:
    spares = sorted(n.node for n in plan.placement.spares)
    nodes = [n.node for n in plan.placement.nodes]
    return pods.STATE(state="PLACED", why=pods.ON_NODES(nodes=nodes, spare=spares))
