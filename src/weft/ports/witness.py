"""Port: something outside the database that remembers how far the database had come."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Witness:
    """How far a database had come.

    Attributes:
        life: which database; a new one, or a restored one that was accepted, has another.
        number: how many claims it had made; it only grows.
    """

    life: UUID
    number: int


class Witnesses(Protocol):
    """A note in the cloud that is weft's own: no tenant can change it, and no restored dump takes it back."""

    def witness(self, site: str) -> Witness | None:
        """The note of this site; None if there is none. Raises `UnknownError`."""
        ...

    def testify(self, site: str, witness: Witness) -> None:
        """Put this note there, and take older ones away. Raises `TemporaryError`, `UnknownError`, `PermanentError`."""
        ...
