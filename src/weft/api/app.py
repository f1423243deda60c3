"""The HTTP API: `create_app` combines routes, errors and middleware."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from anyio import CapacityLimiter
from fastapi import APIRouter, FastAPI, Response
from fastapi import Request as HttpRequest
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from prometheus_client.registry import Collector
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException
from starlette.types import ExceptionHandler

import weft
from weft.api import (
    bandwidth,
    capacity,
    events,
    health,
    hostchecks,
    links,
    maintenance,
    monitoring,
    networks,
    operator,
    podevents,
    podmaps,
    pods,
    search,
    siteresources,
    topograph,
    use,
    versions,
    webhooks,
)
from weft.api.bodies import BODIES
from weft.api.documents import (
    Problem,
)
from weft.api.edge import Edge
from weft.api.etags import ETags
from weft.api.etags import describe as describe_tags
from weft.api.metrics import Metrics
from weft.api.streams import Streams
from weft.api.threadshares import ThreadShares
from weft.api.together import SharedReadings
from weft.api.waiting import WaitingRoom
from weft.app.explain import in_words
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.app.service import Service
from weft.model.errors import InputError, InputErrors, TemporaryError, UnauthenticatedError, WeftError
from weft.model.errortable import TYPE_PREFIX, row_of, to_problem
from weft.model.messages import errors, withheld
from weft.ports.cloud import Identity

STRANGERS = 20
"""Unknown tokens that Keystone checks at a time. They have threads of their own: while Keystone hangs, or is flooded
with random tokens, callers that it has vouched for are still answered.
"""
STRANGERS_SHARE, STRANGERS_WAITING = 8, 200
"""Unknown tokens of one address: how many are checked at a time, and how many more wait, for a limited time. Further
ones are refused.
"""
STRANGERS_MOST = 420
"""Requests with unknown tokens, checked or waiting, of all addresses."""
RETURNING, RETURNING_SHARE, RETURNING_WAITING = 20, 8, 400
"""The same limits, by project, for callers that Keystone had vouched for before they waited: strangers can't use up
their threads.
"""
WATCHERS = 4
"""Requests for health or metrics at a time, in threads of their own: they are answered however busy the verbs are."""
_PLAIN = {
    404: "no such path; /openapi.json lists all",
    405: "method not supported for this path",
}


_ROOMS = (
    versions,
    pods,
    podevents,
    events,
    webhooks,
    health,
    use,
    podmaps,
    bandwidth,
    links,
    topograph,
    capacity,
    networks,
    siteresources,
    operator,
    maintenance,
    monitoring,
    hostchecks,
    search,
)
"""Modules with routes, in the order of the documentation."""


def create_app(
    verbs: Service,
    identity: Identity,
    policy: Policy | None = None,
    *,
    collectors: Iterable[Collector] = (),
    public_url: str | None = None,
    auth_url: str = "",
    more: Iterable[APIRouter] = (),
    monitoring_token: str | None = None,
) -> FastAPI:
    """The API as an ASGI application.

    Args:
        policy: decides who sees operators' details; pass the same one to the verbs. None: the defaults.
        collectors: additional collectors for /metrics.
        public_url: how clients reach `/`, if a proxy in front changes it; None: as in the request.
        auth_url: Keystone's URL, returned to clients without a token.
        more: routes besides the API, with access rules of their own.
        monitoring_token: lets its holder read /v1/monitoring; None: only operators may.
    """
    app = FastAPI(
        title="weft",
        version=weft.__version__,
        description="Orders accelerators with an isolated RDMA network from an OpenStack cloud.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        generate_unique_id_function=lambda route: route.name,
        responses={"default": {"model": Problem, "description": "An error (RFC 9457)."}},
    )
    app.state.policy = policy or Policy()
    app.state.verbs = redacted(verbs, app.state.policy)
    app.state.identity = identity
    app.state.public_url = public_url
    app.state.monitoring_token = monitoring_token
    app.state.prefix = urlsplit(public_url or "").path
    app.state.challenge = f'Keystone uri="{auth_url}"' if auth_url else "Keystone"
    app.state.metrics = Metrics(collectors)
    app.state.parameters = {}
    app.state.waiting = WaitingRoom()
    app.state.streams = Streams()
    app.state.together = SharedReadings()
    app.state.shares = ThreadShares()
    app.state.strangers = ThreadShares(STRANGERS, STRANGERS_SHARE, STRANGERS_WAITING, STRANGERS_MOST)
    app.state.returning = ThreadShares(RETURNING, RETURNING_SHARE, RETURNING_WAITING)
    app.state.watchers = CapacityLimiter(WATCHERS)
    app.state.counters = CapacityLimiter(WATCHERS)
    for router in (*(room.router for room in _ROOMS), pods.receipts, *more):
        app.include_router(router)
    app.add_exception_handler(WeftError, cast(ExceptionHandler, _on_weft_error))
    app.add_exception_handler(HTTPException, cast(ExceptionHandler, _on_http_error))
    app.add_exception_handler(RequestValidationError, cast(ExceptionHandler, _on_bad_parameters))
    app.add_middleware(ETags)
    app.add_middleware(Edge, metrics=app.state.metrics)
    app.openapi = lambda: _openapi(app)
    return app


def _on_weft_error(http: HttpRequest, error: WeftError) -> Response:
    row = row_of(error)
    headers: dict[str, str] = {}
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = http.app.state.challenge
    problem = to_problem(error, _path(http), http.state.request_id)
    if isinstance(error, TemporaryError):
        headers["Retry-After"] = str(problem["retry_after"])
    return _problem(problem, row.status, headers)


def _on_http_error(http: HttpRequest, error: HTTPException) -> Response:
    """Requests refused by the router: unknown path, wrong method, too large, wrong type."""
    problem = {
        "type": f"{TYPE_PREFIX}http",
        "title": {404: "Not found", 405: "Method not allowed"}.get(error.status_code, "Bad request"),
        "status": error.status_code,
        "detail": _PLAIN.get(error.status_code, error.detail),
        "code": (withheld.ABSENT if error.status_code == 404 else errors.INVALID_INPUT).name,
        "params": {},
        "instance": _path(http),
        "request_id": http.state.request_id,
    }
    headers = dict(error.headers or {})
    if error.status_code == 405:  # the router lists only the methods of the first route
        headers["Allow"] = ", ".join(_methods(http) or sorted(headers.get("Allow", "").split(", ")))
    return _problem(problem, error.status_code, headers)


def _methods(http: HttpRequest) -> list[str]:
    """All methods of a path in the schema (RFC 9110 §10.2.1)."""
    app = cast(FastAPI, http.app)
    found: set[str] = set()
    for path, operations in app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", path), http.url.path):
            found |= {method.upper() for method in operations}
    return sorted(found)


def _on_bad_parameters(http: HttpRequest, error: RequestValidationError) -> Response:
    """Bad query parameters; `weft.api.bodies` reads bodies."""
    invalid = [
        InputError(str(e["loc"][-1]), e.get("input"), in_words(e["type"], e.get("ctx") or {}, str(e["msg"])))
        for e in error.errors()
    ]
    return _on_weft_error(http, InputErrors(invalid))


def _problem(
    problem: Mapping[str, object], status: int, headers: Mapping[str, str] | None = None
) -> Response:
    body = json.dumps(problem, default=str)
    return Response(body, status, headers, "application/problem+json")


def _path(http: HttpRequest) -> str:
    return http.url.path


TAGS: list[dict[str, Any]] = [
    {"name": "pods", "description": "Orders, and the pods made from them."},
    {"name": "capacity", "description": "What can be ordered."},
    {"name": "networks", "description": "Networks that tenants made in Neutron."},
    {"name": "events", "description": "What happened in a project, as one ordered stream."},
    {"name": "webhooks", "description": "Where events of a project are sent."},
    {"name": "health", "description": "Health of nodes, pods and the site, with reasons."},
    {
        "name": "receipts",
        "description": "What was read when a pod was released, and the key that verifies it.",
    },
    {"name": "use", "description": "Hours of nodes and accelerators."},
    {"name": "search", "description": "Search by a name, an id or an address."},
    {"name": "operator", "description": "The site, its nodes and fabrics, for operators."},
    {"name": "service", "description": "The service itself: versions, readiness, metrics."},
]
"""Groups of routes, with a description each."""


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's schema, plus the bodies that routes read themselves."""
    if not app.openapi_schema:
        schema = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            tags=TAGS,
            servers=[{"url": "/", "description": "The endpoint of the service type accelerator-pod."}],
        )
        _, definitions = models_json_schema(
            [(model, "validation") for _, model in sorted(BODIES.items())],
            ref_template="#/components/schemas/{model}",
        )
        _describe_errors(schema)
        describe_tags(schema)
        known = schema["components"]["schemas"]
        for name, definition in definitions["$defs"].items():
            known.setdefault(name, definition)
        app.openapi_schema = schema
    return app.openapi_schema


def _describe_errors(schema: dict[str, Any]) -> None:
    """Error responses: `application/problem+json`, never FastAPI's own 422."""
    for operations in schema["paths"].values():
        for operation in operations.values():
            responses = operation["responses"]
            content = responses["default"]["content"]
            content["application/problem+json"] = content.pop("application/json")
            if "HTTPValidationError" in str(responses.get("422", "")):
                del responses["422"]
    for name in ("HTTPValidationError", "ValidationError"):
        schema["components"]["schemas"].pop(name, None)
