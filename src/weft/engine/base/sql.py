"""The named statements of each room's `queries.sql`, read once (after procrastinate/sql/queries.sql)."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

AFTER = ".after"
"""Suffix of the file of an upgrade's second half."""
_NAME = re.compile(r"^-- (name|part): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^ *--.*\n", re.MULTILINE)
_PART = re.compile(r"^ *@(\w+)", re.MULTILINE)
_INDENT = re.compile(r"\n\s+")


@cache
def queries() -> dict[str, str]:
    """Name -> statement; `@part` at the beginning of a line is replaced by a part's text.

    Comments and indentation are removed: psycopg caches what it makes of a statement's text up to 4,096 bytes, and
    searches a longer one for parameters each time.
    """
    text = "\n".join(file.read_text(encoding="utf-8") for file in _files())
    pieces = [_COMMENT.sub("", piece) for piece in _NAME.split(text)[1:]]
    sections = list(zip(pieces[0::3], pieces[1::3], pieces[2::3], strict=True))
    parts = {name: body.strip() for what, name, body in sections if what == "part"}
    names = [name for what, name, _ in sections if what == "name"]
    if len(names) != len(set(names)):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"statements are named twice: {', '.join(twice)}")

    def whole(body: str) -> str:
        return _PART.sub(lambda found: whole(parts[found[1]]), body)

    return {name: _INDENT.sub("\n", whole(body)).strip() for what, name, body in sections if what == "name"}


def _files() -> list[Traversable]:
    rooms = sorted(resources.files("weft.engine").iterdir(), key=lambda room: room.name)
    return [room / "queries.sql" for room in rooms if room.is_dir() and (room / "queries.sql").is_file()]


def in_order(name: str) -> tuple[str, bool]:
    """Sort key of a migration's name: both halves may share one, `x.sql` and `x.after.sql`."""
    stem = name.removesuffix(".sql")
    return stem.removesuffix(AFTER), stem.endswith(AFTER)


def migrations() -> list[tuple[str, str]]:
    """(name, statements) of each migration, in order."""
    folder = resources.files("weft.engine") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: in_order(f.name))
    return [(f.name, f.read_text(encoding="utf-8")) for f in files]
