"""Nodes that fail by a check of their own for which the site has `replace`.

Unknown, old and differently compared results never count, nor does a check that began to fail on many nodes within a
day: what it is compared with is probably wrong, unless operators say that it is real.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from weft.engine.base.database import Tx
from weft.engine.book.checkstate import OUTAGE, is_current, spared
from weft.model.ids import span
from weft.model.site import Site


def failing_checks(tx: Tx, site: Site) -> list[dict[str, str]]:
    """`node`, `code` and `since` of each failing node's first check that has failed for long enough to count."""
    codes = sorted(code for code, action in site.checks.codes.items() if action == "replace")
    return judged(tx.rows("checks_failing", codes=codes), site, tx.now()) if codes else []


def judged(rows: Sequence[Mapping[str, Any]], site: Site, now: datetime) -> list[dict[str, str]]:
    """As `failing_checks`, from rows of `checks_failing`, of each node the earliest first. Pure."""
    rows = [row for row in rows if row["node"] in site.node_by_name]
    fresh: dict[str, dict[str, datetime]] = {}
    for row in rows:
        if row["since"] > now - OUTAGE and row["judged"] == "open":
            fresh.setdefault(row["code"], {}).setdefault(row["node"], row["since"])
    many = {code for code, nodes in fresh.items() if spared(sorted(nodes, key=lambda n: (nodes[n], n)), site)}
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        old = now - row["at"] > span(site.checks.age) or not is_current(row["expected"], site, row["node"])
        if old or not row["confirmed"] or row["since"] > now - span(site.repair.check_failed):
            continue
        if site.node_by_name[row["node"]].maintenance is not None:
            continue  # people work on it
        if row["judged"] == "mistake":
            continue
        if row["code"] in many and row["since"] > now - OUTAGE and row["judged"] == "open":
            continue
        since = row["since"].isoformat()
        found.setdefault(row["node"], {"node": row["node"], "code": row["code"], "since": since})
    return list(found.values())
