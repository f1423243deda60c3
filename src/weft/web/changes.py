"""Changes of a pod: release, after a page that says what is lost, and a longer lease."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from weft.model.errors import ConflictError, InputError
from weft.model.storageorder import StorageOrder
from weft.model.views import PodView
from weft.web.confirming import AskedField, Confirmation, confirmation
from weft.web.pods import checked
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/pods/{name}")
MOST_HOURS = 10_000


@router.get("/release")
async def release_page(visit: Visitor, name: str) -> Response:
    """Page that says what a release removes."""
    pod = await pod_of(visit, name)
    own = [entry for entry in pod.order.storage if entry.export is None]
    kept = [_named(entry) for entry in own if entry.keep or entry.existing]
    lost = [_named(entry) for entry in own if not (entry.keep or entry.existing)]
    refused = getattr(visit.http.state, "refused", None)
    return visit.page("release.html", pod=pod, lost=lost, kept=kept, problem=refused)


def _named(entry: StorageOrder) -> str:
    return f"{entry.kind} {entry.share or entry.volume or entry.scratch}"


@router.post("/release")
async def release(visit: Visitor, name: str) -> Response:
    """Release the pod whose name was typed."""
    form = await visit.form(lambda: release_page(visit, name))
    pod = await pod_of(visit, name)
    if form.get("name", "").strip() != pod.name:
        raise InputError(
            "name", form.get("name", "")[:64], f"{pod.name}, to confirm that this pod is released"
        )
    request = await visit.caller("POST", f"/v1/pods/{pod.id}/release")
    await run_in_threadpool(visit.verbs.pods.begin_release, request, pod.id)
    return visit.to(f"/pods/{pod.id}")


@router.get("/extend")
async def extend_page(visit: Visitor, name: str) -> Response:
    """When the lease ends, and the form that extends it."""
    pod = await pod_of(visit, name)
    if pod.lease_end is None:
        raise ConflictError(f"pod {pod.name} has no lease that could end later")
    own, end = f"/pods/{pod.id}", pod.lease_end.astimezone(UTC)
    does = (
        f"It ends at {end:%Y-%m-%d %H:%M:%S} UTC now; then the pod is released.",
        "It ends so much later, unless the nodes are promised to others by then.",
    )
    asked = (AskedField("hours", f"Hours, from 1 to {MOST_HOURS}", len(str(MOST_HOURS)), value="12"),)
    hidden = {"from": end.isoformat()}
    title = f"Extend the lease of pod {pod.name}"
    return confirmation(visit, Confirmation(title, f"{own}/extend", own, "Extend", does, (), asked, hidden))


@router.post("/extend")
async def extend(visit: Visitor, name: str) -> Response:
    """Extend the lease by some hours."""
    form = await visit.form(lambda: extend_page(visit, name))
    given = form.get("hours", "").strip()
    digits = given.isascii() and given.isdigit() and len(given) <= len(str(MOST_HOURS))
    if not digits or not 1 <= int(given) <= MOST_HOURS:
        raise InputError("hours", given[:20], f"a whole number of hours from 1 to {MOST_HOURS}")
    pod = await pod_of(visit, name)
    if pod.lease_end is None:
        raise ConflictError(f"pod {pod.name} has no lease that could end later")
    if (
        form.get("from") != pod.lease_end.astimezone(UTC).isoformat()
    ):  # sent twice, or another user extended it
        raise ConflictError(f"the lease of pod {pod.name} has changed: look at the page again")
    until = datetime.fromtimestamp(pod.lease_end.timestamp(), UTC) + timedelta(hours=int(given))
    request = await visit.caller("POST", f"/v1/pods/{pod.id}/extend")
    await run_in_threadpool(visit.verbs.pods.extend, request, pod.id, until)
    return visit.to(f"/pods/{pod.id}")


async def pod_of(visit: Visit, name: str) -> PodView:
    """A pod of a page. Raises `NotFoundError`."""
    request = await visit.caller("GET", f"/v1/pods/{checked(name)}")
    return await run_in_threadpool(visit.verbs.pods.show, request, name)
