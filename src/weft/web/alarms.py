"""The operators' page of what needs attention: all that weft knows of, in groups, each alarm with its way out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from fastapi import APIRouter, Response
from starlette.concurrency import run_in_threadpool

from weft.api.threadshares import run_outside
from weft.api.together import together
from weft.app.verbs import Request
from weft.model.errors import NotFoundError, WeftError
from weft.model.messages import health
from weft.model.messages.message import Message
from weft.model.views import FabricReading, NetworkSearch, NetworkSummary, NodeState, PodSearch
from weft.web.sitenav import node_path
from weft.web.visits import Visit, Visitor

router = APIRouter(prefix="/site")
SHOWN = 50
"""Alarms of a group that the page shows; the rest are counted."""
MOST = 250
"""Alarms of pods or networks that are read for the page: a thousand took three times as long as any other page."""
PAGE = 1000
"""Networks that are read at once, in whatever state they are."""
_STATES: tuple[NodeState, ...] = ("quarantined", "failed")
OLD_READING = 300.0
"""Seconds after which a fabric's reading is an alarm; it is read every minute."""


@dataclass(frozen=True, slots=True)
class Alarm:
    """One alarm of a group.

    Attributes:
        what: a word or two, which the group's summary counts.
        why: further text; empty: none.
        path: of the page with its way out, below the console; empty: none.
    """

    subject: str
    what: str
    why: str = ""
    path: str = ""
    since: datetime | None = None
    code: str = ""

    @property
    def text(self) -> str:
        """`FAILED: no node is free`."""
        return f"{self.what}: {self.why}" if self.why else self.what


@dataclass(frozen=True, slots=True)
class Group:
    """Alarms of one kind.

    Attributes:
        summary: how many of what.
        further: number of alarms that the page doesn't show; at least so many, if the group has `MOST`.
        unread: why it isn't known whether there are any.
    """

    title: str
    alarms: tuple[Alarm, ...] = ()
    summary: str = ""
    unread: str = ""
    further: int = 0

    @property
    def more(self) -> str:
        """How many further ones there are, in words."""
        least = "At least " if len(self.alarms) + self.further >= MOST else ""
        return f"{least}{self.further} further ones."


@router.get("/alarms")
async def alarms(visit: Visitor) -> Response:
    """All groups; one that can't be read says so, and doesn't keep the others from the page."""
    request = await visit.caller("GET", "/v1/pods")
    await run_in_threadpool(visit.verbs.permissions.check, request, "pods:list_all_projects")
    return visit.page("site_alarms.html", groups=[await _group(visit, look) for look in _LOOKS])


async def _group(visit: Visit, look: _Look) -> Group:
    """The group as it is now, read once for all callers who may see it and ask at the same time."""
    if look.rule and look.rule not in visit.allowed:
        return Group(look.title, unread=f"not for this session: it needs the rule {look.rule}")
    try:
        request = await visit.asker("GET", look.path)
        return await together(
            visit.http, request, ("alarms", look.title), partial(_read, visit, request, look)
        )
    except WeftError as error:
        return Group(look.title, unread=str(error))


async def _read(visit: Visit, request: Request, look: _Look) -> Group:
    found = await look.read(visit, request)
    further = max(0, len(found) - SHOWN)
    return Group(look.title, tuple(found[:SHOWN]), _summary(found), further=further)


def _summary(found: list[Alarm]) -> str:
    """How many alarms there are of each `what`; lists end at `MOST`."""
    more = "at least " if len(found) >= MOST else ""
    counts = Counter(one.what for one in found)
    return more + ", ".join(f"{number} {word}" for word, number in counts.most_common(8))


async def _service(visit: Visit, request: Request) -> list[Alarm]:
    found = await run_outside(visit.http, request, visit.verbs.health)
    return [
        Alarm(part, said, code=said.code if isinstance(said, Message) else "")
        for part, said in found.checks.items()
        if not health.is_well(said)
    ]


