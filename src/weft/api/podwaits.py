"""What a request about a pod waits for (a state or an event), and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Query, Response
from fastapi import Request as HttpRequest
from pydantic import WithJsonSchema
from starlette.concurrency import run_in_threadpool

from weft.api.asking import asker_again
from weft.api.bodies import answer
from weft.api.waiting import GATHER, LONGEST_GATHER, LONGEST_WAIT, room_of, seconds_of, states_of
from weft.app.service import Service
from weft.app.verbs import Request
from weft.engine.rows.shownrecords import FoundPod
from weft.model.errors import TemporaryError
from weft.model.pod import PodState, wait_is_over
from weft.model.views import MOST_EVENTS


@dataclass(frozen=True, slots=True)
class WaitAim:
    """What a request waits for, and the longest time."""

    states: frozenset[PodState]
    seconds: float

    def over(self, now: FoundPod) -> bool:
        """Whether the pod is in one of the states, or can't get there any more."""
        return wait_is_over(self.states, now.state, now.changing)


def _seconds(longest: float) -> WithJsonSchema:
    return WithJsonSchema({"type": "number", "minimum": 0, "maximum": longest})


# Strings for FastAPI: their errors are shown only to callers who may see the pod, so they are parsed later.
Wait = Annotated[
    Annotated[str, _seconds(LONGEST_WAIT)] | None, Query(description="Seconds to wait. Default: 0.")
]
Until = Annotated[
    Annotated[str, WithJsonSchema({"type": "string", "examples": ["READY"]})] | None,
    Query(
        description="Answer once the pod is in one of these states (separated by commas) with no change under way, or "
        "can't get there by itself: it FAILED or has passed them; or after `wait` seconds."
    ),
]
After = Annotated[
    Annotated[str, WithJsonSchema({"type": "integer", "minimum": 0})] | None,
    Query(description="Only events with a higher sequence number. Default: 0."),
]
Newest = Annotated[
    Annotated[str, WithJsonSchema({"type": "integer", "minimum": 1, "maximum": MOST_EVENTS})] | None,
    Query(description="Only this many of these events, the newest. Default: the first ones, in pages."),
]
Gather = Annotated[
    Annotated[str, _seconds(LONGEST_GATHER)] | None,
    Query(
        description="Seconds after the first event that was waited for in which further ones are collected: "
        f"the longer, the fewer requests. Default: {GATHER}."
    ),
]


def aim_of(until: str | None, wait: str | None) -> WaitAim | None:
    """What a request waits for. Raises `InputError`."""
    if until is None and wait is None:
        return None
    states, seconds = states_of(until), seconds_of("wait", wait, LONGEST_WAIT)
    return WaitAim(states, seconds) if seconds else None


async def when_there(
    http: HttpRequest,
    before: Request,
    verbs: Service,
    found: Response | UUID,
    aim: WaitAim | None,
    status: int = 200,
    location: str | None = None,
    done: bool = False,
) -> Response:
    """The response to send: `found` if it is a `Response`; for a pod's id, the pod once it is in one of the states or
    the time is over.

    The caller and what they may see are checked again then.

    Args:
        before: the request as it began.
        done: the request has been carried out. It is answered even if Keystone can't check the caller by then: an error
            would suggest that the request may be repeated.
    """
    if isinstance(found, Response):
        return found
    assert aim is not None, "waits without states to wait for"
    await room_of(http).wait(http, verbs, found, aim.over, aim.seconds)
    try:
        request = await asker_again(http, before)
    except TemporaryError:
        if not done:
            raise
        request = before

    def show() -> Response:
        shown = verbs.pods.show(request, str(found))
        return answer(shown, status, location, shown.generation)

    return await run_in_threadpool(show)
