"""Documents of weft-check, and nodes that report them."""

from __future__ import annotations

from typing import Any

from httpx import Client, Response

from weft.testing.callers import by


def result(code: str, subject: str = "host", status: str = "ok", **more: Any) -> dict[str, Any]:
    return {"code": code, "subject": subject, "status": status, "reason": "as read", "source": "/sys", **more}


def document(*results: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A document as `weft-check --json` prints it."""
    found = {one["status"] for one in results}
    return {
        "version": 1,
        "program": "weft-check 1.0",
        "when": "2026-11-29T10:00:00+00:00",
        "host": {"hostname": "gpu01", "serial": "S1", "product_uuid": "AAAA-BBBB"},
        "expected": None,
        "status": next((s for s in ("failed", "unknown", "ok") if s in found), "unknown"),
        "results": list(results),
        **more,
    }


def make_token(api: Client, node: str = "gpu01", **body: Any) -> dict[str, Any]:
    made = api.post(f"/v1/nodes/{node}/check-tokens", json=body, headers=by("operator"))
    assert made.status_code == 201, made.text
    return made.json()


def report(api: Client, token: str, given: Any, node: str = "gpu01") -> Response:
    """Sends the document with the node's token."""
    bare = Client(base_url=api.base_url, trust_env=False, timeout=60)
    with bare:
        return bare.post(f"/v1/nodes/{node}/checks", json=given, headers={"Authorization": f"Bearer {token}"})
