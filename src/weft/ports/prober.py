"""Port: tests whether frames sent on a fabric arrive where they must, and nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from weft.model.fabric import Clean, SegmentCheck
from weft.model.specs import SegmentSpec


@dataclass(frozen=True, slots=True)
class Tried:
    """The result of a test; `ports` are the members that were tested completely."""

    check: SegmentCheck
    ports: frozenset[str]


class Prober(Protocol):
    """The prober of one fabric. Reading switches shows their configuration; this shows what they do.

    Never raises because of an agent that doesn't answer: what couldn't be tested is reported as unknown.
    """

    def begin(self, segment: SegmentSpec) -> Tried:
        """As `check`, before servers are started: adapters of future guests still belong to their hosts."""
        ...

    def check(
        self, segment: SegmentSpec, addresses: Mapping[str, str], tried: Collection[str] = ()
    ) -> SegmentCheck:
        """Whether members hear each other, and neither hear other ports nor are heard by them.

        Args:
            addresses: port's id -> IPv4 address that the pod's server has there, if it can be pinged.
            tried: ports that `begin` tested completely; they may remain untested now.
        """
        ...

    def clean(self, segment: SegmentSpec) -> tuple[Clean, tuple[str, ...]]:
        """Whether former members neither hear nor are heard by any port; and what couldn't be tested, with reasons."""
        ...

    def close(self) -> None:
        """End its connections."""

    def troubles(self) -> tuple[str, ...]:
        """Agents that don't answer, and certificates that need to be renewed, one sentence each."""
        ...
