"""Files of `weft place`: orders as CSV (weft's own columns, or a trace's), a topology as CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from pathlib import Path

from weft.app.sitefile import read_text
from weft.model.errors import InputError
from weft.model.order import LEVELS, Level
from weft.planning.place.ask import Ask
from weft.planning.place.simulate import TraceOrder
from weft.planning.place.sources import from_table
from weft.planning.place.state import Kind
from weft.planning.topology import Topology

COLUMNS = {
    "pod": ("pod", "job_id", "name"),
    "submitted": ("submitted", "submission_time"),
    "duration": ("duration",),
    "count": ("count", "num_gpu", "nodes"),
}
"""Needed columns and the names they may have: weft's own first, then those of Microsoft's ITP trace."""
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)\Z")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds(text: str, field: str = "duration", where: str | None = None) -> float:
    """Seconds from `90`, `90s`, `15m`, `6h` or `2d`. Raises InputError with what is allowed."""
    match = _DURATION.match(text.strip())
    if match is None:
        raise InputError(field, text, "a number with s, m, h or d, such as 6h", where)
    return float(match[1]) * _UNITS[match[2]]


def read_orders(path: str | Path, kind: Kind, required: Level | None = None) -> list[TraceOrder]:
    """The orders of a CSV file, times counted from the first.

    Columns: pod, submitted (s), duration (s), count; optional: project, required, preferred, slice.

    Args:
        kind: what each node must be.
        required: level of every order that has none of its own; None: `site`.

    Raises:
        InputError: the first thing that is wrong, with its file and line.
    """
    rows = list(csv.DictReader(io.StringIO(read_text(Path(path)))))
    if not rows:
        raise InputError("orders", str(path), "a header line and at least one order")
    column = {what: _column(rows[0], what, names, str(path)) for what, names in COLUMNS.items()}
    orders: list[TraceOrder] = []
    seen: set[str] = set()
    for line, row in enumerate(rows, 2):
        where = f"{path}:{line}"
        pod = row[column["pod"]] or ""
        if not pod or pod in seen:
            raise InputError("pod", pod, "a name, each once", where)
        seen.add(pod)
        count = _whole(row[column["count"]], "count", where)
        size = _whole(row.get("slice") or "1", "slice", where)
        if count % size:
            raise InputError("count", count, f"a multiple of the slice ({size})", where)
        submitted = seconds(row[column["submitted"]] or "", "submitted", where)
        duration = seconds(row[column["duration"]] or "", "duration", where)
        if not duration:
            raise InputError("duration", row[column["duration"]], "more than 0", where)
        own = _level(row, "required", where) or required or "site"
        preferred = _level(row, "preferred", where) or "leaf"
        if LEVELS.index(preferred) > LEVELS.index(own):
            if row.get("preferred"):
                raise InputError("preferred", preferred, f"not wider than required ({own})", where)
            preferred = own
        ask = Ask(pod, count, row.get("project") or "", kind, own, preferred, size)
        orders.append(TraceOrder(ask, submitted, duration))
    first = min(o.submitted for o in orders)
    return [TraceOrder(o.ask, o.submitted - first, o.duration) for o in orders]


def read_topology(path: str | Path, columns: str) -> Topology:
    """A topology from a CSV table, such as Alibaba's Lingjun `ip,DSW,PSW,ASW`.

    Args:
        columns: the host's column, then those of its switches from the leaf upwards: `ip,ASW,PSW`.
    """
    node, *levels = [c.strip() for c in columns.split(",")]
    rows = list(csv.DictReader(io.StringIO(read_text(Path(path)))))
    if not rows:
        raise InputError("topology", str(path), "a header line and at least one host")
    missing = [c for c in (node, *levels) if c not in rows[0]]
    if missing or not levels:
        allowed = f"columns of {path}: {', '.join(rows[0])}; a host and at least one switch"
        raise InputError("--columns", columns, allowed)
    return from_table("topology", rows, node, levels, str(path))


def _column(row: Mapping[str, str], what: str, names: tuple[str, ...], path: str) -> str:
    for name in names:
        if name in row:
            return name
    raise InputError("header", ",".join(row), f"a column {' or '.join(names)} ({what})", f"{path}:1")


def _whole(text: str | None, field: str, where: str) -> int:
    if text is None or not text.strip().isdigit() or not int(text):
        raise InputError(field, text, "a whole number, 1 or more", where)
    return int(text)


def _level(row: Mapping[str, str], field: str, where: str) -> Level | None:
    text = row.get(field) or None
    for level in LEVELS:
        if text == level:
            return level
    if text is None:
        return None
    raise InputError(field, text, f"one of {', '.join(LEVELS)}", where)
