"""Long polls: requests that are answered when a pod reaches a state. A waiting request is a future, not a thread."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Generator, Hashable
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
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
"""Default of `gather`: seconds after the first event in which further ones are collected."""


class _SharedWait:
    """Requests that wait for the same event, on the server's loop. Args: forget: called once, when no more can join."""

    def __init__(self, forget: Callable[[], object]) -> None:
        self._forget = forget
        self._waiting: set[asyncio.Future[None]] = set()
        self._ends = ExitStack()
        self._over = False

    def begin(
        self, watch: Callable[[Callable[[], None]], AbstractContextManager[None]], seconds: float
    ) -> None:
        """Watch until `end` is called or the seconds are over. If `watch` raises, the wait ends too."""
        loop = asyncio.get_running_loop()

        def seen() -> None:
            with suppress(RuntimeError):  # the server's loop has ended
                loop.call_soon_threadsafe(self.end)

        timer = loop.call_later(seconds, self.end)
        self._ends.callback(timer.cancel)
        try:
            self._ends.enter_context(watch(seen))
        except BaseException:
            self.end()
            raise

    @contextmanager
    def joined(self, ended: asyncio.Future[None]) -> Generator[None]:
        """Finish `ended` when the wait ends. When the last one leaves, the wait ends."""
        self._waiting.add(ended)
        try:
            yield
        finally:
            self._waiting.discard(ended)
            if not self._waiting:
                self.end()

    def end(self) -> None:
        if self._over:
            return
        self._over = True
        self._forget()
        self._ends.close()
        for one in self._waiting:
            _finish(one)


def _finish(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


class WaitingRoom:
    """The waiting requests of this process.

    Args:
        most: beyond this number the longest-waiting request is answered, to leave connections for others.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most or max(1, most_connections() // 2)
        self._places: OrderedDict[object, Callable[[], None]] = OrderedDict()
        self._shared: dict[Hashable, _SharedWait] = {}
        self._ended = False

    def __len__(self) -> int:
        return len(self._places)

    def end_all(self) -> None:
        """Answer all waiting requests now, and further ones at once, because the server stops."""
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

        return await self.until(http, watch_of(verbs, pod_id, over), seconds)

    async def until(
        self,
        http: HttpRequest,
        watch: Callable[[Callable[[], None]], AbstractContextManager[None]],
        seconds: float,
    ) -> bool:
        """Like `wait`, until the function that `watch` is given is called, in any thread, or the time is up."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()
        needed = False

        def end() -> None:
            _finish(ended)

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

    async def until_together(
        self,
        what: Hashable,
        watch: Callable[[Callable[[], None]], AbstractContextManager[None]],
        seconds: float,
    ) -> bool:
        """Like `until`, for streams: all who wait for the same share one watch, which ends after the first one's time.

        A client that disconnects isn't noticed here: its stream's response ends by itself.

        Args:
            what: calls with the same value share a watch.
        """
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        needed = False

        def leave() -> None:
            nonlocal needed
            needed = True
            _finish(ended)

        shared = self._shared.get(what)
        if shared is None:
            shared = self._shared[what] = _SharedWait(lambda: self._shared.pop(what, None))
            shared.begin(watch, seconds)
        with self._place(leave), shared.joined(ended):
            await ended
        return needed

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


def watch_of(
    verbs: Service, pod_id: UUID, over: Callable[[FoundPod], bool]
) -> Callable[[Callable[[], None]], AbstractContextManager[None]]:
    """Watches a pod until `over` holds for it, or it is gone."""

    def watch(end: Callable[[], None]) -> AbstractContextManager[None]:
        def seen(pod: FoundPod | None) -> None:
            if pod is None or over(pod):
                end()

        return verbs.pods.watching(pod_id, seen)

    return watch


def room_of(http: HttpRequest) -> WaitingRoom:
    """The application's waiting room."""
    return cast(WaitingRoom, http.app.state.waiting)


async def _gone(http: HttpRequest) -> None:
    """Return once the client has closed its connection."""
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
