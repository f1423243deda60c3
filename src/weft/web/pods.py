"""Pages of pods: the list, and one pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.asking import LONGEST_NAME
from weft.app.explain import validate
from weft.app.service import Service
from weft.app.verbs import Request
from weft.app.yamltext import Positions
from weft.generate.login import login
from weft.model.errors import InputError, NotFoundError
from weft.model.pod import PodState
from weft.model.views import EventView, PodSearch
from weft.web.sitenav import DETAILS
from weft.web.visits import Visitor
from weft.web.waysout import WAYS, ways_of_pod

router = APIRouter()
ROWS = 50
"""Pods on a page."""
SHOWN_EVENTS = 200
"""Newest events on a pod's page; earlier ones are on pages of their own."""
POD_RULES = (
    "pods:operate",
    "pods:console",
    "pods:report",
    "pods:change",
    "pods:release",
    "pods:extend",
    "pods:retry",
    "pods:abandon",
    "pods:replace",
)
"""Rules of what can be done on a pod's page."""
OF_TENANTS = ("pods:", "events:", "webhooks:")
"""Prefixes of rules whose pages are for tenants, too."""


@router.get("/")
async def list_pods(
    visit: Visitor,
    state: Annotated[str, Query(max_length=20)] = "",
    marker: Annotated[str, Query(max_length=LONGEST_NAME)] = "",
) -> Response:
    """The project's pods, by name, in pages."""
    request = await visit.caller("GET", "/v1/pods")
    if request.caller.project_id is None:
        return visit.page("pods.html", pods=[], state="", states=list(PodState), following="", first=True)
    search = search_of({"state": state, "marker": marker})
    pods = await run_in_threadpool(visit.verbs.pods.list, request, search)
    more = {"state": state, "marker": pods[-1].marker} if len(pods) == ROWS else {}
    following = urlencode({name: value for name, value in more.items() if value})
    return visit.page(
        "pods.html", pods=pods, state=state, states=list(PodState), following=following, first=not marker
    )


def search_of(given: Mapping[str, str], **more: bool) -> PodSearch:
    """A page of a list of pods; texts that are empty don't count. Raises `InputError`."""
    if (state := given.get("state")) and state not in PodState.__members__:
        raise InputError("state", state, f"a state of a pod: {', '.join(PodState)}")
    texts = {name: value for name, value in given.items() if value}
    return validate(PodSearch, {**texts, **more, "limit": ROWS}, Positions())


@router.get("/pods/{name}")
async def show_pod(visit: Visitor, name: str) -> Response:
    """One pod: state and why, conditions, servers, timeline."""
    request = await visit.caller("GET", f"/v1/pods/{checked(name)}")
    shown = await run_in_threadpool(shown_pod, visit.verbs, request, name)
    return visit.page("pod.html", **shown)


def shown_pod(verbs: Service, request: Request, name: str) -> dict[str, Any]:
    """The values of a pod's page. Raises `NotFoundError`.

    The state is read after the events: what happens in between comes with the next event. The other way round a page
    would count an event as shown whose state it doesn't have.
    """
    found = verbs.pods.find(request, "pods:events", name)
    events, cut = newest_events(verbs, request, str(found.id))
    pod = verbs.pods.show(request, str(found.id))
    document = pod.model_dump(mode="json", include={"servers", "order"})
    codes = (pod.code, *(one.code for one in pod.conditions if one.status != "false"))
    rules = sorted({way.rule for way in WAYS.values() if way.rule})
    follow = verbs.permissions.allowed(request, rules, pod.project_id)
    details = verbs.permissions.allowed(request, (DETAILS,))
    may_follow = [rule for rule in follow if rule.startswith(OF_TENANTS) or details]
    logins = [(server, login(document, server.name)) for server in pod.servers]
    notes = [how.note.splitlines() for _, how in logins]
    alike = [note for note in (notes or [[]])[0] if all(note in one for one in notes)]
    return {
        "pod": pod,
        "events": events,
        "cut": cut,
        "servers": [
            (server, how.command, [note for note in own if note not in alike])
            for (server, how), own in zip(logins, notes, strict=True)
        ],
        "login_notes": alike,
        "out": ways_of_pod(str(found.id), [code for code in codes if code], may_follow),
        "last": events[0].sequence if events else 0,
        "may": verbs.permissions.allowed(request, POD_RULES, pod.project_id),
        "mapped": bool(details),
        "audits": bool(details) and "audit:check" in follow,
    }


def newest_events(verbs: Service, request: Request, pod: str) -> tuple[list[EventView], bool]:
    """The newest events of a pod, newest first, and whether there are earlier ones."""
    found = verbs.pods.events(request, pod, newest=SHOWN_EVENTS + 1)[::-1]
    return found[:SHOWN_EVENTS], len(found) > SHOWN_EVENTS


def checked(name: str) -> str:
    """A name in a path. Raises `NotFoundError` for an impossible one."""
    if "\0" in name or len(name) > LONGEST_NAME:
        raise NotFoundError("no such object")
    return name
