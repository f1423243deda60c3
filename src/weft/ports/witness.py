"""Port: a witness outside the database that remembers how far the database had come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Witness:
    """How far a database had come.

    Attributes:
        life: identifies the database; a new one, or a restored one that was accepted, has a different value.
        number: number of claims; it only increases.
    """

    life: UUID
    number: int


class Witnesses(Protocol):
    """A note in the cloud that belongs to weft: no tenant can change it, and restoring a dump doesn't revert it."""

    def witness(self, site: str) -> Witness | None:
        """The note of this site; None if there is none. Raises `UnknownError`."""
        ...

    def testify(self, site: str, witness: Witness) -> None:
        """Write this note, and delete older ones. Raises `TemporaryError`, `UnknownError`, `PermanentError`."""
        ...
