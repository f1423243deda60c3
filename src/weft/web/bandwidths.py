"""Certificates of bandwidth tests, of a pod's servers and of a node: shown, downloaded, verified in the browser."""

from __future__ import annotations

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from weft.model.bandwidth import SignedCertificate
from weft.model.errors import NotFoundError
from weft.web.changes import pod_of
from weft.web.nodes import node_of
from weft.web.pods import checked
from weft.web.sitenav import node_path
from weft.web.visits import Visit, Visitor

router = APIRouter()
SHOWN = 100
"""Rows that each table shows; the certificate has all."""


@router.get("/pods/{name}/bandwidth")
async def pod_page(visit: Visitor, name: str) -> Response:
    """The last bandwidth test of a pod's servers, or the command that runs one."""
    pod = await pod_of(visit, name)
    how = f"weft pod verify-bandwidth {pod.name}"
    return await _page(visit, f"pod {pod.name}", f"/pods/{pod.id}", await _of_pod(visit, pod.id), how)


@router.get("/pods/{name}/bandwidth.json")
async def pod_download(visit: Visitor, name: str) -> Response:
    """The certificate of the pod as a file for `weft receipt verify`."""
    return _file(await _of_pod(visit, name))


@router.get("/site/nodes/{name}/bandwidth")
async def node_page(visit: Visitor, name: str) -> Response:
    """Operators' last bandwidth test of a node, or the command that runs one."""
    await node_of(visit, name)
    how = f"weft node verify-bandwidth {name} NODE …"
    return await _page(visit, f"node {name}", node_path(name), await _of_node(visit, name), how)


@router.get("/site/nodes/{name}/bandwidth.json")
async def node_download(visit: Visitor, name: str) -> Response:
    """The certificate of the node as a file for `weft receipt verify`."""
    return _file(await _of_node(visit, name))


async def _of_pod(visit: Visit, name: str) -> SignedCertificate | NotFoundError:
    request = await visit.caller("GET", f"/v1/pods/{checked(name)}/bandwidth")
    try:
        return await run_in_threadpool(visit.verbs.bandwidth.show_pod, request, name)
    except NotFoundError as none:
        return none


async def _of_node(visit: Visit, name: str) -> SignedCertificate | NotFoundError:
    request = await visit.caller("GET", f"/v1/nodes/{checked(name)}/bandwidth")
    try:
        return await run_in_threadpool(visit.verbs.bandwidth.show_node, request, name)
    except NotFoundError as none:
        return none


async def _page(
    visit: Visit, subject: str, own: str, signed: SignedCertificate | NotFoundError, how: str
) -> Response:
    """The page of a certificate. Args: own: the subject's page. how: the command that measures."""
    key = ""
    if isinstance(signed, SignedCertificate):
        request = await visit.caller("GET", "/v1/receipt-key")
        key = (await run_in_threadpool(visit.verbs.receipt_key, request)).public_key
    return visit.page(
        "bandwidth.html",
        subject=subject,
        own=own,
        how=how,
        signed=signed if isinstance(signed, SignedCertificate) else None,
        unread="" if isinstance(signed, SignedCertificate) else str(signed),
        key=key,
        most=SHOWN,
    )


def _file(signed: SignedCertificate | NotFoundError) -> Response:
    if isinstance(signed, NotFoundError):
        raise signed
    name = f"bandwidth-{signed.certificate.id}.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(signed.model_dump_json(), 200, headers, "application/json")
