"""Messages about topologies that can't be written."""

from __future__ import annotations

from weft.model.messages.message import Code, Component
from weft.model.messages.values import NODE, POD, word

FORMAT = word(r"[a-z-]{1,40}")
_FORMATS = word(r"[a-z, -]{1,400}")
_WORDS = word(r"[A-Za-z -]{1,200}")

TOPOLOGY_NOT_IN_FORCE = Code(
    "TOPOLOGY_NOT_IN_FORCE",
    Component.POD,
    "pod {pod} is {state}: none of its servers is in force, so it has no topology",
    True,
    "topology",
    {"pod": POD, "state": word("[A-Z]{4,12}|being released")},
)
TOPOLOGY_NO_FABRIC = Code(
    "TOPOLOGY_NO_FABRIC",
    Component.POD,
    "pod {pod} has no RDMA network on a fabric, which format {format} describes; allowed for it: {formats}",
    True,
    "topology",
    {"pod": POD, "format": FORMAT, "formats": _FORMATS},
)
TOPOLOGY_NO_PLACE = Code(
    "TOPOLOGY_NO_PLACE",
    Component.POD,
    "no server of pod {pod} has a known place on fabric {fabric}: the site has no cable from its nodes to a leaf",
    True,
    "topology",
    {"pod": POD, "fabric": NODE},
)
TOPOLOGY_NO_NVLINK = Code(
    "TOPOLOGY_NO_NVLINK",
    Component.POD,
    "no node of pod {pod} is in an NVLink domain, which are the blocks of format {format}",
    True,
    "topology",
    {"pod": POD, "format": FORMAT},
)
TOPOLOGY_UNREAD = Code(
    "TOPOLOGY_UNREAD",
    Component.POD,
    "format {format} needs {what} of the servers of pod {pod}, which weft has not read",
    True,
    "topology",
    {"pod": POD, "format": FORMAT, "what": _WORDS},
)
