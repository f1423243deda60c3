"""What is read of a fabric's links: routes, and what ports count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from weft.model.agentlinks import RoutedPort, SwitchCable

Pattern = Literal["rail", "all", "ring"]
"""Which adapters of a pod send to which. rail: all pairs on the same rail; all: all pairs of adapters on different
nodes; ring: on each rail the next node in the tree's order."""


@dataclass(frozen=True, eq=False, slots=True)
class RouteReading:
    """Forwarding tables of all switches of a fabric; equal if their `digest` is.

    Attributes:
        digest: of tables, ports and cables.
        tables: switch GUID -> a byte for each LID from 0, the port that packets leave by.
        names: switch GUID -> its own name.
        host_gbps: port GUID -> Gb/s of its link, where known.
        unread: switch GUID -> why its table wasn't read.
        partial: why cables may be missing, or tables may be of two sweeps.
        engine: routing engine in force; empty: not known. `configured`: those of the options, the first preferred.
    """

    digest: str
    tables: Mapping[int, bytes]
    names: Mapping[int, str]
    ports: tuple[RoutedPort, ...]
    cables: tuple[SwitchCable, ...]
    host_gbps: Mapping[int, int] = field(default_factory=dict[int, int])
    unread: Mapping[int, str] = field(default_factory=dict[int, str])
    partial: tuple[str, ...] = ()
    engine: str = ""
    configured: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RouteReading) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, slots=True)
class TimedRoutes:
    """A reading of routes, and how many seconds ago it began."""

    routes: RouteReading
    age: float
