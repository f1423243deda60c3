"""The interface of `Database.gate` (see `weft.engine.base.gate`), and a gate for tools that change nothing outside."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from weft.model.errors import TemporaryError


class Gated(Protocol):
    """Decides whether anything outside may be changed on the basis of this database."""

    hurry: Callable[[], None]

    def check(self, places: Collection[str] | None = None) -> None:
        """Raise what `closed` returns."""

    def closed(
        self, places: Collection[str] | None = None, clouds: Collection[str] = ()
    ) -> TemporaryError | None:
        """Why nothing may be changed at these places or in these clouds; None: changes are allowed."""
        ...

    def is_behind(self) -> bool:
        """Whether a cloud is known to remember more; False also while none can be read."""
        ...

    def unread(self) -> frozenset[str]:
        """Clouds whose note can't be read."""
        ...

    def is_stopped(self) -> bool:
        """Whether it is closed for anything, as far as known without asking."""
        ...

    def says(self) -> str:
        """`ok`, or why nothing is changed, as far as known without asking; everyone may read it."""
        ...

    def forget(self) -> None:
        """Discard what was read."""

    def found_behind(self, cloud: str) -> None:
        """Record that another process has read that the cloud remembers more."""

    def look(self) -> None:
        """Read every cloud's note now."""

    def note(self, cloud: str, count: int | None) -> None:
        """Let the cloud remember the count, if it doesn't."""

    def foretell(self) -> None:
        """Before a node is quarantined, let the clouds know of it."""


class Ungated:
    """No cloud remembers anything: always open."""

    def __init__(self) -> None:
        self.hurry: Callable[[], None] = lambda: None

    def check(self, places: Collection[str] | None = None) -> None:
        return

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
