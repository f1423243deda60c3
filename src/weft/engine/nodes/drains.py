"""Drains: nodes that get no new orders because operators empty them, the events of pods there, and broken promises."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from weft.engine.base.database import Database, Row, Tx
from weft.engine.base.documents import read
from weft.engine.base.unreadable import READING
from weft.engine.book.capacity import Capacity, read_capacity
from weft.engine.book.stops import NO_STOPS
from weft.engine.queue.agenda import agenda
from weft.engine.queue.waitlist import Waitlist
from weft.engine.rows.basis import check_revision
from weft.engine.rows.events import announce
from weft.engine.rows.recordrows import log_own
from weft.model.errors import ConflictError
from weft.model.messages import maintenance
from weft.model.messages.message import Message
from weft.model.order import Order
from weft.model.site import Site
from weft.planning.place.slots import HOST, is_slot
from weft.planning.shapes.resolve import shape_of


@dataclass(frozen=True, slots=True)
class DrainTerms:
    """Terms of a drain, as an operator gives them.

    Attributes:
        until: when the nodes should be empty; None: no time.
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
    for hold in (*capacity.holds.values(), *capacity.shared, *capacity.places):
        node = hold.node
        node = node.removeprefix(HOST).rpartition("/")[0] if is_slot(node) else node
        if node in nodes:
            found.setdefault(hold.pod.id, set()).add(node)
    return {pod: sorted(mine) for pod, mine in sorted(found.items())}


