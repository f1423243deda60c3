"""Messages about links of a fabric: who uses them, and what isn't known of them."""

from __future__ import annotations

from weft.model.messages.message import Code, Component
from weft.model.messages.values import NODE, POD, word

_ENGINE = word(r"[\w-]{1,40}")

ROUTING_ENGINE = Code(
    "ROUTING_ENGINE",
    Component.FABRIC,
    "routing engine {configured} is configured, but {used} is in force: OpenSM takes another one, without an error, if "
    "the "
    "configured one doesn't fit the fabric; see opensm's log, and correct routing_engine",
    None,
    "links",
    {"configured": _ENGINE, "used": _ENGINE},
)
LINKS_NOT_READ = Code(
    "LINKS_NOT_READ",
    Component.FABRIC,
    "it isn't known which links are used on fabric {fabric}: only weft's agents beside its subnet manager read "
    "forwarding tables, and it has no agent",
    True,
    "links",
    {"fabric": NODE},
)
LINK_NOT_SEEN = Code(
    "LINK_NOT_SEEN",
    Component.FABRIC,
    "no cable was discovered on port {port} of {switch} on fabric {fabric}",
    None,
    "links",
    {"fabric": NODE, "switch": word(r"[\x20-\x7e]{1,100}"), "port": word(r"[A-Za-z0-9/._-]{1,40}")},
)
POD_NOT_ON_FABRIC = Code(
    "POD_NOT_ON_FABRIC",
    Component.FABRIC,
    "pod {pod} has no segment on a fabric now, so it uses no links",
    True,
    "links",
    {"pod": POD},
)
