"""Independent evidence: fabric agents that read the ports' own tables, without UFM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from weft.drivers.wire.agents import HttpAgent, RemoteFabricAgent
from weft.drivers.wire.items import PortTables, WireReading, keys_on_wire, port_table
from weft.drivers.wire.places import AdapterPlaces, idle_ports, machine_places, seen_at
from weft.drivers.wire.readingjudge import ReadingJudge
from weft.drivers.wire.repairs import RepairQueue
from weft.model.agentapi import (
    AgentOptions,
    AgentStatus,
    PathsQuery,
    TablesQuery,
    VacantPort,
)
from weft.model.errors import UnknownError, WeftError
from weft.model.fabrictypes import Mode
from weft.model.ids import FULL_MEMBER
from weft.model.resources import Observed
from weft.model.site import Site
from weft.model.subnet import PathProbe, PortTable
from weft.ports.fences import Fence

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Looked:
    """A whole reading, and what ports without a cable still have."""

    wire: WireReading
    vacant: tuple[VacantPort, ...]


class Eyes:
    """The fabric agents of one fabric, each of which sees all of it. Thread-safe."""

    def __init__(self, site: Site, fabric: str, agents: Sequence[RemoteFabricAgent]) -> None:
        self._site, self._fabric, self.all = site, fabric, tuple(agents)
        ports = frozenset(h.port_guid for n in site.nodes for h in n.hcas_on(fabric))
        self._judge = ReadingJudge(fabric, ports)
        self._repairs = RepairQueue(
            lambda query: self.first(lambda agent: agent.repair(query)), f"of {fabric}"
        )

    def __bool__(self) -> bool:
        return bool(self.all)

    def close(self) -> None:
        self._repairs.close()
        for agent in self.all:
            if isinstance(agent, HttpAgent):
                agent.close()

    def look(self) -> Looked:
        """Every host port's table, and its leaf port's. Raises `UnknownError` if nothing can be read."""

        def ask(agent: RemoteFabricAgent) -> Looked:
            answer = self._judge.all(agent.tables(TablesQuery()), agent.name)
            tables = PortTables({p.port_guid: p for p in answer.ports})
            places = machine_places(self._site, self._fabric)
            where = AdapterPlaces(places, idle_ports(answer), seen_at(answer.ports))
            keys = keys_on_wire(answer.ports)
            reading = WireReading(self._site, self._fabric, tables, keys, agent.name, where, answer.partial)
            return Looked(reading, answer.vacant)

        return self.first(ask)

    def tables(self, guids: Collection[int]) -> Mapping[int, PortTable]:
        """Port GUID -> its table, by the first agent that answers; without GUIDs nothing is asked."""
        asked = tuple(sorted(set(guids)))

        def ask(agent: RemoteFabricAgent) -> Mapping[int, PortTable]:
            answer = self._judge.some(agent.tables(TablesQuery(port_guids=asked)), asked, agent.name)
            return {p.port_guid: port_table(p) for p in answer.ports}

        return self.first(ask) if asked else {}

    def paths(self, pairs: Sequence[tuple[int, int]]) -> Sequence[PathProbe]:
        """Whether packets pass between pairs of port GUIDs, by the first agent that answers."""
        if not pairs:
            return ()
        query = PathsQuery(pairs=tuple(pairs))
        return self.first(lambda agent: self._judge.paths(agent.paths(query), pairs, agent.name).paths)

    def options(self) -> Mapping[str, AgentOptions | WeftError]:
        """Agent -> options of the subnet manager next to it, or why they can't be read."""
        return self._each(lambda agent: agent.options())

    def status(self) -> Mapping[str, AgentStatus | WeftError]:
        """Agent -> its status and that of the subnet manager next to it, or why it can't be queried."""
        return self._each(lambda agent: agent.status())

    def drifted(self, pkey: int, inside: Mapping[int, Mode], outside: Collection[int]) -> tuple[int, ...]:
        """Ports whose own tables, read now, differ from a partition with the members `inside` and without the ports
        `outside`."""
        every: dict[int, Mode | None] = {**inside, **dict.fromkeys(outside)}
        tables = self.tables(every)
        return tuple(
            g for g, mode in every.items() if not tables[g].unreachable and not _is(tables[g], pkey, mode)
        )

    def explain(self, seen: Observed) -> Observed:
        """An observation with the reasons why ports weren't repaired; see `RepairQueue.explain`."""
        return self._repairs.explain(seen)

    def repair(self, guids: Sequence[int], vacate: int | None, fence: Fence) -> None:
        """Write the subnet manager's view of these ports into their tables; remove a key from vacant leaf ports."""
        self._repairs.repair(guids, fence, () if vacate is None else (vacate,))

    def _each(self, ask: Callable[[RemoteFabricAgent], T]) -> dict[str, T | WeftError]:
        """Query all concurrently, so that an unreachable agent doesn't delay the others."""

        def one(agent: RemoteFabricAgent) -> T | WeftError:
            try:
                return ask(agent)
            except WeftError as error:
                return error

        if len(self.all) < 2:
            return {a.name: one(a) for a in self.all}
        with ThreadPoolExecutor(len(self.all), thread_name_prefix="fabric-agent") as pool:
            return dict(zip([a.name for a in self.all], pool.map(one, self.all), strict=True))

    def first(self, ask: Callable[[RemoteFabricAgent], T], /) -> T:
        """The answer of the first agent that gives one. Raises `UnknownError` if none does."""
        failed: list[str] = []
        for agent in self.all:
            try:
                return ask(agent)
            except WeftError as error:
                failed.append(f"{agent.name}: {error}")
        said = "; ".join(failed)
        raise UnknownError("read the ports' tables", f"the agents of {self._fabric}", said, "start an agent")


def _is(table: PortTable, pkey: int, mode: Mode | None) -> bool:
    """Whether a port and its leaf port have the key in exactly this mode."""
    wanted = frozenset() if mode is None else {pkey | (FULL_MEMBER if mode is Mode.FULL else 0)}
    sides = [table.keys] if table.leaf_keys is None else [table.keys, table.leaf_keys]
    return not table.unreachable and all(keys & {pkey, pkey | FULL_MEMBER} == wanted for keys in sides)
