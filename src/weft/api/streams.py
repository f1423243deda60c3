"""A pod's events as server-sent events, and how many streams there may be.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import cast
from uuid import UUID

from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from weft.api.asking import asker_again
from weft.api.together import together
from weft.api.waiting import room_of, watch_of
from weft.app.service import Service
from weft.app.verbs import Request
from weft.engine.rows.shownrecords import FoundPod
from weft.model.errors import TemporaryError, WeftError
from weft.model.views import EventSearch, EventView

MEDIA_TYPE = "text/event-stream"
COMMENT_SECONDS = 15.0
"""Seconds without news after which a stream sends a comment, so that proxies keep it open and a client that has gone is
noticed.
"""
RETRY = b"retry: 3000\n\n"
"""The client reconnects this many milliseconds after it lost the stream."""
OVER = b"event: over\ndata:\n\n"
"""The last message if the token has expired or the caller may no longer see the pod: the next request says why."""
STREAMS_OF_USER, MOST_STREAMS = 20, 1000
"""Streams of one user, and of all, in one process."""


class Streams:
    """Counts the streams of this process."""

    def __init__(self, of_user: int = STREAMS_OF_USER, most: int = MOST_STREAMS) -> None:
        self._of_user, self._most = of_user, most
        self._users: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(self._users.values())

    def response(self, user: str, events: AsyncGenerator[bytes]) -> Response:
        """A stream of a user; it counts from now until the response ends, read or not.

        Raises `HTTPException` if there are too many.
        """
        if self._users.get(user, 0) >= self._of_user or len(self) >= self._most:
            raise HTTPException(503, "too many streams are open; ask again later", {"Retry-After": "30"})
        self._users[user] = self._users.get(user, 0) + 1
        return _Stream(events, partial(self._end, user))

    def _end(self, user: str) -> None:
        self._users[user] -= 1
        if not self._users[user]:
            del self._users[user]


class _Stream(StreamingResponse):
    """A response with events, which asks proxies not to buffer it."""

    def __init__(self, events: AsyncGenerator[bytes], ended: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type=MEDIA_TYPE, headers=headers)
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._ended()


def streams_of(http: HttpRequest) -> Streams:
    """The application's streams."""
    return cast(Streams, http.app.state.streams)


def is_asked_for(http: HttpRequest) -> bool:
    """Whether the client wants a stream, and not a document."""
    return MEDIA_TYPE in http.headers.get("accept", "").lower()


def last_event_id(http: HttpRequest, after: int) -> int:
    """Where a stream continues: `Last-Event-ID`, which the client saw last, overrides `after`."""
    given = http.headers.get("last-event-id", "")
    return int(given) if given.isascii() and given.isdigit() and len(given) <= 18 else after


async def wait_together(
    http: HttpRequest,
    request: Request,
    search: EventSearch,
    watch: Callable[[Callable[[], None]], AbstractContextManager[None]],
) -> bool:
    """Wait for events after the search's position, together with all callers of the same rights who wait there.

    Returns whether the room needed the place.
    """
    rights = http.app.state.policy.rights(request.caller)
    what = ("events", search.all_projects, search.project, search.after, rights)
    return await room_of(http).until_together(what, watch, COMMENT_SECONDS)


async def pod_stream(
    http: HttpRequest, request: Request, verbs: Service, pod_id: UUID, after: int
) -> AsyncGenerator[bytes]:
    """A pod's events after a sequence number, as they happen, until the client goes, its token ends, or the room
    needs the place.

    Streams that are at the same event, of callers with the same rights, share each reading and its text.

    Args:
        request: of a caller who may see the pod's events; checked again each time something is sent.
    """
    yield RETRY
    try:
        while True:
            after, text = await _pod_news(http, request, verbs, pod_id, after)
            yield text
            watch = watch_of(verbs, pod_id, partial(_is_after, after))
            if await room_of(http).until_together(("pod", pod_id, after), watch, COMMENT_SECONDS):
                return
            request = await asker_again(http, request)
    except (ClientDisconnect, TemporaryError):
        return
    except WeftError:
        yield OVER


async def _pod_news(
    http: HttpRequest, request: Request, verbs: Service, pod_id: UUID, after: int
) -> tuple[int, bytes]:
    """The last event's sequence, and the events after `after` as a stream sends them."""

    def look() -> tuple[int, bytes]:
        found = verbs.pods.events(request, str(pod_id), after)
        return (found[-1].sequence, _written(found)) if found else (after, b":\n\n")

    async def read() -> tuple[int, bytes]:
        return await run_in_threadpool(look)

    return await together(http, request, ("pod events", pod_id, after), read, joins=True)


def _is_after(after: int, pod: FoundPod) -> bool:
    return pod.last_event > after


def _written(events: Sequence[EventView]) -> bytes:
    """Events as text, without an `event` field: a browser's EventSource uses the type `error` for a lost connection."""
    return b"".join(f"id: {e.sequence}\ndata: {e.model_dump_json()}\n\n".encode() for e in events)
