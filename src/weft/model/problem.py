"""Differences from the desired state, as values: decisions use kind, ids and nodes; sentences are made in one place.

Sentences are never parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ProblemKind(StrEnum):
    """What is wrong; `_ROWS` has severity and sentence of each."""

    UNREAD = "unread"
    """A place could not be queried."""
    MISSING = "missing"
    DIFFERENT = "different"
    UNSETTLED = "unsettled"
    FOREIGN_ON_NETWORK = "foreign-on-network"
    FOREIGN_USE = "foreign-use"
    """Something of others uses a group, port or router of the pod's."""
    NODE_WITHHELD = "node-withheld"
    """A node's adapters are kept out of the pod's segment."""
    SERVER_WITHHELD = "server-withheld"
    """A server's own part of a shared node's adapters is kept out of the pod's segment."""
    NODE_BESIDE = "node-beside"
    """Something is on a node that isn't the pod's, and has none of its adapters: they stay in the pod's segment."""
    NODE_UNREAD = "node-unread"
    PORT_UNREAD = "port-unread"
    PORT_LOST = "port-lost"
    """A port that should exist wasn't found on the fabric."""
    FUNCTION_DOWN = "function-down"
    """A virtual function's own port isn't there, or carries nothing."""
    FUNCTION_ELSEWHERE = "function-elsewhere"
    """A virtual function's own port is, or is also, where it doesn't belong."""
    ADDRESS_TAKEN = "address-taken"
    """Somebody else's port has the MAC address of a pod's port."""
    NOT_MEMBER = "not-member"
    OTHER_SEGMENTS = "other-segments"
    FAILED_OPEN = "failed-open"
    SEGMENT_LEFT = "segment-left"
    """A port that isn't a member has the segment."""
    SETTING = "setting"
    """A port isn't set as the site wants it."""
    NOT_HEARD = "not-heard"
    """A member doesn't get what others send."""
    HEARD = "heard"
    """Something gets through between a member and who is none."""
    NO_ECHO = "no-echo"
    NO_PATH = "no-path"
    WRONG_PATH = "wrong-path"
    PATH_FROM_OUTSIDE = "path-from-outside"


class Severity(StrEnum):
    """How bad it is, the worst first."""

    ISOLATION = "isolation"
    """Someone may reach what isn't theirs."""
    SERVICE = "service"
    """The pod lacks something that it should have."""
    UNKNOWN = "unknown"
    """It could not be read, which is neither wrong nor healthy."""


class Side(StrEnum):
    """Which table: that of the host port, or of the leaf port that it is cabled to."""

    HOST = "host"
    LEAF = "leaf"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that isn't as desired.

    Attributes:
        subject: name of what it concerns: a resource with its kind, a port (`node/adapter`), a node.
        place: cloud or fabric where it was seen; empty: not specific to one.
        key: resource of the pod that it concerns, if any.
        id: external id: a UUID, a port's GUID; empty if it has none.
        nodes: nodes that it concerns; empty if all.
        side: which table it was read from, if any.
        detail: further values in the kind's sentence.
    """

    kind: ProblemKind
    subject: str
    place: str = ""
    key: str | None = None
    id: str = ""
    nodes: tuple[str, ...] = ()
    side: Side | None = None
    detail: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def severity(self) -> Severity:
        return _ROWS[self.kind][0]

    @property
    def unknown(self) -> bool:
        return self.severity is Severity.UNKNOWN

    def text(self) -> str:
        """One sentence: what was observed, where, and what was expected."""
        return _ROWS[self.kind][1].format(subject=self.subject, place=self.place, **self.detail)


def unread(place: str, why: object) -> Problem:
    """A place could not be queried; `why` is the error."""
    return Problem(ProblemKind.UNREAD, place, place, detail={"why": str(why)})


def render(problems: Iterable[Problem], most: int | None = None) -> str:
    """Problems as one sentence, the first `most` in full; unknown ones are marked as such."""
    texts = [("unknown: " if p.unknown else "") + p.text() for p in problems]
    more = f" (and {len(texts) - most} more)" if most is not None and len(texts) > most else ""
    return "; ".join(texts[:most]) + more


_K, _S = ProblemKind, Severity
_ROWS: Mapping[ProblemKind, tuple[Severity, str]] = {
    _K.UNREAD: (_S.UNKNOWN, "{why}"),
    _K.MISSING: (_S.SERVICE, "{subject} is missing"),
    _K.DIFFERENT: (_S.SERVICE, "{subject}: {field} is {observed}, expected {wanted}"),
    _K.UNSETTLED: (_S.SERVICE, "{subject} is {state}: {why}"),
    _K.FOREIGN_ON_NETWORK: (
        _S.ISOLATION,
        "network {subject} has something on it that doesn't belong to the pod: {thing}",
    ),
    _K.FOREIGN_USE: (_S.SERVICE, "{subject} is used by something that doesn't belong to the pod: {thing}"),
    _K.NODE_WITHHELD: (
        _S.ISOLATION,
        "node {subject}: {why}: its adapters are kept out of the pod's segment",
    ),
    _K.SERVER_WITHHELD: (_S.ISOLATION, "node {subject}: {why}"),
    _K.NODE_BESIDE: (_S.SERVICE, "node {subject}: {why}"),
    _K.NODE_UNREAD: (_S.UNKNOWN, "node {subject}: what is on its host is unknown: {why}"),
    _K.PORT_UNREAD: (_S.UNKNOWN, "{subject}: its P_Key table can't be read: {why}"),
    _K.PORT_LOST: (_S.UNKNOWN, "{subject} was not found on the fabric"),
    _K.FUNCTION_DOWN: (_S.SERVICE, "{subject} is not up: {why}"),
    _K.FUNCTION_ELSEWHERE: (_S.ISOLATION, "{subject} is not only where it belongs: {why}"),
    _K.ADDRESS_TAKEN: (_S.ISOLATION, "{subject} is not the only one with its MAC address: {thing}"),
    _K.NOT_MEMBER: (_S.SERVICE, "{subject} is not a {mode} member of {segment}{limited}"),
    _K.OTHER_SEGMENTS: (_S.ISOLATION, "{subject} also has {segments}"),
    _K.FAILED_OPEN: (
        _S.ISOLATION,
        "{subject} is a full member of the default partition: the fabric has failed open",
    ),
    _K.SEGMENT_LEFT: (_S.ISOLATION, "{subject} has {segment}"),
    _K.SETTING: (_S.SERVICE, "{subject}: {field} of {port} is {observed}, expected {wanted}"),
    _K.NOT_HEARD: (_S.SERVICE, "{subject} doesn't hear {who} in {segment}"),
    _K.HEARD: (_S.ISOLATION, "{subject} hears {who}, and only one of them is in {segment}"),
    _K.NO_ECHO: (_S.SERVICE, "{subject}: no answer to pings{what} from {who}"),
    _K.NO_PATH: (_S.SERVICE, "the subnet administrator returns no path between {subject}"),
    _K.WRONG_PATH: (_S.SERVICE, "the path between {subject} has P_Key {observed}, expected {segment}"),
    _K.PATH_FROM_OUTSIDE: (
        _S.ISOLATION,
        "the subnet administrator returns a path to {member} for {subject}, which is not a member",
    ),
}
