"""Drains: nodes that get no new orders because operators empty them, the events of pods there, and broken promises."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from weft.engine.base.database import Database, Tx
from weft.engine.base.documents import read
from weft.engine.base.unreadable import READING
from weft.engine.book.capacity import Capacity, read_capacity
from weft.engine.book.stops import NO_STOPS
from weft.engine.queue.agenda import agenda
from weft.engine.queue.waitlist import Waitlist
from weft.engine.rows.events import announce
from weft.model.errors import ConflictError
from weft.model.messages import maintenance
from weft.model.messages.message import Message
from weft.model.order import Order
from weft.model.site import Site
from weft.planning.place.slots import HOST, is_slot
from weft.planning.shapes.resolve import shape_of


@dataclass(frozen=True, slots=True)
class Drain:
    """What an operator asks for.

    Attributes:
        until: when the nodes should be empty; None: not said.
        reason: for operators.
        public: what projects with pods there read.
        waits: nodes of pods aren't replaced at the time.
    """

    until: datetime | None
    reason: str
    public: str
    waits: bool = False


def pods_on(capacity: Capacity, nodes: Collection[str]) -> dict[UUID, list[str]]:
    """Pod -> which of these nodes it has, whole, in parts, or as hosts of its servers."""
    found: dict[UUID, set[str]] = {}
    for row in (*capacity.holds.values(), *capacity.shared, *capacity.places):
        node = row["node"]
        node = node.removeprefix(HOST).rpartition("/")[0] if is_slot(node) else node
        if node in nodes:
            found.setdefault(row["pod_id"], set()).add(node)
    return {pod: sorted(mine) for pod, mine in sorted(found.items())}


def drain_nodes(
    database: Database, site: Site, nodes: Collection[str], drain: Drain, by: str, break_promises: bool
) -> tuple[Capacity, tuple[str, ...]]:
    """Drain nodes; nodes that are drained get this time and these reasons. Returns the capacity before, and what was
    promised and can't be kept.

    Raises `ConflictError` that names these promises, unless they may be broken.
    """
    database.gate.foretell()
    with database.placing() as tx:
        capacity, now = read_capacity(tx), tx.now()
        fresh = {n for n in nodes if capacity.stops.get(n, NO_STOPS).drain is None}
        broken = broken_promises(tx, site, capacity, fresh, now) if fresh else ()
        if broken and not break_promises:
            raise ConflictError(maintenance.DRAIN_BREAKS_PROMISES(promises="; ".join(broken)[:1500]))
        said = {"reason": drain.reason, "public": drain.public}
        values = {"by": by, "until": drain.until, "waits": drain.waits, **said}
        changed = {row["node"] for row in tx.rows("drain_nodes", nodes=sorted(nodes), at=now, **values)}
        _notify(
            tx,
            changed,
            lambda mine, inner: _drained(mine, inner, drain.until, drain.reason, drain.public),
        )
        tx.run("touch_queue", at=now)
    database.gate.hurry()
    return capacity, broken


def orders_on(database: Database, pods: Iterable[UUID]) -> dict[UUID, Order]:
    """The orders of these pods; those that can't be read, or have ended, are left out."""
    rows = database.rows("orders_of", ids=sorted(pods))
    found: dict[UUID, Order] = {}
    for row in rows:
        with contextlib.suppress(*READING):
            found[row["id"]] = read(Order, row["ordered"])
    return found


def then_of(order: Order, drain: Drain, nodes: Sequence[str], spares: Collection[str]) -> Message | None:
    """What happens to a pod with these drained nodes once they should be empty; None: there is no such time.

    Args:
        spares: those of its nodes that are idle: they aren't replaced.
    """
    if drain.until is None:
        return None
    if drain.waits:
        return maintenance.DRAIN_WAITS()
    if (why := shape_of(order).why_kept(order)) is not None:
        return maintenance.DRAIN_NEEDS_RELEASE(why=why)
    working = [n for n in nodes if n not in spares]
    if order.on_failure == "report" or not working:
        return maintenance.DRAIN_LEAVES()
    return maintenance.DRAIN_REPLACES(nodes=working, **({"spares": sorted(spares)} if spares else {}))


def say_drains_due(database: Database) -> None:
    """Write an event of each pod whose nodes should be empty by now, once; of drains that wait there is none."""
    with database.transaction() as tx:
        tx.run("lock_failures")
        now = tx.now()
        due = [row["node"] for row in tx.rows("drains_due", at=now)]
        _notify(tx, due, lambda mine, inner: None if inner else maintenance.DRAIN_DUE(nodes=mine))


