"""The fakes of `bench.world` in a process of their own, and worker processes that share them, as those of a site would.

What a call of the fakes costs is CPU time of their process, and of the callers' for sending it there and back.
"""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any

from bench.lean import LeanCloud, lean_cloud
from bench.sites import regular_site
from weft.model.kinds import Home, kinds_at
from weft.ports.resources import Scope
from weft.testing.fabric import FakeFabric
from weft.testing.fabric_manager import FakeManager

_PROCESSES = multiprocessing.get_context("spawn")
_CLOUD = tuple(
    n for n, v in ((n, getattr(LeanCloud, n)) for n in dir(LeanCloud)) if n[0] != "_" and callable(v)
)
_AGENT = ("status", "partitions", "change", "tables", "paths", "repair", "topology", "options")
_UNFENCED = next(f.default for f in fields(Scope) if f.name == "fence")


class _Fakes(BaseManager):
    """The process; its objects are made with the first call."""


class _Held:
    """In that process."""

    cloud: LeanCloud
    fabric: FakeFabric


def _make(cloud: str, fabric: str, nodes: int, boot: float) -> None:
    site = regular_site(nodes, managed=True)
    _Held.cloud, _Held.fabric = lean_cloud(cloud, site, boot), FakeFabric(site, fabric)


class _Clock:
    def spent(self) -> float:
        return time.process_time()


def _cloud() -> LeanCloud:
    return _Held.cloud


def _agent(number: int) -> FakeManager:
    return _Held.fabric.managers[number]


def _agents() -> list[str]:
    return [manager.name for manager in _Held.fabric.managers]


_Fakes.register("cloud", callable=_cloud, exposed=_CLOUD)
_Fakes.register("agent", callable=_agent, exposed=_AGENT)
_Fakes.register("agents", callable=_agents)
_Fakes.register("clock", callable=_Clock)


class SharedCloud:
    """`LeanCloud` over there; the fence of a scope is looked at here."""

    def __init__(self, proxy: Any) -> None:
        self.kinds = kinds_at(Home.CLOUD)
        for name in _CLOUD:
            setattr(self, name, getattr(proxy, name))
        for name in ("find", "create", "update", "delete"):
            setattr(self, name, partial(_sent, getattr(proxy, name), name != "find"))


def _sent(call: Callable[..., Any], fenced: bool, scope: Scope, *rest: Any) -> Any:
    if fenced:
        scope.fence()
    return call(replace(scope, fence=_UNFENCED), *rest)


class SharedAgent:
    """An agent beside a subnet manager over there."""

    def __init__(self, proxy: Any, name: str) -> None:
        self.name = name
        for call in _AGENT:
            setattr(self, call, getattr(proxy, call))


@dataclass(frozen=True, slots=True)
class Shared:
    """Where the fakes are; can be sent to other processes."""

    address: Any
    key: bytes

    def connect(self) -> tuple[Any, Sequence[Any]]:
        """Cloud and agents."""
        there: Any = _Fakes(self.address, self.key)
        there.connect()
        names: list[str] = list(there.agents()._getvalue())
        return SharedCloud(there.cloud()), [SharedAgent(there.agent(n), name) for n, name in enumerate(names)]

    def spent(self) -> float:
        """CPU seconds of their process."""
        there: Any = _Fakes(self.address, self.key)
        there.connect()
        return float(there.clock().spent())


@contextmanager
def shared(cloud: str, fabric: str, nodes: int, boot: float) -> Generator[Shared]:
    manager = _Fakes(ctx=_PROCESSES)
    manager.start(_make, (cloud, fabric, nodes, boot))
    try:
        yield Shared(manager.address, bytes(_PROCESSES.Process().authkey))
    finally:
        manager.shutdown()


@dataclass(frozen=True, slots=True)
class Spent:
    """By worker processes: CPU seconds, those of them in calls of the fakes, and MiB at most of one."""

    seconds: float
    in_fakes: float
    memory: float


class Workers:
    """Processes that begin to work and end on command."""

    def __init__(self, pipes: Sequence[Connection]) -> None:
        self._pipes = pipes

    def start(self) -> None:
        self._ask("start")

    def stop(self) -> Spent:
        """Once their visits have ended."""
        all_of_them = self._ask("stop")
        return Spent(
            sum(s.seconds for s in all_of_them),
            sum(s.in_fakes for s in all_of_them),
            max(s.memory for s in all_of_them),
        )

    def _ask(self, what: str) -> list[Any]:
        for pipe in self._pipes:
            pipe.send(what)
        return [pipe.recv() for pipe in self._pipes]


@contextmanager
def workers(folder: Path, nodes: int, fakes: Shared, processes: int, threads: int) -> Generator[Workers]:
    """So many processes of so many threads each, which don't work yet."""
    with ExitStack() as stack:
        pipes: list[Connection] = []
        for number in range(processes):
            ours, theirs = _PROCESSES.Pipe()
            process = _PROCESSES.Process(target=_work, args=(theirs, folder, nodes, fakes, threads, number))
            process.start()
            stack.callback(process.join, 60)
            stack.callback(ours.send, "end")
            pipes.append(ours)
        yield Workers(pipes)


def _work(pipe: Connection, folder: Path, nodes: int, fakes: Shared, threads: int, number: int) -> None:
    from bench.world import bench, metered  # it imports this module
    from weft.engine.bootkeeper import BootKeeper

    with bench(folder, nodes, apply=False, fakes=fakes) as made:
        meter = metered(made)
        while pipe.recv() == "start":
            worker = made.worker(threads, f"bench-{number}")
            boots = BootKeeper(made.database, made.keeper.world)
            before, in_fakes = time.process_time(), meter.seconds
            worker.start()
            boots.start()
            pipe.send(None)
            pipe.recv()
            worker.stop(60)
            boots.stop()
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pipe.send(Spent(time.process_time() - before, meter.seconds - in_fakes, peak))
