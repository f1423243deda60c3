"""Whose turn it is among the strays of a project with more of them than one round removes.

Members can write marks, on as many things as their quotas allow, and keep each from being removed. So a round continues
where the last one ended, whichever process ran it; every stray has its turn after enough rounds.
"""

from __future__ import annotations

from collections.abc import Collection

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database
from weft.engine.proof.takeback import Stray
from weft.model.kinds import removal_order

MOST = 200
"""Things of one project that one round removes; the next round continues from there."""


def next_turn(database: Database, strays: Collection[Stray]) -> list[Stray]:
    """The strays for this round, in order of removal; where it ends is written first."""
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
    """The next `MOST` strays after the place `end`, cyclically."""
    ordered = sorted(mine, key=lambda s: (_place(s) <= end, _place(s)))
    return ordered[:MOST]


def _place(stray: Stray) -> str:
    """Sort key of a stray: its id, which the service chooses, so that no member can make a thing come first."""
    return f"{stray.thing.id} {stray.thing.kind} {stray.thing.where}"
