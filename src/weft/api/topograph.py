"""/v1/pods/NAME/topograph: the service that topograph's provider `nscale` reads, so that topograph can read a pod.

Source: topograph 1.0.0 and 1.1.0, pkg/providers/nscale. It asks `radarApiUrl` for `/v1/topology` (1.0) or
`/v2/topology` (1.1), page by page until one is empty, and `instanceApiUrl` for `/v2/instances`, a plain list. Paths go
from the root to the leaf. It sends the token as `Authorization: Bearer`, which only these routes accept. Organization
and region are ignored: the project is the token's, the pod is in the path.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi import Request as HttpRequest
from fastapi.security import APIKeyHeader, HTTPAuthorizationCredentials, HTTPBearer

from weft.api.asking import Backend, Named, asker_as
from weft.api.topology import LEFT_OUT, left_out_header
from weft.app.verbs import Request
from weft.model.errors import UnauthenticatedError
from weft.model.views import TopologyFile
from weft.planning.fabric.podtopology import DOMAIN

MOST = 1000
"""Most rows of a page; what a larger limit leaves out comes with the next page."""
_JSON = "application/json"
_bearer = HTTPBearer(auto_error=False, description="A Keystone token; X-Auth-Token is accepted as well.")
_token = APIKeyHeader(name="X-Auth-Token", auto_error=False, description="A Keystone token.")


async def _asker(
    http: HttpRequest,
    bearer: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
    token: Annotated[str | None, Depends(_token)],
) -> Request:
    """The caller, by either header. Raises like `weft.api.asking.asker`, and for two headers that differ."""
    other = bearer.credentials if bearer else None
    if token and "authorization" in http.headers and other != token:
        raise UnauthenticatedError("X-Auth-Token and Authorization differ: send one of them")
    token = token or other
    return await asker_as(http, token, http.method, http.scope["path"])


def _may(request: Annotated[Request, Depends(_asker)], verbs: Backend, name: Named) -> Request:
    verbs.permissions.check(request, "pods:topology", name)
    return request


MayReadTopology = Annotated[Request, Depends(_may)]
router = APIRouter(prefix="/v1/pods/{name}/topograph", tags=["pods"])
_objects = {"type": "array", "items": {"type": "object"}}
_rows: dict[str, Any] = {
    "description": "In the format that topograph reads.",
    "content": {_JSON: {"schema": {"type": "object", "properties": {"results": _objects}}}},
}
_list: dict[str, Any] = {
    "description": "In the format that topograph reads.",
    "content": {_JSON: {"schema": _objects}},
}


@router.get("/v1/topology", response_class=Response, responses={200: _rows}, name="topograph_topology")
@router.get("/v2/topology", response_class=Response, responses={200: _rows}, name="topograph_topology_v2")
def topology(
    request: MayReadTopology,
    verbs: Backend,
    name: Named,
    limit: Annotated[int, Query(ge=1, description=f"Rows of the page, at most {MOST}.")] = 100,
    offset: Annotated[int, Query(ge=0, description="Rows before the page.")] = 0,
) -> Response:
    """Places of a pod's servers, for topograph's provider `nscale`; past the last one, an empty page."""
    file = verbs.pods.topology(request, name, "topograph")
    graph = json.loads(file.text)
    rows: list[dict[str, Any]] = [
        {
            "instance_id": one["id"],
            "server_id": one["id"],
            "network_node_path": one["network_layers"][::-1],
            "block_id": one.get("labels", {}).get(DOMAIN),
        }
        for one in graph["instances"][offset : offset + min(limit, MOST)]
    ]
    return _answer({"results": rows}, file)


@router.get("/v2/instances", response_class=Response, responses={200: _list}, name="topograph_instances")
def instances(request: MayReadTopology, verbs: Backend, name: Named) -> Response:
    """Ids and host names of a pod's servers, for topograph's provider `nscale`."""
    file = verbs.pods.topology(request, name, "topograph")
    found = json.loads(file.text)["instances"]
    return _answer([{"metadata": {"id": one["id"], "name": one["name"]}} for one in found], file)


def _answer(value: object, file: TopologyFile) -> Response:
    return Response(json.dumps(value), 200, {LEFT_OUT: left_out_header(file)}, _JSON)
