"""Numbers in sentences."""

from __future__ import annotations

from collections.abc import Sequence


def some(count: int, one: str, many: str = "") -> str:
    """`1 node`, `2 nodes`; `many` where it isn't `one` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def first_names(names: Sequence[str], most: int = 8) -> str:
    """The names with commas between; of many the first ones and `…`."""
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")
