"""P_Key tables read from the ports themselves: of hosts, and of the leaf ports they are cabled to. A port's
place (LID, leaf, leaf port) comes from `ibnetdiscover`, cached for a while; a port that doesn't answer causes
a new discovery. A full reading asks each port for its GUID too, so that a reassigned LID can't be mistaken
for the old port. `poll` is the quick variant used while a change settles. What a discovery doesn't show may
still exist (see `weft.fabricagent.discovery`). A port that an earlier one showed is queried at its former
place, and a leaf's port is vacant only if the leaf reports that it has no link.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.fabricagent.config import DiagnosticPrograms, ManagerPort
from weft.fabricagent.discovery import Discoverer, Map
from weft.fabricagent.mad import MadClient, MadError
from weft.model.errors import UnknownError
from weft.planning.fabric.ibnetdiscover import Discovery, HostPort
from weft.planning.fabric.sightings import AGAIN_SECONDS

MAX_AGE = 10.0
"""Seconds that a discovery is trusted for."""
_UNSEEN = "not seen by the last discovery, which a second one must confirm"


@dataclass(frozen=True, slots=True)
class TableReading:
    """Tables of one host port, entry by entry with zeros; `unreachable` says why there are none."""

    port_guid: int
    host: tuple[int, ...] = ()
    leaf: tuple[int, ...] | None = None
    at: HostPort | None = None
    leaf_name: str = ""
    unreachable: str = ""

    @property
    def keys(self) -> frozenset[int]:
        """P_Keys of the host's table, empty entries left out."""
        return frozenset(k for k in self.host if k)

    @property
    def leaf_keys(self) -> frozenset[int] | None:
        """P_Keys of the leaf's port, membership bit included; None if its table wasn't read."""
        return None if self.leaf is None else frozenset(k for k in self.leaf if k)


