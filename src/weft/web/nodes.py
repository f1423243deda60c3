"""Operators' pages of nodes: the list, and one node with what can be done about it."""

from __future__ import annotations

from typing import Annotated, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.asking import LONGEST_NAME
from weft.api.threadshares import run_outside
from weft.api.together import together
from weft.app.explain import validate
from weft.app.service import Service
from weft.app.verbs import Request
from weft.app.yamltext import Positions
from weft.model.errors import ForbiddenError, NotFoundError
from weft.model.views import NodeHistory, NodePage, NodeSearch, NodeSort, NodeState, NodeView
from weft.web.pods import checked
from weft.web.sitenav import DETAILS
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site")
ROWS = 100
"""Nodes on a page."""
ENTRIES = 50
"""Entries of a node's history on a page."""
STATES: tuple[str, ...] = get_args(NodeState)
SORTS: tuple[str, ...] = get_args(NodeSort)
"""Orders of the list; site: as the site's file has them. By time: the earliest first, without a time last."""
LAST_PAGE = 10_000
Named = Annotated[str, Query(max_length=LONGEST_NAME)]


@router.get("/nodes")
async def list_nodes(
    visit: Visitor,
    state: Annotated[str, Query(max_length=20)] = "",
    rack: Named = "",
    leaf: Named = "",
    name: Named = "",
    sort: Annotated[str, Query(max_length=20)] = "site",
    number: Annotated[int, Query(alias="page", ge=1, le=LAST_PAGE)] = 1,
) -> Response:
    """A page of nodes: who has each, and what keeps it from new orders."""
    skip = (number - 1) * ROWS
    asked = {"state": state or None, "rack": rack, "leaf": leaf, "name": name, "sort": sort, "skip": skip}
    search = validate(NodeSearch, {**asked, "limit": ROWS}, Positions())
    request = await visit.caller("GET", "/v1/nodes")

    async def read() -> NodePage:
        return await run_outside(visit.http, request, lambda: visit.verbs.nodes.page(request, search))

    page = await together(visit.http, request, ("nodes", search.model_dump_json()), read)
    given = {"state": state, "rack": rack, "leaf": leaf, "name": name, "sort": sort if sort != "site" else ""}
    query = {key: value for key, value in given.items() if value}
    further = page.found > number * ROWS
    return visit.page(
        "site_nodes.html",
        nodes=page.nodes,
        given={**given, "sort": sort},
        counts={one: page.counts.get(one, 0) for one in STATES},
        states=STATES,
        sorts=SORTS,
        total=page.total,
        found=page.found,
        number=number,
        first=urlencode(query) if number > 1 else None,
        following=urlencode({**query, "page": number + 1}) if further else None,
    )


@router.get("/nodes/{name}")
async def show_node(
    visit: Visitor, name: str, before: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None
) -> Response:
    """One node, and a page of its history: entries before this one."""
    node = await node_of(visit, name)
    history, unread = await _history(visit, name, before)
    return visit.page(
        "site_node.html", node=node, may=visit.allowed, history=history, unread=unread, before=before
    )


async def _history(visit: Visit, name: str, before: int | None) -> tuple[NodeHistory | None, str]:
    """The node's history, or why it can't be shown; the rest of the page doesn't depend on it."""
    try:
        request = await visit.caller("GET", f"/v1/nodes/{name}/history")
        return await run_in_threadpool(visit.verbs.nodes.history, request, name, before, ENTRIES), ""
    except (ForbiddenError, NotFoundError) as error:
        return None, str(error)


@router.get("/stops")
async def stops(visit: Visitor) -> Response:
    """Holds and drains, by node."""
    request = await visit.caller("GET", "/v1/holds")
    holds = await run_outside(visit.http, request, lambda: visit.verbs.nodes.holds(request))
    drains = None
    if {"nodes:list", DETAILS} <= set(visit.allowed):
        again = await visit.caller("GET", "/v1/drains")
        drains = await run_outside(visit.http, again, lambda: visit.verbs.nodes.drains(again))
    return visit.page("site_stops.html", holds=holds, drains=drains, may=visit.allowed)


async def node_of(visit: Visit, name: str) -> NodeView:
    """A node as it is now. Raises `NotFoundError`."""
    request = await visit.caller("GET", f"/v1/nodes/{checked(name)}")

    def look() -> NodeView:
        try:
            return visit.verbs.nodes.show(request, name)
        except NotFoundError:
            gone = _gone(visit.verbs, request, name)
            if gone is None:
                raise
            return gone

    return await run_outside(visit.http, request, look)


def _gone(verbs: Service, request: Request, name: str) -> NodeView | None:
    """A node that left the site: what it is held or drained for if it returns, or what is kept of its history."""
    holds = tuple(one for one in verbs.nodes.holds(request) if one.node == name)
    drain = next((one for one in verbs.nodes.drains(request) if one.node == name), None)
    if not holds and drain is None:
        try:
            verbs.nodes.history(request, name, limit=1)  # without an entry there is no such node
        except (ForbiddenError, NotFoundError):
            return None
        reason = "the active site has no such node; its history is kept"
    else:
        reason = "the active site has no such node; holds and drains count if it returns"
    return NodeView(
        name=name, rack=None, leaf="-", state="not-compute", reason=reason, holds=holds, drain=drain
    )
