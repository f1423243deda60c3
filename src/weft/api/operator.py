"""The operator's part of the API: site, nodes, audit, audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from weft.api.asking import (
    Asker,
    Door,
    LargeBody,
    Named,
    SmallBody,
    answer,
    body_schema,
    document,
    plain_object,
)
from weft.api.documents import AuditLog, NodeList, QuarantineRequest, RepairRequest
from weft.model.site import Site
from weft.model.views import AuditReport, FabricComparison, NodeView, SiteView

router = APIRouter(prefix="/v1", tags=["operator"])


@router.get("/site", response_model=SiteView)
def show_site(request: Asker, verbs: Door) -> Response:
    """The site in force, with the live state of its fabrics' managers."""
    return answer(verbs.show_site(request))


@router.put("/site", response_model=SiteView, openapi_extra=body_schema(Site))
def apply_site(request: Asker, verbs: Door, body: LargeBody) -> Response:
    """Put a site into force; its generation grows."""
    return answer(verbs.apply_site(request, plain_object(body)))


Fabric = Annotated[str | None, Query(description="Name of the fabric; none: the only one.")]


@router.get("/site/differences", response_model=FabricComparison)
def compare_fabric(request: Asker, verbs: Door, fabric: Fabric = None) -> Response:
    """The cables of the site in force against those that the fabric manager discovers now."""
    return answer(verbs.compare_fabric(request, fabric))


@router.post("/site/take-in-cables", response_model=SiteView)
def take_in_cables(request: Asker, verbs: Door, fabric: Fabric = None) -> Response:
    """Put a new generation of the site in force, with the cables as they are discovered now."""
    return answer(verbs.take_in_cables(request, fabric))


@router.get("/nodes", response_model=NodeList)
def nodes(request: Asker, verbs: Door) -> Response:
    """Nodes, and who holds them."""
    return answer(NodeList(nodes=tuple(verbs.nodes(request))))


@router.put("/nodes/{name}/quarantine", response_model=NodeView, openapi_extra=body_schema(QuarantineRequest))
def quarantine_node(request: Asker, verbs: Door, name: Named, body: SmallBody) -> Response:
    """Keep a node from being ordered."""
    return answer(verbs.quarantine_node(request, name, document(QuarantineRequest, body).reason))


@router.delete("/nodes/{name}/quarantine", response_model=NodeView)
def clear_node(request: Asker, verbs: Door, name: Named) -> Response:
    """Let a node be ordered again."""
    return answer(verbs.clear_node(request, name))


@router.get("/audit", response_model=AuditReport)
def audit(request: Asker, verbs: Door) -> Response:
    """Everything outside compared with what is owned; changes nothing."""
    return answer(verbs.audit(request))


@router.post("/audit", response_model=AuditReport, openapi_extra=body_schema(RepairRequest))
def repair(request: Asker, verbs: Door, body: SmallBody) -> Response:
    """The same, and mend what is weft's."""
    return answer(verbs.audit(request, repair=document(RepairRequest, body).repair))


@router.get("/audit-log", response_model=AuditLog)
def audit_log(
    request: Asker,
    verbs: Door,
    after: Annotated[int, Query(ge=0, le=2**63 - 1, description="Only entries with a higher sequence.")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many.")] = 1000,
) -> Response:
    """Who did what, when, from where, with what outcome."""
    return answer(AuditLog(entries=tuple(verbs.audit_log(request, after, limit))))
