"""What the ports themselves say: P_Key tables of hosts and of the leaf ports they are cabled to.

Where a port is (LID, leaf, leaf port) comes from `ibnetdiscover`, kept for a while; a port that doesn't answer makes
it be asked again. A full reading asks each port for its GUID too, so that a LID that was given to another port
can't be taken for the old one. `poll` is the quick way used while a change settles.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.fabricagent.config import Hca, Tools
from weft.fabricagent.mad import MadClient, MadError
from weft.model.errors import InputError, UnknownError
from weft.planning.fabric.ibnetdiscover import Discovery, HostPort, parse_ibnetdiscover

MAX_AGE = 10.0
"""Seconds that a discovery is trusted for."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Tables of one host port, entry by entry with zeros; `unreachable` says why there are none."""

    port_guid: int
    host: tuple[int, ...] = ()
    leaf: tuple[int, ...] | None = None
    at: HostPort | None = None
    leaf_name: str = ""
    unreachable: str = ""

    @property
    def keys(self) -> frozenset[int]:
        return frozenset(k for k in self.host if k)

    @property
    def leaf_keys(self) -> frozenset[int] | None:
        return None if self.leaf is None else frozenset(k for k in self.leaf if k)


@dataclass
class _Map:
    """A discovery, when it was made, and what was learnt on the way."""

    discovery: Discovery
    made: float
    capacity: dict[int, int] = field(default_factory=dict[int, int])
    enforcement: dict[int, tuple[int, bool]] = field(default_factory=dict[int, tuple[int, bool]])

    def name(self, guid: int) -> str:
        return self.names.get(guid, "")

    names: dict[int, str] = field(default_factory=dict[int, str])


