"""What was free, and how many orders waited: a small record every ten minutes, which shows capacity over time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database
from weft.model.views import CapacityPoint, TypeStates

EVERY = timedelta(minutes=10)


def note_capacity(database: Database, nodes: Mapping[str, Mapping[str, int]]) -> None:
    """Record the present state, unless this period of `EVERY` has a record. Args: nodes: type -> state -> number."""
    database.run("note_capacity", now=database.now(), every=EVERY, nodes=Jsonb(nodes))


def capacity_noted(database: Database, since: datetime, until: datetime, most: int) -> list[CapacityPoint]:
    """What was noted in a period, the oldest first.

    Args:
        most: points; of more records the last one of each equal step is shown, with the most orders that waited in it.
    """
    step = max(EVERY, (until - since) / most)
    rows = database.rows("capacity_noted", since=since, until=until, step=step)
    return [
        CapacityPoint(
            at=row["at"].astimezone(UTC),
            waiting=row["waiting"],
            nodes=tuple(
                TypeStates(type=type_, total=sum(states.values()), states=states)
                for type_, states in sorted(row["nodes"].items())
            ),
        )
        for row in rows
    ]
