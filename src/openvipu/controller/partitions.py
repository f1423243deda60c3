"""The users' operations: create, remove, reset and show partitions."""

from __future__ import annotations

import time
from collections.abc import Callable

from openvipu.controller.core import Core
from openvipu.controller.jobs import Jobs, lane_of
from openvipu.controller.waiting import WaitLimit
from openvipu.model.errors import AlreadyExists, BadRequest, Conflict, NoRoom, NotFound, Refusal
from openvipu.model.partition import Operation, Partition, Requirements
from openvipu.model.state import State
from openvipu.rules import admission, lifecycle
from openvipu.rules.admission import Option, Visible

Whose = Callable[[], Visible]
"""What the caller may use at this moment: a request may wait, and its user be removed meanwhile."""


class Partitions:
    """Requests are admitted one at a time, the hardware's work continues after the reply.

    What is asked of a partition waits for its turn in the partition's lane. A create waits only while a removal
    is under way that gives back what it needs.
    """

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs

    def create(self, wanted: Requirements, whose: Whose, patience: WaitLimit) -> str:
        """Reserve the IPUs in the first pool with room, start the setup, and return the id."""
        ends = time.monotonic() + patience.seconds
        while True:
            seen = self._core.removals
            try:
                partition = self._core.change(lambda state: self._admit(state, wanted, whose()))
            except (NoRoom, AlreadyExists):
                if not _gives_back(self._core.state, wanted, whose()):
                    raise
                self._core.await_removal(seen, patience, ends)
                continue
            self._core.step("admitted")
            self._jobs.queue(partition, self._jobs.create)
            return partition.id

    def remove(self, id_: str, force: bool, whose: Whose, patience: WaitLimit) -> None:
        """Start the removal; nothing is left of the partition when its status is REMOVED."""

        def begin(partition: Partition) -> Partition:
            return lifecycle.removing(partition, force)

        self._begin(id_, begin, whose, patience)

    def reset(self, id_: str, relocatable: bool, whose: Whose, patience: WaitLimit) -> None:
        """Start a reset of all its IPUs."""

        def begin(partition: Partition) -> Partition:
            return lifecycle.resetting(partition, relocatable)

        self._begin(id_, begin, whose, patience)

    def seen(self, visible: Visible, allocation_id: str = "") -> list[Partition]:
        """The partitions that this user may see, in order of creation."""
        if allocation_id and allocation_id not in self._core.state.allocations:
            raise NotFound(f"allocation {allocation_id!r} doesn't exist")
        if allocation_id and visible is not None and allocation_id not in visible:
            raise NotFound(f"allocation {allocation_id!r} doesn't exist")
        return [
            partition
            for partition in self._core.state.partitions.values()
            if _may_see(partition, visible) and allocation_id in ("", partition.allocation_id)
        ]

    def get(self, id_: str, visible: Visible) -> Partition:
        """The partition; NotFound also for another user's, so that names reveal nothing."""
        partition = self._core.state.partitions.get(id_)
        if partition is None or not _may_see(partition, visible):
            raise NotFound(f"partition {id_!r} doesn't exist")
        return partition

    def options(self, wanted: Requirements, visible: Visible) -> list[Option]:
        """Places where the partition could go; nothing is created."""
        return admission.options(self._core.state, wanted, visible, self._core.health.unhealthy())

    def _admit(self, state: State, wanted: Requirements, visible: Visible) -> tuple[State, Partition]:
        unhealthy = self._core.health.unhealthy()
        reasons: list[Refusal] = []
        for pool in admission.pools(state, wanted, visible):
            try:
                if pool.cluster.id in self._core.testing:
                    raise Conflict(f"cluster {pool.cluster.id!r} is being tested; try again later")
                return admission.admit(state, wanted, pool, unhealthy)
            except (BadRequest, NoRoom, Conflict) as refusal:
                reasons.append(refusal)
        if len(reasons) == 1 or all(isinstance(reason, BadRequest) for reason in reasons):
            raise reasons[0]
        raise NoRoom("no free allocation: " + "; ".join(str(reason) for reason in reasons))

    def _begin(
        self, id_: str, begin: Callable[[Partition], Partition], whose: Whose, patience: WaitLimit
    ) -> None:
        self.get(id_, whose())  # a caller who may not see it doesn't wait for it either

        def decide(state: State) -> tuple[State, Partition]:
            partition = begin(self.get(id_, whose()))
            return state.with_partition(partition), partition

        def work() -> None:
            partition = self._core.change(decide)
            self._core.step("begun")
            job = self._jobs.remove if partition.operation is Operation.REMOVING else self._jobs.reset
            self._jobs.queue(partition, job, first=True)

        self._core.lanes.run(lane_of(id_), work, patience)


def _gives_back(state: State, wanted: Requirements, visible: Visible) -> bool:
    """Is a partition being removed that has the wanted name, or IPUs of a pool that this one may come from?"""
    removing = [entry for entry in state.partitions.values() if entry.operation is Operation.REMOVING]
    sources = {pool.words for pool in admission.pools(state, wanted, visible)} if removing else set[str]()
    return any(
        entry.id == wanted.id or admission.pool_of(state, entry).words in sources for entry in removing
    )


def _may_see(partition: Partition, visible: Visible) -> bool:
    return visible is None or partition.allocation_id in visible
