"""Observed state of a fabric and its managers; the same for every type of fabric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.fabrictypes import Level, Mode
from weft.model.ids import WireGuid
from weft.model.problem import Problem


class Capabilities(Document):
    """What a fabric's manager can do; checked when a pod is ordered, so that no `if` on a driver's name is needed."""

    virtual_functions: bool = Field(description="Whether VFs can be members of a segment of their own.")
    why_no_virtual_functions: str = ""
    configures: bool = Field(
        default=True, description="Whether weft puts members into segments, or only reads them."
    )
    limits: tuple[str, ...] = Field(
        default=(), description="What weft can't do or prove on this fabric, one sentence each, for people."
    )


OMNIPATH = Capabilities(
    virtual_functions=False,
    why_no_virtual_functions="Omni-Path adapters have no SR-IOV",
    configures=False,
    limits=(
        "Omni-Path: weft doesn't keep pods apart on it, as its fabric manager is the operator's; whole machines that "
        "are on it reach each other.",
    ),
)
"""A fabric that counts for placement only: weft neither configures nor reads it."""


class Membership(Document):
    """A port in a segment; `Site.port_by_id` has its node, by a physical port.

    A virtual function on InfiniBand has a port of its own, with a GUID that is known before the function is there. On
    Ethernet it has none: the physical port carries the VLAN with its tag, and the host keeps functions apart.
    """

    port: str = Field(
        description="Id of the port as the fabric's driver knows it: port GUID (a virtual function's own), or "
        "switch/port."
    )
    mode: Mode = Mode.FULL
    behind: tuple[str, ...] = Field(
        default=(),
        description="A virtual function's own port: ids of the node's physical ports that it may be behind; which one "
        "it is, Nova says when it binds it. None: the port is physical.",
    )

    @property
    def physical(self) -> tuple[str, ...]:
        """Ids of the physical port itself, or of those that it may be behind; the site knows their nodes."""
        return self.behind or (self.port,)


@dataclass(frozen=True, slots=True)
class Configured:
    """What each of the fabric's managers has configured, as read just now.

    Attributes:
        active: name of the manager in charge (the master).
        read: manager -> number of each configured segment -> its name, weft's and foreign ones.
        unread: manager -> why its configuration could not be read.
    """

    active: str
    read: Mapping[str, Mapping[int, str]]
    unread: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def numbers(self) -> frozenset[int]:
        """Numbers that any manager has configured: others may be allocated."""
        return frozenset().union(*self.read.values())


@dataclass(frozen=True, slots=True)
class TightPort:
    """A host port whose table may have no entry left for another segment.

    Attributes:
        name: adapter and id, for people.
        numbers: segments that it is in; `entries`: how many it can be in.
    """

    fabric: str
    node: str
    port: str
    name: str
    numbers: frozenset[int]
    entries: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What is in use on a fabric: numbers that any manager has configured, and ports with few free entries."""

    numbers: frozenset[int]
    tight: tuple[TightPort, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """One place where a port's segments are read: the port itself, or the switch's side of its cable."""

    name: str
    numbers: frozenset[int]


@dataclass(frozen=True, slots=True)
class PortSeen:
    """A host's port as it was read.

    Attributes:
        port: id, as in `Membership`.
        name: for people, such as `gpu01/mlx5_0`.
        node: node that the port belongs to; empty: the site doesn't know the port.
        places: where its segments were read.
        unread: why it could not be read; `places` is then meaningless.
    """

    port: str
    name: str
    node: str
    places: tuple[Place, ...] = ()
    unread: str = ""

    @property
    def numbers(self) -> frozenset[int]:
        """Segments that it is in, in any place and mode."""
        return frozenset().union(*(p.numbers for p in self.places))


class Snapshot:
    """One reading of a whole fabric. Drivers subclass it with details that only they understand.

    Attributes:
        began: when the reading began, by this process's monotonic clock: later changes are not in it.
        configured: see `Configured`.
        ports: id -> every host's port.
    """

    def __init__(
        self, fabric: str, began: float, configured: Configured, ports: Callable[[], Mapping[str, PortSeen]]
    ) -> None:
        """A reading. Args: ports: called once, on first use: most readings are only used for one segment."""
        self.fabric, self.began, self.configured, self._make_ports = fabric, began, configured, ports

    @cached_property
    def ports(self) -> Mapping[str, PortSeen]:
        """Port -> what was seen of it, computed when it is asked for."""
        return self._make_ports()

    @property
    def functions(self) -> Mapping[str, frozenset[str]]:
        """Own ports of virtual functions that are up -> ids of the ports that they are behind.

        Empty where functions have none of their own. Raises `UnknownError`.
        """
        return {}

    def elsewhere(self, members: Iterable[Membership]) -> Mapping[str, str]:
        """Virtual functions of these members whose own port is not only where it belongs -> where else it is.

        Raises `UnknownError`.
        """
        found: dict[str, str] = {}
        for member in (m for m in members if m.behind):
            if others := self.functions.get(member.port, frozenset()) - {*member.behind}:
                found[member.port] = f"it is behind {', '.join(sorted(others))}"
        return found

    @property
    def segments(self) -> Mapping[int, str]:
        """Number -> name of the segments that the active manager has configured."""
        return self.configured.read[self.configured.active]

    @cached_property
    def ports_in(self) -> Mapping[int, frozenset[str]]:
        """Number -> ids of the ports that are in it."""
        found: dict[int, set[str]] = {}
        for port, seen in self.ports.items():
            for number in seen.numbers:
                found.setdefault(number, set()).add(port)
        return {number: frozenset(ports) for number, ports in found.items()}


Result = Literal["clean", "not clean", "unknown", "accepted"]
"""Result of a reading, in the terms of receipts. unknown: it could not be read, which isn't clean. accepted: nothing
can be read there, but the request was accepted; it delays nothing, and a receipt with it isn't clean."""


@dataclass(frozen=True, slots=True)
class EvidenceItem:
    """What was read in one place, or on one plane, of a fabric.

    Attributes:
        plane: plane of the fabric, in the driver's terms, such as `segment`, `p_key host`, `switch port`.
        subject: name and id.
        seen: what was read, from where and through whom.
        nodes: nodes whose ports it concerns, as far as the site knows them.
        unread: what the result does not cover, each with the reason.
        whole: it concerns the whole segment: if it isn't clean, no node of the pod is.
        level: for a former member's port: how it was read; None: it wasn't read, or the item is about something else.
    """

    plane: str
    subject: str
    result: Result
    seen: str
    nodes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    whole: bool = False
    level: Level | None = None

    def weighed(self, wanted: Level) -> EvidenceItem:
        """The item as it counts where the site wants a level: `unknown` if it was read less closely."""
        if self.level is None or self.result != "clean" or self.level.reaches(wanted):
            return self
        why = f"{self.seen}; the site wants evidence at the level {wanted}, and this is {self.level}"
        return replace(self, result="unknown", seen=why)


@dataclass(frozen=True, slots=True)
class Clean:
    """What is left of a segment on its fabric.

    Attributes:
        items: every plane that the fabric has, clean or not.
        stale: manager -> why it may still have the segment configured; its number isn't allocated again until it
            doesn't.
        behind: id of a former member's port -> why a manager that takes over might put it into the segment again. Only
            relevant while the segment itself stays in use: its number isn't held back then.
    """

    items: tuple[EvidenceItem, ...]
    stale: Mapping[str, str] = field(default_factory=dict[str, str])
    behind: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """Whether a segment is as desired on every plane of its fabric.

    Attributes:
        problems: empty if it is.
        looked_at: what was read -> how many.
        notes: what isn't as it should be but, by the site's policy, doesn't keep a pod from being READY.
    """

    problems: tuple[Problem, ...]
    looked_at: Mapping[str, int] = field(default_factory=dict[str, int])
    notes: tuple[Problem, ...] = ()


class ManagerState(StrEnum):
    """State of a subnet manager."""

    MASTER = "master"
    STANDBY = "standby"
    DOWN = "down"
    UNKNOWN = "unknown"


class ManagerStatus(Document):
    """One subnet manager (or UFM) with its agent."""

    name: str
    state: ManagerState
    problems: tuple[str, ...] = Field(default=(), description="What is wrong, each with what to do.")
    configuration_digest: str = Field(default="", description="SHA-256 of its partition file.")


class PortErrors(Document):
    """Error counters of a port, as perfquery names them."""

    node: str = Field(
        description="Name of the switch or adapter: its node description, which a host writes itself."
    )
    port: int
    peer: str = Field(default="", description="What it is cabled to: name and port.")
    guid: WireGuid | None = Field(
        default=None, description="GUID of the switch or adapter; null: an older agent."
    )
    peer_guid: WireGuid | None = Field(
        default=None, description="GUID of what it is cabled to; null: not known."
    )
    counters: dict[str, int] = Field(description="Sums since they were last reset; without zeros.")
    grown: dict[str, int] = Field(
        default_factory=dict[str, int], description="What was added within the last hour."
    )
    over: tuple[str, ...] = Field(
        default=(),
        description="Counters that grew by more than their threshold, or are full: something is wrong.",
    )
    full: tuple[str, ...] = Field(
        default=(), description="Counters at their largest value: they don't grow until they are reset."
    )

    def sentence(self) -> str:
        """What is wrong with it."""
        grew = ", ".join(f"{n} by {self.grown.get(n, 0)}" for n in self.over if n not in self.full)
        full = ", ".join(f"{n} ({self.counters.get(n, 0)})" for n in self.full)
        what = (
            f"errors grew within the last hour: {grew}" if grew else "",
            f"counter is full: {full}, clear it (perfquery -R)" if full else "",
        )
        to = f" to {self.peer}" if self.peer else ""
        return f"{self.node}[{self.port}]{to}: {'; '.join(filter(None, what))}; check cable and adapter"


class FabricStatus(Document):
    """The fabric's managers together."""

    fabric: str
    managers: tuple[ManagerStatus, ...]
    problems: tuple[str, ...] = Field(
        default=(), description="Of the fabric as a whole: no master, files differ …"
    )
    port_errors: tuple[PortErrors, ...] | None = Field(
        default=None,
        description="Ports with errors, the worst first, at most 50; null: not read yet, or not reported by "
        "the manager.",
    )
    bad_ports: int | None = Field(
        default=None,
        description="How many ports have a counter that grew by more than its threshold or is full, listed or not; "
        "null: not read yet, or not reported by the manager.",
    )
    unread_ports: int | None = Field(
        default=None,
        description="How many cabled ports weren't read an hour ago, or now, so that what they counted since isn't "
        "known; null: not known.",
    )

    @property
    def known(self) -> bool:
        """Whether there is a readable master: anything less is unknown, not healthy."""
        return any(m.state is ManagerState.MASTER for m in self.managers)
