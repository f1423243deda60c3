"""Messages about the health of nodes and pods: what it follows from."""

from __future__ import annotations

from weft.model.messages.maintenance import PUBLISHED
from weft.model.messages.message import Code, Component
from weft.model.messages.values import COUNT, NODE, SPAN, TEXT, TIME, word

_CHECK = word("[A-Z][A-Z0-9_]{1,60}")

IN_QUARANTINE = Code(
    "IN_QUARANTINE",
    Component.SITE,
    "in quarantine: {reason}",
    "operators keep it from further orders",
    "node-health",
    {"reason": TEXT},
)
IN_MAINTENANCE = Code(
    "IN_MAINTENANCE",
    Component.SITE,
    "in maintenance by the site: {reason}",
    "in maintenance",
    "node-health",
    {"reason": TEXT},
)
HOST_UNREAD = Code(
    "HOST_UNREAD",
    Component.CLOUD,
    "whether its host is up wasn't read lately[, last at {since}]",
    True,
    "node-health",
    {"since": TIME},
)
HOST_UNKNOWN = Code(
    "HOST_UNKNOWN",
    Component.CLOUD,
    "its cloud says neither that its host is up nor that it is down",
    True,
    "node-health",
)
MACHINE_UNREAD = Code(
    "MACHINE_UNREAD", Component.SITE, "nothing reads the health of this machine", True, "node-health"
)
NOT_IN_SITE = Code(
    "NOT_IN_SITE", Component.SITE, "the active site doesn't describe it any more", True, "node-health"
)
FABRIC_UNREAD = Code(
    "FABRIC_UNREAD",
    Component.FABRIC,
    "its fabric {fabric} wasn't read lately[, last at {since}]",
    "its fabric wasn't read lately[, last at {since}]",
    "node-health",
    {"fabric": NODE, "since": TIME},
)
CHECK_FAILED = Code(
    "CHECK_FAILED",
    Component.SITE,
    "its own check {check} failed[: {subject}]",
    "its own check {check} failed",
    "node-health",
    {"check": _CHECK, "subject": TEXT},
)
CHECKS_OLD = Code(
    "CHECKS_OLD",
    Component.SITE,
    "its own checks reported last at {since}, which is older than {age}, or compared with other values than now",
    "the last result of its own checks is old",
    "node-health",
    {"since": TIME, "age": SPAN},
)
CHECKS_UNKNOWN = Code(
    "CHECKS_UNKNOWN", Component.SITE, "some of its own checks couldn't be judged", True, "node-health"
)
CHECKS_MISSING = Code(
    "CHECKS_MISSING", Component.SITE, "it has never reported its own checks", True, "node-health"
)
DRAINED = Code(
    "DRAINED",
    Component.SITE,
    "drained[ by {until}][: {reason}][ (published: {public})]",
    "maintenance[ from {until}][: {public}]",
    "node-health",
    {"until": TIME, "reason": TEXT, "public": PUBLISHED},
)
HELD = Code(
    "HELD",
    Component.SITE,
    "held for {what}",
    "it waits for tests of operators",
    "node-health",
    {"what": TEXT},
)
REPORTED = Code(
    "REPORTED",
    Component.SITE,
    "reported by a project: {reason}",
    "reported by a project",
    "node-health",
    {"reason": TEXT},
)
NO_WORKERS = Code(
    "NO_WORKERS",
    Component.SERVICE,
    "no worker sent a heartbeat for {seconds} s: nothing is read",
    True,
    "node-health",
    {"seconds": COUNT},
)
PART_UNKNOWN = Code(
    "PART_UNKNOWN", Component.SITE, "no node has reported a part with this number", None, "node-health"
)
