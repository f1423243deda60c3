"""Health of nodes, of pods, and of the site."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import Field

from weft.api.asking import Backend, Named, may, may_with, path_name
from weft.api.bodies import answer
from weft.api.documents import NodeHealthPage
from weft.api.paging import PageOf, page
from weft.app.verbs import Request
from weft.model.views import (
    HealthGroup,
    HealthValue,
    NodeHealth,
    PartHistory,
    PodHealth,
    SiteHealth,
)

router = APIRouter(prefix="/v1", tags=["health"])


async def part_number(serial: Annotated[str, Path(description="Serial number, UUID or GUID.")]) -> str:
    """The number in the path. Raises `NotFoundError` for an impossible one."""
    return await path_name(serial)


Serial = Annotated[str, Depends(part_number)]


@router.get("/pods/{name}/health", response_model=PodHealth)
def pod_health(request: Annotated[Request, may_with("pods:show")], verbs: Backend, name: Named) -> Response:
    """Whether a pod and its nodes are well, and what that follows from; announced maintenance is a warning.

    Unknown is not healthy: something wasn't read, or not lately.
    """
    return answer(verbs.pods.health(request, name))


@router.get("/nodes/{name}/health", response_model=NodeHealth)
def node_health(request: Annotated[Request, may("nodes:list")], verbs: Backend, name: Named) -> Response:
    """Whether a node is well, and what that follows from, with the age of each. No cloud or fabric is asked."""
    return answer(verbs.nodes.health(request, name))


@router.get("/site/health", response_model=SiteHealth)
def site_health(
    request: Annotated[Request, may("nodes:list")],
    verbs: Backend,
    by: Annotated[HealthGroup, Query(description="What nodes of a group have in common.")] = "type",
) -> Response:
    """How many nodes are ok, have a warning, failed, or are unknown, in groups; each node is in one."""
    return answer(verbs.site.health(request, by))


class HealthsOf(PageOf):
    """Which nodes are wanted."""

    health: HealthValue | None = Field(default=None, description="Only nodes of this health.")


@router.get("/site/health/nodes", response_model=NodeHealthPage)
def node_healths(
    request: Annotated[Request, may("nodes:list")], verbs: Backend, wanted: Annotated[HealthsOf, Query()]
) -> Response:
    """List nodes with their health, by name, in pages."""
    every = verbs.nodes.healths(request)
    rows = (one for one in every if wanted.health in (None, one.health))
    found, after = page(rows, lambda one: (one.node,), wanted)
    return answer(NodeHealthPage(nodes=found, next=after))


@router.get("/parts/{serial}/history", response_model=PartHistory)
def part_history(
    request: Annotated[Request, may("nodes:history")], verbs: Backend, serial: Serial
) -> Response:
    """In which nodes a GPU or adapter was, by its number, and which of its checks failed there, newest first."""
    return answer(verbs.nodes.part_history(request, serial))
