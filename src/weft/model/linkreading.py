"""What is read of a fabric's links: routes, and what ports count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

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
        equal_paths: there are no tables: a packet takes one of all shortest paths.
        port_names: (switch GUID, port) -> the vendor's name of the port, where ports have names.
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
    equal_paths: bool = False
    port_names: Mapping[tuple[int, int], str] = field(default_factory=dict[tuple[int, int], str])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RouteReading) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


@dataclass(frozen=True, slots=True)
class TimedRoutes:
    """A reading of routes, and how many seconds ago it began."""

    routes: RouteReading
    age: float


class PortRate(NamedTuple):
    """What a port sends now; None: not known.

    Attributes:
        sent, received: bytes per second.
        waiting: share of the time with data to send in which it waited; `waiting_before`: in the interval before.
        at_least: the values are at least that: a counter was reset, or reached its end.
        full: its counter of waiting is full, and counts nothing until it is reset.
        pauses: frames of priority flow control per second that keep it from sending, on Ethernet.
        marked: frames per second that it marked as having met congestion (ECN).
    """

    sent: float | None = None
    received: float | None = None
    waiting: float | None = None
    waiting_before: float | None = None
    at_least: bool = False
    full: bool = False
    pauses: float | None = None
    marked: float | None = None


UNKNOWN_RATE = PortRate()


@dataclass(frozen=True, slots=True)
class TimedRates:
    """Rates of all cabled ports.

    Attributes:
        ports: (GUID of the node, port) -> its rate.
        seconds: lengths of the last two intervals, newest first; none: there is one reading only.
        age: seconds since the newest reading began.
        unread: cabled ports that didn't answer.
    """

    ports: Mapping[tuple[int, int], PortRate]
    seconds: tuple[float, ...]
    age: float
    unread: int