async def _pods(visit: Visit, request: Request) -> list[Alarm]:
    search = PodSearch(all_projects=True, alarmed=True, limit=MOST)
    pods = await run_in_threadpool(visit.verbs.pods.list, request, search)
    pods.sort(key=lambda pod: (pod.state, pod.since))
    return [
        Alarm(
            f"{pod.name} of {pod.project_id}",
            pod.state,
            pod.reason,
            f"/pods/{pod.id}",
            pod.since,
            pod.code,
        )
        for pod in pods
    ]


async def _nodes(visit: Visit, request: Request) -> list[Alarm]:
    """Nodes in quarantine, nodes with failed checks, and drained nodes whose time has passed."""
    nodes, views = await run_outside(
        visit.http, request, lambda: visit.verbs.nodes.marks_and_views(request, _STATES)
    )
    drains = await run_in_threadpool(visit.verbs.nodes.overdue_drains, request)
    there = {node.name: f"pod {node.pod} is" for node in nodes if node.pod}
    # Only a pod makes a drained node busy: here those that share it.
    there |= {n.name: "pods that share it are" for n in nodes if n.state == "busy" and not n.pod}
    found = [
        Alarm(node.name, node.state, node.reason, node_path(node.name), node.since)
        for state in _STATES
        for node in views
        if node.state == state
    ]
    return found + [
        Alarm(one.node, "drain overdue", f"{there[one.node]} still there", node_path(one.node), one.by)
        for one in drains
        if one.node in there
    ]


async def _fabrics(visit: Visit, request: Request) -> list[Alarm]:
    readings = await run_in_threadpool(visit.verbs.fabrics.readings, request)
    return [
        Alarm(one.fabric, what, why, "/site/fabrics?now=true", one.read_at)
        for one in readings
        for what, why in _troubles(one)
    ]


def _troubles(one: FabricReading) -> list[tuple[str, str]]:
    """What is wrong with a fabric by its last reading; one that is missing or old is wrong, too."""
    if one.age is None:
        return [("not read yet", "no worker has asked its managers")]
    found = [] if one.known else [("not known", "no manager answered that is in charge")]
    found += [("problems", f"{one.problems}, as its managers report")] if one.problems else []
    found += [("ports with errors", f"{one.port_errors}")] if one.port_errors else []
    return found + ([("reading is old", f"{one.age:.0f} s")] if one.age > OLD_READING else [])


async def _networks(visit: Visit, request: Request) -> list[Alarm]:
    networks = await run_in_threadpool(_failed_networks, visit, request)
    return [
        Alarm(
            f"{one.name} of {one.project_id}",
            one.state,
            one.reason,
            f"/networks/{one.id}",
            one.since,
            one.code,
        )
        for one in networks
    ]


def _failed_networks(visit: Visit, request: Request) -> list[NetworkSummary]:
    """Networks that aren't as wanted, by id, page after page; at most `MOST`."""
    found: list[NetworkSummary] = []
    search = NetworkSearch(all_projects=True, limit=PAGE)
    while len(found) < MOST:
        rows = visit.verbs.networks.list(request, search)
        found += [one for one in rows if one.state in ("FAILED", "DEGRADED")]
        if len(rows) < PAGE:
            break
        search = search.model_copy(update={"marker": rows[-1].id})
    return found[:MOST]


async def _site(visit: Visit, request: Request) -> list[Alarm]:
    try:
        one = await run_in_threadpool(visit.verbs.site.resources, request)
    except NotFoundError:
        return []
    return [Alarm(one.site, one.state, one.reason, "/site/resources", one.since)] if one.needs_person else []


@dataclass(frozen=True, slots=True)
class _Look:
    """How a group is read. Attributes: rule: needed beside the page's own; path: of the API's request for it."""

    title: str
    rule: str
    path: str
    read: Callable[[Visit, Request], Awaitable[list[Alarm]]]


_LOOKS = (
    _Look("Service", "", "/v1/pods", _service),
    _Look("Pods", "pods:list_all_projects", "/v1/pods", _pods),
    _Look("Nodes", "nodes:list", "/v1/nodes", _nodes),
    _Look("Fabrics", "site:show", "/v1/site/fabrics", _fabrics),
    _Look("Tenants' networks", "networks:list_all_projects", "/v1/networks", _networks),
    _Look("The site's resources", "site:plan", "/v1/site/resources", _site),
)
