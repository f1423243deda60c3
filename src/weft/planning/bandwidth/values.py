"""Measurements of a bandwidth test, and what is concluded from them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Pair(NamedTuple):
    """One measurement: `sender` writes to `receiver`, by the adapters of one rail (from 0)."""

    sender: str
    receiver: str
    rail: int


class Measured(NamedTuple):
    """A rate in Gb/s: the best of `runs` attempts, so that a hiccup of one doesn't count."""

    gbps: float
    runs: int = 1


class NotRun(NamedTuple):
    """A pair without a figure, which is neither slow nor good, and a code that says why."""

    reason: str


Outcome = Measured | NotRun


class SlowCauseKind(Enum):
    """Kinds of causes, smallest first: if several explain the same pairs, the smallest is named."""

    SENDER = "sender"
    RECEIVER = "receiver"
    ADAPTER = "adapter"
    LINK = "link"
    NODE = "node"
    RAIL = "rail"
    LEAF = "leaf"
    ALL = "all"

    @property
    def size(self) -> int:
        """Sort key, smaller kinds first; both directions of an adapter are equal."""
        return _SIZES[self]


_SIZES = {kind: max(0, place - 1) for place, kind in enumerate(SlowCauseKind)}


class Subject(NamedTuple):
    """What may be slow.

    Attributes:
        name: a node, a leaf, or a link's name; empty: a rail, or all that was measured.
        rail: of a rail or an adapter, of one direction of it; None: of all others.
    """

    kind: SlowCauseKind
    name: str
    rail: int | None = None


@dataclass(frozen=True, slots=True)
class SlowCause:
    """A subject whose pairs are slow.

    Attributes:
        others: subjects of any kind that explain exactly the same pairs: it is one of them all.
        explains: slow pairs that nothing larger explained before.
        slow, measured: of the subject's own pairs.
        gbps: median of its slow pairs.
    """

    subject: Subject
    others: tuple[Subject, ...]
    explains: int
    slow: int
    measured: int
    gbps: float


class NearFloor(NamedTuple):
    """A warning: the adapter's median in Gb/s is less than 1 % above its floor, unlike its rail's."""

    subject: Subject
    gbps: float
    floor: float


class Result(Enum):
    """Result of a whole test. Slow pairs fail it whatever else wasn't measured; without them, what wasn't measured
    counts."""

    PASSED = "passed"
    FAILED = "failed"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """What the pairs of a test say.

    Attributes:
        causes: in the order in which they were found, those that explain most first.
        slow: pairs below their floor.
        unexplained: those of them that no single cause explains.
        unsure: subjects that would be causes, but too few of their pairs were measured.
        not_run: reason -> number of pairs.
    """

    result: Result
    causes: tuple[SlowCause, ...]
    slow: tuple[Pair, ...]
    unexplained: tuple[Pair, ...]
    unsure: tuple[Subject, ...]
    near_floor: tuple[NearFloor, ...]
    measured: int
    not_run: Mapping[str, int]
