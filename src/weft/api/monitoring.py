"""/v1/monitoring: what Prometheus reads besides /metrics. Callers send the token of `weft serve --monitoring-token` as
`Authorization: Bearer`, or an operator's Keystone token as `X-Auth-Token`.

Format of the targets: Prometheus' HTTP service discovery (prometheus.io/docs/prometheus/latest/http_sd): a JSON list of
`{"targets": ["host:port"], "labels": {…}}`. An answer that isn't 200 leaves Prometheus with the targets that it has.
"""

from __future__ import annotations

import json
import secrets
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, Header, Query, Response
from fastapi import Request as HttpRequest
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool

from weft.api.asking import Backend, asker, check_parameters
from weft.api.threadshares import ThreadShares
from weft.app.monitoringverbs import Scraper
from weft.model.errors import UnauthenticatedError

LEFT_OUT = "Weft-Left-Out"
"""Header: how many things of the site or the pods were left out of the targets."""
_bearer = HTTPBearer(auto_error=False, description="The token of `weft serve --monitoring-token`.")
_token = APIKeyHeader(name="X-Auth-Token", auto_error=False, description="A Keystone token.")
_JSON = {"application/json": {"schema": {"type": "array", "items": {"type": "object"}}}}
_targets: dict[str, Any] = {
    "description": f"As Prometheus reads them. The header `{LEFT_OUT}` has how many are left out.",
    "content": _JSON,
}
_text: dict[str, Any] = {
    "description": "In Prometheus' text format.",
    "content": {"text/plain": {"schema": {"type": "string"}}},
}
_same: dict[str, Any] = {"description": "The targets are those of `If-None-Match`."}


async def _scraper(
    http: HttpRequest,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    token: Annotated[str | None, Depends(_token)],
    verbs: Backend,
) -> Scraper:
    """Who asks. Raises `UnauthenticatedError`, also if weft has no token to compare with."""
    if bearer is None and "authorization" in http.headers:
        raise UnauthenticatedError("Authorization without its scheme, or with another one: send it as Bearer")
    if bearer is None:
        request = await asker(http, token)
        found = await run_in_threadpool(verbs.monitoring.scraper, request)
        check_parameters(http)
        return found
    known = cast(str | None, http.app.state.monitoring_token)
    if known is None or not secrets.compare_digest(bearer.credentials.encode(), known.encode()):
        raise UnauthenticatedError("not the token of weft serve --monitoring-token")
    check_parameters(http)
    return Scraper()


MayScrape = Annotated[Scraper, Depends(_scraper)]
router = APIRouter(prefix="/v1/monitoring", tags=["operator"])


@router.get("/targets", response_class=Response, responses={200: _targets, 304: _same})
def monitoring_targets(
    scraper: MayScrape,
    verbs: Backend,
    job: Annotated[
        str,
        Query(
            min_length=1, max_length=40, description="Job of the site's `monitoring`, weft-bmcs or weft-vipu."
        ),
    ],
    if_none_match: Annotated[
        str | None, Header(description="ETag of the targets that the caller has.")
    ] = None,
) -> Response:
    """Targets of a job for Prometheus' HTTP service discovery, with their places as labels."""
    found = verbs.monitoring.targets(scraper, job)
    rows = [{"targets": [target], "labels": dict(labels)} for target, labels in found.groups]
    body = json.dumps(rows).encode()
    tag = f'"{sha256(body).hexdigest()[:32]}"'
    headers = {"ETag": tag, LEFT_OUT: str(len(found.left_out))}
    given = [one.strip().removeprefix("W/") for one in (if_none_match or "").split(",")]
    if tag in given or "*" in given:
        return Response(None, 304, headers)
    return Response(body, 200, headers, "application/json")


@router.get("/info", response_class=Response, responses={200: _text})
def monitoring_info(scraper: MayScrape, verbs: Backend) -> Response:
    """Metrics to join with others: their labels say which pod is on which node, and where adapters are cabled."""
    return Response(verbs.monitoring.info(scraper), media_type=CONTENT_TYPE_LATEST)


@router.get("/switches", response_class=Response, responses={200: _text})
async def monitoring_switches(http: HttpRequest, scraper: MayScrape, verbs: Backend) -> Response:
    """Counters of the ports of Ethernet switches, read now. A switch that doesn't answer within 20 s has
    `weft_switch_up` 0."""
    shares = cast(ThreadShares, http.app.state.shares)
    text = await shares.run("monitoring", partial(verbs.monitoring.switches, scraper))
    return Response(text, media_type=CONTENT_TYPE_LATEST)
