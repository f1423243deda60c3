"""Writes a pod's next generation as rows: what is newly wanted, what isn't any more, which nodes are added and removed.

All in the caller's transaction, under the claim lock. Nothing external is changed here: the loop deletes what is no
longer wanted, and its rows stay until it is seen gone; nodes are freed after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from weft.engine.base.database import Row, Tx
from weft.engine.base.documents import written
from weft.engine.book.partholds import hold_parts
from weft.engine.queue.overdue import check_overdue
from weft.engine.rows.events import announce, insert_event
from weft.engine.rows.records import PodRecord, RowState
from weft.engine.rows.revival import revive
from weft.model.change import FieldChange, PodChange
from weft.model.errors import ConflictError, TemporaryError
from weft.model.messages import orders, pods
from weft.model.order import Order
from weft.model.placement import by_server
from weft.model.plan import Plan
from weft.model.pod import PodState
from weft.model.resources import Graph
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.planning.shapes.resolve import shape_of

_CHANGED = pods.ORDER_CHANGED()
"""Reason for which a FAILED pod is retried."""


def write_change(
    tx: Tx,
    pod: PodRecord,
    plan: Plan,
    site: Site,
    lease_end: datetime | None,
    by: str,
    grows: bool = True,
) -> None:
    """Activate the next generation of a pod that has nodes.

    Args:
        pod: the record that the plan is based on.
        plan: with its difference in `change`.
        grows: whether the project has more by what is added; a replacement gives it no more than it had.

    Raises `ConflictError` if the pod was changed or released meanwhile, if data under a name that is wanted again isn't
    gone yet, or if it would grow while too many of its project's releases don't end.
    """
    change = plan.change
    assert change is not None
    if grows and (change.added or change.nodes_added):
        check_overdue(tx, pod.project_id, site)
    work = bool(change.added or change.removed or change.changed or change.nodes_removed)
    stored = plan.model_copy(update={"change": None})
    tx.run("first_generation", id=pod.id)
    row = tx.row(
        "change_pod",
        id=pod.id,
        base=pod.generation,
        generation=plan.generation,
        ordered=written(plan.order),
        units=shape_of(plan.order).count(plan.order),
        plan=written(stored),
        lease_end=lease_end,
        changed_at=tx.now() if work else None,
        at=tx.now(),
    )
    if row is None:
        raise ConflictError(overtaken(tx, pod))
    now = PodRecord.of(row)
    if now.state is PodState.FAILED:
        message = pods.STATE(state=revive(tx, now, _CHANGED, tx.now()), why=_CHANGED)
        insert_event(tx, pod.id, "state", message)
    _resources(tx, pod, plan)
    _nodes(tx, pod, plan, site, change)
    remember(tx, pod.id, plan.generation, plan.order, by, change_said(change))


def _resources(tx: Tx, pod: PodRecord, plan: Plan) -> None:
    """Write rows of the graph, and expunge those of what is no longer in it."""
    pod_id, before = pod.id, pod.plan.graph.by_key()
    change, graph, generation = plan.change, plan.graph, plan.generation
    assert change is not None
    rows = _keys(tx, pod_id)
    _check_gone(rows, graph)
    changed = {c.key for c in change.changed}
    for position, resource in enumerate(graph.resources):
        values = {
            "owner_id": pod_id,
            "key": resource.key,
            "position": position,
            "document": written(resource),
            "generation": generation,
        }
        row = rows.get(resource.key)
        if row is None:
            tx.run("insert_changed_resource", kind=resource.kind, **values)
        elif row["expunged"] is not None:
            of = resource.kind.row
            again = {"forgets": of.data, "guest": of.on_host, "keeps": False}
            tx.run("want_resource_again", at=tx.now(), **again, **values)
        elif resource.key in changed:
            tx.run("change_resource", at=tx.now(), **values)
        elif resource.key in before and before[resource.key].needs != resource.needs:
            tx.run("change_needs", **{k: v for k, v in values.items() if k != "generation"})
    wanted = {r.key for r in graph.resources}
    for key in rows.keys() - wanted:
        tx.run("expunge_resource", owner_id=pod_id, key=key, generation=generation)


def check_gone(tx: Tx, pod_id: UUID, graph: Graph) -> None:
    """Raise `ConflictError` if data of the pod under a name that is wanted again isn't gone yet."""
    _check_gone(_keys(tx, pod_id), graph)


def _keys(tx: Tx, pod_id: UUID) -> dict[str, Row]:
    return {row["key"]: row for row in tx.rows("resource_keys", owner_id=pod_id)}


def _check_gone(rows: Mapping[str, Row], graph: Graph) -> None:
    for resource in graph.resources:
        row = rows.get(resource.key)
        going = row is not None and row["expunged"] is not None and row["state"] == RowState.DELETING
        if going and resource.kind.row.data:
            raise ConflictError(
                f"{resource.kind.row.one} {resource.name} of an earlier order is still being removed or kept: "
                "apply again once it is gone, or use another name"
            )


