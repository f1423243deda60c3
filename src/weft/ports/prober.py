"""Port: tries whether what is sent on a fabric arrives where it must, and nowhere else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from weft.model.fabric import Check, Clean
from weft.model.specs import SegmentSpec


@dataclass(frozen=True, slots=True)
class Tried:
    """What was found out, and `ports`: members of whom all is known."""

    check: Check
    ports: frozenset[str]


class Prober(Protocol):
    """Of one fabric. Reading switches tells what they are set to; this tells what they do.

    Never raises because of an agent that doesn't answer: what couldn't be tried is said, as unknown.
    """

    def begin(self, segment: SegmentSpec) -> Tried:
        """As `check`, before servers are started: adapters that only guests will have are their hosts' still."""
        ...

    def check(self, segment: SegmentSpec, addresses: Mapping[str, str], tried: Collection[str] = ()) -> Check:
        """Whether members hear each other, and neither hear others nor are heard by them.

        Args:
            addresses: port's id -> IPv4 address that the pod's server has there, if it can be pinged.
            tried: ports of which `begin` knew all; it isn't missed of them what they do now.
        """
        ...

    def clean(self, segment: SegmentSpec) -> tuple[Clean, tuple[str, ...]]:
        """Whether former members are heard by nobody, and hear nobody; and what couldn't be tried, with reasons."""
        ...

    def close(self) -> None: ...

    def troubles(self) -> tuple[str, ...]:
        """Who doesn't answer, and certificates that need to be renewed, one sentence each."""
        ...
