"""Files of `weft place`: orders as CSV (weft's columns, or a trace's); a topology as CSV, discovery or UFM's JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from weft.app.csvtables import CsvLine, rows_of
from weft.app.sitecompare import discovery
from weft.app.sitefile import read_text
from weft.model.errors import InputError
from weft.model.localityorder import LEVELS, Level
from weft.planning.fabric.ibnetdiscover import is_discovery
from weft.planning.fabric.topology import Topology
from weft.planning.place.ask import Ask
from weft.planning.place.sources import from_observed, from_table, from_ufm
from weft.planning.place.state import NodeNeeds
from weft.planning.queue.simulate import TraceOrder

COLUMNS = {
    "pod": ("pod", "job_id", "name"),
    "submitted": ("submitted", "submission_time"),
    "duration": ("duration",),
    "count": ("count", "num_gpu", "nodes"),
}
"""Required columns and their possible names: weft's own first, then those of Microsoft's ITP trace."""
OPTIONAL = ("project", "required", "preferred", "slice", "spare", "accelerators", "bisection_gbps")
HOSTS = "ip,ASW,PSW"
"""Default columns of a table of hosts: those of Alibaba's Lingjun."""
MOST = 10**9
"""Largest number of nodes that is accepted."""
MOST_SECONDS = 1e11
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([smhd]?)\Z")
_UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SITE = re.compile(r"^(?:clouds|fabrics|switches):", re.MULTILINE)
_SOURCES = (
    "a table of hosts (CSV with columns {columns}, or those of --columns), the output of ibnetdiscover, or what UFM "
    "answers to GET /resources/links (JSON)"
)


def seconds(text: str, field: str = "duration", where: str | None = None) -> float:
    """Seconds from `90`, `90s`, `15m`, `6h` or `2d`. Raises InputError with what is allowed."""
    match = _DURATION.match(text.strip())
    value = float(match[1]) * _UNITS[match[2]] if match else -1.0
    if not 0 <= value <= MOST_SECONDS:
        raise InputError(field, text, "a number, 0 or more, with s, m, h or d, such as 6h", where)
    return value


def read_orders(
    path: str | Path,
    kind: NodeNeeds,
    required: Level | Callable[[Ask], Level] | None = None,
    levels: Sequence[Level] = LEVELS,
    types: Iterable[str] = (),
    unused: list[str] | None = None,
) -> list[TraceOrder]:
    """The orders of a CSV file, times counted from the first.

    Columns: pod, submitted (s), duration (s), count; optional: project, required, preferred, slice, spare,
    accelerators (such as `h100:8`), bisection_gbps.

    Args:
        kind: what each node must be.
        required: level of orders without one, or a function that finds it; None: `site`.
        levels: levels of the site.
        types: accelerator types of the site.
        unused: the names of unused columns are added to it.

    Raises:
        InputError: the first thing that is wrong, with its file and line.
    """
    rows = _rows(path, "orders", "a header line and at least one order")
    known = rows[0][0].keys()
    column = {what: _column(known, what, names, str(path)) for what, names in COLUMNS.items()}
    if unused is not None:
        unused += sorted(known - {*column.values(), *OPTIONAL, ""})
    orders: list[TraceOrder] = []
    seen: set[str] = set()
    for row, where in rows:
        pod = row[column["pod"]]
        if not pod or pod in seen:
            raise InputError("pod", pod, "a name, each once", where)
        seen.add(pod)
        duration = seconds(row[column["duration"]], "duration", where)
        if not duration:
            raise InputError("duration", row[column["duration"]], "more than 0", where)
        submitted = seconds(row[column["submitted"]], "submitted", where)
        count = _whole(row[column["count"]], "count", where)
        ask = _ask(Ask(pod, count, row.get("project", ""), kind), row, where, levels, types)
        own = _named(row.get("required"))
        if own is None:
            own = required(ask) if callable(required) else required or "site"
        orders.append(TraceOrder(_level(ask, row, own, where), submitted, duration))
    first = min(o.submitted for o in orders)
    return [replace(o, submitted=o.submitted - first) for o in orders]