class Wire:
    """The fabric as seen from one HCA port; safe for threads.

    Args:
        client: replaces the port's own client in tests; so do `monotonic` and `sleep`.
    """

    def __init__(
        self,
        hca: ManagerPort,
        tools: DiagnosticPrograms,
        client: MadClient | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._hca, self._sleep = hca, sleep
        self.finder = Discoverer(hca, tools, monotonic, sleep)
        self._lock = threading.RLock()
        self._client = client
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
        """Nodes and cables, discovered at most `max_age` seconds ago. Raises `UnknownError`."""
        return self.finder.map(max_age).discovery

    def hosts(self, max_age: float = MAX_AGE) -> Mapping[int, HostPort]:
        return self.finder.map(max_age).hosts

    def switch_lid(self, guid: int) -> int:
        """LID of a switch. Raises `UnknownError` if it isn't seen."""
        lid = self.finder.map(MAX_AGE).switch_lids.get(guid)
        if not lid:
            raise UnknownError("find a switch", "the fabric", f"{guid:#018x} was not found")
        return lid

    def read(self, port_guids: Iterable[int] | None = None) -> list[TableReading]:
        """Tables of the given host ports (None: of all), each port's identity checked."""
        known = self.finder.map(MAX_AGE)
        wanted = sorted(known.hosts if port_guids is None else set(port_guids))
        first = [self._one(known, guid, check=True) for guid in wanted]
        again = [r.port_guid for r in first if r.unreachable]
        if not again:
            return first
        known = self.finder.map(0.0)
        second = {guid: self._one(known, guid, check=True) for guid in again}
        return [second.get(r.port_guid, r) for r in first]

    def poll(self, port_guids: Sequence[int]) -> list[TableReading]:
        """Like `read`, without checking identities or retrying."""
        known = self.finder.map(3600)
        return [self._one(known, guid, check=False) for guid in port_guids]

    def _one(self, known: Map, guid: int, check: bool) -> TableReading:
        at = known.hosts.get(guid)
        if at is None or not at.lid:
            return TableReading(
                guid, unreachable="not seen on the fabric: cut off, switched off, or no such port"
            )
        if guid not in known.discovery.hosts and (why := self._missed(known, at)):
            return TableReading(guid, unreachable=f"{_UNSEEN}: {why}")
        name = known.name(at.peer_guid)
        try:
            capacity = known.capacity.get(guid)
            if check or capacity is None:
                found, capacity = self.client.node_port(at.lid)
                if found != guid:
                    return TableReading(
                        guid, at=at, leaf_name=name, unreachable="another port answers at its LID"
                    )
                known.capacity[guid] = capacity
            host = self.client.read_table(at.lid, capacity)
            return TableReading(guid, host, self._leaf(known, at, check), at, name)
        except MadError as error:
            if guid not in known.discovery.hosts:
                return TableReading(guid, unreachable=f"{_UNSEEN}: {error}")
            return TableReading(guid, at=at, leaf_name=name, unreachable=str(error))

    def _missed(self, known: Map, at: HostPort) -> str:
        """Why querying a port that the discovery lacks is pointless, according to its leaf; empty if it may
        answer. A switch answers at once, while each port that is off would cost a time-out.
        """
        lid = known.switch_lids.get(at.peer_guid)
        if lid is None:
            return ""
        try:
            if lid not in known.silent:
                return "the port of its leaf is down" if self.client.is_down(lid, at.peer_port) else ""
        except MadError:
            known.silent.add(lid)
        return "its leaf doesn't answer"

    def _leaf(self, known: Map, at: HostPort, check: bool) -> tuple[int, ...] | None:
        lid = known.switch_lids.get(at.peer_guid)
        if lid is None:
            return None  # back to back with another host: there is no switch
        if at.peer_guid not in known.enforcement:
            known.enforcement[at.peer_guid] = self.client.enforcement(lid)
        entries, can = known.enforcement[at.peer_guid]
        if not entries or (check and can and not self.client.enforces(lid, at.peer_port)):
            return None
        return self.client.read_table(lid, entries, at.peer_port)

    def vacant(
        self, wait: bool = False
    ) -> tuple[list[tuple[int, int, int, tuple[int, ...]]], dict[int, str]]:
        """(switch GUID, LID, port, entries) of leaf ports with nothing behind them; and switch GUID -> why a leaf could
        not be read.

        That a discovery shows nothing there doesn't suffice: the leaf must report its port as down, twice if something
        was there before. One silent leaf must not make the whole fabric unknown. A switch that had hosts remains a leaf
        when all of them are off.

        Args:
            wait: read a second time, `AGAIN_SECONDS` later, if a port is down where something was before.
        """
        known = self.finder.map(MAX_AGE)
        unread: dict[int, str] = {}
        used = {(e.guid, e.port) for link in known.discovery.fabric.links for e in link}
        self._leaves |= {h.peer_guid for h in known.hosts.values()}
        leaves = self._leaves & known.discovery.switch_lids.keys()
        out: list[tuple[int, int, int, tuple[int, ...]]] = []
        doubted = False
        for guid in self._leaves & (known.switch_lids.keys() - known.discovery.switch_lids.keys()):
            unread[guid] = _UNSEEN
        for node in known.discovery.fabric.nodes:
            if node.guid not in leaves:
                continue
            lid = known.discovery.switch_lids[node.guid]
            try:
                entries, _ = self.client.enforcement(lid)
                unseen = [p for p in range(1, node.ports + 1) if entries and (node.guid, p) not in used]
                down = [p for p in unseen if self.client.is_down(lid, p)]
                doubts = self.finder.lack((node.guid, p) for p in down)
                free = [p for p in down if (node.guid, p) not in doubts]
                doubted = doubted or len(free) < len(down)
                out += [(node.guid, lid, p, self.client.read_table(lid, entries, p)) for p in free]
            except MadError as error:
                unread[node.guid] = str(error)
        if doubted and wait:
            self._sleep(AGAIN_SECONDS)
            return self.vacant()
        return out, unread
