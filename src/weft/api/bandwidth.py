"""Bandwidth tests of pods and nodes: plans, measurements, and signed certificates."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from weft.api.asking import Backend, Named, may, may_with
from weft.api.bodies import KIB, answer, body_schema, json_object, raw_body
from weft.api.threadshares import outside
from weft.app.verbs import Request
from weft.model.bandwidth import MOST_NODES, BandwidthDocument, BandwidthPlan, SignedCertificate

LARGEST, MOST_VALUES = 16 * 1024 * KIB, 4_000_000
"""Bytes and values of a document: 64 nodes with 8 rails have 0.6 MB and 160,000."""
router = APIRouter(prefix="/v1")
Measurements = Annotated[bytes, Depends(raw_body(LARGEST, MOST_VALUES))]


@router.get("/pods/{name}/bandwidth/plan", response_model=BandwidthPlan, tags=["pods"])
def pod_bandwidth_plan(
    request: Annotated[Request, may_with("pods:bandwidth")], verbs: Backend, name: Named
) -> Response:
    """What `weft-check bandwidth` needs to test the pod's servers; the caller adds addresses and users for SSH."""
    return answer(verbs.bandwidth.pod_plan(request, name))


@router.post(
    "/pods/{name}/bandwidth",
    response_model=SignedCertificate,
    status_code=201,
    tags=["pods"],
    openapi_extra=body_schema(BandwidthDocument),
)
@outside()
def report_pod_bandwidth(
    request: Annotated[Request, may_with("pods:report_bandwidth")],
    verbs: Backend,
    name: Named,
    body: Measurements,
) -> Response:
    """Report what `weft-check bandwidth` measured in a pod. The answer is a signed certificate, which says that the
    pod's servers measured it; nothing changes for the nodes. At most one report every 10 s."""
    return answer(verbs.bandwidth.report_pod(request, name, json_object(body)), 201)


@router.get("/pods/{name}/bandwidth", response_model=SignedCertificate, tags=["pods"])
def pod_bandwidth(
    request: Annotated[Request, may_with("pods:bandwidth")], verbs: Backend, name: Named
) -> Response:
    """The signed certificate of the pod's last bandwidth test. 404 if none was reported."""
    return answer(verbs.bandwidth.show_pod(request, name))


@router.get("/bandwidth/plan", response_model=BandwidthPlan, tags=["operator"])
def nodes_bandwidth_plan(
    request: Annotated[Request, may("nodes:bandwidth")],
    verbs: Backend,
    node: Annotated[list[str], Query(min_length=1, max_length=MOST_NODES, description="Names of the nodes.")],
) -> Response:
    """What `weft-check bandwidth` needs to test these nodes."""
    return answer(verbs.bandwidth.nodes_plan(request, node))


@router.post(
    "/bandwidth",
    response_model=SignedCertificate,
    status_code=201,
    tags=["operator"],
    openapi_extra=body_schema(BandwidthDocument),
)
@outside()
def report_nodes_bandwidth(
    request: Annotated[Request, may("nodes:report_bandwidth")], verbs: Backend, body: Measurements
) -> Response:
    """Report what `weft-check bandwidth` measured on nodes. Where the site wants a bandwidth test, nodes that passed it
    can be accepted."""
    return answer(verbs.bandwidth.report_nodes(request, json_object(body)), 201)


@router.get("/nodes/{name}/bandwidth", response_model=SignedCertificate, tags=["operator"])
def node_bandwidth(
    request: Annotated[Request, may("nodes:bandwidth")], verbs: Backend, name: Named
) -> Response:
    """The signed certificate of a node's last bandwidth test that operators reported. 404 if there is none."""
    return answer(verbs.bandwidth.show_node(request, name))
