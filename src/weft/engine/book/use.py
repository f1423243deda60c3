"""Hours of nodes and accelerators by project, from the holds that placement keeps (migration 0092).

A node counts from its assignment until it was returned, its cleaning included; a pod that continues counts until now. A
part of a node counts with its own accelerators, and spares apart. Booked nodes are counted apart, too, from now on.

The active site says what accelerators a node has; when that changes, what was counted before keeps the old ones
(`weft.engine.rows.siteparts`, migration 0096).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from weft.engine.base.database import Database
from weft.engine.book.capacity import Capacity
from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.site import Site
from weft.model.views import UseRow, UseState
from weft.planning.site.kinds import Kind, kinds_of

MOST = 200_000
"""Most holds that are counted for one answer."""
UNKNOWN_TYPE = "unknown"
"""Type of nodes that the site doesn't describe, and whose type wasn't kept when they left it."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period of time. Attributes: now: until when holds that go on are counted."""

    since: datetime
    until: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class _Piece:
    """Use by one hold, or several of the same node.

    Attributes:
        kind: what the node had then; None: as the active site describes it.
    """

    project_id: str
    pod_id: str
    pod: str
    state: UseState
    node: str
    devices: int | None
    seconds: float
    kind: Kind | None = None


def use_of(
    database: Database, site: Site, capacity: Capacity, period: Period, project: str | None, by: str
) -> list[UseRow]:
    """Rows by project, pod, type and state of use.

    Args:
        project: only its own; None: of all.
        by: pod, project or type: what has a row of its own; others are summed up.
    """
    pieces = [*_held(database, period, project), *_booked(capacity, period, project)]
    kinds = kinds_of(site)
    key: Callable[[_Piece, str], tuple[str, ...]]
    if by == "pod":
        key = lambda one, type_: (one.project_id, one.pod, one.pod_id, type_, one.state)  # noqa: E731
    elif by == "project":
        key = lambda one, type_: (one.project_id, "", "", type_, one.state)  # noqa: E731
    else:
        key = lambda one, type_: ("", "", "", type_, one.state)  # noqa: E731
    nodes: dict[tuple[str, ...], float] = {}
    accelerators: dict[tuple[str, ...], float | None] = {}
    for one in pieces:
        type_, count = one.kind or kinds.get(one.node, (UNKNOWN_TYPE, None))
        if one.devices is not None:
            share, mine = (one.devices / count if count else 0.0), one.devices
        else:
            share, mine = 1.0, count
        at = key(one, type_)
        hours = one.seconds / 3600
        nodes[at] = nodes.get(at, 0.0) + share * hours
        so_far = accelerators.get(at, 0.0)
        accelerators[at] = None if so_far is None or mine is None else so_far + mine * hours
    return [_row(at, nodes[at], accelerators[at]) for at in sorted(nodes)]


def _row(at: tuple[str, ...], nodes: float, accelerators: float | None) -> UseRow:
    project, pod, pod_id, type_, state = at
    return UseRow.model_validate(
        {
            "project_id": project or None,
            "pod": pod or None,
            "pod_id": pod_id or None,
            "type": type_,
            "state": state,
            "node_hours": round(nodes, 4),
            "accelerator_hours": None if accelerators is None else round(accelerators, 4),
        }
    )


def _held(database: Database, period: Period, project: str | None) -> Iterator[_Piece]:
    rows = database.rows(
        "use_of_period",
        project=project,
        since=period.since,
        until=min(period.until, period.now),
        limit=MOST + 1,
    )
    if len(rows) > MOST:
        raise InputError("since", period.since, instead("must be later: the period has too many holds"))
    for row in rows:
        state: UseState = "spare" if row["spare"] else "used"
        yield _Piece(
            row["project_id"],
            str(row["pod_id"]),
            row["pod"],
            state,
            row["node"],
            row["devices"],
            row["seconds"],
            None if row["type"] is None else (row["type"], row["accelerators"]),
        )


def _booked(capacity: Capacity, period: Period, project: str | None) -> Iterator[_Piece]:
    """Whole nodes that are assigned to orders for later, of the part of the period that is yet to come."""
    for one in capacity.bookings:
        pod = one.pod
        if project not in (None, pod.project_id):
            continue
        begin = max(one.start, period.since, period.now)
        end = min(one.end or period.until, period.until)
        if end - begin <= timedelta(0):
            continue
        for node in one.nodes:
            yield _Piece(
                pod.project_id,
                str(pod.id),
                pod.name,
                "booked",
                node,
                None,
                (end - begin).total_seconds(),
            )
