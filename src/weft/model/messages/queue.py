"""Messages about orders that wait."""

from __future__ import annotations

from weft.model.messages.message import Code, Component
from weft.model.messages.values import COUNT, OTHERS_TIME, TIME, word

_UNITS = word("[a-z][a-z -]{0,30}")

IN_QUEUE = Code("IN_QUEUE", Component.QUEUE, "in the queue", True, "queue")
NO_CAPACITY = Code("NO_CAPACITY", Component.QUEUE, "waiting for capacity", True, "queue")
NODES_KEPT = Code(
    "NODES_KEPT", Component.QUEUE, "waiting for capacity on nodes that are kept for it", True, "queue"
)
KEPT_FOR_ANOTHER = Code(
    "KEPT_FOR_ANOTHER",
    Component.QUEUE,
    "waiting for capacity: the free nodes are kept for an order that came before",
    True,
    "queue",
)
TOO_MANY_LEAVES = Code("TOO_MANY_LEAVES", Component.QUEUE, "waiting for fewer leaves", True, "queue")
OCCUPANTS_UNREAD = Code(
    "OCCUPANTS_UNREAD", Component.QUEUE, "waiting to learn what is on its nodes", True, "queue"
)
LEASE_OVER = Code("LEASE_OVER", Component.QUEUE, "its lease has ended", True, "leases")
NODES_NOT_RELEASED = Code(
    "NODES_NOT_RELEASED", Component.QUEUE, "due to start, but its nodes are not released yet", True, "queue"
)
NO_TIME_KNOWN = Code("NO_TIME_KNOWN", Component.QUEUE, "no time is known at which it fits", True, "queue")
STARTS_AT = Code(
    "STARTS_AT",
    Component.QUEUE,
    "starts at {start}[, {units} booked: {n}]",
    True,
    "queue",
    {"start": TIME, "units": _UNITS, "n": COUNT},
)
STARTS_BY = Code(
    "STARTS_BY",
    Component.QUEUE,
    "waiting for capacity; starts by {start}[, {units} booked: {n}]",
    True,
    "queue",
    {"start": OTHERS_TIME, "units": _UNITS, "n": COUNT},
)
NODES_OF_PROJECT = Code(
    "NODES_OF_PROJECT",
    Component.QUEUE,
    "project {project} has {used} of {limit} nodes",
    "the project has {used} of {limit} nodes",
    "queue",
    {"project": word(r"[\w-]{1,64}"), "used": COUNT, "limit": COUNT},
)
