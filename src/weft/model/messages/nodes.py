"""Messages of a node's history. Most rows are written by SQL (`node_message`), with the same names and values.

Tenants' sentences are for programs that may read it and not whose pods were there.
"""

from __future__ import annotations

from weft.model.messages.maintenance import PUBLISHED
from weft.model.messages.message import MESSAGE, Code, Component
from weft.model.messages.values import COUNT, NODE, NODES, POD, SERVER, TEXT, TIME, USER, Words, word

_WHERE = {"pod": POD, "project": TEXT}


def _code(name: str, operator: str, tenant: str | bool, **types: object) -> Code:
    return Code(name, Component.SITE, operator, tenant, "maintenance", types)  # pyright: ignore[reportArgumentType]


GIVEN = _code("NODE_GIVEN", "given to pod {pod} of project {project}", "given to a pod", **_WHERE)
KEPT_AS_SPARE = _code(
    "NODE_KEPT_AS_SPARE",
    "given to pod {pod} of project {project} as a spare",
    "given to a pod as a spare",
    **_WHERE,
)
SPARE_USED = _code(
    "NODE_SPARE_USED",
    "used by pod {pod} of project {project}, whose spare it was",
    "used by a pod, whose spare it was",
    **_WHERE,
)
LEAVING = _code(
    "NODE_LEAVING",
    "pod {pod} of project {project} leaves it: it is held until it is read back clean",
    "its pod leaves it: it is held until it is read back clean",
    **_WHERE,
)
FREED = _code("NODE_FREED", "freed by pod {pod} of project {project}", "freed by its pod", **_WHERE)
FREED_UNCLEAN = _code(
    "NODE_FREED_UNCLEAN",
    "pod {pod} of project {project} ended, but wasn't seen gone from it: it is in quarantine",
    "its pod ended, but wasn't seen gone from it: it is in quarantine",
    **_WHERE,
)
REPLACED_BY = _code(
    "NODE_REPLACED_BY",
    "replaced by {by} in pod {pod} of project {project}[: {cause}]",
    "replaced in its pod",
    by=NODE,
    cause=MESSAGE,
    **_WHERE,
)
REPLACES = _code(
    "NODE_REPLACES",
    "takes the place of {node} in pod {pod} of project {project}",
    "takes the place of another node in a pod",
    node=NODE,
    **_WHERE,
)
SERVER_BROKEN = _code(
    "NODE_SERVER_BROKEN",
    "server {server} of pod {pod} of project {project} failed on it[: {why}]",
    "a server failed on it",
    server=word(SERVER),
    why=MESSAGE,
    **_WHERE,
)
HELD = _code("NODE_HELD", "held for {what}[: {cause}]", "held", what=PUBLISHED, cause=MESSAGE)
ACCEPTED = _code(
    "NODE_ACCEPTED",
    "accepted for {what}[: it passed {tests}]",
    "accepted",
    what=PUBLISHED,
    tests=Words(word(r"[a-z0-9][a-z0-9._-]{0,39}")),
)
ACCEPTED_UNTESTED = _code(
    "NODE_ACCEPTED_UNTESTED",
    "accepted for {what} without a test that the site wants: {reason}",
    "accepted",
    what=PUBLISHED,
    reason=TEXT,
)
BANDWIDTH = _code("NODE_BANDWIDTH", "bandwidth test: {result}", True, result=word("passed|failed|incomplete"))
DRAINED = _code(
    "NODE_DRAINED",
    "drained[ by {until}][: {reason}][ (published: {public})]",
    "drained[ by {until}]",
    until=TIME,
    reason=TEXT,
    public=PUBLISHED,
)
UNDRAINED = _code("NODE_UNDRAINED", "no longer drained", True)
QUARANTINED = _code("NODE_QUARANTINED", "quarantined: {reason}", "quarantined", reason=TEXT)
CLEARED = _code("NODE_CLEARED", "cleared from quarantine: {reason}", "cleared from quarantine", reason=TEXT)
REPORTED = _code(
    "NODE_REPORTED",
    "reported in pod {pod} of project {project}: {reason}",
    "reported by a project that had it",
    reason=TEXT,
    **_WHERE,
)
REPORT_CLEARED = _code(
    "NODE_REPORT_CLEARED",
    "cleared of the report of project {project}: {reason}",
    "cleared of a report",
    project=TEXT,
    reason=TEXT,
)
REPORTED_IN_POD = _code(
    "NODE_REPORTED_IN_POD",
    "node {node} was reported by {user}: the project's next orders avoid it",
    True,
    node=NODE,
    user=USER,
)
REPORTED_ALREADY = _code(
    "NODE_REPORTED_ALREADY",
    "the project already reported node {node} at {at}: it can be reported again once operators have cleared that "
    "report",
    True,
    node=NODE,
    at=TIME,
)
TOO_MANY_REPORTS = _code(
    "TOO_MANY_REPORTS",
    "{nodes} of at most {most} nodes that the project has reported aren't cleared yet: ask operators to look at them",
    True,
    nodes=COUNT,
    most=COUNT,
)
NOT_OF_POD = _code("NODE_NOT_OF_POD", "pod {pod} has no node or server '{node}'", True, pod=POD, node=NODE)
NOT_REPORTED = _code("NODE_NOT_REPORTED", "there is no such report of node {node}", True, node=NODE)
HOST_DOWN = _code("NODE_HOST_DOWN", "its host has been down since {since}", True, since=TIME)
HOST_UP = _code("NODE_HOST_UP", "its host is up again: it was down since {since}", True, since=TIME)
HOSTS_DOWN = _code("HOSTS_DOWN", "the host of {nodes} is down", True, nodes=NODES)
INNER_HOSTS_DOWN = _code(
    "INNER_HOSTS_DOWN",
    "the host of {nodes}, with servers of weft's own for the pod, is down",
    "the host of servers that the site runs for the pod is down",
    nodes=NODES,
)
INNER_HOSTS_UP = _code(
    "INNER_HOSTS_UP",
    "the host of {nodes}, with servers of weft's own for the pod, is up again",
    "the host of servers that the site runs for the pod is up again",
    nodes=NODES,
)
HOSTS_UP = _code("HOSTS_UP", "the host of {nodes} is up again", True, nodes=NODES)
