"""Pages of capacity (for everyone), the queue and reservations (for operators)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, get_args
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from pydantic import TypeAdapter, ValidationError
from starlette.concurrency import run_in_threadpool

from weft.api.capacity import Domain
from weft.api.threadshares import run_outside
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.generate.calendarpicture import Span, calendar
from weft.generate.capacitypicture import capacity_over_time
from weft.model.errors import InputError
from weft.model.ids import Duration
from weft.model.pod import PodState
from weft.model.reservation import Reservation, ReservationView
from weft.model.views import CapacityHistory, CapacitySearch, NodeState, PodSearch
from weft.web.confirming import AskedField, Confirmation, check_unchanged, confirmation, print_of, require
from weft.web.pods import checked
from weft.web.visits import Visit, Visitor

router = APIRouter()
DOMAINS = ("leaf", "block", "hall", "building", "site")
MOST_WAITING = 1000
"""Most orders that the page of the queue reads; it says so if there are more."""
_LIST = "/site/reservations"
WEEKS = (1, 4, 13, 52)
"""Weeks that the calendar of reservations shows at once."""
_EARLIEST, _LATEST = date(2000, 1, 1), date(2200, 1, 1)
SPANS = {"1d": timedelta(1), "7d": timedelta(7), "30d": timedelta(30), "365d": timedelta(365)}
"""Periods of capacity over time."""
POINTS, DRAWN = 48, 288
"""Moments on the page of capacity over time, and in its picture."""
Day = Annotated[str, Query(max_length=20)]
Weeks = Annotated[int, Query(ge=1, le=52)]
_DURATION: TypeAdapter[str] = TypeAdapter(Duration)


@router.get("/capacity")
async def capacity(
    visit: Visitor,
    accelerator: Annotated[str, Query(max_length=255)] = "",
    level: Annotated[str, Query(max_length=20)] = "",
    duration: Annotated[str, Query(max_length=20)] = "24h",
) -> Response:
    """Page of capacity: what can be ordered now, and when more will be."""
    if level and level not in DOMAINS:
        raise InputError("level", level, f"one of: {', '.join(DOMAINS)}")
    try:
        _DURATION.validate_python(duration)
    except ValidationError:
        allowed = "a whole number with a unit s, m, h or d, such as 90m, 12h or 7d"
        raise InputError("duration", duration, allowed) from None
    request = await visit.caller("GET", "/v1/capacity")
    domain: Domain | None = next((one for one in DOMAINS if one == level), None)
    view = await run_outside(
        visit.http, request, lambda: visit.verbs.capacity.show(request, accelerator or None, domain, duration)
    )
    given = {"accelerator": accelerator, "level": level, "duration": duration}
    return visit.page("capacity.html", view=view, given=given, levels=DOMAINS)


@router.get("/site/capacity")
async def capacity_history(visit: Visitor, span: Annotated[str, Query(max_length=4)] = "7d") -> Response:
    """Nodes by type and state over time, and how many orders waited."""
    found = await _noted(visit, span, POINTS)
    states = [
        one for one in get_args(NodeState) if any(one in of.states for p in found.points for of in p.nodes)
    ]
    return visit.page("site_capacity.html", found=found, span=span, spans=list(SPANS), states=states)


@router.get("/site/capacity.svg")
async def capacity_picture(visit: Visitor, span: Annotated[str, Query(max_length=4)] = "7d") -> Response:
    """Capacity over time as a picture, with more moments than the page's table."""
    found = await _noted(visit, span, DRAWN)
    text = capacity_over_time(found.points, found.since, found.until)
    return Response(text, 200, media_type="image/svg+xml")


async def _noted(visit: Visit, span: str, points: int) -> CapacityHistory:
    if span not in SPANS:
        raise InputError("span", span, f"one of: {', '.join(SPANS)}")
    request = await visit.caller("GET", "/v1/capacity/history")
    search = CapacitySearch(points=points)
    return await run_in_threadpool(visit.verbs.capacity.history, request, search, SPANS[span])


@router.get("/site/queue")
async def queue(visit: Visitor) -> Response:
    """Orders that wait, and bookings that begin later, of all projects: first those in the queue, by position."""
    request = await visit.caller("GET", "/v1/pods")
    search = PodSearch(all_projects=True, state=PodState.PENDING, limit=MOST_WAITING)
    pods = await run_in_threadpool(visit.verbs.pods.list, request, search)
    pods.sort(key=lambda pod: (pod.position is None, pod.position or 0, pod.created_at))
    return visit.page("site_queue.html", pods=pods, cut=len(pods) == MOST_WAITING)


@router.get(_LIST)
async def reservations(visit: Visitor, day: Day = "", weeks: Weeks = 4) -> Response:
    """Reservations, current and future, by start; the calendar begins on a day, by default Monday of this week."""
    found, now = await _reservations(visit)
    first = _first(day, now)
    step = timedelta(weeks=weeks)
    return visit.page(
        "site_reservations.html",
        reservations=sorted(found, key=lambda one: (one.start, one.name)),
        may=visit.allowed,
        shown=urlencode({"day": first.isoformat(), "weeks": weeks}),
        first=first,
        weeks=weeks,
        spans=WEEKS,
        earlier=urlencode({"day": max(_EARLIEST, first - step).isoformat(), "weeks": weeks}),
        later=urlencode({"day": min(_LATEST, first + step).isoformat(), "weeks": weeks}),
    )


