"""One reading for all who ask for the same at the same time: pages of the whole site, and streams of the same news.

Unless a caller says otherwise, it never gets a reading that began before it asked, so a page shows what its viewer has
just changed: callers who come during a reading share the next one. Results aren't kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar, cast

from fastapi import Request as HttpRequest

from weft.app.verbs import Request
from weft.model.errors import ForbiddenError, UnauthenticatedError

T = TypeVar("T")


class SharedReadings:
    """The readings in progress in this process, for one event loop."""

    def __init__(self) -> None:
        self._running: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, key: Hashable, work: Callable[[], Awaitable[T]], joins: bool = False) -> T:
        """What `work` of the first of these callers returns or raises.

        Args:
            key: what is asked for, and the rights of the caller; calls with the same key share a reading.
            joins: a reading that has already begun is acceptable.
        """
        found = self._running.get(key) if joins else None
        if found is None:
            found = self._next.get(key)
        if found is None:
            found = asyncio.create_task(self._read(key, self._running.get(key), work))
            found.add_done_callback(_seen)
            self._next[key] = found
        return await asyncio.shield(found)  # a client that disconnects only ends its own wait

    async def _read(
        self, key: Hashable, before: asyncio.Task[Any] | None, work: Callable[[], Awaitable[T]]
    ) -> T:
        if before is not None:
            await asyncio.wait({before})
        mine = self._running[key] = self._next.pop(key)
        try:
            return await work()
        finally:
            if self._running.get(key) is mine:
                del self._running[key]


def _seen(task: asyncio.Task[Any]) -> None:
    """Mark the exception as seen: if all who waited have gone, asyncio would log that it was never retrieved."""
    if not task.cancelled():
        task.exception()


async def together(
    http: HttpRequest,
    request: Request,
    what: tuple[Hashable, ...],
    work: Callable[[], Awaitable[T]],
    joins: bool = False,
) -> T:
    """`SharedReadings.read` of this application, shared by callers with the same rights.

    Check what depends on more than these rights before, never in `work`: access rules of application credentials, for
    example. Refusals aren't shared: they name the caller, and may end its session.
    """
    rights = http.app.state.policy.rights(request.caller)
    try:
        return await cast(SharedReadings, http.app.state.together).read((*what, rights), work, joins)
    except (ForbiddenError, UnauthenticatedError):
        return await work()
