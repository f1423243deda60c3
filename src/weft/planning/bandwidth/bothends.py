"""Errors at both ends of a cause's cables, and whether they show if cable or adapter is broken. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

from weft.model.fabric import PortErrors
from weft.model.ids import format_guid
from weft.model.site import Site
from weft.planning.bandwidth.expected import Planned
from weft.planning.bandwidth.planned import ends_of
from weft.planning.bandwidth.values import SlowCause, SlowCauseKind
from weft.planning.fabric.linkmap import names_by_guid

FaultPart = Literal["cable", "adapter", ""]
MOST_ERRORS = 10
"""Ports with errors that a cause names."""
SIGNAL = frozenset(
    ("SymbolErrorCounter", "LinkErrorRecoveryCounter", "LocalLinkIntegrityErrors", "PortRcvErrors")
)
"""What a port counts of a signal that it can't read. The others count lost packets, or links that went down, of which
both ends know whatever the reason is."""
_OF_ONE_ADAPTER = (SlowCauseKind.SENDER, SlowCauseKind.RECEIVER, SlowCauseKind.ADAPTER)
_SWITCH_PORT = re.compile(r"(.+):(\d+)")

End = tuple[str, str]
"""A switch or host, and its port or adapter; empty: any."""


def by_the_site(site: Site, fabric: str, errors: Sequence[PortErrors]) -> tuple[PortErrors, ...]:
    """The errors under the site's names, found by GUIDs; those without a GUID, from older agents, are left out.

    Node descriptions don't count: a host writes its own, and managed switches have `MF0;leaf01:MQM8700/U1`.
    """
    names = names_by_guid(site, fabric)

    def name(guid: int) -> str:
        return names[guid][0] if guid in names else format_guid(guid)

    return tuple(
        one.model_copy(
            update={
                "node": name(one.guid),
                "peer": ""
                if one.peer_guid is None
                else f"{name(one.peer_guid)}[{one.peer.rpartition('[')[2]}",
            }
        )
        for one in errors
        if one.guid is not None
    )


def ends_of_cause(cause: SlowCause, planned: Planned, named: Mapping[str, str]) -> tuple[End, ...]:
    """The ends of a cause's cables: both ends of a cable, an adapter's or node's own ends, all ends of a leaf.

    Args:
        named: name in the test -> node of the site.
    """
    subject = cause.subject
    if subject.kind is SlowCauseKind.LEAF:
        return ((subject.name, ""),)
    if subject.kind is SlowCauseKind.LINK:
        found = [_SWITCH_PORT.fullmatch(end) for end in subject.name.split(" - ")]
        return tuple((one[1], one[2]) for one in found if one is not None)
    of_node = ends_of(planned, named, subject.name, subject.rail)
    return tuple((host, device) for host, _, device in (end.partition("/") for end in of_node))


def errors_at(ends: Sequence[End], errors: Sequence[PortErrors]) -> tuple[str, ...]:
    """Sentences about ports with errors at these ends, and at the other ends of their cables."""
    found = [one.sentence() for one in errors if any(_is_at(one, end) or _faces(one, end) for end in ends)]
    return tuple(found[:MOST_ERRORS])


def part_of(cause: SlowCause, ends: Sequence[End], errors: Sequence[PortErrors], complete: bool) -> FaultPart:
    """What is broken, by the errors of a bad signal that grew within the last hour.

    A cable has them at both ends. At the adapter's own end alone it is the adapter: its port can't read a signal that
    the cable carries well in the other direction. At the switch's end alone it may be the adapter that sends badly, the
    cable, or the switch's port: that is left open, as is everything that wasn't read.

    Args:
        ends: of `ends_of_cause`.
        complete: whether every port was read throughout the hour, so that one which isn't among `errors` has none.
    """
    grown = [one for one in errors if _grew(one)]
    if cause.subject.kind is SlowCauseKind.LINK and len(ends) == 2:
        return "cable" if all(any(_is_at(one, end) for one in grown) for end in ends) else ""
    if cause.subject.kind not in _OF_ONE_ADAPTER or len(ends) != 1:
        return ""
    own = any(_is_at(one, ends[0]) for one in grown)
    far = any(_faces(one, ends[0]) for one in grown)
    if own and far:
        return "cable"
    full = any(_faces(one, ends[0]) and SIGNAL & {*one.full} for one in errors)
    return "adapter" if own and complete and not full else ""


def _grew(one: PortErrors) -> bool:
    """Whether a counter of a bad signal grew. The errors of one that was full before may be old."""
    return any(n in SIGNAL and (n not in one.full or one.grown.get(n, 0) > 0) for n in one.over)


def _is_at(one: PortErrors, end: End) -> bool:
    """Whether a port is an end: a switch's by name and number, an adapter's by its host's and its own name."""
    return (one.node, str(one.port)) == end or _names(one.node, end)


def _faces(one: PortErrors, end: End) -> bool:
    """Whether a port is cabled to an end."""
    name, _, port = one.peer.partition("[")
    return (name, port.removesuffix("]")) == end or _names(one.peer, end)


def _names(text: str, end: End) -> bool:
    """Whether a node description, with or without a port, is of this switch, or of this adapter of a host."""
    words = text.replace("/", " ").replace("[", " ").split()
    return words[:1] == [end[0]] and (not end[1] or (end[1] in words[1:] and not end[1].isdecimal()))
