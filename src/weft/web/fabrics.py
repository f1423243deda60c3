"""Operators' pages of fabrics: what was read last and when, what managers say now, and cabling as it is seen."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.threadshares import run_outside
from weft.model.errors import ConflictError, WeftError
from weft.model.fabric import FabricStatus
from weft.model.views import FabricComparison
from weft.web.confirming import Confirmation, check_unchanged, confirmation, print_of, require
from weft.web.pods import checked
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site/fabrics")
SHOWN = 500
"""Differences that a page shows; the rest are counted."""


@router.get("")
async def fabrics(visit: Visitor, now: Annotated[bool, Query()] = False) -> Response:
    """The last readings with their age; with `now` what each manager says, which waits for them."""
    request = await visit.caller("GET", "/v1/site/fabrics")
    readings = await run_in_threadpool(visit.verbs.fabrics.readings, request)
    seen: tuple[FabricStatus, ...] = ()
    silent = ""
    if now:
        again = await visit.caller("GET", "/v1/site")
        try:
            seen = (await run_outside(visit.http, again, lambda: visit.verbs.site.show(again))).fabrics
        except WeftError as error:  # what was read before is shown all the same
            silent = str(error)
    return visit.page("site_fabrics.html", readings=readings, asked=now, seen=seen, silent=silent)


@router.get("/{name}")
async def cabling(visit: Visitor, name: str) -> Response:
    """Cables of the active site beside those that are discovered now."""
    found = await _compared(visit, name)
    return visit.page(
        "site_cabling.html",
        found=found,
        differences=found.differences[:SHOWN],
        further=max(0, len(found.differences) - SHOWN),
        may=visit.allowed,
    )


@router.get("/{name}/adopt")
async def adopt_page(visit: Visitor, name: str) -> Response:
    """Page that says what adopting the discovered cabling changes."""
    found = await _compared(visit, name)
    require(visit, await visit.caller("POST", "/v1/site/adopt-cabling"), "site:activate")
    _check_adoptable(found)
    own = f"/site/fabrics/{quote(name, safe='')}"
    does = (
        f"Activates generation {found.generation + 1} of the site, with the cables that are discovered now.",
        "Plans from then on follow these cables. Pods stay where they are.",
        *(one.what for one in found.differences[:50]),
        *([f"{len(found.differences) - 50} further differences"] if len(found.differences) > 50 else []),
    )
    warnings = ("A cable that is only unplugged leaves the site's description, too.",)
    title = f"Adopt the cabling of fabric {name}"
    hidden = {"seen": print_of(found)}
    return confirmation(visit, Confirmation(title, f"{own}/adopt", own, "Adopt", does, warnings, (), hidden))


@router.post("/{name}/adopt")
async def adopt(visit: Visitor, name: str) -> Response:
    """Adopt the discovered cabling, if it is still what was shown."""
    form = await visit.form()
    request = await visit.caller("POST", "/v1/site/adopt-cabling")
    await run_in_threadpool(visit.verbs.permissions.check, request, "site:activate")
    found = await _compared(visit, name)
    check_unchanged(form, print_of(found), f"the cabling of fabric {name}")
    _check_adoptable(found)
    await run_outside(visit.http, request, lambda: visit.verbs.fabrics.adopt_cabling(request, name), None)
    return visit.to(f"/site/fabrics/{quote(name, safe='')}")


async def _compared(visit: Visit, name: str) -> FabricComparison:
    request = await visit.caller("GET", "/v1/site/differences")
    checked(name)
    return await run_outside(visit.http, request, lambda: visit.verbs.fabrics.compare(request, name), None)


def _check_adoptable(found: FabricComparison) -> None:
    if not found.differences:
        raise ConflictError(
            f"the cabling of fabric {found.fabric} is as the site says: there is nothing to adopt"
        )
