"""/v1/capacity and /v1/reservations: what can be ordered, and what is reserved."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from weft.api.asking import Backend, Named, may
from weft.api.bodies import SmallBody, answer, body_schema, document
from weft.api.conditions import Revised, generation_of
from weft.api.documents import ReservationList
from weft.api.paging import PageOf, page
from weft.api.threadshares import outside
from weft.app.verbs import Request
from weft.model.ids import Duration
from weft.model.reservation import Reservation, ReservationView
from weft.model.views import CapacityHistory, CapacitySearch, CapacityView

Domain = Literal["leaf", "block", "hall", "building", "site"]
"""Levels for which sizes are reported."""

router = APIRouter(prefix="/v1", tags=["capacity"])


@router.get("/capacity", response_model=CapacityView)
@outside()
def capacity(
    request: Annotated[Request, may("capacity:show")],
    verbs: Backend,
    accelerator: Annotated[
        str | None, Query(description="Only nodes with accelerators of this type; ipu: IPUs.")
    ] = None,
    level: Annotated[
        Domain | None,
        Query(
            description="Only sizes within one domain of this level: nvlink_domain, leaf, block, hall, building, site."
        ),
    ] = None,
    duration: Annotated[Duration, Query(description="How long an order must be able to run.")] = "24h",
) -> Response:
    """What can be ordered now, by locality level and accelerator, and when more will be available."""
    return answer(verbs.capacity.show(request, accelerator, level, duration))


@router.get("/capacity/history", response_model=CapacityHistory)
def capacity_history(
    request: Annotated[Request, may("nodes:list")],
    verbs: Backend,
    search: Annotated[CapacitySearch, Query()],
) -> Response:
    """Nodes by type and state over time, and how many orders waited: workers note it every ten minutes."""
    return answer(verbs.capacity.history(request, search))


@router.get("/reservations", response_model=ReservationList)
def reservations(
    request: Annotated[Request, may("reservations:list")], verbs: Backend, wanted: Annotated[PageOf, Query()]
) -> Response:
    """List reservations, current and future, by name, in pages."""
    found, after = page(verbs.capacity.reservations(request), lambda one: (one.name,), wanted)
    return answer(ReservationList(reservations=found, next=after))


@router.post(
    "/reservations", response_model=ReservationView, status_code=201, openapi_extra=body_schema(Reservation)
)
@outside()
def create_reservation(
    request: Annotated[Request, may("reservations:change")], verbs: Backend, body: SmallBody
) -> Response:
    """Reserve nodes for a project."""
    made = verbs.capacity.reserve(request, document(Reservation, body))
    return answer(made, 201, f"/v1/reservations/{made.name}", made.revision)


@router.get("/reservations/{name}", response_model=ReservationView)
def show_reservation(
    request: Annotated[Request, may("reservations:list")], verbs: Backend, name: Named
) -> Response:
    """Show a reservation."""
    found = verbs.capacity.reservation(request, name)
    return answer(found, generation=found.revision)


@router.delete("/reservations/{name}", response_model=ReservationView)
def delete_reservation(
    request: Annotated[Request, may("reservations:change")],
    verbs: Backend,
    name: Named,
    if_match: Revised = None,
) -> Response:
    """Delete a reservation. 412 if it isn't of the revision in `If-Match`."""
    return answer(verbs.capacity.end_reservation(request, name, generation_of(if_match)))
