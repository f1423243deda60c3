"""Messages about nodes that operators keep from new orders."""

from __future__ import annotations

from weft.model.messages.message import Code, Component
from weft.model.messages.values import COUNT, NODE, Words, word

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
