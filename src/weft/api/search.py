"""/v1/search: finds objects by a name, id or address that people have in hand."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from weft.api.asking import Backend, may
from weft.api.bodies import answer
from weft.api.threadshares import outside
from weft.app.verbs import Request
from weft.model.views import SearchResult

router = APIRouter(prefix="/v1", tags=["search"])


@router.get("/search", response_model=SearchResult)
@outside()
def search(
    request: Annotated[Request, may("pods:list")],
    verbs: Backend,
    text: Annotated[
        str,
        Query(
            min_length=1,
            max_length=255,
            description="A name, id (also of OpenStack), GUID, MAC or IP address, P_Key or VLAN, whole.",
        ),
    ],
) -> Response:
    """What has exactly this value: the project's pods and networks; for operators, everything. At most 50 results."""
    return answer(verbs.search(request, text))
