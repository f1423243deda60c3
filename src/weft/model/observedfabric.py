"""What discovery sees of a fabric: its switches, adapters and cables; and where it differs from the site."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.ids import WireGuid


class End(Document):
    """One end of an observed cable."""

    guid: WireGuid = Field(description="Node GUID.")
    port: int
    name: str = Field(default="", description="Node description.")


class ObservedNode(Document):
    """A switch or host adapter as discovered."""

    guid: WireGuid
    kind: str = Field(description="`switch` or `ca`.")
    name: str
    ports: int
    port_guids: tuple[WireGuid, ...] = ()


class ObservedFabric(Document):
    """Everything that discovery saw."""

    nodes: tuple[ObservedNode, ...]
    links: tuple[tuple[End, End], ...]
    partial: tuple[str, ...] = Field(
        default=(),
        description="Why nodes and cables may be there that aren't shown, such as time-outs; nothing: all are shown.",
    )


_SHOWN, _LONGEST = 5, 300


def shown_messages(messages: Iterable[str]) -> tuple[str, ...]:
    """Messages of a program as they may be shown: each once, the first few, of bounded length."""
    found = list(dict.fromkeys(" ".join(m.split())[:_LONGEST] for m in messages if m.strip()))
    return (*found[:_SHOWN], *((f"and {len(found) - _SHOWN} more",) if len(found) > _SHOWN else ()))


class FabricDifference(Document):
    """One place where site and fabric differ."""

    kind: Literal[
        "missing node", "unknown node", "wrong name", "missing cable", "moved cable", "unknown cable"
    ]
    subject: str = Field(description="What it is about: a name in the site, a GUID, or a cable's end.")
    described: str = Field(default="", description="What the site says; nothing: it says nothing.")
    observed: str = Field(default="", description="What was discovered; nothing: not there.")
    what: str = Field(description="One sentence.")
