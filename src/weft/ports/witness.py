"""Port: a witness outside the database that remembers how far the database had come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Witness:
    """How far a database had come.

    Attributes:
        life: the note's own name. The database recorded it before the note was written: a database without it is a
            different one, or an older state.
        number: number of claims, changes of orders, releases and quarantines; it only increases.
    """

    life: UUID
    number: int


class Witnesses(Protocol):
    """A note in the cloud that belongs to weft: no tenant can change it, and restoring a dump doesn't revert it."""

    def witness(self, site: str) -> Witness | None:
        """This site's note, the one with the highest number if there are several; None: there is none.

        Raises `UnknownError`.
        """
        ...

    def testify(self, site: str, witness: Witness) -> None:
        """Write this note, and delete the site's notes with a lower number.

        Raises `TemporaryError`, `UnknownError`, `PermanentError`.
        """
        ...