def _nodes(tx: Tx, pod: PodRecord, plan: Plan, site: Site, change: PodChange) -> None:
    pod_id = pod.id
    spares = {n.node for n in plan.placement.spares}
    if change.nodes_added:
        tx.run("bump_epoch", cloud=plan.cloud)
    if shape_of(plan.order).shares_nodes:
        _parts(tx, pod, plan, site)
        return
    tx.many(
        "hold_node",
        [
            {"node": n, "pod_id": pod_id, "at": tx.now(), "spare": n in spares, "whole": True}
            for n in change.nodes_added
        ],
    )
    for node in change.spares_used:
        tx.run("use_spare", node=node, pod_id=pod_id)
    for node in change.nodes_removed:
        ports = Jsonb(_ports(pod.plan, node, site))
        tx.run("leave_node", node=node, pod_id=pod_id, generation=plan.generation, ports=ports)


def _parts(tx: Tx, pod: PodRecord, plan: Plan, site: Site) -> None:
    """Hold and leave parts of shared nodes, one for each server; the pod leaves a node with its last server there."""
    pod_id, were, numbers = pod.id, by_server(pod.plan.placement.nodes), pod.plan.server_numbers
    servers = by_server(plan.placement.nodes)
    added = servers.keys() - were.keys()
    for node in sorted({servers[s].node for s in added}):
        tx.run("hold_shared_node", node=node, pod_id=pod_id, at=tx.now())
    hold_parts(tx, plan, added)
    gone = sorted(were.keys() - servers.keys())
    for name in gone:
        tx.run("leave_part", node=were[name].node, pod_id=pod_id, server=numbers[name])
    leaving = {row["node"]: row["ports"] for row in tx.rows("nodes_leaving", pod_id=pod_id)}
    stay = plan.graph.by_key()
    for node in sorted({were[name].node for name in gone}):
        ports: dict[str, list[dict[str, Any]]] = {}
        for key, members in (*leaving.get(node, {}).items(), *_ports(pod.plan, node, site).items()):
            spec = stay[key].spec if key in stay else None
            wanted = spec.ports if isinstance(spec, SegmentSpec) else ()
            known = {m["port"]: m for m in (*ports.get(key, ()), *members) if m["port"] not in wanted}
            ports[key] = [known[port] for port in sorted(known)]
        tx.run("leave_node", node=node, pod_id=pod_id, generation=plan.generation, ports=Jsonb(ports))


def _ports(plan: Plan, node: str, site: Site) -> dict[str, list[dict[str, Any]]]:
    """A node's ports in the segments of a plan; a port that the site no longer knows may belong to anyone."""
    found: dict[str, list[dict[str, Any]]] = {}
    for resource in plan.graph.resources:
        spec = resource.spec
        for member in spec.members if isinstance(spec, SegmentSpec) else ():
            owner = site.port_by_id.get((resource.where, member.physical[0]))
            if owner is None or owner[0].name == node:
                found.setdefault(resource.key, []).append(member.model_dump(mode="json"))
    return found


def remember(tx: Tx, pod_id: UUID, generation: int, order: Order, by: str, what: str) -> None:
    """Record the generation in the pod's history and events."""
    now = tx.now()
    document = written(order)
    tx.run(
        "insert_generation", pod_id=pod_id, generation=generation, ordered=document, at=now, by=by, what=what
    )
    note_change(tx, pod_id, "change", pods.GENERATION(n=generation, user=by, fields=what))


def note_change(tx: Tx, pod_id: UUID, kind: str, message: str) -> None:
    """Write an event about something that may let queued orders start."""
    announce(tx, pod_id, kind, message)
    tx.run("touch_queue", at=tx.now())


def check_confirmed(tx: Tx, pod: PodRecord, asked: str = "change", again: str = "apply") -> None:
    """Raise `TemporaryError` while the pod's claim may yet be dropped; see `weft.engine.queue.claim`."""
    if pod.token == 0 and tx.row("is_confirmed", id=pod.id) is None:
        why = "its nodes were chosen just now and are still being checked"
        raise TemporaryError(f"{asked} pod {pod.name}", "weft", why, f"{again} again", delay=1)


def check_lease(pod: PodRecord, end: datetime | None, now: datetime) -> None:
    """Raise `ConflictError` for a change with which the lease would be over: its release may follow at any moment.

    Args:
        end: of the lease, as it would be.
    """
    if end is not None and end <= now:
        raise ConflictError(orders.CHANGED_TOO_LATE(pod=pod.name, end=end))


def overtaken(tx: Tx, pod: PodRecord) -> str:
    """Why a change based on this record is refused."""
    now = PodRecord.of(row) if (row := tx.row("pod_by_id", id=pod.id)) else pod
    if now.wanted == "absent" or now.released_at is not None:
        return orders.NOT_CHANGEABLE(pod=pod.name)
    if now.generation != pod.generation:
        return orders.CHANGED_MEANWHILE(pod=pod.name, now=now.generation)
    return orders.STARTED_MEANWHILE(pod=pod.name)


def fields_said(fields: Iterable[FieldChange]) -> str:
    """The changed fields in one line."""
    return "; ".join(f"{f.field} {f.was} -> {f.becomes}" for f in fields)


def change_said(change: PodChange) -> str:
    """The difference in one line, for the history."""
    parts = [fields_said(change.fields)] if change.fields else []
    if change.nodes_added:
        parts.append(f"nodes added: {', '.join(change.nodes_added)}")
    if change.spares_used:
        parts.append(f"spares used: {', '.join(change.spares_used)}")
    if change.nodes_removed:
        parts.append(f"nodes removed: {', '.join(change.nodes_removed)}")
    return "; ".join(parts)