def read_topology(path: str | Path, columns: str | None = None, not_locating: Sequence[str] = ()) -> Topology:
    """A topology from a file, recognised by its contents.

    It may be the output of `ibnetdiscover`, UFM's response to `GET /resources/links` (JSON), or a CSV table with a
    row for each host, such as Alibaba's Lingjun `ip,DSW,PSW,ASW`.

    Args:
        columns: of a table: the host's column, then those of its switches from the leaf upwards; None: `ip,ASW,PSW`.
        not_locating: adapters whose cables don't show where their host is (`weft.planning.place.sources`).

    Raises:
        InputError: it is none of these, or something in it is wrong.
    """
    text, shown = read_text(Path(path)), str(path)
    seen = is_discovery(text)
    structured = not seen and text.lstrip()[:1] in ("{", "[")
    if columns is not None and (structured or seen):
        raise InputError("--columns", columns, f"only with a table; {shown} isn't one")
    if not_locating and not structured and not seen:
        given = ",".join(not_locating)
        raise InputError("--not-locating", given, f"only with cables; {shown} is a table of hosts")
    if not structured and not seen and _SITE.search(text):
        raise InputError("--topology", shown, "no site file: that is given with --site")
    try:
        if structured:
            return from_ufm("topology", json.loads(text), not_locating)
        if seen:
            found = discovery(text, shown)
            return from_observed("topology", found.fabric, found.rates, not_locating)
        return _hosts(path, columns)
    except (json.JSONDecodeError, RecursionError) as error:
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError("--topology", shown, "JSON that can be read: UFM's links", shown + line) from None
    except InputError as error:
        named = error.where or error.field.startswith("--")
        raise InputError(error.field, error.value, error.allowed, error.where if named else shown) from None


def _hosts(path: str | Path, columns: str | None) -> Topology:
    """The topology from a table of hosts."""
    node, *levels = [c.strip() for c in (columns or HOSTS).split(",")]
    rows = _rows(path, "--topology", _SOURCES.format(columns=HOSTS))
    known = [name for name in rows[0][0] if name]
    missing = [c for c in (node, *levels) if c not in known]
    if columns is None and missing:
        raise InputError("--topology", str(path), _SOURCES.format(columns=HOSTS))
    if missing or not levels or len({node, *levels}) <= len(levels):
        allowed = f"columns of {path}, each once: {', '.join(known)}; a host and at least one switch"
        raise InputError("--columns", columns, allowed)
    return from_table("topology", [row for row, _ in rows], node, levels, [where for _, where in rows])


def _rows(path: str | Path, field: str, wanted: str) -> list[CsvLine]:
    """The rows of a table with any columns, at least one."""
    errors: list[InputError] = []
    rows = list(rows_of(read_text(Path(path)), str(path), None, errors))
    if errors:
        raise errors[0]
    if not rows:
        raise InputError(field, str(path), wanted)
    return rows


def _column(known: Iterable[str], what: str, names: tuple[str, ...], path: str) -> str:
    for name in names:
        if name in known:
            return name
    raise InputError(
        "header", ",".join(sorted(known)), f"a column {' or '.join(names)} ({what})", f"{path}:1"
    )


def _ask(ask: Ask, row: Mapping[str, str], where: str, levels: Sequence[Level], types: Iterable[str]) -> Ask:
    """The order with what the optional columns say."""
    size = _whole(row.get("slice") or "1", "slice", where)
    spare = _whole(row.get("spare") or "0", "spare", where, least=0)
    if ask.count % size:
        raise InputError("count", ask.count, f"a multiple of the slice ({size})", where)
    if spare % size:
        raise InputError("spare", spare, f"a multiple of the slice ({size})", where)
    for field in ("required", "preferred"):
        if row.get(field) and row[field] not in levels:
            raise InputError(field, row[field], f"one of {', '.join(levels)}: the site has no others", where)
    kind = ask.kind
    if given := row.get("accelerators"):
        name, _, number = given.rpartition(":")
        if name not in types:
            allowed = f"type:count, with types of the site: {', '.join(sorted(types)) or 'it has none'}"
            raise InputError("accelerators", given, allowed, where)
        kind = replace(kind, accelerator=name, accelerators=_whole(number, "accelerators", where))
    gbps = _whole(row.get("bisection_gbps") or "0", "bisection_gbps", where, least=0)
    return replace(ask, slice=size, spare=spare, kind=kind, gbps=gbps)


def _level(ask: Ask, row: Mapping[str, str], own: Level, where: str) -> Ask:
    """The order with its levels."""
    preferred = _named(row.get("preferred"))
    if preferred and LEVELS.index(preferred) > LEVELS.index(own):
        raise InputError("preferred", preferred, f"not wider than required ({own})", where)
    nearest: Level = own if own in ("node", "nvlink_domain") else "leaf"
    return replace(ask, required=own, preferred=preferred or nearest)


def _named(text: str | None) -> Level | None:
    for level in LEVELS:
        if text == level:
            return level
    return None


def _whole(text: str, field: str, where: str, least: int = 1) -> int:
    short = text.strip()
    if not (short.isascii() and short.isdecimal() and len(short) < 20 and least <= int(short) <= MOST):
        raise InputError(field, text, f"a whole number, {least} or more", where)
    return int(short)
