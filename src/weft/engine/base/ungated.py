"""The interface of `Database.gate` (see `weft.engine.base.gate`), and a gate for tools that change nothing outside."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from weft.model.errors import TemporaryError


class Gated(Protocol):
    """Says whether anything outside may be changed on the word of this database."""

    hurry: Callable[[], None]

    def check(self, places: Collection[str] | None = None) -> None: ...

    def closed(
        self, places: Collection[str] | None = None, clouds: Collection[str] = ()
    ) -> TemporaryError | None: ...

    def is_behind(self) -> bool: ...

    def unread(self) -> frozenset[str]: ...

    def is_stopped(self) -> bool: ...

    def says(self) -> str: ...

    def forget(self) -> None: ...

    def found_behind(self, cloud: str) -> None: ...

    def look(self) -> None: ...

    def note(self, cloud: str, count: int | None) -> None: ...

    def foretell(self) -> None: ...


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
