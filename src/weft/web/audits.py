"""Operators' pages of audits: findings, each repaired alone, and the log of who did what."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from weft.api.threadshares import run_outside
from weft.app.explain import validate
from weft.app.yamltext import Positions
from weft.model.errors import InputError, NotFoundError
from weft.model.views import AuditLogSearch, AuditReport, Finding
from weft.web.confirming import AskedField, Confirmation, check_unchanged, confirmation, print_of, require
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site")
CATEGORIES = ("orphan", "missing", "different", "foreign", "late", "unknown")
SHOWN = 200
"""Findings that a page shows; the rest are counted."""
ENTRIES = 50
Text = Annotated[str, Query(max_length=255)]
_AUDIT = "/site/audit"


@router.get("/audit")
async def audit_page(
    visit: Visitor,
    run: Annotated[bool, Query()] = False,
    category: Annotated[str, Query(max_length=20)] = "",
    kind: Text = "",
    pod: Text = "",
) -> Response:
    """The form that begins an audit; with `run` the findings of one, which asks clouds and fabrics now."""
    if category and category not in CATEGORIES:
        raise InputError("category", category, f"one of: {', '.join(CATEGORIES)}")
    request = await visit.caller("GET", "/v1/audit")
    require(visit, request, "audit:check")
    report = await _audited(visit) if run else None
    found = [
        one
        for one in (report.findings if report else ())
        if category in ("", one.category) and kind in ("", one.kind) and pod in ("", one.pod, one.pod_id)
    ]
    return visit.page(
        "site_audit.html",
        report=report,
        found=found[:SHOWN],
        further=max(0, len(found) - SHOWN),
        categories=CATEGORIES,
        given={"category": category, "kind": kind, "pod": pod},
        closed=any(one.kind == "database" for one in found),
        may=visit.allowed,
    )


@router.get("/audit/accept")
async def accept_page(visit: Visitor) -> Response:
    """Page that says what accepting a restored database means."""
    require(visit, await visit.caller("POST", "/v1/audit/accept"), "audit:repair")
    does = (
        "Audits everything, and then allows placement and changes again, whatever was found.",
        "Only after the database was restored or recreated, and the findings were looked at: what the database doesn't "
        "know may be a live pod.",
    )
    warnings = ("From then on weft changes clouds and fabrics by what this database says.",)
    asked = (AskedField("word", "Type accept to confirm", 20, confirms=True),)
    title = "Accept the database"
    return confirmation(visit, Confirmation(title, f"{_AUDIT}/accept", _AUDIT, title, does, warnings, asked))


@router.post("/audit/accept")
async def accept(visit: Visitor) -> Response:
    """Accept the restored database."""
    form = await visit.form(lambda: accept_page(visit))
    if form.get("word", "").strip() != "accept":
        raise InputError("word", form.get("word", "")[:20], "accept, to confirm")
    request = await visit.caller("POST", "/v1/audit/accept")
    await run_outside(visit.http, request, lambda: visit.verbs.audits.accept_database(request), None)
    return visit.to(_AUDIT)


@router.get("/audit/{key}")
async def repair_page(visit: Visitor, key: str) -> Response:
    """Page that says what the repair of a finding does, as an audit finds it now."""
    require(visit, await visit.caller("POST", "/v1/audit"), "audit:repair")
    finding = _finding(await _audited(visit), key)
    does = (
        f"Found: {finding.category}, {finding.kind} {finding.subject} in {finding.where}: {finding.what}",
        f"The repair: {finding.repair or 'nothing'}.",
        "Only this is repaired; of a pod that lacks something, the whole pod. It may take some minutes.",
    )
    asked: tuple[AskedField, ...] = ()
    warnings: tuple[str, ...] = ()
    if _is_unknown_pods(finding):
        warnings = (
            f"The database doesn't know pod {finding.pod_id}: after a restore of an older dump it may be live.",
        )
        asked = (AskedField("unknown", "Type the pod's id to confirm that it has ended", 36, confirms=True),)
    elif not finding.repairable:
        does = (*does[:2], "weft doesn't repair this: remove the cause, and audit again.")
    return confirmation(
        visit,
        Confirmation(
            f"Repair {finding.kind} {finding.subject}",
            f"{_AUDIT}/{finding.key}",
            f"{_AUDIT}?run=true",
            "Repair",
            does,
            warnings,
            asked,
            {"seen": _seen(finding)},
            possible=finding.repairable or bool(asked),
        ),
    )


@router.post("/audit/{key}")
async def repair(visit: Visitor, key: str) -> Response:
    """Repair one finding, if it is still as it was shown; and say what came of it."""
    form = await visit.form(lambda: repair_page(visit, key))
    request = await visit.caller("POST", "/v1/audit")
    await run_in_threadpool(visit.verbs.permissions.check, request, "audit:repair")
    finding = _finding(await _audited(visit), key)
    check_unchanged(form, _seen(finding), f"the finding about {finding.subject}")
    confirmed: tuple[str, ...] = ()
    if _is_unknown_pods(finding) and finding.pod_id:
        if form.get("unknown", "").strip() != finding.pod_id:
            raise InputError("unknown", form.get("unknown", "")[:64], f"{finding.pod_id}, to confirm")
        confirmed = (finding.pod_id,)
    report = await run_outside(
        visit.http, request, lambda: visit.verbs.audits.run(request, True, confirmed, (finding.key,)), None
    )
    done = next((one for one in report.findings if one.key == finding.key), None)
    return visit.page("site_repaired.html", before=finding, done=done, left=len(report.findings))


@router.get("/log")
async def log(
    visit: Visitor,
    user: Text = "",
    project: Text = "",
    action: Text = "",
    since: Text = "",
    before: Annotated[int | None, Query(ge=0, le=2**63 - 1)] = None,
) -> Response:
    """The audit log, newest first, in pages."""
    given = {"user": user, "project": project, "action": action, "since": since}
    query = {name: value for name, value in given.items() if value}
    search = validate(AuditLogSearch, {**query, "before": before, "limit": ENTRIES}, Positions())
    request = await visit.caller("GET", "/v1/audit-log")
    entries = await run_in_threadpool(visit.verbs.audits.log, request, search)
    further = {**query, "before": entries[-1].sequence} if len(entries) == ENTRIES else None
    return visit.page(
        "site_log.html",
        entries=entries,
        given=given,
        first=urlencode(query) if before is not None else None,
        following=urlencode(further) if further else None,
    )


async def _audited(visit: Visit) -> AuditReport:
    """An audit that changes nothing."""
    request = await visit.caller("GET", "/v1/audit")
    return await run_outside(visit.http, request, lambda: visit.verbs.audits.run(request), None)


def _finding(report: AuditReport, key: str) -> Finding:
    found = next((one for one in report.findings if one.key == key), None)
    if found is None:
        raise NotFoundError("an audit doesn't find this now: it is repaired, or is another finding by now")
    return found


def _seen(finding: Finding) -> str:
    """What the page showed of a finding, but for its sentences, in which times may change."""
    return print_of(finding.key, str(finding.repairable), finding.pod_id or "")


def _is_unknown_pods(finding: Finding) -> bool:
    """Whether it is of a pod that the database doesn't know: its end has to be confirmed before the repair."""
    return finding.category == "orphan" and finding.pod_id is not None and not finding.repairable
