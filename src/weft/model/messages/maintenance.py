"""Messages about nodes that operators keep from new orders."""

from __future__ import annotations

from weft.model.messages.message import MESSAGE, Code, Component
from weft.model.messages.values import COUNT, NODE, NODES, POD, TEXT, TIME, Words, word

PUBLISHED = word(r"[^\x00-\x1f\x7f-\x9f]{1,200}")
"""Words that operators wrote for those who may read them here."""
_HOLDS = Words(PUBLISHED)

NODE_UNKNOWN = Code(
    "NODE_UNKNOWN", Component.SITE, "the site has no node '{node}'", True, "maintenance", {"node": NODE}
)
NODE_NOT_HELD = Code(
    "NODE_NOT_HELD",
    Component.SITE,
    "node {node} isn't held: there is nothing to accept",
    True,
    "maintenance",
    {"node": NODE},
)
NODE_NOT_HELD_FOR = Code(
    "NODE_NOT_HELD_FOR",
    Component.SITE,
    "node {node} isn't held for '{what}', but for: {names}",
    True,
    "maintenance",
    {"node": NODE, "what": PUBLISHED, "names": _HOLDS},
)
SEVERAL_HOLDS = Code(
    "SEVERAL_HOLDS",
    Component.SITE,
    "node {node} is held for several things: name one of them, or all: {names}",
    True,
    "maintenance",
    {"node": NODE, "names": _HOLDS},
)
TOO_MANY_HOLDS = Code(
    "TOO_MANY_HOLDS",
    Component.SITE,
    "node {node} is held for {most} things already: accept it for some of them first",
    True,
    "maintenance",
    {"node": NODE, "most": COUNT},
)
NODE_REPLACED = Code(
    "NODE_REPLACED",
    Component.SITE,
    "replaced in pod {pod} of project {project} by {user}[: {cause}]",
    "replaced in a pod",
    "maintenance",
    {"pod": POD, "project": TEXT, "user": TEXT, "cause": MESSAGE},
)
HELD_AFTER_POD = Code(
    "HELD_AFTER_POD",
    Component.SITE,
    "the site wants nodes to be accepted after a pod has left them",
    True,
    "maintenance",
    {},
)
HELD_AFTER_QUARANTINE = Code(
    "HELD_AFTER_QUARANTINE",
    Component.SITE,
    "the site wants nodes to be accepted after quarantine",
    True,
    "maintenance",
    {},
)
HELD_NEW = Code(
    "HELD_NEW",
    Component.SITE,
    "the site wants nodes to be accepted that are new or have another machine",
    True,
    "maintenance",
    {},
)
HELD_AFTER_FIRMWARE = Code(
    "HELD_AFTER_FIRMWARE",
    Component.SITE,
    "the site wants nodes to be accepted after their firmware changed",
    True,
    "maintenance",
    {},
)
REPLACED_UNACCEPTED = Code(
    "REPLACED_UNACCEPTED",
    Component.SITE,
    "{nodes} of at most {most} replaced nodes of the project wait until operators accept them: operators can replace "
    "the node, or accept some of them",
    True,
    "maintenance",
    {"nodes": COUNT, "most": COUNT},
)
NODES_DRAINED = Code(
    "NODES_DRAINED",
    Component.SITE,
    "{nodes} drained[ by {until}][: {reason}][ (published: {public})]; nothing is released by itself[; {then}]",
    "maintenance of {nodes}[ from {until}][: {public}]; nothing is released by itself[; {then}]",
    "maintenance",
    {"nodes": NODES, "until": TIME, "reason": TEXT, "public": PUBLISHED, "then": MESSAGE},
)
NODES_DRAINED_POD_ENDS = Code(
    "NODES_DRAINED_POD_ENDS",
    Component.SITE,
    "{nodes} drained by {until}[: {reason}][ (published: {public})]; the pod is released at that time, as its order "
    "says (on_drain: release), unless operators end or move the drain",
    "maintenance of {nodes} from {until}[: {public}]; the pod is released at that time, as its order says (on_drain: "
    "release), unless operators end or move the drain",
    "maintenance",
    {"nodes": NODES, "until": TIME, "reason": TEXT, "public": PUBLISHED},
)
DRAIN_DUE = Code(
    "DRAIN_DUE",
    Component.SITE,
    "{nodes} should be empty by now: nothing is released by itself",
    "maintenance of {nodes} may begin now",
    "maintenance",
    {"nodes": NODES},
)
POD_ENDS_FOR_DRAIN = Code(
    "POD_ENDS_FOR_DRAIN",
    Component.RELEASE,
    "{nodes} should have been empty since {since}: the pod is released, as its order says (on_drain: release)",
    "maintenance[ of {mine}] began at {since}: the pod is released, as its order says (on_drain: release)",
    "maintenance",
    {"nodes": NODES, "mine": NODES, "since": TIME},
)
DRAIN_RELEASES = Code(
    "DRAIN_RELEASES",
    Component.SITE,
    "it is released at {until}, as its order says (on_drain: release), unless the drain is ended or moved",
    None,
    "maintenance",
    {"until": TIME},
)
DRAIN_REPLACES = Code(
    "DRAIN_REPLACES",
    Component.SITE,
    "weft replaces {nodes} then, within the site's limits[; spares stay: {spares}]",
    True,
    "maintenance",
    {"nodes": NODES, "spares": NODES},
)
DRAIN_LEAVES = Code(
    "DRAIN_LEAVES",
    Component.SITE,
    "it keeps them then, and gets an event: replace the nodes, or have it released",
    None,
    "maintenance",
)
DRAIN_NEEDS_RELEASE = Code(
    "DRAIN_NEEDS_RELEASE",
    Component.SITE,
    "it keeps them then, and gets an event: {why}",
    None,
    "maintenance",
    {"why": MESSAGE},
)
DRAIN_WAITS = Code(
    "DRAIN_WAITS",
    Component.SITE,
    "it is left alone then, as the drain says (--wait)",
    "the pod is left alone then",
    "maintenance",
)
NODES_UNDRAINED = Code(
    "NODES_UNDRAINED",
    Component.SITE,
    "{nodes} no longer drained",
    "maintenance of {nodes} is over or was cancelled",
    "maintenance",
    {"nodes": NODES},
)
INNER_NODES_DRAINED = Code(
    "INNER_NODES_DRAINED",
    Component.SITE,
    "{nodes}, with servers of weft's own for the pod, drained[ by {until}][: {reason}][ (published: {public})]; "
    "nothing is released by itself",
    "maintenance of a host of servers that the site runs for the pod[ from {until}][: {public}]; nothing is released "
    "by itself",
    "maintenance",
    {"nodes": NODES, "until": TIME, "reason": TEXT, "public": PUBLISHED},
)
INNER_NODES_DRAINED_POD_ENDS = Code(
    "INNER_NODES_DRAINED_POD_ENDS",
    Component.SITE,
    "{nodes}, with servers of weft's own for the pod, drained by {until}[: {reason}][ (published: {public})]; the pod "
    "is released at that time, as its order says (on_drain: release), unless operators end or move the drain",
    "maintenance of a host of servers that the site runs for the pod from {until}[: {public}]; the pod is released at "
    "that time, as its order says (on_drain: release), unless operators end or move the drain",
    "maintenance",
    {"nodes": NODES, "until": TIME, "reason": TEXT, "public": PUBLISHED},
)
INNER_NODES_UNDRAINED = Code(
    "INNER_NODES_UNDRAINED",
    Component.SITE,
    "{nodes}, with servers of weft's own for the pod, no longer drained",
    "maintenance of a host of servers that the site runs for the pod is over or was cancelled",
    "maintenance",
    {"nodes": NODES},
)
DRAIN_BREAKS_PROMISES = Code(
    "DRAIN_BREAKS_PROMISES",
    Component.SITE,
    "the drain would break what was promised: {promises}; nothing was drained",
    None,
    "maintenance",
    {"promises": TEXT},
)
NOT_DRAINED = Code(
    "NOT_DRAINED", Component.SITE, "nothing is drained at {target}", None, "maintenance", {"target": TEXT}
)
