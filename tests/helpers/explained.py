"""Which rows PostgreSQL reads for one of weft's statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import psycopg

from weft.engine.base.database import Database
from weft.engine.base.sql import queries


def scanned(database: Database, name: str, **values: object) -> Counter[str]:
    """Table -> rows that the statement reads, those it filters out included. The statement is run."""
    with psycopg.connect(database.url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("ANALYZE")
        connection.execute("SET enable_seqscan = off")  # plans as for large tables
        text = "EXPLAIN (ANALYZE, FORMAT JSON) " + queries()[name]
        row = connection.execute(text.encode(), values).fetchone()
    assert row is not None
    rows: Counter[str] = Counter()
    for node in _nodes(row[0][0]["Plan"]):
        if table := node.get("Relation Name"):
            read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
            rows[table] += round(read * node["Actual Loops"])
    return +rows


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _nodes(part)
