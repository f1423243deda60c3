"""What happens to all pods of a project, or of all projects, as a page that is updated live."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from weft.api.asking import LONGEST_NAME
from weft.api.streams import OVER, RETRY, streams_of, wait_together
from weft.api.together import together
from weft.app.verbs import Request
from weft.model.errors import ConflictError, TemporaryError, WeftError
from weft.model.views import EventPage, EventSearch
from weft.web.live import GATHER_SECONDS
from weft.web.pages import fragment
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/events")
SHOWN = 200
"""Most events on the page: the oldest are removed as new ones come."""
RESET = b"event: reset\ndata:\n\n"
"""Sent if the position is from before the database was restored: the page loads again."""
Every = Annotated[bool, Query(alias="all")]
Position = Annotated[str, Query(max_length=LONGEST_NAME)]


@router.get("")
async def events_page(visit: Visitor, every: Every = False) -> Response:
    """The newest events, newest first."""
    request = await visit.caller("GET", "/v1/events")
    search = EventSearch(all_projects=every, newest=SHOWN, limit=SHOWN)
    found = await run_in_threadpool(visit.verbs.events.page, request, search)
    rules = ("events:list_all_projects",)
    return visit.page(
        "events.html",
        events=found.events[::-1],
        most=SHOWN,
        every=every,
        others=await run_in_threadpool(visit.verbs.permissions.allowed, request, rules),
        query=urlencode({"after": found.position, **({"all": "true"} if every else {})}),
    )


@router.get("/live")
async def live(visit: Visitor, after: Position, every: Every = False) -> Response:
    """Events after a position, as rows of the page; `Last-Event-ID` goes before `after`."""
    known = visit.http.headers.get("last-event-id", "").strip()[:LONGEST_NAME] or after
    search = EventSearch(all_projects=every, after=known, limit=SHOWN)
    request = await visit.caller("GET", "/v1/events")
    await run_in_threadpool(visit.verbs.events.may_read, request, search)
    return streams_of(visit.http).response(
        visit.session.contents.user_id, _stream(visit, request, search, every)
    )


async def _stream(visit: Visit, request: Request, search: EventSearch, every: bool) -> AsyncGenerator[bytes]:
    """Events until the client leaves, the session ends, or the waiting room needs the place; the browser reconnects."""
    yield RETRY
    try:
        while True:
            page, text = await _shared(visit, request, search, every)
            yield text
            search = search.model_copy(update={"after": page.position})
            if page.events:
                await asyncio.sleep(GATHER_SECONDS)
            watch = partial(visit.verbs.events.watching, request, search, page.position)
            if not page.more and await wait_together(visit.http, request, search, watch):
                return
            if not await visit.goes_on():
                return
            request = await visit.asker("GET", "/v1/events", request)
    except (ClientDisconnect, TemporaryError):
        return
    except ConflictError:
        yield RESET
    except WeftError:
        yield OVER


async def _shared(
    visit: Visit, request: Request, search: EventSearch, every: bool
) -> tuple[EventPage, bytes]:
    """`_news` for all streams of callers with the same rights that are at the same position.

    A reading that began earlier may have fewer events: its readers come back at once.
    """

    async def read() -> tuple[EventPage, bytes]:
        return await run_in_threadpool(_news, visit, request, search, every)

    return await together(visit.http, request, ("event rows", every, search.after), read, joins=True)


def _news(visit: Visit, request: Request, search: EventSearch, every: bool) -> tuple[EventPage, bytes]:
    """The events after a position, also as the text that a stream sends."""
    page = visit.verbs.events.page(request, search)
    if not page.events:
        return page, b":\n\n"
    text = fragment(visit.http, "event_rows.html", events=page.events[::-1], every=every)
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return page, f"id: {page.position}\nevent: events\n{lines}\n".encode()
