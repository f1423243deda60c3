"""/v1/pods/{name}/map: a pod from its order to the ports of leaf switches."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response

from weft.api.asking import Backend, Named, may_with
from weft.api.bodies import answer
from weft.api.threadshares import outside
from weft.app.verbs import Request
from weft.model.views import PodMap

router = APIRouter(prefix="/v1/pods", tags=["operator"])


@router.get("/{name}/map", response_model=PodMap)
@outside()
def pod_map(request: Annotated[Request, may_with("pods:show")], verbs: Backend, name: Named) -> Response:
    """A pod's order, nodes, servers, ports and leaf ports: what is desired and what was observed, with the age of
    each reading.

    For operators.
    """
    return answer(verbs.pods.map(request, name))
