"""Messages about nodes that fail, and about replacing them without a request."""

from __future__ import annotations

from weft.model.messages.hostchecks import CHECK
from weft.model.messages.message import MESSAGE, REASON, Code, Component
from weft.model.messages.values import COUNT, NODE, NODES, SERVER, TIME, Value, Words, word


def _code(name: str, operator: str, tenant: str | bool = True, **types: Value) -> Code:
    return Code(name, Component.POD, operator, tenant, "failures", types)


REPORTED_BY_PROJECT = _code("REPORTED_BY_PROJECT", "its project reported it at {since}", since=TIME)
SERVER_BROKEN = _code("SERVER_BROKEN", "its server has been in an error since {since}", since=TIME)
ADAPTER_GONE = _code(
    "ADAPTER_GONE", "one of its adapters has been missing from its fabric since {since}", since=TIME
)
CHECK_FAILED = _code(
    "REQUIRED_CHECK_FAILED", "its own check {check} has failed since {since}", check=CHECK, since=TIME
)
DRAINED_BY_THEN = _code(
    "DRAINED_BY_THEN",
    "it should have been empty since {since}",
    "maintenance of it begins at {since}",
    since=TIME,
)

NODE_FAILS = _code("NODE_FAILS", "node {node}: {cause}", node=NODE, cause=REASON)
REPLACEMENT_DUE = _code(
    "REPLACEMENT_DUE", "node {node}: {cause}; it will be replaced", node=NODE, cause=REASON
)
REPLACEMENT_WAITS = _code(
    "REPLACEMENT_WAITS",
    "node {node}: {cause}; it isn't replaced yet: {why}",
    node=NODE,
    cause=REASON,
    why=REASON,
)
REPLACED_BY_ITSELF = _code(
    "REPLACED_BY_ITSELF",
    "node {node} is replaced by {by}[, {more}], as the order asks for[: {cause}]",
    node=NODE,
    by=NODE,
    more=NODES,
    cause=MESSAGE,
)

POD_IS_CHANGED = _code("POD_IS_CHANGED", "the pod is being changed")
POD_NOT_SERVING = _code("POD_NOT_SERVING", "the pod isn't serving: it is {state}", state=word("[A-Z]{4,12}"))
LEASE_IS_OVER = _code("LEASE_IS_OVER", "its lease ended at {end}", end=TIME)
SERVERS_DELETED = _code(
    "SERVERS_DELETED",
    "{servers} missing: what is deleted on purpose isn't created again, and more may follow",
    "{servers} missing: what is deleted on purpose isn't created again",
    servers=Words(word(SERVER), most=3),
)
SERVERS_UNKNOWN = _code("SERVERS_UNKNOWN", "its cloud doesn't say whether the pod's servers are there")
HOST_NOT_DOWN = _code("HOST_NOT_DOWN", "its cloud doesn't report its host as down now")
SERVER_NOT_BROKEN = _code("SERVER_NOT_BROKEN", "its cloud doesn't show its server in an error now")
SERVER_NOT_RUNNING = _code(
    "SERVER_NOT_RUNNING",
    "its server doesn't run as it should now: a server that is off doesn't show its adapters",
)
SERVER_RESET = _code("SERVER_RESET", "its server was reset: it is replaced if that doesn't help")
FABRIC_UNKNOWN = _code(
    "FABRIC_UNKNOWN", "its fabric can't be read now: whether the adapter is gone isn't known"
)
ADAPTER_SHOWN = _code("ADAPTER_SHOWN", "its fabric shows its adapters now")
NO_LONGER_FAILS = _code("NO_LONGER_FAILS", "node {node} no longer fails", node=NODE)
ORDER_NOT_SERVED = _code(
    "ORDER_NOT_SERVED",
    "the order can't be served as it is now: {field}: {allowed}",
    field=word("[a-z_.0-9]{1,80}"),
    allowed=REASON,
)
REPLACES_NOTHING = _code("REPLACES_NOTHING", "the site replaces nothing by itself: ask operators")
TOO_MANY_UNDER_WAY = _code(
    "TOO_MANY_UNDER_WAY",
    "{number} of at most {most} replacements are under way in the site",
    "many nodes of the site are being replaced at once",
    number=COUNT,
    most=COUNT,
)
TOO_MANY_IN_AN_HOUR = _code(
    "TOO_MANY_IN_AN_HOUR",
    "{number} of at most {most} nodes of the site were replaced in the last hour: operators look at it first",
    "many nodes of the site were replaced in the last hour: operators look at it first",
    number=COUNT,
    most=COUNT,
)
TOO_MANY_OF_PROJECT = _code(
    "TOO_MANY_OF_PROJECT",
    "{number} of at most {most} replacements are the project's: half of the site's limits is kept for others",
    "half of what the site replaces by itself is kept for other projects",
    number=COUNT,
    most=COUNT,
)
TOO_MANY_IN_A_DAY = _code(
    "TOO_MANY_IN_A_DAY",
    "{number} of at most {most} replacements of the project on shared nodes were made within a day",
    number=COUNT,
    most=COUNT,
)
