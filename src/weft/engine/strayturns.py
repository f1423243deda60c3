"""Whose turn it is among the strays of a project that has more of them than one round asks to go.

Members can write marks, on as many things as their quotas allow, and keep each from going. So a round goes on where the
last one ended, whichever process ran it; what is there all the time has its turn after so many rounds as it takes.
"""

from __future__ import annotations

from collections.abc import Collection

from psycopg.types.json import Jsonb

from weft.engine.database import Database
from weft.engine.takeback import Stray
from weft.model.kinds import removal_order

MOST = 200
"""Things of one project that one round asks to go; the next round asks the next ones."""


def next_turn(database: Database, strays: Collection[Stray]) -> list[Stray]:
    """Those that this round asks, in the order in which they go; where it ends is written down before."""
    each: dict[str, list[Stray]] = {}
    for stray in strays:
        each.setdefault(stray.thing.project_id or "", []).append(stray)
    with database.transaction() as tx:
        row = tx.row("sweep_turns")
        before: dict[str, str] = row["turns"] if row else {}
        turns = {project: _from(mine, before.get(project, "")) for project, mine in each.items()}
        ends = {
            project: _place(turn[-1]) for project, turn in turns.items() if len(turn) < len(each[project])
        }
        if ends != before:
            tx.run("set_sweep_turns", turns=Jsonb(ends))
    order = {kind: at for at, kind in enumerate(removal_order())}
    chosen = [stray for turn in turns.values() for stray in turn]
    return sorted(chosen, key=lambda s: (s.thing.project_id or "", order[s.thing.kind], s.thing.id))


def _from(mine: list[Stray], end: str) -> list[Stray]:
    """So many after that place, round and round."""
    ordered = sorted(mine, key=lambda s: (_place(s) <= end, _place(s)))
    return ordered[:MOST]


def _place(stray: Stray) -> str:
    """Ids are given by services: nobody chooses whom to go before."""
    return f"{stray.thing.id} {stray.thing.kind} {stray.thing.where}"
