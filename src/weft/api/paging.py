"""Pages of lists that are read completely: the rows after a key, in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from pydantic import BaseModel, Field

from weft.model.base import Document

MOST_ROWS = 1000
Item = TypeVar("Item")
_Page = TypeVar("_Page", bound="Paged")


class PageOf(Document):
    """Which part of a sorted list is wanted."""

    limit: int = Field(default=MOST_ROWS, ge=1, le=MOST_ROWS, description="Maximum number of entries.")
    marker: str | None = Field(
        default=None, max_length=1000, description="Start after this: `next` of the previous page."
    )


class Paged(Document):
    """A page of a list."""

    next: str | None = Field(
        default=None,
        exclude_if=lambda marker: marker is None,
        description="`marker` of the next page; omitted on the last one.",
    )


def page(
    rows: Iterable[Item], key: Callable[[Item], tuple[str, ...]], wanted: PageOf
) -> tuple[tuple[Item, ...], str | None]:
    """A page of rows, and the marker of the next page; None: this is the last one.

    Rows that appear or disappear between requests don't move others to another page.

    Args:
        key: identifies a row: a node, and what distinguishes several rows of one node.
    """
    keyed = {"/".join(key(row)): row for row in rows}
    left = sorted(marker for marker in keyed if wanted.marker is None or marker > wanted.marker)
    found = left[: wanted.limit]
    return tuple(keyed[marker] for marker in found), found[-1] if len(left) > len(found) else None


def paged(
    kind: type[_Page], found: BaseModel, rows: str, key: Callable[[Any], tuple[str, ...]], wanted: PageOf
) -> _Page:
    """A page of a document that has other fields beside its list. Args: kind: of the page; rows: the list's field."""
    some, after = page(getattr(found, rows), key, wanted)
    return kind.model_validate({**dict(found), rows: some, "next": after})
