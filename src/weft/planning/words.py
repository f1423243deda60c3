"""Numbers in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model.errors import InputError


def some(count: int, one: str, many: str = "") -> str:
    """`1 node`, `2 nodes`; `many` where it isn't `one` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def first_names(names: Sequence[str], most: int = 8) -> str:
    """The names with commas between; of many the first ones and `…`."""
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")


def one_of(field: str, given: str | None, known: Sequence[str], what: str) -> str:
    """What is given, or the only one there is. Raises `InputError` if it isn't known, or must be given.

    Args:
        what: these are, for people.
    """
    if given is None and len(known) == 1:
        return known[0]
    if given is None or given not in known:
        raise InputError(field, given, f"{what}: {', '.join(known)}")
    return given