def drain_nodes(
    database: Database, site: Site, nodes: Collection[str], drain: DrainTerms, by: str, break_promises: bool
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
        _notify(tx, changed, lambda mine: _drained(mine, drain))
        tx.run("touch_queue", at=now)
    database.gate.hurry()
    return capacity, broken


def orders_on(database: Database, pods: Iterable[UUID]) -> dict[UUID, Order]:
    """The orders of these pods; those that can't be read, or have ended, are left out."""
    with database.statement() as tx:
        return _orders(tx, pods)


def _orders(tx: Tx, pods: Iterable[UUID]) -> dict[UUID, Order]:
    found: dict[UUID, Order] = {}
    for row in tx.rows("orders_of", ids=sorted(pods)):
        with contextlib.suppress(*READING):
            found[row["id"]] = read(Order, row["ordered"])
    return found


def then_of(order: Order, drain: DrainTerms, nodes: Sequence[str], spares: Collection[str]) -> Message | None:
    """What happens to a pod with these drained nodes once they should be empty; None: there is no such time.

    Args:
        spares: those of its nodes that are idle: they aren't replaced.
    """
    if drain.until is None:
        return None
    if drain.waits:
        return maintenance.DRAIN_WAITS()
    if _ends_for(order, nodes, spares):
        return maintenance.DRAIN_RELEASES(until=drain.until)
    if (why := shape_of(order).why_kept(order)) is not None:
        return maintenance.DRAIN_NEEDS_RELEASE(why=why)
    working = [n for n in nodes if n not in spares]
    if order.on_failure == "report" or not working:
        return maintenance.DRAIN_LEAVES()
    return maintenance.DRAIN_REPLACES(nodes=working, **({"spares": sorted(spares)} if spares else {}))


def _ends_for(order: Order | None, nodes: Collection[str], spares: Collection[str]) -> bool:
    """Whether a pod is released at the time of a drain of these nodes that doesn't wait; not for idle spares."""
    return order is not None and order.on_drain == "release" and not set(nodes) <= set(spares)


def end_pods_on_drains(database: Database, unread: Collection[str] = ()) -> list[UUID]:
    """Request the release of each pod with a node that should be empty by now, if its order says so, with an event and
    an entry in the audit log. Returns them.

    Args:
        unread: clouds in which no pod is released now.
    """
    with database.transaction() as tx:
        given = {"at": tx.now(), "unread": sorted(unread)}
        ids = sorted({row["id"] for row in tx.rows("lock_pods_to_empty", **given)})
        due: dict[UUID, list[Row]] = {}
        for row in tx.rows("pods_to_empty", ids=ids, **given) if ids else ():
            due.setdefault(row["pod_id"], []).append(row)
        for pod, rows in due.items():
            mine, since = [r["node"] for r in rows if not r["inner_host"]], min(r["until_at"] for r in rows)
            said = maintenance.POD_ENDS_FOR_DRAIN(nodes=[r["node"] for r in rows], mine=mine, since=since)
            tx.run("end_pod", id=pod)
            announce(tx, pod, "release", said)
            log_own(tx, "pod release", rows[0]["name"], f"done: {said}")
    return list(due)


def say_drains_due(database: Database) -> None:
    """Write an event of each pod whose nodes should be empty by now, once; not of drains that wait, and of pods that
    are released then."""
    with database.transaction() as tx:
        tx.run("lock_failures")
        now = tx.now()
        due = [row["node"] for row in tx.rows("drains_due", at=now)]
        _notify(tx, due, _due)


def planned_drain(database: Database, site: Site, nodes: Collection[str]) -> tuple[Capacity, tuple[str, ...]]:
    """What `drain_nodes` would return, without draining: the capacity now, and the promises that couldn't be kept."""
    with database.transaction() as tx:
        capacity = read_capacity(tx)
        fresh = {n for n in nodes if capacity.stops.get(n, NO_STOPS).drain is None}
        return capacity, broken_promises(tx, site, capacity, fresh, tx.now()) if fresh else ()


def undrain_nodes(
    database: Database, nodes: Collection[str], by: str, revision: int | None = None
) -> tuple[Capacity, list[str]]:
    """Assign nodes again; returns the capacity before, and which of them were drained.

    A restored database that lacks it would release or replace for the drain, so the clouds have to know before.

    Args:
        by: the user.
        revision: `PreconditionError` unless it is the highest of the drains that end.
    """
    database.gate.foretell()
    with database.placing() as tx:
        capacity, now = read_capacity(tx), tx.now()
        row = tx.row("newest_drain", nodes=sorted(nodes))
        if row is not None and row["revision"] is not None:
            check_revision(f"drain of {', '.join(sorted(nodes))[:200]}", row["revision"], revision)
        ended = sorted(row["node"] for row in tx.rows("undrain_nodes", nodes=sorted(nodes), at=now, by=by))
        _notify(tx, ended, _undrained)
        tx.run("touch_queue", at=now)
        tx.run("notify", owner_id="")
    database.gate.hurry()
    return capacity, ended


@dataclass(frozen=True, slots=True)
class _Mine:
    """Drained nodes of one pod.

    Attributes:
        inner: only servers of weft's own are there.
        spares: those that are idle.
        order: of the pod; None: it can't be read.
    """

    nodes: Sequence[str]
    inner: bool
    spares: Collection[str]
    order: Order | None


def _notify(tx: Tx, nodes: Collection[str], text: Callable[[_Mine], Message | None]) -> None:
    """Write events of the pods there, whose rows are locked in one order; hosts of weft's own servers have others.

    Args:
        text: makes the event's message; None: no event.
    """
    pods: dict[tuple[UUID, bool], list[Row]] = {}
    for row in tx.rows("pods_of_nodes", nodes=sorted(nodes)) if nodes else ():
        pods.setdefault((row["pod_id"], row["inner_host"]), []).append(row)
    orders = _orders(tx, {pod for pod, _ in pods}) if pods else {}
    for (pod, inner), rows in sorted(pods.items(), key=lambda one: one[0]):
        if (said := text(_mine(rows, inner, orders.get(pod)))) is not None:
            announce(tx, pod, "drain", said)


def _mine(rows: Iterable[Mapping[str, Any]], inner: bool, order: Order | None) -> _Mine:
    return _Mine([r["node"] for r in rows], inner, [r["node"] for r in rows if r["spare"]], order)


def _drained(mine: _Mine, drain: DrainTerms) -> Message:
    """What operators, and the pod's project, read of drained nodes, with what happens to the pod at the time."""
    given = {"until": drain.until, "reason": drain.reason, "public": drain.public}
    then = mine.order and then_of(mine.order, drain, mine.nodes, mine.spares)
    if then and then.code == maintenance.DRAIN_RELEASES.name:
        code = maintenance.INNER_NODES_DRAINED_POD_ENDS if mine.inner else maintenance.NODES_DRAINED_POD_ENDS
    else:
        code = maintenance.INNER_NODES_DRAINED if mine.inner else maintenance.NODES_DRAINED
        if then and then.code in _SAID and not mine.inner:
            given["then"] = then
    return code(nodes=mine.nodes, **{k: v for k, v in given.items() if v})


_SAID = frozenset({maintenance.DRAIN_REPLACES.name, maintenance.DRAIN_WAITS.name})
"""What else a pod's project reads of the time: with others nothing happens then."""


def _due(mine: _Mine) -> Message | None:
    if mine.inner or _ends_for(mine.order, mine.nodes, mine.spares):
        return None
    return maintenance.DRAIN_DUE(nodes=mine.nodes)


def _undrained(mine: _Mine) -> Message:
    return (maintenance.INNER_NODES_UNDRAINED if mine.inner else maintenance.NODES_UNDRAINED)(
        nodes=mine.nodes
    )


def pods_drained(order: Order, rows: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Messages about a pod's drained nodes, one for those that are drained alike; the earliest time first."""
    groups: dict[tuple[str, str, str, bool, bool], list[Mapping[str, Any]]] = {}
    for row in sorted(rows, key=lambda r: (r["until_at"] is None, r["until_at"] or r["since"], r["node"])):
        alike = str(row["until_at"]), row["reason"], row["public"], row["waits"], row["inner_host"]
        groups.setdefault(alike, []).append(row)
    return [
        _drained(_mine(mine, inner, order), DrainTerms(mine[0]["until_at"], reason, public, waits))
        for (_, reason, public, waits, inner), mine in groups.items()
    ]


def broken_promises(
    tx: Tx, site: Site, capacity: Capacity, nodes: Collection[str], now: datetime
) -> tuple[str, ...]:
    """Reservations that have one of these nodes, and bookings that would start later or on none without them.

    A booking that the queue can move to other nodes at the same time is kept. Whether hosts are up isn't asked.
    """
    gone = frozenset(nodes)
    found = [
        f"reservation {one.name} of project {one.project_id}"
        for one in capacity.reservations
        if not gone.isdisjoint(one.nodes)
    ]
    touched = [one for one in capacity.bookings if not gone.isdisjoint(one.nodes) and one.came is None]
    if not touched:
        return tuple(found)
    health = capacity.health(site, {})
    health = health.model_copy(update={"drained": {**health.drained, **dict.fromkeys(gone, "drained")}})
    booked = {one.pod.id for one in capacity.bookings}
    waiting = [w for w in Waitlist().read(tx).values() if w.id in booked]
    result = agenda(site, capacity, waiting, {}, health, {}, now.timestamp(), forecast=False)
    for one in touched:
        if result.start is not None and result.start.id == one.pod.id:
            continue
        note = result.notes.get(one.pod.id)
        keep = note.booking if note else None
        later = keep is None or keep.came is not None or keep.start > one.start.timestamp() + 1
        if keep is None or later or not gone.isdisjoint(keep.nodes):
            found.append(f"booking of pod {one.pod.name} of project {one.pod.project_id}")
    return tuple(found)
