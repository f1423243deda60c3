"""All fabric agents of a fabric, queried concurrently; each runs next to a subnet manager and its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from weft.drivers.wire.agents import HttpAgent, RemoteFabricAgent
from weft.model.agentapi import AgentPartitions
from weft.model.errors import UnknownError, WeftError
from weft.model.fabric import ManagerState
from weft.model.ids import DEFAULT_PKEY

T = TypeVar("T")


def _partitions(agent: RemoteFabricAgent) -> AgentPartitions:
    """An agent's partition file. OpenSM always has the default partition, whatever the file says: a response without it
    is invalid."""
    file = agent.partitions()
    if not any(p.pkey == DEFAULT_PKEY for p in file.configured):
        said = "partitions without the default one, which is always there"
        raise UnknownError("read the partition file", f"fabric agent {agent.name}", said)
    return file


@dataclass(frozen=True, slots=True)
class Files:
    """The partition files of all managers, read just now: by agent, or why one could not be read."""

    read: Mapping[str, AgentPartitions]
    unread: Mapping[str, WeftError]


class FabricAgents:
    """All agents of one fabric."""

    def __init__(self, fabric: str, agents: Sequence[RemoteFabricAgent]) -> None:
        self._fabric = fabric
        self.all = tuple(agents)
        self._pool = ThreadPoolExecutor(
            max_workers=max(2, 4 * len(self.all)), thread_name_prefix="fabric-agent"
        )

    def close(self) -> None:
        """Stop the threads and close the connections."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for agent in self.all:
            if isinstance(agent, HttpAgent):
                agent.close()

    def each(
        self, ask: Callable[[RemoteFabricAgent], T], agents: Sequence[RemoteFabricAgent] | None = None
    ) -> dict[str, T | WeftError]:
        """Ask several agents concurrently; an agent's result may be a `WeftError`."""

        def one(agent: RemoteFabricAgent) -> T | WeftError:
            try:
                return ask(agent)
            except WeftError as error:
                return error

        chosen = self.all if agents is None else tuple(agents)
        if len(chosen) == 1:
            return {chosen[0].name: one(chosen[0])}
        return dict(zip([a.name for a in chosen], self._pool.map(one, chosen), strict=True))

    def files(self) -> Files:
        """The partition files of all managers, read now."""
        answers = self.each(_partitions)
        return Files(
            {n: a for n, a in answers.items() if not isinstance(a, WeftError)},
            {n: a for n, a in answers.items() if isinstance(a, WeftError)},
        )

    def master(self, files: Files) -> RemoteFabricAgent:
        """The agent of the master. Raises `UnknownError` if there is not exactly one."""
        masters = [n for n, f in files.read.items() if f.state is ManagerState.MASTER]
        if len(masters) != 1:
            seen = [f"{n} is {f.state}" for n, f in files.read.items()]
            seen += [f"{n}: {e}" for n, e in files.unread.items()]
            raise UnknownError(
                "find the master",
                f"the subnet managers of {self._fabric}",
                f"{len(masters)} of them are master ({'; '.join(seen) or 'the site names no agent'})",
                "its state is unknown until exactly one does; start opensm and its agent",
            )
        return self.named(masters[0])

    def of_master(self, ask: Callable[[RemoteFabricAgent], T], /) -> T:
        """The master's agent's answer. Raises the same errors as `master`."""
        return ask(self.master(self.files()))

    def named(self, name: str) -> RemoteFabricAgent:
        """The agent of this name, which the site has."""
        return next(a for a in self.all if a.name == name)
