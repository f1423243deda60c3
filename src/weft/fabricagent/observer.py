"""What the agent reads: its subnet manager's state, the partition file, tables, paths and topology of the fabric."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from weft.fabricagent.compare import port_reading
from weft.fabricagent.config import AgentConfig
from weft.fabricagent.counters import CounterWatch
from weft.fabricagent.forwarding import RouteReader
from weft.fabricagent.mad import MadError, MadStatusError, SmInfo
from weft.fabricagent.metrics import metrics
from weft.fabricagent.opensm import Log, OpenSmProcess, PartitionFile, digest
from weft.fabricagent.options import of_the_process, read_options
from weft.fabricagent.porterrors import PortErrorSummary, PortErrorWatch
from weft.fabricagent.routing import configured_engines, engine_problem
from weft.fabricagent.servertls import server_context
from weft.fabricagent.wire import Wire
from weft.generate.certificates import end_of, expiry_problems
from weft.generate.partitions_conf import PartitionsConf, parse, split
from weft.model.agentapi import (
    AgentOptions,
    AgentPartitions,
    AgentStatus,
    ConfiguredPartition,
    Paths,
    Tables,
    VacantPort,
    WeftPartitionDocument,
)
from weft.model.agentlinks import Counters, CountersQuery, PlainText, Routes, RoutesQuery
from weft.model.errors import InputError, UnknownError
from weft.model.fabric import ManagerState
from weft.model.ids import DEFAULT_PKEY, FULL_MEMBER, format_guid
from weft.model.observedfabric import ObservedFabric
from weft.model.subnet import PathProbe

_STATES = {2: ManagerState.STANDBY, 3: ManagerState.MASTER}
_LID = re.compile(r"LID[12]?:(\d+)")
_SAMPLE = 8
_SILENCE_SECONDS = 30.0
_ANY_PORT = 2


class Observer:
    """Reads for one subnet manager. Thread-safe."""

    def __init__(self, config: AgentConfig) -> None:
        self._config = config
        self._file = PartitionFile(config.opensm.partitions_file)
        self._process = OpenSmProcess(config.opensm)
        self._log = Log(config.opensm.log_file)
        self._wire = Wire(config.hca, config.tools)
        self._errors = PortErrorWatch(self._wire)
        self._counters = CounterWatch(self._wire)
        self._routes = RouteReader(self._wire, self._log)

    @property
    def name(self) -> str:
        return self._config.name

    def close(self) -> None:
        self._errors.close()
        self._counters.close()
        self._wire.close()

    def status(self) -> AgentStatus:
        """State of the subnet manager; never raises: what can't be determined is reported as a problem."""
        text, problems = self._text()
        pid = self._process.pid()
        state, own, master = ManagerState.UNKNOWN, None, None
        priority: int | None = None
        try:
            own, lid = self._wire.client.own_port()
            state, priority = self._own_state(lid)
            master = self._master()
        except MadError as error:
            problems.append(f"the port of the subnet manager can't be queried: {error}")
        if pid is None:
            problems.append("opensm does not run on this host: start it")
            state = ManagerState.DOWN
        elif state is ManagerState.DOWN:
            problems.append(f"opensm runs (process {pid}) but does not answer SMInfo: see its log")
        problems += self._file_problems(text)
        problems += self._log_problems()
        problems += self._attempts()
        seen = PortErrorSummary(None, None)
        if state is ManagerState.MASTER:
            problems += self._open_ports(text, own)
            problems += self._wire.finder.troubles()
            problems += filter(None, [engine_problem(self._log.engine(), self._configured_engines())])
            seen = self._errors.look()
            self._counters.start()
            problems += seen.problems
            if (silence := self._log.silence(time.monotonic())) > _SILENCE_SECONDS:
                problems.append(
                    f"opensm was asked to sweep {silence:.0f} s ago and has not completed one: restart it"
                )
        return AgentStatus(
            name=self.name,
            state=state,
            port_guid=own,
            master_guid=master.guid if master else None,
            priority=priority,
            process=pid,
            problems=tuple(problems),
            takeover_problems=self._takeover_problems(text, own),
            own_problems=tuple(self._certificate_problems()),
            digest=digest(text),
            foreign_digest=self._foreign_digest(text),
            port_errors=seen.ports,
            bad_ports=seen.bad,
            unread_ports=seen.unread,
        )

    def _log_problems(self) -> list[str]:
        return [f"opensm's log: {line}" for line in self._log.troubles()]

    def _attempts(self) -> list[str]:
        """Refused attempts in opensm's log, with LIDs replaced by the names of the ports that have them now."""
        found = self._log.attempts(time.monotonic())
        if not found:
            return []
        try:
            names = {at.lid: format_guid(guid) for guid, at in self._wire.hosts(60).items()}
        except (MadError, UnknownError):
            names = {}

        def named(match: re.Match[str]) -> str:
            guid = names.get(int(match[1]))
            return f"{match[0]} ({guid})" if guid else match[0]

        return [f"opensm's log, lately: {_LID.sub(named, text)}" for text in found]

    def _own_state(self, lid: int) -> tuple[ManagerState, int | None]:
        try:
            info = self._wire.client.sm_info(lid)
        except MadError:
            return ManagerState.DOWN, None
        return _STATES.get(info.state, ManagerState.UNKNOWN), info.priority

    def _state(self) -> ManagerState:
        if self._process.pid() is None:
            return ManagerState.DOWN
        try:
            return self._own_state(self._wire.client.own_port()[1])[0]
        except MadError:
            return ManagerState.UNKNOWN

    def _master(self) -> SmInfo | None:
        try:
            info = self._wire.client.sm_info(self._wire.client.master_lid())
        except MadError:
            return None
        return info if _STATES.get(info.state) is ManagerState.MASTER else None

    def _text(self) -> tuple[str | None, list[str]]:
        text = self._file.read()
        if text is not None:
            return text, []
        return None, [f"{self._file.path} is missing: OpenSM gives every port full membership; restore it"]

    def _file_problems(self, text: str | None) -> list[str]:
        if text is None:
            return []
        conf = parse(text, self._config.site)
        path = self._config.opensm.partitions_file.name
        problems = [f"{path}, {p}" for p in conf.problems]
        if conf.expected([_ANY_PORT], [])[_ANY_PORT] & {DEFAULT_PKEY | FULL_MEMBER}:
            problems.append(
                f"{path}: the default partition has every port as full member: pods aren't isolated"
            )
        return problems

    def _takeover_problems(self, text: str | None, own: int | None) -> tuple[str, ...]:
        if text is None or own is None:
            return ()
        if DEFAULT_PKEY | FULL_MEMBER in parse(text, self._config.site).expected([own], [])[own]:
            return ()
        return (
            f"{self._config.opensm.partitions_file.name}: this subnet manager's port {format_guid(own)} is not a full"
            " member of the default partition: while it is standby, hosts could not reach it; name every manager's"
            " port there",
        )

    def _open_ports(self, text: str | None, own: int | None) -> list[str]:
        """Evidence that OpenSM failed open: host ports that are full members of the default partition and shouldn't
        be."""
        try:
            hosts = list(self._wire.hosts(60))
            expected = self._expected(text, hosts)
            sample = [g for g in hosts if DEFAULT_PKEY | FULL_MEMBER not in expected.get(g, frozenset())]
            readings = self._wire.poll(sample[:_SAMPLE])
        except (MadError, UnknownError) as error:
            return [f"the fabric can't be read: {error}"]
        full = [format_guid(r.port_guid) for r in readings if DEFAULT_PKEY | FULL_MEMBER in r.keys]
        if not full:
            return []
        return [f"ports are open: full members of the default partition that shouldn't be, such as {full[0]}"]

    def _expected(self, text: str | None, hosts: Iterable[int]) -> Mapping[int, frozenset[int]]:
        master = self._master()
        return parse(text or "", self._config.site).expected(hosts, [master.guid] if master else [])

    def _foreign_digest(self, text: str | None) -> str:
        if text is None:
            return ""
        try:
            before, _, after = split(text, self._config.site)
        except InputError:
            return digest(text)
        return digest(before + after)

    def partitions(self) -> AgentPartitions:
        """The partition file as OpenSM interprets it."""
        text, problems = self._text()
        conf = parse(text, self._config.site) if text is not None else PartitionsConf((), (), ())
        return AgentPartitions(
            state=self._state(),
            digest=digest(text),
            foreign_digest=self._foreign_digest(text),
            weft=tuple(
                WeftPartitionDocument(pkey=p.pkey, mark=p.mark.text(), members=p.members)
                for p in conf.partitions
            ),
            configured=tuple(map(ConfiguredPartition.of, conf.configured().values())),
            problems=(
                *problems,
                *(f"{self._file.path.name}, {p}" for p in conf.problems),
                *self._log_problems(),
            ),
        )

    def tables(self, port_guids: Sequence[int] | None) -> Tables:
        """P_Key tables, read from the fabric now; a full reading includes the leaves' uncabled ports.

        Raises `UnknownError` if the fabric can't be reached at all.
        """
        try:
            readings = self._wire.read(port_guids)
            expected = self._expected(self._file.read(), [r.port_guid for r in readings])
            vacant, unread = self._wire.vacant() if port_guids is None else ([], {})
            own, _ = self._wire.client.own_port()
        except MadError as error:
            raise UnknownError("read the P_Key tables", f"the fabric at {self.name}", str(error)) from error
        return Tables(
            own_port=own,
            ports=tuple(port_reading(r, expected.get(r.port_guid, frozenset())) for r in readings),
            vacant=tuple(
                VacantPort(switch_guid=guid, port=port, keys=tuple(sorted(keys)))
                for guid, _, port, entries in vacant
                if (keys := {k for k in entries if k & ~FULL_MEMBER not in (0, DEFAULT_PKEY)})
            ),
            idle=_by_leaf((guid, port) for guid, _, port, _ in vacant),
            unread_leaves={format_guid(guid): why for guid, why in unread.items()},
            partial=self._wire.finder.partial() if port_guids is None else (),
        )

    def paths(self, pairs: Sequence[tuple[int, int]]) -> Paths:
        """Query the subnet administrator for each pair. Raises `UnknownError` if it doesn't respond."""
        probes: list[PathProbe] = []
        for source, destination in pairs:
            try:
                pkey = self._wire.client.path(source, destination).pkey
            except MadStatusError:
                pkey = None  # e.g. an unknown GUID: a refusal is a result
            except MadError as error:
                raise UnknownError(
                    "ask for a path", f"the subnet administrator via {self.name}", str(error)
                ) from error
            key = None if pkey is None else pkey & ~FULL_MEMBER
            probes.append(PathProbe(source=source, destination=destination, path=pkey is not None, pkey=key))
        return Paths(paths=tuple(probes))

    def options(self) -> AgentOptions:
        """opensm's options, from its file and, where possible, from the running process. Raises
        `UnknownError` if they can't be read."""
        path = self._config.opensm.options_file
        read = read_options(path, self._file.path)
        pid = self._process.pid()
        if pid is None:
            return read
        problems = (*read.problems, *of_the_process(Path(f"/proc/{pid}"), path))
        try:
            _, priority = self._own_state(self._wire.client.own_port()[1])
        except MadError:
            priority = None
        said = {} if priority is None else {"sm_priority": str(priority)}
        return read.model_copy(update={"options": {**read.options, **said}, "problems": problems})

    def _certificate_problems(self) -> list[str]:
        tls, now = self._config.tls, datetime.now(UTC)
        problems: list[str] = []
        for path in (tls.certificate, tls.ca):
            try:
                problems += expiry_problems(path.read_bytes(), path.name, now)
            except OSError as error:
                problems.append(f"certificate {path} can't be read: {error}")
        if not problems:
            try:
                server_context(tls)
            except InputError as error:
                problems.append(f"{error}; those from before stay in use until the agent is restarted")
        return problems

    def _configured_engines(self) -> tuple[str, ...]:
        pid = self._process.pid()
        process = Path(f"/proc/{pid}") if pid is not None else None
        return configured_engines(self._config.opensm.options_file, process)

    def routes(self, query: RoutesQuery) -> Routes:
        """Forwarding tables and the routing engine. Raises `UnknownError` if no table can be read."""
        routes = self._routes.read(query)
        engines = {"engine": self._log.engine(), "configured": self._configured_engines()}
        return routes.model_copy(update=engines)

    def counters(self, query: CountersQuery) -> Counters:
        """Current rates of ports. Raises `UnknownError` if no port can be read."""
        return self._counters.look(query.max_age)

    def metrics(self) -> PlainText:
        """Ports' counters for Prometheus. Raises `UnknownError` if they can't be read, or weren't yet."""
        self._counters.start()
        newest = self._counters.readings()[0]
        return metrics(newest, time.monotonic() - newest.at, self._certificates_end())

    def _certificates_end(self) -> dict[str, float]:
        """Ends of the agent's own certificate and its authority's, without those that can't be read."""
        tls = self._config.tls
        found: dict[str, float] = {}
        for name, path in (("agent", tls.certificate), ("agent ca", tls.ca)):
            with suppress(OSError):
                if (end := end_of(path.read_bytes())) is not None:
                    found[name] = end
        return found

    def topology(self) -> ObservedFabric:
        return self._wire.finder.topology()


def _by_leaf(ports: Iterable[tuple[int, int]]) -> dict[str, tuple[int, ...]]:
    found: dict[str, list[int]] = {}
    for guid, port in ports:
        found.setdefault(format_guid(guid), []).append(port)
    return {leaf: tuple(each) for leaf, each in found.items()}
