"""The search for nodes that fail reads no table of pods, resources or holds as a whole."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tests.engine.house import House
from weft.engine.base.sql import queries

LARGE = frozenset({"pod", "owner", "resource", "node_hold", "adapter_up", "node_history"})
"""Tables that grow with the site."""


def scanned(plan: dict[str, Any]) -> set[str]:
    """Tables that a plan reads as a whole."""
    here = {str(plan["Relation Name"])} if plan["Node Type"] == "Seq Scan" else set[str]()
    return here.union(*(scanned(one) for one in plan.get("Plans", ())))


@pytest.mark.parametrize(
    "name", ["refresh_failures", "failing_now", "claim_failure", "count_own_replacements"]
)
def test_search_for_failing_nodes_uses_indexes(house: House, database_url: str, name: str) -> None:
    now = house.clock.now()
    values = {
        **{"at": now, "until": now, "since": now, "kept": now, "gap": timedelta(minutes=5), "checks": "[]"},
        **{"server_broken": timedelta(minutes=10), "adapter_gone": timedelta(minutes=10)},
        **{"pod_id": None, "node": "gpu01", "most_stuck": 2, "project_id": "team-a"},
    }
    with psycopg.connect(database_url) as connection:
        connection.execute("SET enable_seqscan = off")
        row = connection.execute(f"EXPLAIN (FORMAT json) {queries()[name]}".encode(), values).fetchone()
    assert row is not None
    assert not scanned(row[0][0]["Plan"]) & LARGE
