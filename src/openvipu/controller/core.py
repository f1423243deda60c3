"""The controller's core: the state and the one way to change it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from openvipu.controller.fleet import Fleet
from openvipu.controller.health import Health
from openvipu.controller.lanes import SHUTTING_DOWN, Lanes
from openvipu.controller.waiting import WaitingCalls, WaitLimit
from openvipu.model.errors import Busy
from openvipu.model.state import State
from openvipu.rules.admission import Visible
from openvipu.store import Step, Store

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Tuning:
    """Times in seconds. ``poll`` 0: only explicit calls of ``Watch.poll`` (tests)."""

    poll: float = 10.0
    backoff: float = 1.0
    lost_after: int = 3
    agent_timeout: float = 30.0
    queue_timeout: float = 60.0
    state_retry: float = 5.0


class Core:
    """State, agents, lanes and clock, shared by all parts of the controller.

    ``testing`` holds the clusters under test; it is read and changed only within :meth:`change`.
    """

    def __init__(
        self,
        store: Store,
        fleet: Fleet,
        tuning: Tuning,
        clock: Callable[[], float] = time.time,
        step: Step = lambda _: None,
    ) -> None:
        self.fleet = fleet
        self.tuning = tuning
        self.clock = clock
        self.step = step
        self.health = Health(tuning.lost_after)
        self.waiting = WaitingCalls()
        self.lanes = Lanes(self.waiting)
        self.testing: set[str] = set()
        self._store = store
        self._lock = threading.Lock()
        self._removals = 0
        self._removal_ended = threading.Condition()
        self._closed = False

    @property
    def state(self) -> State:
        """The present state; a value that never changes under its reader."""
        return self._store.state

    def change(self, decide: Callable[[State], tuple[State, T]]) -> T:
        """Let ``decide`` make the next state, write it, and return its second result.

        ``decide`` is pure and runs alone; what it raises leaves everything as it was. When this
        returns, the change is on the disk.
        """
        with self._lock:
            new, result = decide(self._store.state)
            if new is not self._store.state:
                self._store.save(new)
            return result

    @property
    def removals(self) -> int:
        """Number of removals that ended, whether or not they succeeded."""
        return self._removals

    def removal_ended(self) -> None:
        """Wake requests that wait for the IPUs or the name of a removed partition."""
        with self._removal_ended:
            self._removals += 1
            self._removal_ended.notify_all()

    def await_removal(self, seen: int, patience: WaitLimit, ends: float) -> None:
        """Return when a removal has ended since ``removals`` was ``seen``; Busy at ``ends`` (monotonic clock)."""
        with self.waiting.place(patience.caller), self._removal_ended:
            self._removal_ended.wait_for(
                lambda: self._closed or self._removals != seen, max(0.0, ends - time.monotonic())
            )
            if self._closed:
                raise Busy(SHUTTING_DOWN)
            if self._removals == seen:
                raise Busy("a partition that gives IPUs back is still being removed; try again")

    def was_removed(self, partition_id: str, visible: Visible) -> bool:
        """Whether such a partition was removed recently, and this user may know of it."""
        removed = self.state.removed.get(partition_id)
        return removed is not None and (visible is None or removed.allocation_id in visible)

    def close(self) -> None:
        """Finish what runs, then close agents' channels and the state file."""
        with self._removal_ended:
            self._closed = True
            self._removal_ended.notify_all()
        self.lanes.close()
        self.fleet.close()
        with self._lock:
            self._store.close()
