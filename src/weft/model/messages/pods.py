"""Messages about pods' lives: orders, steps, states, changes, leases, ends."""

from __future__ import annotations

from weft.model.messages.message import MESSAGE, REASON, Code, Component, Several
from weft.model.messages.values import (
    COUNT,
    FIELD,
    ID,
    KIND,
    NODE,
    NODES,
    RESOURCE,
    SPACE,
    TEXT,
    TIME,
    USER,
    FilteredWords,
    word,
)

_STATE = word("PENDING|PLACED|WIRING|BOOTING|VERIFYING|READY|DEGRADED|RELEASING|RELEASED|FAILED")
_NAME = r"[A-Za-z0-9._-]{1,63}"
READINGS = FilteredWords(
    word(rf"\d{{1,9}} [A-Za-z][A-Za-z' _]{{0,60}} (?:in|of|on) {_NAME}(?: [a-z][a-z' ,]{{1,80}})?")
)
"""How many things were read on each plane."""

# -- what happened ---------------------------------------------------------------------------------------------------

STATE = Code(
    "POD_STATE", Component.POD, "{state}[: {why}]", True, "pod-states", {"state": _STATE, "why": MESSAGE}
)
ORDERED = Code("ORDERED", Component.ORDER, "ordered", True, "pod-states")
ON_NODES = Code(
    "ON_NODES",
    Component.PLACEMENT,
    "{nodes}[; spare: {spare}]",
    True,
    "pod-states",
    {"nodes": NODES, "spare": NODES},
)
MADE_BY = Code("MADE_BY", Component.SITE, "made by {user}", None, "pod-states", {"user": TEXT})
CREATING = Code("CREATING", Component.POD, "creating {name}", True, "pod-states", {"name": RESOURCE})
REMOVING = Code("REMOVING", Component.POD, "removing {name}", True, "pod-states", {"name": RESOURCE})
RESOURCE_READY = Code(
    "RESOURCE_READY",
    Component.POD,
    "{name} is ready[ ({why})]",
    "{name} is ready",
    "pod-states",
    {"name": RESOURCE, "why": MESSAGE},
)
VERIFIED = Code(
    "VERIFIED",
    Component.POD,
    "as desired[: {read}][; but {notes}]",
    True,
    "pod-states",
    {"read": READINGS, "notes": Several(most=3)},
)
RETRY_REQUESTED = Code(
    "RETRY_REQUESTED",
    Component.ORDER,
    "retry requested[ by {user}]",
    "retry requested",
    "pod-states",
    {"user": USER},
)
RELEASE_REQUESTED = Code(
    "RELEASE_REQUESTED", Component.RELEASE, "release requested by {user}", True, "pod-states", {"user": USER}
)
NOTHING_CLAIMED = Code("NOTHING_CLAIMED", Component.RELEASE, "nothing was claimed yet", True, "pod-states")
ACTION_REQUESTED = Code(
    "ACTION_REQUESTED",
    Component.POD,
    "{action} of {node} requested by {user}",
    True,
    "pod-states",
    {"action": FIELD, "node": NODE, "user": USER},
)
CONSOLE_REQUESTED = Code(
    "CONSOLE_REQUESTED",
    Component.POD,
    "console of {node} requested by {user}",
    True,
    "pod-states",
    {"node": NODE, "user": USER},
)
RECEIPT_SIGNED = Code("RECEIPT_SIGNED", Component.RELEASE, "receipt signed", True, "pod-states")

# -- changes ---------------------------------------------------------------------------------------------------------

ORDER_CHANGED = Code("ORDER_CHANGED", Component.ORDER, "the order was changed", True, "changes")
GENERATION = Code(
    "GENERATION",
    Component.ORDER,
    "generation {n} by {user}: {fields}",
    "generation {n} by {user}",
    "changes",
    {"n": COUNT, "user": USER, "fields": TEXT},
)
GENERATION_APPLIED = Code(
    "GENERATION_APPLIED", Component.POD, "generation {n} is applied", True, "changes", {"n": COUNT}
)
CHANGING = Code(
    "CHANGING",
    Component.POD,
    "changing to generation {n}[: {why}]",
    True,
    "changes",
    {"n": COUNT, "why": REASON},
)
REPLACE_NODE = Code(
    "REPLACE_NODE", Component.POD, "replace {node} by {by}", True, "changes", {"node": NODE, "by": NODE}
)
PLACE_AWAITED = Code(
    "PLACE_AWAITED",
    Component.POD,
    "nothing is requested until {node} is read back clean: its server may still use its addresses and volumes",
    True,
    "changes",
    {"node": NODE},
)
PLACE_NOT_FREE = Code(
    "PLACE_NOT_FREE",
    Component.POD,
    "{node} was not seen clean in time: the server on {by} has number {number} of the pod and addresses of its own",
    True,
    "changes",
    {"node": NODE, "by": NODE, "number": COUNT},
)
CHANGE_LASTS = Code(
    "CHANGE_LASTS",
    Component.POD,
    "a change for {lasted} s, more than {limit} s[: {why}]",
    True,
    "changes",
    {"lasted": COUNT, "limit": COUNT, "why": MESSAGE},
)

# -- leases ----------------------------------------------------------------------------------------------------------

