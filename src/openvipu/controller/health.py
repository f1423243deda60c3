"""What is known about the machines now. Not stored: after a restart the first poll provides it again."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from openvipu.model.hardware import MachineStatus
from openvipu.model.partition import Partition
from openvipu.model.site import IPUS_PER_MACHINE
from openvipu.rules.admission import Unhealthy


class Health:
    """Last answers of the agents, missed polls, and machines that may still carry a removed partition."""

    def __init__(self, lost_after: int) -> None:
        self._lock = threading.Lock()
        self._lost_after = lost_after
        self._statuses: dict[str, MachineStatus] = {}
        self._missed: dict[str, int] = {}
        self._dirty: set[str] = set()

    def answered(self, agent_id: str, status: MachineStatus) -> None:
        """Note what an agent has answered; it is reachable."""
        with self._lock:
            self._statuses[agent_id] = status
            self._missed.pop(agent_id, None)

    def missed(self, agent_id: str) -> None:
        """Count a poll that the agent didn't answer."""
        with self._lock:
            self._missed[agent_id] = self._missed.get(agent_id, 0) + 1

    def unreachable(self, agent_id: str) -> None:
        """A call between polls failed: don't assign the agent's IPUs; further failures don't count as missed polls."""
        with self._lock:
            self._missed.setdefault(agent_id, 1)

    def dirty(self, agent_id: str) -> None:
        """A partition was abandoned without being cleared here: don't assign any of its IPUs."""
        with self._lock:
            self._dirty.add(agent_id)

    def clean(self, agent_id: str) -> None:
        """The machine was read without foreign settings: its IPUs may be assigned again."""
        with self._lock:
            self._dirty.discard(agent_id)

    def forget(self, agent_id: str) -> None:
        """Drop all that is known of a removed agent."""
        with self._lock:
            self._statuses.pop(agent_id, None)
            self._missed.pop(agent_id, None)
            self._dirty.discard(agent_id)

    def is_reachable(self, agent_id: str) -> bool:
        """Whether its last poll was answered; an agent that wasn't polled yet counts as reachable."""
        with self._lock:
            return agent_id not in self._missed

    def status(self, agent_id: str) -> MachineStatus | None:
        with self._lock:
            return self._statuses.get(agent_id)

    def unhealthy(self) -> Unhealthy:
        """IPUs that must not be assigned: dead ones, those that their machine doesn't list, all of a machine that is
        dirty or doesn't respond."""
        with self._lock:
            whole = self._dirty | set(self._missed)
            dead = {
                (agent_id, number)
                for agent_id, status in self._statuses.items()
                for number in set(range(IPUS_PER_MACHINE)) - _well(status)
            }
        return frozenset(
            dead | {(agent_id, number) for agent_id in whole for number in range(IPUS_PER_MACHINE)}
        )

    def errors(self, partition: Partition) -> tuple[str, ...]:
        """What is wrong with an active partition by the last poll; unknown counts after some misses.

        A gateway that restarts doesn't disturb its IPUs, so one missed poll is no error yet.
        """
        found: list[str] = []
        for agent_id in partition.agent_ids:
            with self._lock:
                status, missed = self._statuses.get(agent_id), self._missed.get(agent_id, 0)
            if missed:
                if missed >= self._lost_after:
                    found.append(f"agent {agent_id} has not answered {missed} times")
            elif status is not None:
                found += _setting_errors(agent_id, partition, status)
        return tuple(found)

    def counts(self, agents: Mapping[str, object]) -> tuple[int, int]:
        """(reachable, unreachable) agents."""
        with self._lock:
            lost = sum(1 for agent_id in agents if agent_id in self._missed)
        return len(agents) - lost, lost


def _well(status: MachineStatus) -> set[int]:
    """Numbers of the IPUs that are listed as healthy, and not as broken, too."""
    return {ipu.number for ipu in status.ipus if ipu.healthy} - {
        ipu.number for ipu in status.ipus if not ipu.healthy
    }


def _setting_errors(agent_id: str, partition: Partition, status: MachineStatus) -> tuple[str, ...]:
    mine = [
        setting
        for setting in status.settings
        if setting.partition_id == partition.id and setting.generation == partition.generation
    ]
    if not mine:
        return (f"agent {agent_id} has lost its setting",)
    return tuple(failure for setting in mine for failure in setting.failures)
