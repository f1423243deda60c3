"""`Database.gate` where no cloud remembers anything: in tools that change nothing outside."""

from __future__ import annotations

from collections.abc import Callable, Collection

from weft.model.errors import TemporaryError


class Ungated:
    """Says whether anything outside may be changed on the word of this database: always.

    `weft.engine.base.gate.Gate` is one that closes; what the methods do is said there.
    """

    def __init__(self) -> None:
        self.hurry: Callable[[], None] = lambda: None
        """Called when there is something to note soon."""

    def check(self, places: Collection[str] | None = None) -> None:
        """Raise what `closed` returns."""
        if (error := self.closed(places)) is not None:
            raise error

    def closed(
        self, places: Collection[str] | None = None, clouds: Collection[str] = ()
    ) -> TemporaryError | None:
        return None

    def is_behind(self) -> bool:
        return False

    def unread(self) -> frozenset[str]:
        return frozenset()

    def is_stopped(self) -> bool:
        return False

    def says(self) -> str:
        return "ok"

    def forget(self) -> None:
        return

    def found_behind(self, cloud: str) -> None:
        return

    def look(self) -> None:
        return

    def note(self, cloud: str, count: int | None) -> None:
        return

    def foretell(self) -> None:
        return
