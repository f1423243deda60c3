"""The operators' part of the API: site, audit, audit log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query, Response

from weft.api.asking import Backend, Named, may
from weft.api.bodies import (
    ROWS_SCHEMA,
    LargeBody,
    ListBody,
    PartBody,
    SmallBody,
    answer,
    body_schema,
    document,
    json_rows,
    plain_object,
)
from weft.api.conditions import existence_of, generation_of
from weft.api.documents import (
    AgentCertificateList,
    AuditLog,
    AuditPage,
    FabricReadings,
    LeafList,
    PartRows,
    RepairRequest,
)
from weft.api.paging import PageOf, page, paged
from weft.api.threadshares import outside
from weft.app.verbs import Request
from weft.model.sitefile import SiteDocument
from weft.model.siteparts import MissingParts, PartsQuestion, StoredPart
from weft.model.views import (
    MOST_IMPACT_PODS,
    SOME_IMPACT_PODS,
    AuditLogSearch,
    AuditReport,
    FabricComparison,
    Finding,
    ImpactView,
    SiteView,
)

IfMatch = Annotated[
    str | None,
    Header(description="Generation of the site that this is based on, quoted; 0: none yet; `*`: any."),
]
IfNoneMatch = Annotated[
    str | None, Header(description="`*`: only activate the first site, never replace one. Default: either.")
]

router = APIRouter(prefix="/v1", tags=["operator"])


@router.get("/site", response_model=SiteView)
@outside(None)
def show_site(request: Annotated[Request, may("site:show")], verbs: Backend) -> Response:
    """The active site, with the live state of its fabrics' managers."""
    return _tagged(verbs.site.show(request))


