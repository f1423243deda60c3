"""Pages of the console's lists, by the same markers as the API's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

from fastapi import Query

from weft.api.paging import PageOf, page

After = Annotated[str | None, Query(max_length=1000)]
"""Where a page begins: behind the entry of this marker."""
Item = TypeVar("Item")


def part_of(
    rows: Iterable[Item],
    key: Callable[[Item], tuple[str, ...]],
    after: str | None,
    limit: int,
    asked: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A page of a list for templates: `rows`, and the queries of the `first` and the `following` page, each None if
    there is none.

    Args:
        key: as `weft.api.paging.page`.
        asked: what else the list was asked for by.
    """
    found, marker = page(rows, key, PageOf(limit=limit, marker=after))
    asked = asked or {}
    return {
        "rows": found,
        "first": None if after is None else urlencode(asked),
        "following": None if marker is None else urlencode({**asked, "after": marker}),
    }
