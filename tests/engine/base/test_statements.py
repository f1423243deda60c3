"""Statements belong to rooms: each is used by its own room or by those above it, and none is left over."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

import weft.engine
from weft.engine.base.database import Database
from weft.engine.base.sql import queries

ENGINE = Path(weft.engine.__file__).parent
ROOT = Path("src/weft")
NAMED = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
USED = re.compile(r"""\.\w+\(\s*["'](\w+)["']""")


def floors() -> dict[str, int]:
    """Room -> its floor, from the contract of imports."""
    contracts = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (rooms,) = [c for c in contracts if c.get("containers") == ["weft.engine"]]
    return {room.strip(): i for i, floor in enumerate(reversed(rooms["layers"])) for room in floor.split(":")}


def owners() -> dict[str, str]:
    """Statement -> its room."""
    return {
        name: file.parent.name
        for file in ENGINE.glob("*/queries.sql")
        for name in NAMED.findall(file.read_text())
    }


def test_rooms_use_no_statement_of_rooms_above_them() -> None:
    floor, owner = floors(), owners()
    wrong = [
        f"{file.relative_to(ENGINE)}: {name} of {owner[name]}"
        for file in ENGINE.glob("*/*.py")
        for name in USED.findall(file.read_text())
        if name in owner and floor[owner[name]] > floor[file.parent.name]
    ]
    assert owner.keys() == queries().keys() and len(owner) > 300
    assert not wrong


def test_every_statement_is_used() -> None:
    """Three that only tests ask are named here."""
    text = "\n".join(file.read_text() for file in ROOT.rglob("*.py"))
    words = Counter(re.findall(r"""["'](\w+)["']""", text))
    unused = {name for name in queries() if not words[name]}
    assert unused == {"adapters_up_of", "adapters_gone_now", "failures_of"}


@pytest.mark.parametrize("name", ["claim_work", "write_held", "write_held_watched", "release_held"])
def test_statement_of_every_visit_is_short_enough_for_psycopgs_cache(name: str) -> None:
    text = queries()[name]
    assert len(text.encode()) <= 4096 and text.count("%(") <= 50


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("resources_of", {"owners": [UUID(int=1)], "at": None}),
        ("segments_of", {"owners": [UUID(int=1)]}),
        ("look_at_owners", {"ids": [UUID(int=1)]}),
    ],
)
def test_statement_with_a_list_of_owners_keeps_one_plan(
    database: Database, name: str, values: dict[str, object]
) -> None:
    """PostgreSQL plans the first five; with a list that it can count it would plan each, longer than it runs."""
    with database.statement() as tx:
        for _ in range(12):
            tx.rows(name, **values)
        # The newest: another test may have prepared it on this connection with values of other types.
        (row,) = tx._connection.execute(  # pyright: ignore[reportPrivateUsage]
            "SELECT custom_plans, generic_plans FROM pg_prepared_statements WHERE statement LIKE %s "
            "ORDER BY prepare_time DESC LIMIT 1",
            [queries()[name].partition("%")[0] + "%"],
            prepare=False,
        )
    assert row["custom_plans"] == 5 and row["generic_plans"] >= 5
