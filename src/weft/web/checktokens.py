"""Tokens with which nodes report their own checks: list, make, revoke. A secret is on one answer, and nowhere else."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.asking import LONGEST_NAME
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.model.errors import InputError, NotFoundError
from weft.model.views import CheckTokenRequest, CheckTokenView
from weft.web.confirming import AskedField, Confirmation, check_unchanged, confirmation, print_of, require
from weft.web.listing import After, part_of
from weft.web.pods import checked
from weft.web.visits import Visit, Visitor

_LIST = "/site/check-tokens"
router = APIRouter(prefix=_LIST)
SHOWN = 500
"""Tokens on a page."""
Named = Annotated[str, Query(max_length=LONGEST_NAME)]


@router.get("")
async def list_tokens(visit: Visitor, node: Named = "", after: After = None) -> Response:
    """Tokens of all nodes, or of one; also of nodes that left the site."""
    request = await visit.caller("GET", "/v1/check-tokens")
    every = await run_in_threadpool(visit.verbs.checks.tokens, request, node or None)
    found = part_of(every, lambda one: (one.node, one.id), after, SHOWN, {"node": node} if node else {})
    return visit.page("site_check_tokens.html", **found, node=node, may=visit.allowed)


@router.get("/new")
async def new_page(visit: Visitor, node: Named = "") -> Response:
    """Form for a new token: its node, and until when it is valid."""
    await _may(visit, "POST", f"/v1/nodes/{quote(node or '-', safe='')}/check-tokens")
    does = (
        "The node's weft-check reports with it, and can do nothing else with it.",
        "The token is shown once, on the next page. Tokens that the node has already stay valid.",
    )
    asked = (
        AskedField("node", "Node", LONGEST_NAME, value=node),
        AskedField("until", "Until, such as 2027-01-31T18:00Z; empty: for a year", 40, False),
    )
    title = "Make a token of a node's checks"
    return confirmation(visit, Confirmation(title, f"{_LIST}/new", _LIST, "Make", does, (), asked))


@router.post("/new")
async def create(visit: Visitor) -> Response:
    """Create a token; only this answer has its secret."""
    form = await visit.form(lambda: new_page(visit))
    node, until = form.get("node", "").strip(), form.get("until", "").strip()
    request = await visit.caller("POST", f"/v1/nodes/{quote(checked(node) or '-', safe='')}/check-tokens")
    await run_in_threadpool(visit.verbs.permissions.check, request, "nodes:check_tokens")
    if not node:
        raise InputError("node", "", "a node of the site")
    wanted = validate(CheckTokenRequest, {"until": until} if until else {}, Positions())
    made = await run_in_threadpool(visit.verbs.checks.make_token, request, node, wanted.until)
    return visit.page("check_token.html", made=made)


@router.get("/{token}/revoke")
async def revoke_page(visit: Visitor, token: str) -> Response:
    """Page that says what the node can't do without the token."""
    one = await _token(visit, token)
    await _may(visit, "DELETE", f"/v1/check-tokens/{quote(token, safe='')}")
    used = f"It was used last {one.used_at.isoformat()}." if one.used_at else "It was never used."
    does = (f"Node {one.node} can't report its checks with this token any more. {used}",)
    title = f"Revoke token {one.id} of node {one.node}"
    own, hidden = f"{_LIST}/{quote(one.id, safe='')}/revoke", {"seen": _seen(one)}
    warnings = ("Its checks become old unless it gets another token.",)
    return confirmation(visit, Confirmation(title, own, _LIST, "Revoke", does, warnings, (), hidden))


@router.post("/{token}/revoke")
async def revoke(visit: Visitor, token: str) -> Response:
    """Revoke the token."""
    form = await visit.form()
    one = await _token(visit, token)
    check_unchanged(form, _seen(one), f"token {one.id}")
    request = await visit.caller("DELETE", f"/v1/check-tokens/{quote(one.id, safe='')}")
    await run_in_threadpool(visit.verbs.checks.revoke_token, request, one.id)
    return visit.to(_LIST)


async def _may(visit: Visit, method: str, path: str) -> None:
    require(visit, await visit.caller(method, path), "nodes:check_tokens")


async def _token(visit: Visit, token: str) -> CheckTokenView:
    """A token by its id. Raises `NotFoundError`."""
    request = await visit.caller("GET", "/v1/check-tokens")
    every = await run_in_threadpool(visit.verbs.checks.tokens, request)
    found = next((one for one in every if one.id == token), None)
    if found is None:
        raise NotFoundError(f"no token of a node's checks has the id {token[:64]}")
    return found


def _seen(one: CheckTokenView) -> str:
    return print_of(one.id, one.node, one.made_at.isoformat())
