"""Orders that wait: written down, made longer, tried again. What becomes of them is `weft.engine.dispatcher`'s."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from weft.engine.database import Tx
from weft.engine.ground import Window
from weft.engine.store import Store
from weft.model.order import Order
from weft.planning.book import promised, when
from weft.planning.place.calendar import FOREVER


def moment(seconds: float) -> datetime | None:
    """A time of the book; never is None."""
    return None if seconds == FOREVER else datetime.fromtimestamp(seconds, UTC)


def insert_waiting(
    store: Store,
    tx: Tx,
    pod_id: str,
    project: str,
    user: str,
    order: Order,
    window: Window,
    nodes: Sequence[str],
) -> None:
    """An order that starts later, in the caller's transaction (which holds `lock_capacity`).

    Args:
        nodes: what it is promised from the start of its window; none: it waits in the queue.
    """
    now, later = store.clock.now(), window.start > window.now
    at = when(window.start)
    reason = f"starts at {at}, {promised(nodes)}" if nodes else "in the queue"
    store.insert_row(
        tx,
        order,
        id=pod_id,
        project_id=project,
        created_by=user,
        at=now,
        plan=None,
        state="PENDING",
        reason=reason,
        lease_end=moment(window.end) if nodes else order.lease.end,
        not_before=moment(window.start) if later else None,
        fixed=bool(nodes),
        expected_start=moment(window.start) if nodes else None,
    )
    if nodes:
        tx.run(
            "promise", pod_id=pod_id, nodes=list(nodes), start=moment(window.start), end=moment(window.end)
        )
    tx.run("insert_event", pod_id=pod_id, at=now, type="state", message=f"PENDING: {reason}", key=None)
    tx.run("touch_queue", at=now)
    tx.run("notify", pod_id=pod_id)
