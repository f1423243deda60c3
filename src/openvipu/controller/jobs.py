"""Realizing partitions on the hardware: set up, reset, relocate, clear.

Every job starts from the stored state and is idempotent, so a restart simply repeats what was in
progress. Jobs of one partition run in its lane, one after the other; those of different partitions run beside each
other, since no two have an IPU in common.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from openvipu.controller.core import Core
from openvipu.controller.lanes import Work
from openvipu.convert import setting_to_wire
from openvipu.model.errors import NoRoom, Refusal, StateError, Unavailable
from openvipu.model.partition import Operation, Partition
from openvipu.model.site import IPUS_PER_MACHINE
from openvipu.model.state import State
from openvipu.proto import agent_pb2 as pb
from openvipu.rules import admission, lifecycle, links
from openvipu.rules.admission import Unhealthy

Job = Callable[[str, int], None]
"""What is done to a partition, by its id and the generation that it was wanted for."""

log = logging.getLogger("openvipu")

NOTHING: Unhealthy = frozenset()


def lane_of(partition_id: str) -> str:
    """The lane that this partition's work belongs to."""
    return f"partition {partition_id}"


class Jobs:
    """The hardware side of partitions."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def resume(self) -> None:
        """Resume the work on every partition that was in progress before the restart."""
        jobs: dict[Operation, Job] = {
            Operation.CREATING: self.create,
            Operation.RESETTING: self.reset,
            Operation.REMOVING: self.remove,
        }
        for partition in list(self._core.state.partitions.values()):
            job = jobs.get(partition.operation)
            if job is not None:
                self.queue(partition, job)

    def queue(self, partition: Partition, job: Job, first: bool = False) -> None:
        """Queue ``job`` for this partition in its lane."""
        id_, generation = partition.id, partition.generation
        lane = lane_of(id_)
        self._core.lanes.submit(lane, self._lasting(lane, lambda: job(id_, generation)), first)

    def queue_repair(self, partition: Partition, errors: tuple[str, ...]) -> None:
        """Queue the repair of an active partition that was found broken."""
        self.queue(partition, lambda id_, generation: self.repair(id_, generation, errors))

    def create(self, id_: str, generation: int) -> None:
        """Configure and train every machine for the first time."""
        partition = self._due(id_, generation, Operation.CREATING)
        if partition is not None:
            self._finish(partition, self._set_up(partition, "Configure"), NOTHING)

    def reset(self, id_: str, generation: int, tried: Unhealthy = NOTHING) -> None:
        """Reset, configure and train again. ``tried`` are the IPUs that relocation must not come back to."""
        partition = self._due(id_, generation, Operation.RESETTING)
        if partition is not None:
            self._finish(partition, self._set_up(partition, "Reset"), tried)

    def remove(self, id_: str, generation: int) -> None:
        """Clear every machine, then forget the partition; with force even if a machine doesn't answer.

        A machine that couldn't be cleared isn't assigned until the poll has cleaned it.
        """
        partition = self._due(id_, generation, Operation.REMOVING)
        if partition is None:
            return
        errors = self._clear(partition)
        self._core.step("cleared")
        if errors and not partition.force_removal:
            words = tuple(f"remove: {error}" for error in errors.values())
            self._store(lifecycle.failed(partition, words))
            self._core.removal_ended()
            return
        for agent_id in errors:
            self._core.health.dirty(agent_id)
        self._core.change(lambda state: (lifecycle.removed(state, partition), None))
        self._core.removal_ended()

    def repair(self, id_: str, generation: int, errors: tuple[str, ...]) -> None:
        """Repair an active partition that was found broken: start the automatic resets, or fail it."""
        partition = self._due(id_, generation, Operation.IDLE)
        if partition is not None:
            self._recover(partition, errors, NOTHING)

    def _lasting(self, lane: str, work: Work) -> Work:
        """``work`` that is retried later when the state can't be written, for example on a full disk.

        A job that was dropped would leave its partition half made until the next restart.
        """

        def lasting() -> None:
            try:
                work()
            except StateError as error:
                log.error("%s: %s; trying again", lane, error)
                self._core.lanes.later(self._core.tuning.state_retry, lane, lasting)

        return lasting

    def _due(self, id_: str, generation: int, operation: Operation) -> Partition | None:
        """The partition if the job is still wanted: not removed, replaced or already done."""
        partition = self._core.state.partitions.get(id_)
        if partition is None or partition.generation != generation or partition.operation is not operation:
            return None
        return partition

    def _finish(self, partition: Partition, errors: Mapping[str, str], tried: Unhealthy) -> None:
        if not errors:
            self._core.step("trained")
            self._store(lifecycle.activated(partition))
            return
        if len(tried) or not lifecycle.may_retry(partition):
            bad = frozenset((agent, number) for agent in errors for number in range(IPUS_PER_MACHINE))
            if partition.relocatable and self._relocate(partition, tried | bad):
                return
        self._recover(partition, tuple(errors.values()), tried)

    def _recover(self, partition: Partition, errors: tuple[str, ...], tried: Unhealthy) -> None:
        if not lifecycle.may_retry(partition):
            self._store(lifecycle.failed(partition, errors))
            return
        waiting = lifecycle.recovering(partition, errors, self._core.clock())
        self._store(waiting)
        pause = lifecycle.backoff_seconds(self._core.tuning.backoff, waiting.retries)
        id_, generation = partition.id, partition.generation
        self._core.lanes.later(pause, lane_of(id_), lambda: self.reset(id_, generation, tried))

    def _relocate(self, partition: Partition, avoid: Unhealthy) -> bool:
        """Clear the machines, then move to other IPUs of the pool; False if there is no other place.

        In this order, because released IPUs may be assigned to another partition immediately.
        """
        unhealthy = self._core.health.unhealthy() | avoid

        def decide(state: State) -> tuple[State, Partition]:
            moving = lifecycle.relocating(state.partition(partition.id))
            return admission.relocate(state, moving, unhealthy)

        try:
            decide(self._core.state)
            for agent_id in self._clear(partition):
                self._core.health.dirty(agent_id)
            moved = self._core.change(decide)
        except NoRoom:
            return False
        self._core.step("relocated")
        id_, generation = moved.id, moved.generation
        lane = lane_of(id_)
        work = self._lasting(lane, lambda: self.reset(id_, generation, unhealthy))
        self._core.lanes.submit(lane, work, first=True)
        return True

    def _set_up(self, partition: Partition, method: str) -> dict[str, str]:
        """Configure or Reset every machine, then train; the errors by agent id."""
        state = self._core.state
        cluster = state.cluster(partition.cluster_id)
        serials = {agent: state.agent(agent).machine.serial for agent in cluster.agent_ids}
        settings = links.settings(partition, cluster, serials)
        make = pb.ConfigureRequest if method == "Configure" else pb.ResetRequest
        desired = {id_: make(setting=setting_to_wire(setting)) for id_, setting in settings.items()}
        self._core.step("configuring")
        _, refusals = self._call(method, desired)
        self._core.step("configured")
        if refusals:
            return {id_: str(refusal) for id_, refusal in refusals.items()}
        train = pb.TrainRequest(partition_id=partition.id, generation=partition.generation)
        replies, refusals = self._call("Train", dict.fromkeys(settings, train))
        errors = {id_: str(refusal) for id_, refusal in refusals.items()}
        errors |= {id_: "; ".join(reply.failures) for id_, reply in replies.items() if reply.failures}
        return errors

    def _clear(self, partition: Partition) -> dict[str, str]:
        request = pb.ClearRequest(partition_id=partition.id, generation=partition.generation)
        _, refusals = self._call("Clear", dict.fromkeys(partition.agent_ids, request))
        return {id_: str(refusal) for id_, refusal in refusals.items()}

    def _call(self, method: str, requests: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Refusal]]:
        state = self._core.state
        calls = {id_: (state.agent(id_), request) for id_, request in requests.items()}
        replies, refusals = self._core.fleet.call_all(method, calls)
        for id_, refusal in refusals.items():
            if isinstance(refusal, Unavailable):
                self._core.health.unreachable(id_)
        return replies, refusals

    def _store(self, partition: Partition) -> None:
        self._core.change(lambda state: (state.with_partition(partition), None))
