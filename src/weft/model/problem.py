"""Differences from the desired state, as values: decisions use kind, ids and nodes; sentences are made in one place.

Sentences are never parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from weft.model.errors import WeftError
from weft.model.messages import Code, Message, problems


class ProblemKind(StrEnum):
    """What is wrong; `_ROWS` has severity and sentence of each."""

    UNREAD = "unread"
    """A place could not be queried."""
    MISSING = "missing"
    DIFFERENT = "different"
    UNSETTLED = "unsettled"
    FOREIGN_ON_NETWORK = "foreign-on-network"
    FOREIGN_USE = "foreign-use"
    """Something that isn't the pod's uses a group, port or router of the pod."""
    NODE_WITHHELD = "node-withheld"
    """A node's adapters are kept out of the pod's segment."""
    SERVER_WITHHELD = "server-withheld"
    """A server's own part of a shared node's adapters is kept out of the pod's segment."""
    NODE_BESIDE = "node-beside"
    """Something that isn't the pod's is on a node, without an adapter: the adapters stay in the pod's segment."""
    NODE_UNREAD = "node-unread"
    PORT_UNREAD = "port-unread"
    PORT_LOST = "port-lost"
    """A port that should exist wasn't found on the fabric."""
    FUNCTION_DOWN = "function-down"
    """A virtual function's own port isn't there, or carries nothing."""
    FUNCTION_ELSEWHERE = "function-elsewhere"
    """A virtual function's own port is, or is also, where it doesn't belong."""
    ADDRESS_TAKEN = "address-taken"
    """A port outside the pod has the MAC address of a pod's port."""
    NOT_MEMBER = "not-member"
    OTHER_SEGMENTS = "other-segments"
    FAILED_OPEN = "failed-open"
    SEGMENT_LEFT = "segment-left"
    """A port that isn't a member has the segment."""
    SETTING = "setting"
    """A port isn't configured as the site wants it."""
    NOT_HEARD = "not-heard"
    """A member doesn't receive what others send."""
    HEARD = "heard"
    """Frames pass between a member and a non-member."""
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
        id: external id, such as a UUID or a port's GUID; empty if it has none.
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
        """That of its kind, from the table of problems."""
        return _ROWS[self.kind][0]

    @property
    def unknown(self) -> bool:
        """Whether it says that something couldn't be read."""
        return self.severity is Severity.UNKNOWN

    def message(self) -> Message:
        """What was observed, where, and what was expected; marked if it is unknown."""
        said = self._said()
        return problems.UNKNOWN(what=said) if self.unknown else said

    def text(self) -> str:
        """The same as one sentence for operators, without the mark."""
        return self._said()

    def _said(self) -> Message:
        code = _ROWS[self.kind][1]
        given: dict[str, object] = {"subject": self.subject, **self.detail}
        return code(**{name: value for name, value in given.items() if name in code.types})


def unread(place: str, why: object) -> Problem:
    """A place could not be queried; `why` is the error."""
    return Problem(
        ProblemKind.UNREAD,
        place,
        place,
        detail={"why": why.message if isinstance(why, WeftError) else str(why)},
    )


def render(found: Iterable[Problem], most: int | None = None) -> Message:
    """Problems as one message: the first `most` in full, the others counted."""
    said = [problem.message() for problem in found]
    if len(said) == 1:
        return said[0]
    kept = said if most is None else said[:most]
    return problems.SEVERAL(problems=kept, more=len(said) - len(kept) or None) if said else Message("")


_S = Severity
_ROWS: Mapping[ProblemKind, tuple[Severity, Code]] = {
    ProblemKind.UNREAD: (_S.UNKNOWN, problems.UNREAD),
    ProblemKind.MISSING: (_S.SERVICE, problems.MISSING),
    ProblemKind.DIFFERENT: (_S.SERVICE, problems.DIFFERENT),
    ProblemKind.UNSETTLED: (_S.SERVICE, problems.UNSETTLED),
    ProblemKind.FOREIGN_ON_NETWORK: (_S.ISOLATION, problems.FOREIGN_ON_NETWORK),
    ProblemKind.FOREIGN_USE: (_S.SERVICE, problems.FOREIGN_USE),
    ProblemKind.NODE_WITHHELD: (_S.ISOLATION, problems.NODE_WITHHELD),
    ProblemKind.SERVER_WITHHELD: (_S.ISOLATION, problems.SERVER_WITHHELD),
    ProblemKind.NODE_BESIDE: (_S.SERVICE, problems.NODE_BESIDE),
    ProblemKind.NODE_UNREAD: (_S.UNKNOWN, problems.NODE_UNREAD),
    ProblemKind.PORT_UNREAD: (_S.UNKNOWN, problems.PORT_UNREAD),
    ProblemKind.PORT_LOST: (_S.UNKNOWN, problems.PORT_LOST),
    ProblemKind.FUNCTION_DOWN: (_S.SERVICE, problems.FUNCTION_DOWN),
    ProblemKind.FUNCTION_ELSEWHERE: (_S.ISOLATION, problems.FUNCTION_ELSEWHERE),
    ProblemKind.ADDRESS_TAKEN: (_S.ISOLATION, problems.ADDRESS_TAKEN),
    ProblemKind.NOT_MEMBER: (_S.SERVICE, problems.NOT_MEMBER),
    ProblemKind.OTHER_SEGMENTS: (_S.ISOLATION, problems.OTHER_SEGMENTS),
    ProblemKind.FAILED_OPEN: (_S.ISOLATION, problems.FAILED_OPEN),
    ProblemKind.SEGMENT_LEFT: (_S.ISOLATION, problems.SEGMENT_LEFT),
    ProblemKind.SETTING: (_S.SERVICE, problems.SETTING),
    ProblemKind.NOT_HEARD: (_S.SERVICE, problems.NOT_HEARD),
    ProblemKind.HEARD: (_S.ISOLATION, problems.HEARD),
    ProblemKind.NO_ECHO: (_S.SERVICE, problems.NO_ECHO),
    ProblemKind.NO_PATH: (_S.SERVICE, problems.NO_PATH),
    ProblemKind.WRONG_PATH: (_S.SERVICE, problems.WRONG_PATH),
    ProblemKind.PATH_FROM_OUTSIDE: (_S.ISOLATION, problems.PATH_FROM_OUTSIDE),
}