def planned_drain(database: Database, site: Site, nodes: Collection[str]) -> tuple[Capacity, tuple[str, ...]]:
    """What `drain_nodes` would return, without draining: the capacity now, and the promises that couldn't be kept."""
    with database.transaction() as tx:
        capacity = read_capacity(tx)
        fresh = {n for n in nodes if capacity.stops.get(n, NO_STOPS).drain is None}
        return capacity, broken_promises(tx, site, capacity, fresh, tx.now()) if fresh else ()


def undrain_nodes(database: Database, nodes: Collection[str], by: str) -> tuple[Capacity, list[str]]:
    """Assign nodes again; returns the capacity before, and which of them were drained. Args: by: the user."""
    with database.placing() as tx:
        capacity, now = read_capacity(tx), tx.now()
        ended = sorted(row["node"] for row in tx.rows("undrain_nodes", nodes=sorted(nodes), at=now, by=by))
        _notify(tx, ended, _undrained)
        tx.run("touch_queue", at=now)
        tx.run("notify", owner_id="")
    database.gate.hurry()
    return capacity, ended


def _notify(tx: Tx, nodes: Collection[str], text: Callable[[list[str], bool], Message | None]) -> None:
    """Events of the pods there, whose rows are locked in one order; of hosts of weft's own servers apart.

    Args:
        text: of nodes of a pod, and whether only servers of weft's own are there; None: no event.
    """
    pods: dict[tuple[UUID, bool], list[str]] = {}
    for row in tx.rows("pods_of_nodes", nodes=sorted(nodes)) if nodes else ():
        pods.setdefault((row["pod_id"], row["inner_host"]), []).append(row["node"])
    for (pod, inner), mine in sorted(pods.items()):
        if (said := text(mine, inner)) is not None:
            announce(tx, pod, "drain", said)


def _drained(nodes: list[str], inner: bool, until: datetime | None, reason: str, public: str) -> Message:
    """What operators, and the pod's project, read of drained nodes."""
    code = maintenance.INNER_NODES_DRAINED if inner else maintenance.NODES_DRAINED
    given = {"until": until, "reason": reason, "public": public}
    return code(nodes=nodes, **{k: v for k, v in given.items() if v})


def _undrained(nodes: list[str], inner: bool) -> Message:
    return (maintenance.INNER_NODES_UNDRAINED if inner else maintenance.NODES_UNDRAINED)(nodes=nodes)


def pods_drained(rows: Iterable[Mapping[str, Any]]) -> list[Message]:
    """The same of a pod's drained nodes, one message for those that are drained alike; the earliest time first."""
    groups: dict[tuple[str, str, str, bool], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda r: (r["until_at"] is None, r["until_at"] or r["since"], r["node"])):
        alike = str(row["until_at"]), row["reason"], row["public"], row["inner_host"]
        groups.setdefault(alike, []).append(row)
    return [
        _drained([r["node"] for r in mine], inner, mine[0]["until_at"], reason, public)
        for (_, reason, public, inner), mine in groups.items()
    ]


def broken_promises(
    tx: Tx, site: Site, capacity: Capacity, nodes: Collection[str], now: datetime
) -> tuple[str, ...]:
    """Reservations that have one of these nodes, and bookings that would start later or on none without them.

    A booking that the queue can move to other nodes at the same time is kept. Whether hosts are up isn't asked.
    """
    gone = frozenset(nodes)
    found = [
        f"reservation {row['name']} of project {row['project_id']}"
        for row in capacity.reservations
        if not gone.isdisjoint(row["nodes"])
    ]
    touched = [row for row in capacity.bookings if not gone.isdisjoint(row["nodes"]) and not row.get("came")]
    if not touched:
        return tuple(found)
    health = capacity.health(site, {})
    health = health.model_copy(update={"drained": {**health.drained, **dict.fromkeys(gone, "drained")}})
    booked = {row["pod_id"] for row in capacity.bookings}
    waiting = [one for one in Waitlist().read(tx).values() if one.id in booked]
    result = agenda(site, capacity, waiting, {}, health, {}, now.timestamp(), forecast=False)
    for row in touched:
        if result.start is not None and result.start.id == row["pod_id"]:
            continue
        note = result.notes.get(row["pod_id"])
        keep = note.booking if note else None
        later = keep is None or keep.came is not None or keep.start > row["start_at"].timestamp() + 1
        if keep is None or later or not gone.isdisjoint(keep.nodes):
            found.append(f"booking of pod {row['pod']} of project {row['project_id']}")
    return tuple(found)
