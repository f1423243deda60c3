"""Networks that tenants created in Neutron, with the state of each port; operators end a release that is stuck."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.asking import LONGEST_NAME
from weft.api.documents import AbandonRequest
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.model.errors import ConflictError, ForbiddenError, InputError
from weft.model.pod import PodState
from weft.model.views import NetworkSearch, NetworkView
from weft.web.confirming import AskedField, Confirmation, check_unchanged, confirmation, print_of
from weft.web.pods import checked
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/networks")
ROWS = 100
"""Networks on a page."""
SHOWN = 200
"""Ports and newest events on a network's page."""


@router.get("")
async def list_networks(
    visit: Visitor,
    every: Annotated[bool, Query(alias="all")] = False,
    marker: Annotated[str, Query(max_length=LONGEST_NAME)] = "",
) -> Response:
    """The project's, or those of all projects, by id, in pages."""
    request = await visit.caller("GET", "/v1/networks")
    given = {"all_projects": every, "limit": ROWS, **({"marker": marker} if marker else {})}
    search = validate(NetworkSearch, given, Positions())
    found = await run_in_threadpool(visit.verbs.networks.list, request, search)
    shown = {"all": "true"} if every else {}
    return visit.page(
        "networks.html",
        networks=found,
        every=every,
        may=visit.allowed,
        first=urlencode(shown) if marker else None,
        following=urlencode({**shown, "marker": found[-1].id}) if len(found) == ROWS else None,
    )


@router.get("/{name}")
async def show_network(visit: Visitor, name: str) -> Response:
    """One network: state and why, its ports, what happened."""
    found = await _network(visit, name)
    request = await visit.caller("GET", f"/v1/networks/{found.id}/events")
    events = await run_in_threadpool(visit.verbs.networks.events, request, found.id)
    again = await visit.caller("GET", f"/v1/networks/{found.id}")
    allowed = await run_in_threadpool(
        visit.verbs.permissions.allowed, again, ("networks:abandon",), found.project_id
    )
    return visit.page(
        "network.html",
        network=found,
        ports=found.ports[:SHOWN],
        events=events[::-1][:SHOWN],
        cut=len(events) > SHOWN,
        stuck=found.state is PodState.RELEASING and bool(allowed),
    )


@router.get("/{name}/abandon")
async def abandon_page(visit: Visitor, name: str) -> Response:
    """Page that says what abandoning a network's release means."""
    found = await _network(visit, name)
    request = await visit.caller("GET", f"/v1/networks/{found.id}")
    if not await run_in_threadpool(
        visit.verbs.permissions.allowed, request, ("networks:abandon",), found.project_id
    ):
        raise ForbiddenError(f"{request.caller.user_name} may not do networks:abandon")
    if found.state is not PodState.RELEASING:
        raise ConflictError(
            f"network {found.name} is {found.state}: only a release that can't finish is abandoned"
        )
    does = (
        f"The release can't finish: {found.reason}",
        "It ends although not everything was seen gone; a number that may still be in use isn't reused.",
        "This can't be undone.",
    )
    warnings = ("The receipt will never be clean. It names you and the reason.",)
    asked = (
        AskedField("reason", "Reason", 500),
        AskedField("name", "Type the network's name to confirm", 255, confirms=True),
    )
    own = f"/networks/{quote(found.id, safe='')}"
    title = f"Abandon the release of network {found.name}"
    hidden = {"seen": _seen(found)}
    return confirmation(
        visit,
        Confirmation(title, f"{own}/abandon", own, "Abandon the release", does, warnings, asked, hidden),
    )


@router.post("/{name}/abandon")
async def abandon(visit: Visitor, name: str) -> Response:
    """Abandon the network's release."""
    form = await visit.form(lambda: abandon_page(visit, name))
    found = await _network(visit, name)
    request = await visit.caller("POST", f"/v1/networks/{found.id}/abandon")
    await run_in_threadpool(visit.verbs.permissions.check, request, "networks:abandon")
    check_unchanged(form, _seen(found), f"network {found.name}")
    if form.get("name", "").strip() != found.name:
        raise InputError("name", form.get("name", "")[:64], f"{found.name}, to confirm")
    given = validate(AbandonRequest, {"reason": form.get("reason", "").strip()}, Positions())
    await run_in_threadpool(visit.verbs.networks.abandon, request, found.id, given.reason)
    return visit.to(f"/networks/{quote(found.id, safe='')}")


async def _network(visit: Visit, name: str) -> NetworkView:
    request = await visit.caller("GET", f"/v1/networks/{checked(name)}")
    return await run_in_threadpool(visit.verbs.networks.show, request, name)


def _seen(found: NetworkView) -> str:
    return print_of(found.id, found.state, found.since.isoformat())
