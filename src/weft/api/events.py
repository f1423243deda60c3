"""/v1/events: what happened to all pods of a project, or of all projects, as pages or as a stream."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from weft.api import streams
from weft.api.asking import Backend, asker_again, may
from weft.api.bodies import answer
from weft.api.together import together
from weft.api.waiting import room_of
from weft.app.service import Service
from weft.app.verbs import Request
from weft.model.errors import ConflictError, InputError, TemporaryError, WeftError
from weft.model.errortable import to_problem
from weft.model.messages import pods
from weft.model.messages.documents import coded
from weft.model.messages.orders import instead
from weft.model.views import EventPage, EventSearch

router = APIRouter(prefix="/v1", tags=["events"])


@router.get(
    "/events",
    response_model=EventPage,
    responses={200: {"content": {streams.MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
async def events(
    http: HttpRequest,
    request: Annotated[Request, may("events:list")],
    verbs: Backend,
    search: Annotated[EventSearch, Query()],
) -> Response:
    """What happened to all pods of the project. Nothing is inserted before a position later.

    `position` is the `after` of the next request. With `Accept: text/event-stream`, events are sent as they happen:
    `id` is the position, `data` the event; `Last-Event-ID` overrides `after`. 409 (in a stream `event: reset`) if the
    position is from before the database was restored or failed over: events may be lost, so read the pods themselves.
    `removed` (in a stream `event: removed`): events after the position were older than the site keeps them.
    """
    if streams.is_asked_for(http):
        if search.wait:
            raise InputError("wait", search.wait, instead("must be omitted for a stream"))
        given = http.headers.get("last-event-id", "").strip()
        if given:
            search = search.model_copy(update={"after": given[:255], "newest": None})
        await run_in_threadpool(verbs.events.may_read, request, search)
        stream = _stream(http, request, verbs, search)
        return streams.streams_of(http).response(request.caller.user_id, stream)
    found = await run_in_threadpool(verbs.events.page, request, search)
    if search.wait and not found.events and search.newest is None:
        await _wait(http, request, verbs, search, found.position, search.wait)
        request = await asker_again(http, request)
        found = await run_in_threadpool(verbs.events.page, request, search)
    return answer(found)


async def _wait(
    http: HttpRequest, request: Request, verbs: Service, search: EventSearch, position: str, seconds: float
) -> bool:
    """Wait for events after a position; returns whether the room needed the place. Raises `ClientDisconnect`."""
    watch = partial(verbs.events.watching, request, search, position)
    return await room_of(http).until(http, watch, seconds)


async def _stream(
    http: HttpRequest, request: Request, verbs: Service, search: EventSearch
) -> AsyncGenerator[bytes]:
    """Events as they happen, until the client goes, its token ends, or the room needs the place."""
    yield streams.RETRY
    try:
        while True:
            page, text = await _news(http, request, verbs, search)
            yield text
            search = search.model_copy(update={"after": page.position, "newest": None})
            if not page.more:
                watch = partial(verbs.events.watching, request, search, page.position)
                if await streams.wait_together(http, request, search, watch):
                    return
            request = await asker_again(http, request)
    except (ClientDisconnect, TemporaryError):
        return
    except ConflictError as error:
        yield _reset(error)
    except WeftError:
        yield streams.OVER


async def _news(
    http: HttpRequest, request: Request, verbs: Service, search: EventSearch
) -> tuple[EventPage, bytes]:
    """The events after the position, and their text in a stream. Streams of callers with the same rights that are at
    this position share one reading.
    """

    def look() -> tuple[EventPage, bytes]:
        page = verbs.events.page(request, search)
        return page, (_removed() if page.removed else b"") + _written(page)

    async def read() -> tuple[EventPage, bytes]:
        return await run_in_threadpool(look)

    return await together(http, request, ("events", search.model_dump_json()), read, joins=True)


def _written(page: EventPage) -> bytes:
    if not page.events:
        return b":\n\n"
    return b"".join(f"id: {e.position}\ndata: {e.model_dump_json()}\n\n".encode() for e in page.events)


def _removed() -> bytes:
    """The message that events between the reader's position and the next ones are gone."""
    data = coded("detail", pods.EVENTS_REMOVED())
    return f"event: removed\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def _reset(error: WeftError) -> bytes:
    """The last message of a stream. With the empty `id`, an `EventSource` reconnects without a position and gets
    everything that is kept.
    """
    problem = to_problem(error)
    data = {name: problem.get(name) for name in ("code", "params", "detail")}
    return f"event: reset\nid\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
