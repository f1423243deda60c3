"""What a visit has to write of its owner: a buffer with the values of `write_held`.

Values always have the same types, so that PostgreSQL plans the statement once for each connection.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

from psycopg.types.json import Jsonb

from weft.engine.base.documents import written
from weft.engine.hold.fence import Event
from weft.engine.rows.records import Change, RowState
from weft.model.messages import stored
from weft.model.resources import Resource

log = logging.getLogger(__name__)

COMING = "it is being deployed"
"""Why a node's adapters are out of the segment until its server is there: a normal step."""


@dataclass
class Notes:
    """What is to be written; false if there is nothing.

    Attributes:
        changes: key of a resource -> what to write of it; of several changes the last.
        moved_resources: keys of those that came into another state.
        conditions: the owner's phase or conditions differ from those that are written.
        moved: its state differs from what is written.
        done: everything was observed to be as the newest generation wants it.
        watched: node -> why its adapters are out of the pod's segment (empty: they are in); None: not read.
        segment: with other adapters in it than are written.
        first: it must be written before anything else is asked outside.
        announces: something is about to be created or removed.
        worked: for how long it has been worked on, until when, and what and by which process; None: unchanged.
    """

    changes: dict[str, Change] = field(default_factory=dict[str, Change])
    moved_resources: set[str] = field(default_factory=set[str])
    events: list[Event] = field(default_factory=list[Event])
    conditions: bool = False
    moved: bool = False
    done: bool = False
    watched: Mapping[str, str] | None = None
    segment: Resource | None = None
    first: bool = False
    announces: bool = False
    about: str = ""
    worked: tuple[float, datetime | None, str] | None = None
    _leaving: dict[str, object] = field(default_factory=lambda: {"delay": -1.0, "failures": 0, "woken": 0})

    def __bool__(self) -> bool:
        some = self.changes or self.events or self.conditions or self.done
        return bool(some) or self.watched is not None or self.worked is not None

    def change(self, change: Change, moved: bool, first: bool = False) -> None:
        """Add a change; what it doesn't set stays as an earlier one has it."""
        self.first = self.first or first
        self.announces = self.announces or change.state in (RowState.CREATING, RowState.DELETING)
        before = self.changes.get(change.key)
        if before is not None:
            # A successor has none of its predecessor's facts.
            known = before.facts if change.former is None else None
            change = replace(
                change,
                outside_id=change.outside_id or before.outside_id,
                facts=change.facts or known,
                former=change.former or before.former,
            )
        self.changes[change.key] = change
        if moved:
            self.moved_resources.add(change.key)

    def become(self, moved: bool, events: Iterable[Event]) -> None:
        """Note other conditions, whether the state is another with them, and events."""
        self.conditions, self.moved = True, self.moved or moved
        self.events += events

    def watch(self, nodes: Mapping[str, str], segment: Resource | None, about: str) -> None:
        """Note which nodes' adapters are out, the segment with that, and the pod's name for the log."""
        self.watched, self.segment, self.about = nodes, segment, about

    def hand_back(self, delay: float, failures: int, woken: int) -> None:
        """End the hold with the next write: due again in `delay` seconds, unless woken since."""
        self._leaving = {"delay": float(delay), "failures": failures, "woken": woken}

    def unchanged_nodes(self) -> Mapping[str, str] | None:
        """`watched`, if there is nothing else to write and no reason among them."""
        if (
            self.changes
            or self.events
            or self.conditions
            or self.done
            or self.segment is not None
            or self.worked
        ):
            return None
        return None if self.watched is None or any(self.watched.values()) else self.watched

    def stored_events(self) -> Jsonb:
        """The events as the statements take them."""
        found: list[dict[str, object]] = []
        again = False  # as an error that was written before isn't, until another event follows
        for kind, message, key in self.events:
            again = again or kind != "error"
            found.append({"type": kind, "message": stored(message), "key": key, "again": again})
        return Jsonb(found)

    def values(self) -> dict[str, object]:
        """Parameters of `write_held`, except those of phase and conditions.

        What may be None is given as text: None has no type of its own, and a statement is prepared, and planned five
        times, for each combination of its parameters' types.
        """
        watched = [{"node": n, "reason": r} for n, r in (self.watched or {}).items()]
        worked, worked_at, worked_by = self.worked or (None, None, "")
        return {
            "worked": as_text(worked),
            "worked_at": as_text(worked_at),
            "worked_by": worked_by,
            "changes": Jsonb([_row(c) for c in self.changes.values()]),
            "events": self.stored_events(),
            "moved": self.moved,
            "done": self.done,
            "watched": self.watched is not None,
            "nodes": Jsonb(watched),
            "key": self.segment.key if self.segment else "",
            "document": written(self.segment) if self.segment else Jsonb({}),
            **self._leaving,
        }

    def log_withheld(self, withheld: Iterable[str]) -> None:
        """Log for operators which nodes' adapters are newly out of the segment."""
        for node in withheld:
            why = (self.watched or {})[node]
            log.log(
                logging.INFO if why == COMING else logging.WARNING, "%s: node %s: %s", self.about, node, why
            )


def as_text(value: float | datetime | None) -> str | None:
    """A parameter that PostgreSQL reads as the type that the statement casts it to."""
    return None if value is None else str(value)


def _row(change: Change) -> dict[str, object]:
    return {
        "key": change.key,
        "state": change.state,
        "outside_id": change.outside_id,
        "reason": stored(change.reason),
        "differences": [d.model_dump(mode="json") for d in change.differences],
        "facts": dict(change.facts or {}),
        "attempts": change.attempts,
        "asked": change.asked,
        "former": None if change.former is None else [asdict(f) for f in change.former],
    }
