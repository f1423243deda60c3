"""The pages of codes; no sign-in is needed to read the documentation."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi import Request as HttpRequest
from starlette.exceptions import HTTPException

from weft.web.pages import page
from weft.web.problems import problem_page
from weft.web.visits import session_of

router = APIRouter(prefix="/problems")


@router.get("/{code}")
async def problem(http: HttpRequest, code: str) -> Response:
    """Page of a code: what it means, and what to do."""
    found = problem_page(code)
    if found is None:
        raise HTTPException(404, "no such code")
    session = await session_of(http)
    return page(
        http, "problem.html", session if session and session.contents.stage == "in" else None, found=found
    )
