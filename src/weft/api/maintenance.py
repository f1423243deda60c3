"""/v1/nodes, /v1/holds and /v1/drains: who has nodes, and what keeps them from new orders."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from weft.api.asking import Backend, Named, may
from weft.api.bodies import SmallBody, answer, body_schema, document
from weft.api.conditions import Revised, generation_of
from weft.api.documents import (
    DrainList,
    HoldList,
    HoldRequest,
    NodeList,
    QuarantineRequest,
    ReportList,
    ReportPage,
)
from weft.api.paging import PageOf, page
from weft.app.verbs import Request
from weft.model.views import MOST_ENTRIES, Acceptance, DrainRequest, DrainResult, NodeHistory, NodeView

router = APIRouter(prefix="/v1", tags=["operator"])
PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f]+$"


@router.get("/nodes", response_model=NodeList)
def nodes(
    request: Annotated[Request, may("nodes:list")], verbs: Backend, wanted: Annotated[PageOf, Query()]
) -> Response:
    """List nodes and who holds them, by name, in pages."""
    found, after = page(verbs.nodes.list(request), lambda one: (one.name,), wanted)
    return answer(NodeList(nodes=found, next=after))


@router.put("/nodes/{name}/quarantine", response_model=NodeView, openapi_extra=body_schema(QuarantineRequest))
def quarantine_node(
    request: Annotated[Request, may("nodes:quarantine")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """Take a node out of service."""
    return answer(verbs.nodes.quarantine(request, name, document(QuarantineRequest, body).reason))


@router.delete("/nodes/{name}/quarantine", response_model=NodeView)
def clear_node(
    request: Annotated[Request, may("nodes:quarantine")],
    verbs: Backend,
    name: Named,
    if_match: Revised = None,
) -> Response:
    """Take a node out of quarantine. 412 if the quarantine isn't of the revision in `If-Match`."""
    return answer(verbs.nodes.clear(request, name, generation_of(if_match)))


@router.get("/nodes/{name}", response_model=NodeView)
def show_node(request: Annotated[Request, may("nodes:list")], verbs: Backend, name: Named) -> Response:
    """Show a node, who holds it, and what keeps it from new orders."""
    return answer(verbs.nodes.show(request, name))


@router.get("/nodes/{name}/history", response_model=NodeHistory)
def node_history(
    request: Annotated[Request, may("nodes:history")],
    verbs: Backend,
    name: Named,
    before: Annotated[
        int | None, Query(ge=0, le=2**63 - 1, description="Only entries with a lower sequence number.")
    ] = None,
    limit: Annotated[
        int, Query(ge=1, le=MOST_ENTRIES, description="Maximum number of entries.")
    ] = MOST_ENTRIES,
) -> Response:
    """What happened to a node, newest first: pods, replacements, failures, holds, drains, quarantines. Also for one
    that left the site."""
    return answer(verbs.nodes.history(request, name, before, limit))


@router.put("/nodes/{name}/hold", response_model=NodeView, openapi_extra=body_schema(HoldRequest))
def hold_node(
    request: Annotated[Request, may("nodes:hold")], verbs: Backend, name: Named, body: SmallBody
) -> Response:
    """Keep a node from being assigned until it is accepted. A pod that has it keeps it until it is released."""
    return answer(verbs.nodes.hold(request, name, document(HoldRequest, body).what))


@router.delete("/nodes/{name}/hold", response_model=Acceptance)
def accept_node(
    request: Annotated[Request, may("nodes:accept")],
    verbs: Backend,
    name: Named,
    what: Annotated[
        str | None, Query(max_length=200, description="Which hold ends; default: the only one.")
    ] = None,
    every: Annotated[bool, Query(alias="all", description="End all holds of the node.")] = False,
    without_test: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            pattern=PRINTABLE,
            description="Why it is accepted without the tests that the site wants.",
        ),
    ] = None,
    if_match: Revised = None,
) -> Response:
    """Accept a node. 409 if it isn't held for this, if it is held for several things and none is named, or if a
    test that the site wants hasn't passed. 412 if the highest revision of the holds that end isn't the one in
    `If-Match`."""
    revision = generation_of(if_match)
    return answer(verbs.nodes.accept(request, name, what, every, without_test, revision))


@router.get("/holds", response_model=HoldList)
def holds(
    request: Annotated[Request, may("nodes:list_holds")], verbs: Backend, wanted: Annotated[PageOf, Query()]
) -> Response:
    """List what nodes are held for, by whom, since when; by node, in pages."""
    found, after = page(verbs.nodes.holds(request), lambda one: (one.node, one.what), wanted)
    return answer(HoldList(holds=found, next=after))


@router.get("/reports", response_model=ReportPage)
def reports(
    request: Annotated[Request, may("nodes:list")], verbs: Backend, wanted: Annotated[PageOf, Query()]
) -> Response:
    """List nodes that projects have reported, and why; by node, in pages."""
    found, after = page(verbs.nodes.reports(request), lambda one: (one.node, one.project_id), wanted)
    return answer(ReportPage(reports=found, next=after))


@router.delete("/nodes/{name}/reports", response_model=ReportList)
def clear_report(
    request: Annotated[Request, may("nodes:clear_report")],
    verbs: Backend,
    name: Named,
    project: Annotated[
        str | None, Query(min_length=1, max_length=64, description="Only this project's, by id.")
    ] = None,
) -> Response:
    """Clear the reports of a node. 409 if there is none."""
    return answer(ReportList(reports=tuple(verbs.nodes.clear_report(request, name, project))))


@router.get("/drains", response_model=DrainList)
def drains(
    request: Annotated[Request, may("nodes:list")], verbs: Backend, wanted: Annotated[PageOf, Query()]
) -> Response:
    """List drained nodes, by whom, since when, and when they should be empty; by node, in pages."""
    found, after = page(verbs.nodes.drains(request), lambda one: (one.node,), wanted)
    return answer(DrainList(drains=found, next=after))


@router.post("/drains", response_model=DrainResult, openapi_extra=body_schema(DrainRequest))
def drain(request: Annotated[Request, may("nodes:drain")], verbs: Backend, body: SmallBody) -> Response:
    """Keep new orders from a node, or the nodes of a rack or leaf. Pods there stay until the time in `by` at least.

    409 if a reservation or booking couldn't be kept. Repeated, it replaces the time and the reasons.
    """
    return answer(verbs.nodes.drain(request, document(DrainRequest, body)))


@router.delete("/drains/{name}", response_model=DrainResult)
def undrain(
    request: Annotated[Request, may("nodes:drain")], verbs: Backend, name: Named, if_match: Revised = None
) -> Response:
    """Allow new orders again on a node, or on the nodes of a rack or leaf. 409 if none of them is drained. 412 if the
    highest revision of the drains that end isn't the one in `If-Match`."""
    return answer(verbs.nodes.undrain(request, name, generation_of(if_match)))
