"""The version document at `/` and monitoring: /healthz, /readyz, /metrics.

Shape: OpenStack API SIG, "Microversion specification" and "Version discovery" (`versions` with id, status, links);
keystoneauth1.discover reads it.
"""

from __future__ import annotations

from typing import Any, cast

from anyio import to_thread
from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from weft.api.asking import Backend
from weft.api.bodies import answer
from weft.api.metrics import Metrics
from weft.api.threadshares import READ_SECONDS
from weft.model.views import Health
from weft.ports.patience import waiting_at_most

router = APIRouter(tags=["service"])


def _version(http: HttpRequest) -> dict[str, Any]:
    base = cast(str | None, http.app.state.public_url) or str(http.base_url)
    return {
        "id": "v1.0",
        "status": "CURRENT",
        "min_version": "",
        "version": "",
        "links": [{"rel": "self", "href": f"{base.rstrip('/')}/v1/"}],
    }


@router.get("/")
async def versions(http: HttpRequest) -> dict[str, Any]:
    """API versions, as discovered by OpenStack clients."""
    return {"versions": [_version(http)]}


@router.get("/v1")
@router.get("/v1/", include_in_schema=False)
async def version(http: HttpRequest) -> dict[str, Any]:
    """This version of the API."""
    return {"version": _version(http)}


@router.get("/healthz", response_class=Response)
async def healthz() -> Response:
    """Liveness: the process answers."""
    return Response("ok\n", media_type="text/plain")


@router.get("/readyz", response_model=Health, responses={503: {"model": Health}})
async def readyz(http: HttpRequest, verbs: Backend) -> Response:
    """Readiness: 503 with the failing part if weft can't work."""
    with waiting_at_most(READ_SECONDS, http.url.path):
        health = await to_thread.run_sync(verbs.health, limiter=http.app.state.watchers)
    return answer(health, 200 if health.ready else 503)


@router.head("/metrics", include_in_schema=False)
@router.get("/metrics", response_class=Response)
async def metrics(http: HttpRequest) -> Response:
    """Prometheus metrics; counts only, no tenant data."""
    registry = cast(Metrics, http.app.state.metrics).registry
    text = await to_thread.run_sync(generate_latest, registry, limiter=http.app.state.counters)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
