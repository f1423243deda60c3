"""/v1/use: hours of nodes and accelerators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from weft.api.asking import Backend, may
from weft.api.bodies import answer
from weft.app.verbs import Request
from weft.model.views import UseReport, UseSearch

router = APIRouter(prefix="/v1", tags=["use"])


@router.get("/use", response_model=UseReport)
def use(
    request: Annotated[Request, may("use:show")], verbs: Backend, search: Annotated[UseSearch, Query()]
) -> Response:
    """Node and accelerator hours of the project in a period, or of all projects, from the holds that placement keeps.

    A node counts from its assignment until it was returned, its cleaning included; what goes on counts until now.
    """
    return answer(verbs.use(request, search))
