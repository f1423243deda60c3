"""The repair loop: poll the agents, clean what shouldn't be there, repair what is broken."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from openvipu.controller.core import Core
from openvipu.controller.jobs import Jobs
from openvipu.convert import status_from_wire
from openvipu.model.errors import Refusal
from openvipu.model.hardware import MachineStatus, SettingStatus
from openvipu.model.partition import Operation, Partition, ReadyState
from openvipu.proto import agent_pb2 as pb

log = logging.getLogger("openvipu")


def sweep(core: Core, agent_id: str, status: MachineStatus) -> None:
    """Clear settings that no partition of ours has: left by a forced removal, a relocation or another controller.

    A machine is clean once nothing of that kind is left.
    """
    state = core.state
    clean = True
    for setting in status.settings:
        if _is_wanted(state.partitions.get(setting.partition_id), agent_id, setting):
            continue
        request = pb.ClearRequest(partition_id=setting.partition_id, generation=setting.generation)
        try:
            core.fleet.call(state.agent(agent_id), "Clear", request)
        except Refusal as refusal:
            log.warning("sweep: %s", refusal)
            clean = False
    if clean:
        core.health.clean(agent_id)


def _is_wanted(partition: Partition | None, agent_id: str, setting: SettingStatus) -> bool:
    """Whether the setting is the partition's: an older one may be replaced by a running job, a newer one is foreign."""
    if partition is None or agent_id not in partition.agent_ids or setting.generation > partition.generation:
        return False
    return setting.generation == partition.generation or partition.operation is not Operation.IDLE


class Watch:
    """Polls every ``Tuning.poll`` seconds in its own thread until closed."""

    def __init__(self, core: Core, jobs: Jobs) -> None:
        self._core = core
        self._jobs = jobs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> None:
        """Poll in a thread, unless the pause is zero."""
        if self._core.tuning.poll > 0:
            self._thread.start()

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def poll(self) -> None:
        """One round: observe every machine, then repair what is broken."""
        self.repair(self.look())

    def look(self) -> Mapping[str, Partition]:
        """Ask every agent and clean its machine; the partitions as they were before it was asked.

        Agents that don't answer are noted, not waited for beyond their timeout.
        """
        before = self._core.state.partitions
        calls = {id_: (agent, pb.GetStatusRequest()) for id_, agent in self._core.state.agents.items()}
        seconds = min(5.0, self._core.fleet.timeout)
        replies, refusals = self._core.fleet.call_all("GetStatus", calls, seconds, only_looks=True)
        for id_, refusal in refusals.items():
            log.warning("poll: %s", refusal)
            self._core.health.missed(id_)
        for id_, reply in replies.items():
            status = status_from_wire(reply)
            known = self._core.state.agents.get(id_)
            if known is None:
                continue
            if status.serial != known.machine.serial:
                log.warning(
                    "agent %s: machine %s was replaced by %s", id_, known.machine.serial, status.serial
                )
                self._core.health.missed(id_)
                continue
            self._core.health.answered(id_, status)
            sweep(self._core, id_, status)
        return before

    def repair(self, before: Mapping[str, Partition]) -> None:
        """Start the repair of every active partition with an error.

        The readings are older than the present state: a partition that changed since ``before`` is left to the next
        round; otherwise a new one would seem broken.
        """
        for id_, partition in self._core.state.partitions.items():
            if (
                before.get(id_) is not partition
                or partition.ready is not ReadyState.ACTIVE
                or partition.operation is not Operation.IDLE
            ):
                continue
            errors = self._core.health.errors(partition)
            if errors:
                self._jobs.queue_repair(partition, errors)

    def _run(self) -> None:
        while not self._stop.wait(self._core.tuning.poll):
            try:
                self.poll()
            except Exception:
                log.exception("defect in the repair loop")
