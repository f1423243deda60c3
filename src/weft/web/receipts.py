"""A pod's receipt: shown, downloaded, and verified in the browser (`static/receipt.js`)."""

from __future__ import annotations

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from weft.generate.receipts import contents
from weft.model.receipt import SignedReceipt
from weft.web.pods import checked
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/pods/{name}")


@router.get("/receipt")
async def receipt_page(visit: Visitor, name: str) -> Response:
    """Page of a pod's receipt: what was read back at the release, and whether all of it is clean."""
    signed = await _receipt(visit, name)
    request = await visit.caller("GET", "/v1/receipt-key")
    key = await run_in_threadpool(visit.verbs.receipt_key, request)
    found = contents(signed.model_dump(mode="json"))
    return visit.page(
        "receipt.html", receipt=signed.receipt, signed=signed, found=found, key=key.public_key, name=name
    )


@router.get("/receipt.json")
async def download(visit: Visitor, name: str) -> Response:
    """The signed receipt, as `weft receipt verify` reads it."""
    signed = await _receipt(visit, name)
    headers = {"Content-Disposition": f'attachment; filename="receipt-{signed.receipt.pod_id}.json"'}
    return Response(signed.model_dump_json(), 200, headers, "application/json")


async def _receipt(visit: Visit, name: str) -> SignedReceipt:
    request = await visit.caller("GET", f"/v1/pods/{checked(name)}/receipt")
    return await run_in_threadpool(visit.verbs.pods.receipt, request, name)
