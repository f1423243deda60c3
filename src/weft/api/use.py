"""/v1/use: hours of nodes and accelerators."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from weft.api.asking import Backend, may
from weft.api.bodies import answer
from weft.api.documents import UsePage
from weft.api.paging import PageOf, page
from weft.app.verbs import Request
from weft.model.views import UseSearch

router = APIRouter(prefix="/v1", tags=["use"])


class UseOf(UseSearch, PageOf):
    """Period and projects whose use is asked for, and which part of the rows."""


@router.get("/use", response_model=UsePage)
def use(
    request: Annotated[Request, may("use:show")], verbs: Backend, search: Annotated[UseOf, Query()]
) -> Response:
    """Node and accelerator hours of the project in a period, or of all projects, from the holds that placement keeps;
    by project, pod, type and state, in pages.

    A node counts from its assignment until it is free again, cleaning included; current holds count until now. Ask
    for further pages with the `until` of the first one.
    """
    found = verbs.use(request, search)
    rows, after = page(
        found.rows,
        lambda one: (one.project_id or "", one.pod or "", one.pod_id or "", one.type, one.state),
        search,
    )
    return answer(UsePage.model_validate({**dict(found), "rows": rows, "next": after}))
