"""/v1/links, /v1/pods/{name}/links, /v1/site/who-disturbs, /v1/site/loads: who is on which link of a fabric."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from weft.api.asking import Backend, Named, may, may_with
from weft.api.bodies import answer
from weft.api.documents import NodeLoadsPage
from weft.api.paging import PageOf, paged
from weft.api.threadshares import outside
from weft.app.verbs import Request
from weft.model.linkreading import Pattern
from weft.model.views import Disturbers, LinkAnswer, PodLinks

router = APIRouter(prefix="/v1")

Sending = Annotated[
    Pattern,
    Query(
        description="Which adapters of a pod are taken to send to each other: on the same rail, all, or neighbors in a "
        "ring on each rail."
    ),
]


@router.get("/links", response_model=LinkAnswer, tags=["operator"])
@outside()
def show_link(
    request: Annotated[Request, may("links:show")],
    verbs: Backend,
    target: Annotated[
        str, Query(min_length=1, max_length=255, description="A cable by one end: leaf01:7, gpu1/mlx5_0.")
    ],
    pattern: Sending = "rail",
) -> Response:
    """Which pods' paths use a cable, in both directions, and what it carries now."""
    return answer(verbs.fabrics.show_link(request, target, pattern))


@router.get("/pods/{name}/links", response_model=PodLinks, tags=["pods"])
@outside()
def pod_links(
    request: Annotated[Request, may_with("pods:links")],
    verbs: Backend,
    name: Named,
    pattern: Sending = "rail",
) -> Response:
    """Links of the fabric that a pod's paths use, and how many others share each; tenants see neither whose they
    are nor switches above leaves."""
    return answer(verbs.fabrics.pod_links(request, name, pattern))


@router.get("/site/who-disturbs", response_model=Disturbers, tags=["operator"])
@outside()
def who_disturbs(
    request: Annotated[Request, may("links:show")],
    verbs: Backend,
    pod: Annotated[str, Query(min_length=1, max_length=255, description="Id or name of the pod.")],
    pattern: Sending = "rail",
) -> Response:
    """Which other pods share links between switches with a pod, and which of them explains congestion there."""
    return answer(verbs.fabrics.who_disturbs(request, pod, pattern))


@router.get("/site/loads", response_model=NodeLoadsPage, tags=["operator"])
@outside()
def node_loads(
    request: Annotated[Request, may("links:show")], verbs: Backend, wanted: Annotated[PageOf, Query()]
) -> Response:
    """How much of its links to the fabric each node uses now; by name, in pages."""
    found = verbs.fabrics.node_loads(request)
    return answer(paged(NodeLoadsPage, found, "nodes", lambda one: (one.node,), wanted))
