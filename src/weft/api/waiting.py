"""Long polls: requests that are answered when a pod reaches a state. A waiting request is a future, not a thread."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import cast
from uuid import UUID

from fastapi import Request as HttpRequest
from starlette.requests import ClientDisconnect

from weft.api.connections import most_connections
from weft.app.service import Service
from weft.engine.rows.shownrecords import FoundPod
from weft.model.errors import InputError
from weft.model.pod import PodState

LONGEST_WAIT = 60.0
"""Maximum `wait`, in seconds."""
LONGEST_GATHER = 10.0
"""Maximum `gather`, in seconds."""
GATHER = 0.2
"""Seconds after the first event that was waited for in which further ones are collected, unless `gather` says more."""


class WaitingRoom:
    """The waiting requests of this process.

    Args:
        most: beyond this number the longest-waiting request is answered, to leave connections for others.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most or max(1, most_connections() // 2)
        self._places: OrderedDict[object, Callable[[], None]] = OrderedDict()
        self._ended = False

    def __len__(self) -> int:
        return len(self._places)

    def end_all(self) -> None:
        """Answer all waiting requests now, and later ones at once: the server stops."""
        self._ended = True
        for end in self._places.values():
            end()

    async def wait(
        self,
        http: HttpRequest,
        verbs: Service,
        pod_id: UUID,
        over: Callable[[FoundPod], bool],
        seconds: float,
    ) -> bool:
        """Wait until `over` holds for the pod, the pod is gone, or the time is up. Raises `ClientDisconnect`.

        Returns whether the room needed the place: then the request must not wait again.
        """

        def watch(end: Callable[[], None]) -> AbstractContextManager[None]:
            def seen(pod: FoundPod | None) -> None:
                if pod is None or over(pod):
                    end()

            return verbs.watching(pod_id, seen)

        return await self.until(http, watch, seconds)

    async def until(
        self,
        http: HttpRequest,
        watch: Callable[[Callable[[], None]], AbstractContextManager[None]],
        seconds: float,
    ) -> bool:
        """As `wait`, until what `watch` is given is called, in any thread, or the time is up."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        needed = False

        def end() -> None:
            if not ended.done():
                ended.set_result(None)

        def leave() -> None:
            nonlocal needed
            needed = True
            end()

        def seen() -> None:
            with suppress(RuntimeError):  # the server's loop has ended
                loop.call_soon_threadsafe(end)

        gone = asyncio.create_task(_gone(http))
        gone.add_done_callback(lambda _: end())
        timer = loop.call_later(seconds, end)
        try:
            with self._place(leave), watch(seen):
                await ended
            if gone.done():
                raise ClientDisconnect
            return needed
        finally:
            timer.cancel()
            gone.cancel()

    @contextmanager
    def _place(self, end: Callable[[], None]) -> Generator[None]:
        mine = object()
        self._places[mine] = end
        if self._ended:
            end()
        if len(self._places) > self.most:
            self._places.popitem(last=False)[1]()
        try:
            yield
        finally:
            self._places.pop(mine, None)


def room_of(http: HttpRequest) -> WaitingRoom:
    """The application's waiting room."""
    return cast(WaitingRoom, http.app.state.waiting)


async def _gone(http: HttpRequest) -> None:
    """Return when the client closes its connection."""
    while (await http.receive())["type"] != "http.disconnect":
        pass


def states_of(text: str | None) -> frozenset[PodState]:
    """The states in `until`. Raises `InputError` for an unknown one."""
    allowed = f"states of a pod, separated by commas: {', '.join(PodState)}"
    names = [name.strip() for name in (text or "").split(",")]
    wrong = [name for name in names if name not in PodState.__members__]
    if wrong:
        raise InputError("until", wrong[0] or text, allowed)
    return frozenset(PodState(name) for name in names)


def seconds_of(field: str, text: str | None, longest: float, default: float = 0.0) -> float:
    """A number of seconds in a query. Raises `InputError`."""
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= longest:
        raise InputError(field, text, f"a number of seconds from 0 to {longest:.0f}")
    return value


def count_of(field: str, text: str, most: int) -> int:
    """A number of things in a query, from 1 on. Raises `InputError`."""
    if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= most:
        raise InputError(field, text, f"a whole number from 1 to {most}")
    return int(text)


def sequence_of(field: str, text: str | None) -> int:
    """An event's sequence in a query. Raises `InputError`."""
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InputError(field, text, "the sequence of an event, such as 17")
    return int(text)
