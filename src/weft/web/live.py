"""A pod's page as it happens: server-sent events whose data is the page's changing parts.

https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from weft.api.streams import COMMENT_SECONDS, OVER, RETRY, last_event_id, streams_of
from weft.api.together import together
from weft.api.waiting import room_of, watch_of
from weft.app.verbs import Request
from weft.engine.rows.shownrecords import FoundPod
from weft.model.errors import TemporaryError, WeftError
from weft.web.pages import fragment
from weft.web.pods import checked, shown_pod
from weft.web.visits import Visit, Visitor

router = APIRouter()
GATHER_SECONDS = 1.0
"""Seconds between two events: a pod in progress changes many times a second."""


@router.get("/pods/{name}/live")
async def live(visit: Visitor, name: str, after: Annotated[int, Query(ge=0, le=1 << 62)] = 0) -> Response:
    """The pod's events after one; `Last-Event-ID` goes before `after`."""
    request = await _caller(visit, checked(name))
    pod = await run_in_threadpool(visit.verbs.pods.find, request, "pods:events", name)
    known = last_event_id(visit.http, after)
    events = _stream(visit, request, pod, known)
    return streams_of(visit.http).response(visit.session.contents.user_id, events)


async def _caller(visit: Visit, name: str, before: Request | None = None) -> Request:
    return await visit.asker("GET", f"/v1/pods/{name}/events", before)


async def _stream(visit: Visit, request: Request, pod: FoundPod, known: int) -> AsyncGenerator[bytes]:
    """Events until the client leaves, the session ends, or the waiting room needs the place; the browser reconnects."""
    name = str(pod.id)
    yield RETRY
    try:
        while True:
            if pod.last_event != known:
                text, shown = await _shared(visit, request, name, pod.last_event)
                known = max(pod.last_event, shown)
                yield _event(text, known)
                await asyncio.sleep(GATHER_SECONDS)
            else:
                yield b":\n\n"
            watch = watch_of(visit.verbs, pod.id, partial(_is_news, known))
            if await room_of(visit.http).until_together(("page", pod.id, known), watch, COMMENT_SECONDS):
                return
            if not await visit.goes_on():
                return
            request = await _caller(visit, name, request)
            pod = await run_in_threadpool(visit.verbs.pods.find, request, "pods:events", name)
    except (ClientDisconnect, TemporaryError):
        return
    except WeftError:
        yield OVER


def _is_news(known: int, now: FoundPod) -> bool:
    return now.last_event != known


async def _shared(visit: Visit, request: Request, name: str, last: int) -> tuple[str, int]:
    """`_news` for all streams of callers with the same rights. Args: last: newest event that it must include."""

    async def read() -> tuple[str, int]:
        return await run_in_threadpool(_news, visit, request, name)

    return await together(visit.http, request, ("pod", name, last), read, joins=True)


def _news(visit: Visit, request: Request, name: str) -> tuple[str, int]:
    shown = shown_pod(visit.verbs, request, name)
    return fragment(visit.http, "pod_news.html", **shown), shown["last"]


def _event(text: str, sequence: int) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines())
    return f"id: {sequence}\nevent: pod\n{lines}\n".encode()
