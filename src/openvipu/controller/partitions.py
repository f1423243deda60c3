"""What users ask for: create, remove and reset partitions; and look at them."""

from __future__ import annotations

from collections.abc import Callable

from openvipu.controller.core import Core
from openvipu.controller.jobs import Jobs
from openvipu.model.errors import BadRequest, Conflict, NoRoom, NotFound, Refusal
from openvipu.model.partition import Operation, Partition, Requirements
from openvipu.model.state import State
from openvipu.rules import admission, lifecycle
from openvipu.rules.admission import Option, Visible
from openvipu.rules.placement import Pool


class Partitions:
    """Requests wait for their turn in the allocation's lane; the hardware's work goes on after the reply."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs

    def create(self, wanted: Requirements, visible: Visible, timeout: float) -> str:
        """Reserve the IPUs and start the setting up; the id. The first pool that takes it wins."""
        reasons: list[Refusal] = []
        for pool in admission.pools(self._core.state, wanted, visible):
            try:
                return self._core.lanes.run(pool.lane, self._admission(wanted, pool, visible), timeout)
            except (BadRequest, NoRoom, Conflict) as refusal:
                reasons.append(refusal)
        if len(reasons) == 1 or all(isinstance(reason, BadRequest) for reason in reasons):
            raise reasons[0]
        raise NoRoom("no free allocation: " + "; ".join(str(reason) for reason in reasons))

    def remove(self, id_: str, force: bool, visible: Visible, timeout: float) -> None:
        """Start the removal; nothing is left of the partition when its status is REMOVED."""

        def begin(partition: Partition) -> Partition:
            return lifecycle.removing(partition, force)

        self._begin(id_, begin, visible, timeout)

    def reset(self, id_: str, relocatable: bool, visible: Visible, timeout: float) -> None:
        """Start a reset of all its IPUs."""

        def begin(partition: Partition) -> Partition:
            return lifecycle.resetting(partition, relocatable)

        self._begin(id_, begin, visible, timeout)

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
        """The partition; NotFound also when it is another's, so that names tell nothing."""
        partition = self._core.state.partitions.get(id_)
        if partition is None or not _may_see(partition, visible):
            raise NotFound(f"partition {id_!r} doesn't exist")
        return partition

    def options(self, wanted: Requirements, visible: Visible) -> list[Option]:
        """Where the partition could go; nothing is created."""
        return admission.options(self._core.state, wanted, visible, self._core.health.unhealthy())

    def _admission(self, wanted: Requirements, pool: Pool, visible: Visible) -> Callable[[], str]:
        def decide(state: State) -> tuple[State, Partition]:
            # the pool may have changed while the request waited
            now = next(
                (entry for entry in admission.pools(state, wanted, visible) if entry.lane == pool.lane), None
            )
            if now is None:
                raise NoRoom(f"{pool.words} is gone")
            if now.cluster.id in self._core.testing:
                raise Conflict(f"cluster {now.cluster.id!r} is being tested; try again later")
            return admission.admit(state, wanted, now, self._core.health.unhealthy())

        def work() -> str:
            partition = self._core.change(decide)
            self._core.step("admitted")
            self._jobs.queue(partition, self._jobs.create, first=True)
            return partition.id

        return work

    def _begin(
        self, id_: str, begin: Callable[[Partition], Partition], visible: Visible, timeout: float
    ) -> None:
        lane = self._jobs.lane_of(self.get(id_, visible))

        def decide(state: State) -> tuple[State, Partition]:
            partition = begin(self.get(id_, visible))
            return state.with_partition(partition), partition

        def work() -> None:
            partition = self._core.change(decide)
            self._core.step("begun")
            job = self._jobs.remove if partition.operation is Operation.REMOVING else self._jobs.reset
            self._jobs.queue(partition, job, first=True)

        self._core.lanes.run(lane, work, timeout)


def _may_see(partition: Partition, visible: Visible) -> bool:
    return visible is None or partition.allocation_id in visible