@router.get(f"{_LIST}.svg")
async def reservations_picture(visit: Visitor, day: Day = "", weeks: Weeks = 4) -> Response:
    """The calendar alone."""
    found, now = await _reservations(visit)
    first = _first(day, now)
    spans = [
        Span(
            one.name,
            one.project_id,
            len(one.nodes),
            one.start.astimezone(UTC),
            one.end and one.end.astimezone(UTC),
        )
        for one in found
    ]
    text = calendar(spans, first, 7 * weeks, now)
    return Response(text, 200, media_type="image/svg+xml")


async def _reservations(visit: Visit) -> tuple[list[ReservationView], datetime]:
    """All reservations, and the present time by the database's clock, which they begin and end by."""
    request = await visit.caller("GET", "/v1/reservations")
    found, now = await run_in_threadpool(visit.verbs.capacity.calendar, request)
    return found, now.astimezone(UTC)


def _first(day: str, now: datetime) -> date:
    if not day:
        today = now.date()
        return today - timedelta(days=today.weekday())
    try:
        first = date.fromisoformat(day)
    except ValueError:
        raise InputError("day", day, "a day such as 2027-01-31") from None
    if not _EARLIEST <= first <= _LATEST:
        raise InputError("day", day, f"a day from {_EARLIEST} to {_LATEST}")
    return first


@router.get(f"{_LIST}/new")
async def new_page(visit: Visitor) -> Response:
    """Form for a new reservation: what, for whom and when."""
    require(visit, await visit.caller("POST", "/v1/reservations"), "reservations:change")
    does = (
        "Only this project may have the nodes in that time. Pods that have them now must end before it begins.",
        "It is refused if another project has or booked one of the nodes at that time.",
    )
    asked = (
        AskedField("name", "Name", 63),
        AskedField("project_id", "Project, by id or name", 64),
        AskedField("nodes", "Nodes, separated by spaces", 4000, False),
        AskedField("leaves", "Leaves, separated by spaces: all of their compute nodes", 4000, False),
        AskedField("start", "Start, such as 2027-01-31T18:00Z; empty: now", 40, False),
        AskedField("end", "End; empty: until it is deleted", 40, False),
        AskedField("reason", "Reason; may be empty", 500, False),
    )
    return confirmation(
        visit, Confirmation("Reserve nodes", f"{_LIST}/new", _LIST, "Reserve", does, (), asked)
    )


@router.post(f"{_LIST}/new")
async def create(visit: Visitor) -> Response:
    """Create the reservation."""
    form = await visit.form(lambda: new_page(visit))
    request = await visit.caller("POST", "/v1/reservations")
    await run_in_threadpool(visit.verbs.permissions.check, request, "reservations:change")
    texts = {name: form.get(name, "").strip() for name in ("name", "project_id", "start", "end", "reason")}
    given: dict[str, Any] = {name: value for name, value in texts.items() if value}
    given |= {name: form.get(name, "").split() for name in ("nodes", "leaves")}
    wanted = validate(Reservation, given, Positions())
    await run_outside(visit.http, request, lambda: visit.verbs.capacity.reserve(request, wanted))
    return visit.to(_LIST)


@router.get(f"{_LIST}/{{name}}/delete")
async def delete_page(visit: Visitor, name: str) -> Response:
    """Page that says what the project loses with the reservation."""
    seen, does = await _reservation(visit, name)
    require(visit, await visit.caller("DELETE", f"/v1/reservations/{name}"), "reservations:change")
    own = f"{_LIST}/{quote(name, safe='')}/delete"
    title = f"Delete reservation {name}"
    warnings = ("Others may order and book these nodes then. Pods that have nodes of it keep them.",)
    hidden = {"seen": print_of(seen)}
    return confirmation(visit, Confirmation(title, own, _LIST, title, does, warnings, (), hidden))


@router.post(f"{_LIST}/{{name}}/delete")
async def delete(visit: Visitor, name: str) -> Response:
    """Delete the reservation, if it is still the one that was shown."""
    form = await visit.form()
    request = await visit.caller("DELETE", f"/v1/reservations/{name}")
    await run_in_threadpool(visit.verbs.permissions.check, request, "reservations:change")
    seen, _ = await _reservation(visit, name)
    check_unchanged(form, print_of(seen), f"reservation {name}")
    await run_in_threadpool(visit.verbs.capacity.end_reservation, request, name, seen.revision)
    return visit.to(_LIST)


async def _reservation(visit: Visit, name: str) -> tuple[ReservationView, tuple[str, ...]]:
    """A reservation, and sentences that describe it. Raises `NotFoundError`."""
    request = await visit.caller("GET", f"/v1/reservations/{checked(name)}")
    one = await run_in_threadpool(visit.verbs.capacity.reservation, request, name)
    until = f"to {one.end.isoformat()}" if one.end else "without an end"
    more = f", and {len(one.nodes) - 50} others" if len(one.nodes) > 50 else ""
    does = (
        f"Project {one.project_id} has {len(one.nodes)} nodes reserved from {one.start.isoformat()} {until}: "
        f"{', '.join(one.nodes[:50])}{more}.",
        f"Made by {one.created_by}: {one.reason or 'no reason was given'}",
    )
    return one, does
