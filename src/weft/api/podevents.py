"""/v1/pods/NAME/events: what happened to a pod, as a list or as a stream."""

from __future__ import annotations

import anyio
from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool

from weft.api import streams
from weft.api.asking import Asker, Backend, Named, asker_again, check_parameters
from weft.api.bodies import answer
from weft.api.documents import EventList
from weft.api.podwaits import After, Gather, Newest, Wait
from weft.api.waiting import (
    GATHER,
    LONGEST_GATHER,
    LONGEST_WAIT,
    count_of,
    room_of,
    seconds_of,
    sequence_of,
)
from weft.engine.rows.shownrecords import FoundPod
from weft.model.errors import InputError
from weft.model.messages.orders import instead
from weft.model.views import MOST_EVENTS

router = APIRouter(prefix="/v1/pods", tags=["pods"])


@router.get(
    "/{name}/events",
    response_model=EventList,
    responses={200: {"content": {streams.MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
async def pod_events(
    http: HttpRequest,
    request: Asker,
    verbs: Backend,
    name: Named,
    after: After = None,
    wait: Wait = None,
    gather: Gather = None,
    newest: Newest = None,
) -> Response:
    """What happened to a pod; with `wait`, once there is an event after `after`.

    With `Accept: text/event-stream`, events are sent as they happen: `id` is the sequence, `data` the event;
    `Last-Event-ID` overrides `after`.
    """
    last, seconds, together = 0, 0.0, 0.0
    most: int | None = None

    def read(name: str) -> Response:
        found = verbs.pods.events(request, name, last, most)
        return answer(EventList.of(found) if most is None else EventList(events=tuple(found)))

    def look() -> Response | FoundPod:
        """The events if no wait is needed, else the pod."""
        nonlocal last, seconds, together, most
        pod = verbs.pods.find(request, "pods:events", name)
        check_parameters(http)
        most = None if newest is None else count_of("newest", newest, MOST_EVENTS)
        last, seconds = sequence_of("after", after), seconds_of("wait", wait, LONGEST_WAIT)
        together = seconds_of("gather", gather, LONGEST_GATHER, GATHER)
        return pod if seconds and pod.last_event <= last else read(str(pod.id))

    if streams.is_asked_for(http):
        pod = await run_in_threadpool(verbs.pods.find, request, "pods:events", name)
        check_parameters(http)
        for field, given in (("wait", wait), ("gather", gather), ("newest", newest)):
            if given is not None:
                raise InputError(field, given, instead("must be omitted for a stream"))
        last = streams.last_event_id(http, sequence_of("after", after))
        events = streams.pod_stream(http, request, verbs, pod.id, last)
        return streams.streams_of(http).response(request.caller.user_id, events)
    found = await run_in_threadpool(look)
    if isinstance(found, Response):
        return found
    ends = anyio.current_time() + seconds
    await room_of(http).wait(http, verbs, found.id, lambda now: now.last_event > last, seconds)
    await anyio.sleep(max(0.0, min(together, ends - anyio.current_time())))
    request = await asker_again(http, request)
    return await run_in_threadpool(read, str(found.id))
