"""Port: a fabric with its manager. Segments are resources created by its driver; what it reads about them is evidence.

The engine weighs evidence: it knows numbers, port ids and nodes. What a port's table is, how a number is written, who
is queried and on which planes a segment is visible is up to the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from weft.model.fabric import Capabilities, Clean, Configured, FabricStatus, SegmentCheck, Snapshot, Usage
from weft.model.linkreading import TimedRates, TimedRoutes
from weft.model.linkstates import LinkStates
from weft.model.livecheck import LiveCheck
from weft.model.mark import Mark
from weft.model.observedfabric import ObservedFabric
from weft.model.portcounters import PortCounters
from weft.model.resources import Observed
from weft.model.specs import SegmentSpec
from weft.ports.resources import ResourceDriver


class FabricDriver(ResourceDriver, Protocol):
    """One fabric. Its resources are segments (kind SEGMENT); the methods below only read.

    Raises `UnknownError` if no active manager responds, or if a reading is not credible.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What the fabric's manager can do."""
        ...

    def status(self) -> FabricStatus:
        """Every manager with its state; a manager that is down is a state, not an error."""
        ...

    def configured(self) -> Configured:
        """What every manager has configured, standbys included, and which of them can't be read."""
        ...

    def usage(self) -> Usage:
        """Numbers that can't be allocated, and ports with few free entries."""
        ...

    def snapshot(self, max_age: float = 0.0, patient: bool = False) -> Snapshot:
        """A reading of the whole fabric that began at most this many seconds ago, and after this process's last change.

        0: it begins after this call. Concurrent callers share one reading; if it fails, it is unknown for all that
        waited for it.

        Args:
            patient: no caller is in a hurry: the reading may begin a moment later, to be shared by more.
        """
        ...

    def observe(self, mark: Mark, segment: SegmentSpec, snapshot: Snapshot) -> Observed:
        """What `find` would return for a segment, from a snapshot of this driver."""
        ...

    def check(self, segment: SegmentSpec, snapshot: Snapshot) -> SegmentCheck:
        """Whether exactly the members are in the segment, on every plane of the fabric."""
        ...

    def clean(self, segment: SegmentSpec, snapshot: Snapshot) -> Clean:
        """Remains of a deleted segment; its members are all that were ever in it."""
        ...

    def topology(self) -> ObservedFabric:
        """Nodes and cables, discovered now."""
        ...

    def live_check(self) -> LiveCheck:
        """Managers' settings that isolation depends on, and what else of the site only they can confirm; read now, from
        every manager. What can't be read is one of its problems.
        """
        ...

    def close(self) -> None:
        """End its threads and connections."""
        ...


@runtime_checkable
class KeepsStandbys(Protocol):
    """A fabric whose managers are configured individually: one that was away must not take over with stale
    configuration.
    """

    def level(self) -> Configured:
        """Configure every reachable manager with the desired state, and return what is read afterwards.

        Writes only where something differs; it doesn't depend on any order.
        """
        ...


@runtime_checkable
class CountsPorts(Protocol):
    """A fabric whose switches are asked for their ports' counters, each by its own interface."""

    def port_counters(self) -> Mapping[str, Sequence[PortCounters] | str]:
        """Switch -> its ports, or why they aren't known. Returns in bounded time: a switch that doesn't answer is one
        of the reasons."""
        ...


@runtime_checkable
class ReadsLinks(Protocol):
    """A fabric that doesn't list its adapters, but whose switches report whether their links are up."""

    def links(self) -> LinkStates:
        """Links of hosts' ports, asked now; unknown where a switch doesn't answer."""
        ...


@runtime_checkable
class FollowsRoutes(Protocol):
    """A fabric whose switches' forwarding tables can be read, so that it is known which links a pod uses."""

    def routes(self, max_age: float) -> TimedRoutes:
        """Forwarding tables read at most `max_age` seconds ago and after the last completed sweep.

        Raises `UnknownError` if the active manager's agent, or the fabric, doesn't answer.
        """
        ...

    def rates(self, max_age: float) -> TimedRates:
        """Data rates of ports; the newest reading is at most `max_age` seconds old. Raises the same errors as
        `routes`."""
        ...
