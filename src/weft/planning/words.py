"""Numbers in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model.errors import InputError
from weft.model.messages.orders import instead


def some(count: int, one: str, many: str = "") -> str:
    """`1 node`, `2 nodes`; `many` if the plural isn't `one` with an s."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def first_names(names: Sequence[str], most: int = 8) -> str:
    """The names separated by commas; of many only the first ones and `…`."""
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")


def one_of(field: str, given: str | None, known: Sequence[str], what: str) -> str:
    """The given name, or the only one. Raises `InputError` if it is unknown, or missing with several to choose from.

    Args:
        what: what they are, for people.
    """
    if given is None and len(known) == 1:
        return known[0]
    if given is None or given not in known:
        raise InputError(field, given, instead("{what}: {known}", what=what, known=", ".join(known)))
    return given