@router.put("/site", response_model=SiteView, openapi_extra=body_schema(SiteDocument))
@outside(None)
def activate_site(
    request: Annotated[Request, may("site:activate")],
    verbs: Backend,
    body: LargeBody,
    if_match: IfMatch = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Activate a site as a new generation. 412 if the generation in `If-Match` is no longer the active one.

    A long table is `{"parts": [SHA-256, …]}`; upload missing parts first.
    """
    exists = existence_of("site", if_match, if_none_match)
    base = 0 if exists is False else generation_of(if_match)
    return _tagged(verbs.site.activate(request, plain_object(body), base, exists is True))


@router.post("/site/parts/missing", response_model=MissingParts, openapi_extra=body_schema(PartsQuestion))
def missing_parts(
    request: Annotated[Request, may("site:activate")], verbs: Backend, body: ListBody
) -> Response:
    """Ask which parts must be uploaded before a site document that names them."""
    return answer(verbs.site.missing_parts(request, document(PartsQuestion, body).parts))


@router.put("/site/parts/{name}", response_model=StoredPart, openapi_extra=ROWS_SCHEMA)
@outside(None)
def send_part(
    request: Annotated[Request, may("site:activate")], verbs: Backend, name: Named, body: PartBody
) -> Response:
    """Upload rows of a table, a JSON list, under the SHA-256 of the body; this activates nothing."""
    json_rows(body)
    return answer(verbs.site.send_part(request, name, body))


@router.get("/site/parts/{name}", response_model=PartRows)
def site_part(request: Annotated[Request, may("site:show")], verbs: Backend, name: Named) -> Response:
    """Rows of a table of the active site, by the digest in its document."""
    return Response(b'{"rows":%b}' % verbs.site.part(request, name), media_type="application/json")


def _tagged(view: SiteView) -> Response:
    return answer(view, generation=view.generation)


Fabric = Annotated[str | None, Query(description="Name of the fabric; default: the only one.")]


@router.get("/site/fabrics", response_model=FabricReadings)
def fabric_readings(request: Annotated[Request, may("site:show")], verbs: Backend) -> Response:
    """What workers last read from each fabric's managers, with its age; no manager is asked."""
    return answer(FabricReadings(fabrics=tuple(verbs.fabrics.readings(request))))


@router.get("/site/leaves", response_model=LeafList)
def leaves(
    request: Annotated[Request, may("site:show")], verbs: Backend, wanted: Annotated[PageOf, Query()]
) -> Response:
    """List the leaves that nodes are on, with their block and uplinks, by fabric and name, in pages."""
    found, after = page(verbs.fabrics.leaves(request), lambda one: (one.fabric, one.name), wanted)
    return answer(LeafList(leaves=found, next=after))


@router.get("/site/certificates", response_model=AgentCertificateList)
def agent_certificates(
    request: Annotated[Request, may("site:certificates")],
    verbs: Backend,
    wanted: Annotated[PageOf, Query()],
) -> Response:
    """List certificates of the site's agents, and weft's own for them: when they end, and whether they are
    renewed. As workers last saw them, within six hours; no agent is asked."""
    found, after = page(
        verbs.site.certificates(request), lambda one: (one.fabric, one.kind, one.name), wanted
    )
    return answer(AgentCertificateList(certificates=found, next=after))


@router.get("/site/impact", response_model=ImpactView)
@outside()
def site_impact(
    request: Annotated[Request, may("site:impact")],
    verbs: Backend,
    target: Annotated[
        str,
        Query(
            min_length=1,
            max_length=255,
            description="A node, rack, switch or link, such as leaf01, leaf01:7 or gpu1/mlx5_0; `node:`, `rack:`, "
            "`switch:` or `link:` in front of a name that several have.",
        ),
    ],
    limit: Annotated[
        int, Query(ge=1, le=MOST_IMPACT_PODS, description="Maximum number of pods.")
    ] = SOME_IMPACT_PODS,
    place: Annotated[bool, Query(description="Whether to place each of these pods elsewhere.")] = True,
) -> Response:
    """What an outage would affect: nodes, reservations and bookings, and pods with the places where they would fit.
    Nothing is changed, and no cloud or fabric manager is asked."""
    return answer(verbs.site.impact(request, target, limit, place))


@router.get("/site/differences", response_model=FabricComparison)
@outside(None)
def compare_fabric(
    request: Annotated[Request, may("site:show")], verbs: Backend, fabric: Fabric = None
) -> Response:
    """Compare the cabling of the active site with the one that the fabric manager discovers now."""
    return answer(verbs.fabrics.compare(request, fabric))


@router.post("/site/adopt-cabling", response_model=SiteView)
@outside(None)
def adopt_cabling(
    request: Annotated[Request, may("site:activate")], verbs: Backend, fabric: Fabric = None
) -> Response:
    """Activate a new generation of the site with the discovered cabling."""
    return answer(verbs.fabrics.adopt_cabling(request, fabric))


@router.get("/audit", response_model=AuditPage)
@outside(None)
def audit(
    request: Annotated[Request, may("audit:check")], verbs: Backend, wanted: Annotated[PageOf, Query()]
) -> Response:
    """Compare cloud and fabric with what pods own; changes nothing. The findings are in pages, by category, kind and
    subject; each page is of an audit of its own."""
    found = verbs.audits.run(request)
    return answer(paged(AuditPage, found, "findings", _place_of, wanted))


def _place_of(one: Finding) -> tuple[str, ...]:
    """The key that findings are sorted by."""
    return (one.category, one.kind, one.where[:200], one.subject[:200], one.key, one.what[:200])


@router.post("/audit", response_model=AuditReport, openapi_extra=body_schema(RepairRequest))
@outside(None)
def repair(request: Annotated[Request, may("audit:repair")], verbs: Backend, body: SmallBody) -> Response:
    """Audit, and repair what is weft's."""
    wanted = document(RepairRequest, body)
    return answer(verbs.audits.run(request, wanted.repair, wanted.unknown_pods, wanted.findings or ()))


@router.post("/audit/accept", response_model=AuditReport)
@outside(None)
def accept(request: Annotated[Request, may("audit:repair")], verbs: Backend) -> Response:
    """Audit without changes, and allow placement and changes again after the database was restored or recreated."""
    return answer(verbs.audits.accept_database(request))


@router.get("/audit-log", response_model=AuditLog)
def audit_log(
    request: Annotated[Request, may("audit_log:list")],
    verbs: Backend,
    search: Annotated[AuditLogSearch, Query()],
) -> Response:
    """Who did what, when, from where, with what result; newest first."""
    return answer(AuditLog(entries=tuple(verbs.audits.log(request, search))))
