"""The named queries of `queries.sql`, read once (after procrastinate/sql/queries.sql)."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def queries() -> dict[str, str]:
    """Name -> statement, including comments."""
    text = (resources.files("weft.engine") / "queries.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)[1:]
    names = parts[0::2]
    if len(names) != len(set(names)):
        raise ValueError("queries.sql names a query twice")
    return {name: body.strip() for name, body in zip(names, parts[1::2], strict=True)}


def migrations() -> list[tuple[str, str]]:
    """(name, statements) of each migration, in order."""
    folder = resources.files("weft.engine") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [(f.name, f.read_text(encoding="utf-8")) for f in files]
