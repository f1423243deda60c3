"""What pods hold or have booked, and which nodes are in quarantine, as the capacity has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID

from weft.engine.base.postgres import time_in_json
from weft.engine.book.partholds import NodeParts, booked_parts, part_of
from weft.model.placement import Part
from weft.model.reservation import ReservationView
from weft.planning.place.sharing import NO_TERMS, Terms


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod that holds nodes, or has them booked.

    Attributes:
        lease_end: None: never.
        released: whether its release was requested.
        terms: its constraints on leaves.
    """

    id: UUID
    name: str
    project_id: str
    lease_end: datetime | None = None
    released: bool = False
    terms: Terms = NO_TERMS

    @classmethod
    def of(cls, pod_id: UUID, row: Mapping[str, Any]) -> Self:
        """From a row of the table, in JSON."""
        terms = Terms(
            row["project_id"], frozenset(row["apart_from"] or ()), row["exclusive"], row["bisection_gbps"]
        )
        end, released = _time(row["lease_end"]), row["wanted"] != "present"
        return cls(pod_id, row["pod"], row["project_id"], end, released, terms)


@dataclass(frozen=True, slots=True)
class NodeHold:
    """A node that a pod has, or a slot on a shared host.

    Attributes:
        since: of a slot: since the pod was placed.
        spare: whether it is idle.
        whole: whether the pod shares it with no other.
        withheld: why it isn't given back yet; empty: nothing is known.
        leaving: the generation of the pod since which it doesn't want the node any more; None: it does.
    """

    node: str
    pod: Holder
    since: datetime
    spare: bool = False
    whole: bool = True
    withheld: str = ""
    leaving: int | None = None

    @classmethod
    def of(cls, pod: Holder, row: Mapping[str, Any]) -> Self:
        """From a row of the table, in JSON."""
        since, withheld = time_in_json(row["since"]), row["withheld"]
        return cls(row["node"], pod, since, row["spare"], row["whole"], withheld, row["leaving"])


@dataclass(frozen=True, slots=True)
class PartHold:
    """What one of a pod's servers has of a shared node.

    Attributes:
        server: its number.
        leaving: whether the pod doesn't want it any more.
    """

    node: str
    pod_id: UUID
    server: int
    part: Part
    leaving: bool

    @classmethod
    def of(cls, pod_id: UUID, row: Mapping[str, Any]) -> Self:
        """From a row of the table, in JSON."""
        return cls(row["node"], pod_id, row["server"], part_of(row), row["leaving"])


@dataclass(frozen=True, slots=True)
class Booked:
    """Nodes that a waiting order gets later.

    Attributes:
        parts: of servers that will share nodes.
        came: of an open booking: when the pod was ordered; None: anything else.
    """

    pod: Holder
    nodes: tuple[str, ...]
    start: datetime
    end: datetime | None
    parts: NodeParts = ()
    came: datetime | None = None

    @classmethod
    def of(cls, pod: Holder, row: Mapping[str, Any]) -> Self:
        """From a row of the table, in JSON."""
        start, end, came = time_in_json(row["start_at"]), _time(row["end_at"]), _time(row["came"])
        return cls(pod, tuple(row["nodes"]), start, end, booked_parts(pod.id, row["parts"]), came)


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A node in quarantine. Attributes: pod_id: the pod that it had last; None: an operator did it."""

    node: str
    reason: str
    since: datetime
    pod_id: UUID | None
    revision: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """From a row of the table, in JSON."""
        pod = row["pod_id"]
        return cls(
            row["node"],
            row["reason"],
            time_in_json(row["since"]),
            UUID(pod) if pod else None,
            row["revision"],
        )


def reservation_of(row: Mapping[str, Any]) -> ReservationView:
    """A row of the table, its times read, as people see it."""
    return ReservationView(
        name=row["name"],
        project_id=row["project_id"],
        nodes=tuple(row["nodes"]),
        start=row["start_at"].astimezone(UTC),
        end=row["end_at"].astimezone(UTC) if row["end_at"] else None,
        reason=row["reason"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        revision=row["revision"],
    )


def _time(value: str | None) -> datetime | None:
    return None if value is None else time_in_json(value)
