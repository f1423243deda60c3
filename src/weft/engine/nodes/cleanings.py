"""Cleanings of machines in the database: what was observed of those being watched, written after each look, and for
which cleaning each machine was last assigned to a pod. Drivers read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from weft.engine.base.database import Database, Row, Tx
from weft.planning.watching import follow
from weft.ports.cleanings import LastClaim, WatchedCleaning
from weft.ports.occupants import SeenMachine


class CleaningsOf:
    """`weft.ports.cleanings.Cleanings` of one cloud."""

    def __init__(self, database: Database, cloud: str) -> None:
        self._database, self._cloud = database, cloud

    def watched(self, machine: str) -> WatchedCleaning | None:
        row = self._database.row("cleaning_watched", cloud=self._cloud, machine=machine)
        return None if row is None else _watched(row)

    def taken(self, machine: str) -> LastClaim | None:
        row = self._database.row("machine_taken", cloud=self._cloud, machine=machine)
        return None if row is None else LastClaim(row["ended"], row["used"])

    def take(self, machine: str, ended: datetime) -> None:
        self._database.run("take_machine", cloud=self._cloud, machine=machine, ended=ended)


def write_down(tx: Tx, cloud: str, seen: Mapping[str, SeenMachine], asked: datetime, now: datetime) -> None:
    """Record what a reading of a cloud's machines shows of their cleaning and use. Args: as for `follow`."""
    used = sorted(m for m, one in seen.items() if one.state not in ("", "available"))
    if used:
        tx.run("use_machines", cloud=cloud, machines=used, asked=asked)
    before = {row["machine"]: _watched(row) for row in tx.rows("cleanings_watched", cloud=cloud)}
    after = {m: follow(before.get(m), one, asked, now) for m, one in seen.items()}
    changed = {m: one for m, one in after.items() if one != before.get(m)}
    tx.many("drop_cleaning", [{"cloud": cloud, "machine": m} for m, one in changed.items() if one is None])
    tx.many(
        "put_cleaning",
        [
            {
                "cloud": cloud,
                "machine": machine,
                "plan": list(one.plan),
                "agent": one.agent,
                "since": one.since,
                "looked": one.looked,
                "ended": one.ended,
            }
            for machine, one in changed.items()
            if one is not None
        ],
    )


def _watched(row: Row) -> WatchedCleaning:
    return WatchedCleaning(tuple(row["plan"]), row["agent"], row["since"], row["looked"], row["ended"])