EXTENDED = Code(
    "EXTENDED", Component.LEASE, "extended until {end} by {user}", True, "leases", {"end": TIME, "user": USER}
)
LEASE_ENDS_SOON = Code(
    "LEASE_ENDS_SOON",
    Component.LEASE,
    "the lease ends at {end}: the pod is released then, unless it is extended (weft pod extend)",
    True,
    "leases",
    {"end": TIME},
)
LEASE_ENDED = Code("LEASE_ENDED", Component.LEASE, "lease ended", True, "leases")
LEASE_ENDED_BEFORE_START = Code(
    "LEASE_ENDED_BEFORE_START", Component.LEASE, "the lease ended before it could start", True, "leases"
)

# -- what isn't as it should be --------------------------------------------------------------------------------------

RESOURCE_MISSING = Code("RESOURCE_MISSING", Component.POD, "it is missing", True, "resources")
REAPPEARED = Code("REAPPEARED", Component.POD, "reappeared after its removal", True, "resources")
RESOURCE_BROKEN = Code(
    "RESOURCE_BROKEN",
    Component.CLOUD,
    "{name} is broken and will be replaced[: {why}]",
    True,
    "resources",
    {"name": RESOURCE, "why": MESSAGE},
)
REPAIRING = Code(
    "REPAIRING",
    Component.POD,
    "repairing {name}[: {why}]",
    True,
    "resources",
    {"name": RESOURCE, "why": MESSAGE},
)
STATE_LASTS = Code(
    "STATE_LASTS",
    Component.POD,
    "{state} for {lasted} s, more than {limit} s[: {why}]",
    True,
    "resources",
    {"state": _STATE, "lasted": COUNT, "limit": COUNT, "why": MESSAGE},
)
NUMBER_TAKEN = Code(
    "NUMBER_TAKEN",
    Component.FABRIC,
    "{space} {number} is in use by something else: now using {now}",
    True,
    "numbers",
    {"space": SPACE, "number": COUNT, "now": COUNT},
)

# -- release ---------------------------------------------------------------------------------------------------------

NODE_FREE = Code(
    "NODE_FREE", Component.RELEASE, "{node} was read back clean and is free", True, "release", {"node": NODE}
)
PART_FREE = Code(
    "PART_FREE",
    Component.RELEASE,
    "the servers' parts of {node} were read back clean and are free",
    True,
    "release",
    {"node": NODE},
)
NUMBER_FREE = Code(
    "NUMBER_FREE",
    Component.RELEASE,
    "{space} {number} was read back clean and is free",
    None,
    "release",
    {"space": SPACE, "number": COUNT},
)
ABANDON_REQUESTED = Code(
    "ABANDON_REQUESTED",
    Component.RELEASE,
    "abandon requested by {user}: {reason}",
    "abandon requested by {user}",
    "release",
    {"user": USER, "reason": TEXT},
)
ABANDONED = Code(
    "ABANDONED",
    Component.RELEASE,
    "abandoned by {user}: {reason}",
    "abandoned by {user}",
    "release",
    {"user": USER, "reason": TEXT},
)
ABANDONED_WITH_REMAINS = Code(
    "ABANDONED_WITH_REMAINS",
    Component.RELEASE,
    "abandoned with remains: {what}",
    "abandoned with remains",
    "release",
    {"what": TEXT},
)
NUMBERS_SEEN_FREE = Code(
    "NUMBERS_SEEN_FREE",
    Component.RELEASE,
    "seen free and released: {numbers}",
    "seen free and released",
    "release",
    {"numbers": TEXT},
)
_TRACE = {"kind": KIND, "id": ID, "place": NODE, "owner": KIND}
RECEIPT_WRONG = Code(
    "RECEIPT_WRONG",
    Component.RELEASE,
    "{what}, although the receipt reports it gone",
    True,
    "release",
    {"what": MESSAGE},
)
RESOURCE_AFTER_RELEASE = Code(
    "RESOURCE_AFTER_RELEASE",
    Component.RELEASE,
    "{kind} {id} is in {place} after the {owner} was released",
    True,
    "release",
    _TRACE,
)
SEGMENT_AFTER_RELEASE = Code(
    "SEGMENT_AFTER_RELEASE",
    Component.RELEASE,
    "segment {id} is on fabric {place} after the {owner} was released",
    True,
    "release",
    _TRACE,
)
RESOURCE_GONE = Code(
    "RESOURCE_GONE",
    Component.RELEASE,
    "{kind} {id} is gone: {why}",
    "{kind} {id} is gone",
    "release",
    {**_TRACE, "why": TEXT},
)
SEGMENT_GONE = Code(
    "SEGMENT_GONE",
    Component.RELEASE,
    "segment {id} is no longer on any port of {place}",
    True,
    "release",
    _TRACE,
)
EVENTS_REMOVED = Code(
    "EVENTS_REMOVED",
    Component.SERVICE,
    "events after this position were removed before they were read: they were older than the site keeps them",
    True,
    "conflicts",
)
EVENTS_RESET = Code(
    "EVENTS_RESET",
    Component.SERVICE,
    "the database was restored or moved to another server after this position was given: events after it may be lost, "
    "or be reported again; read events without a position, or the newest ones",
    True,
    "conflicts",
)
