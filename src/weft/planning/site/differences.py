"""What one site changes of another, for a person who is about to activate it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel

from weft.model.site import Site


class TableChange(NamedTuple):
    """The difference in one field of the site.

    Attributes:
        field: of the site file.
        added, removed: names of rows; of cables their two ends.
        changed: name of each row with the fields that differ; a setting that isn't a table has the fields alone.
    """

    field: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def site_differences(before: Site | None, after: Site) -> tuple[TableChange, ...]:
    """Changed tables in the order of the site file's fields. Args: before: None: there was no site."""
    found = []
    for field in Site.model_fields:
        was = getattr(before, field) if before is not None else None
        becomes = getattr(after, field)
        if was != becomes and (change := _change(field, was, becomes)):
            found.append(change)
    return tuple(found)


def _change(field: str, was: Any, becomes: Any) -> TableChange | None:
    if isinstance(becomes, Mapping | tuple):
        old, new = _rows(was), _rows(becomes)
        return TableChange(
            field,
            tuple(name for name in new if name not in old),
            tuple(name for name in old if name not in new),
            tuple(
                f"{name} ({', '.join(_fields(old[name], one))})"
                for name, one in new.items()
                if name in old and old[name] != one
            ),
        )
    if was is None:
        return TableChange(field, added=(becomes,)) if isinstance(becomes, str) else None
    return TableChange(field, changed=tuple(_fields(was, becomes)))


def _rows(table: Any) -> dict[str, Any]:
    """Name -> row."""
    if isinstance(table, Mapping):
        return {str(name): one for name, one in table.items()}  # pyright: ignore[reportUnknownVariableType]
    rows: Sequence[Any] = table or ()
    return {_name(one): one for one in rows}


def _name(row: Any) -> str:
    if hasattr(row, "a_port"):
        return f"{row.a} {row.a_port} – {row.b} {row.b_port}"
    return f"{row.device} {row.name}" if hasattr(row, "device") else str(row.name)


def _fields(was: Any, becomes: Any) -> Iterator[str]:
    """Names of a row's fields that differ; of a plain value, the old and the new one."""
    if isinstance(was, BaseModel) and isinstance(becomes, BaseModel):
        for name in type(becomes).model_fields:
            if getattr(was, name, None) != getattr(becomes, name):
                yield name
    else:
        yield f"{was} → {becomes}"
