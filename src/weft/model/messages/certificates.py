"""Messages about the certificates of agents, and weft's own for them: whether they are renewed, or why not."""

from __future__ import annotations

from weft.model.messages.message import Code, Component
from weft.model.messages.values import TEXT, TIME

_UNTIL = {"until": TIME}

CERTIFICATE_VALID = Code(
    "CERTIFICATE_VALID", Component.SERVICE, "valid until {until}", None, "certificates", _UNTIL
)
AUTHORITY_OFFLINE = Code(
    "AUTHORITY_OFFLINE",
    Component.SERVICE,
    "it ends at {until}, and weft doesn't have the authority's key (weft.authority_key): renew it by hand",
    None,
    "certificates",
    _UNTIL,
)
AUTHORITY_UNUSABLE = Code(
    "AUTHORITY_UNUSABLE",
    Component.SERVICE,
    "it ends at {until}, and the authority's key can't be used: {why}",
    None,
    "certificates",
    {**_UNTIL, "why": TEXT},
)
AUTHORITY_OF_OTHERS = Code(
    "AUTHORITY_OF_OTHERS",
    Component.SERVICE,
    "it ends at {until}, and isn't of the authority whose key weft has: renew it where it was made",
    None,
    "certificates",
    _UNTIL,
)
RENEWAL_STOPPED = Code(
    "RENEWAL_STOPPED",
    Component.SERVICE,
    "it ends at {until}, and isn't renewed while weft changes nothing outside",
    None,
    "certificates",
    _UNTIL,
)
RENEWAL_UNSUPPORTED = Code(
    "RENEWAL_UNSUPPORTED",
    Component.SERVICE,
    "it ends at {until}, and its agent is older than weft and can't renew it: upgrade the agent",
    None,
    "certificates",
    _UNTIL,
)
RENEWAL_REFUSED = Code(
    "RENEWAL_REFUSED",
    Component.SERVICE,
    "it ends at {until}, and isn't renewed: {why}",
    None,
    "certificates",
    {**_UNTIL, "why": TEXT},
)
RENEWAL_FAILED = Code(
    "RENEWAL_FAILED",
    Component.SERVICE,
    "it ends at {until}; its renewal failed and is tried again: {why}",
    None,
    "certificates",
    {**_UNTIL, "why": TEXT},
)
CERTIFICATE_SUPERSEDED = Code(
    "CERTIFICATE_SUPERSEDED",
    Component.SERVICE,
    "the agent answers with an older certificate than the one that it had before: it isn't renewed",
    None,
    "certificates",
)
CERTIFICATE_EXPIRED = Code(
    "CERTIFICATE_EXPIRED",
    Component.SERVICE,
    "it has expired: the agent can't be reached until an operator makes a new one",
    None,
    "certificates",
)
CERTIFICATE_UNSEEN = Code(
    "CERTIFICATE_UNSEEN",
    Component.SERVICE,
    "it can't be read: {why}",
    None,
    "certificates",
    {"why": TEXT},
)