class Wire:
    """The fabric as seen from one HCA port; safe for threads."""

    def __init__(self, hca: Hca, tools: Tools) -> None:
        self._hca, self._tools = hca, tools
        self._lock = threading.RLock()
        self._client: MadClient | None = None
        self._map: _Map | None = None
        self._leaves: set[int] = set()
        self._closed = False

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._client:
                self._client.close()
                self._client = None

    @property
    def client(self) -> MadClient:
        """The one long-lived client, opened at first use. Raises `MadError`."""
        with self._lock:
            if self._closed:
                raise MadError("the agent is shutting down")
            if self._client is None:
                h = self._hca
                self._client = MadClient(
                    h.device, h.port, m_key=h.m_key, timeout_ms=h.timeout_ms, retries=h.retries
                )
            return self._client

    def discover(self, max_age: float = 0.0) -> Discovery:
        """Nodes and cables now, or as of `max_age` seconds ago. Raises `UnknownError`."""
        return self._mapped(max_age).discovery

    def _mapped(self, max_age: float) -> _Map:
        with self._lock:
            if self._map is None or time.monotonic() - self._map.made > max_age:
                text = self.run(self._tools.ibnetdiscover)
                try:
                    discovery = parse_ibnetdiscover(text)
                except InputError as error:
                    raise UnknownError("read the topology", "ibnetdiscover", str(error)) from error
                self._map = _Map(
                    discovery, time.monotonic(), names={n.guid: n.name for n in discovery.fabric.nodes}
                )
            return self._map

    def run(self, program: str, *arguments: str) -> str:
        """Output of one of the diagnostic programs. Raises `UnknownError` for a failure or a timeout."""
        where = ["-C", self._hca.device] if self._hca.device else []
        where += ["-P", str(self._hca.port)] if self._hca.port else []
        try:
            return subprocess.run(
                [program, *where, *arguments],
                capture_output=True,
                text=True,
                errors="replace",
                timeout=self._tools.timeout_seconds,
                check=True,
            ).stdout
        except subprocess.CalledProcessError as error:
            answer = " ".join((error.stderr or error.stdout or "no output").split())[:300]
            raise UnknownError(
                f"run {program}", "this host", f"exit code {error.returncode}: {answer}"
            ) from error
        except (OSError, subprocess.SubprocessError) as error:
            raise UnknownError(f"run {program}", "this host", str(error)) from error

    def hosts(self, max_age: float = MAX_AGE) -> Mapping[int, HostPort]:
        return self._mapped(max_age).discovery.hosts

    def switch_lid(self, guid: int) -> int:
        """LID of a switch. Raises `UnknownError` if it isn't seen."""
        lid = self._mapped(MAX_AGE).discovery.switch_lids.get(guid)
        if not lid:
            raise UnknownError("find a switch", "the fabric", f"{guid:#018x} was not found")
        return lid

    def read(self, port_guids: Iterable[int] | None = None) -> list[Reading]:
        """Tables of the given host ports (None: of all), each port's identity checked."""
        known = self._mapped(MAX_AGE)
        wanted = sorted(known.discovery.hosts if port_guids is None else set(port_guids))
        first = [self._one(known, guid, check=True) for guid in wanted]
        again = [r.port_guid for r in first if r.unreachable]
        if not again:
            return first
        known = self._mapped(0.0)
        second = {guid: self._one(known, guid, check=True) for guid in again}
        return [second.get(r.port_guid, r) for r in first]

    def poll(self, port_guids: Sequence[int]) -> list[Reading]:
        """As `read`, with no check of identity and nothing tried twice."""
        known = self._mapped(3600)
        return [self._one(known, guid, check=False) for guid in port_guids]

    def _one(self, known: _Map, guid: int, check: bool) -> Reading:
        at = known.discovery.hosts.get(guid)
        if at is None or not at.lid:
            return Reading(guid, unreachable="not seen on the fabric: cut off, switched off, or no such port")
        name = known.name(at.peer_guid)
        try:
            capacity = known.capacity.get(guid)
            if check or capacity is None:
                found, capacity = self.client.node_port(at.lid)
                if found != guid:
                    return Reading(guid, at=at, leaf_name=name, unreachable="another port answers at its LID")
                known.capacity[guid] = capacity
            host = self.client.read_table(at.lid, capacity)
            return Reading(guid, host, self._leaf(known, at, check), at, name)
        except MadError as error:
            return Reading(guid, at=at, leaf_name=name, unreachable=str(error))

    def _leaf(self, known: _Map, at: HostPort, check: bool) -> tuple[int, ...] | None:
        lid = known.discovery.switch_lids.get(at.peer_guid)
        if lid is None:
            return None  # back to back with another host: there is no switch
        if at.peer_guid not in known.enforcement:
            known.enforcement[at.peer_guid] = self.client.enforcement(lid)
        entries, can = known.enforcement[at.peer_guid]
        if not entries or (check and can and not self.client.enforces(lid, at.peer_port)):
            return None
        return self.client.read_table(lid, entries, at.peer_port)

    def vacant(self) -> tuple[list[tuple[int, int, int, tuple[int, ...]]], dict[int, str]]:
        """(switch GUID, LID, port, entries) of leaf ports that nothing is seen at; and leaves that could not be read.

        One leaf without an answer must not make the whole fabric unknown. A switch that had hosts is a leaf still when
        all of them are off.
        """
        known = self._mapped(MAX_AGE)
        unread: dict[int, str] = {}
        used = {(e.guid, e.port) for link in known.discovery.fabric.links for e in link}
        self._leaves |= {h.peer_guid for h in known.discovery.hosts.values()}
        leaves = self._leaves & known.discovery.switch_lids.keys()
        out: list[tuple[int, int, int, tuple[int, ...]]] = []
        for node in known.discovery.fabric.nodes:
            if node.guid not in leaves:
                continue
            lid = known.discovery.switch_lids[node.guid]
            try:
                entries, _ = self.client.enforcement(lid)
                free = [p for p in range(1, node.ports + 1) if entries and (node.guid, p) not in used]
                out += [(node.guid, lid, p, self.client.read_table(lid, entries, p)) for p in free]
            except MadError as error:
                unread[node.guid] = str(error)
        return out, unread
