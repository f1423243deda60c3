"""Forwarding tables of a fabric's switches, followed hop by hop. Pure.

A link has a direction: it is named by the port that sends on it, a number (`Forwarding.end_of` has the port). A path
that doesn't end at its target is counted with its reason and uses no link: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.model.agentlinks import NO_ROUTE, RoutedPort, SwitchCable

MOST_HOPS = 64
"""Most hops of a path; a packet that is forwarded more often is in a loop."""
PORTS = 256
"""Numbers of a switch's ports, 0 (its own) included."""
_AT_ONCE = 1 << 18
"""Paths that are followed at a time: memory is bounded."""
_NOTHING = -1

Ints: TypeAlias = NDArray[np.int32]


class Fate(IntEnum):
    """How a path ends."""

    ARRIVES = 0
    NO_ROUTE = 1
    UNREAD = 2
    DEAD_END = 3
    LOOP = 4


@dataclass(frozen=True, slots=True)
class Followed:
    """Paths that were followed.

    Attributes:
        path, link: for each hop, the path's index and the link; only hops of paths that arrive.
        fate: for each path, a `Fate`.
    """

    path: Ints
    link: Ints
    fate: NDArray[np.int8]

    def lost(self) -> dict[Fate, int]:
        """How many paths don't arrive, by their fate."""
        return {f: n for f in Fate if f and (n := int(np.count_nonzero(self.fate == f)))}


class Forwarding:
    """Tables of all switches of one fabric, and what its ports are cabled to.

    Args:
        tables: GUID of a switch -> its table: a byte for each LID from 0.
        ports: of hosts.
        cables: between switches.
    """

    def __init__(
        self, tables: Mapping[int, bytes], ports: Sequence[RoutedPort], cables: Sequence[SwitchCable]
    ) -> None:
        ends = (guid for c in cables for guid in (c.a, c.b))
        self.switches = tuple(sorted({*tables, *ends, *(p.switch_guid for p in ports)}))
        self.ports = tuple(ports)
        self._index = {guid: i for i, guid in enumerate(self.switches)}
        self.of_port = {p.port_guid: i for i, p in enumerate(ports)}
        n, last = len(self.switches), max((len(t) for t in tables.values()), default=1)
        last = max([last, *(p.lid + (1 << p.lmc) for p in ports)])
        self._table = np.full((n, last), NO_ROUTE, np.uint8)
        self._read = np.zeros(n, np.bool_)
        for guid, table in tables.items():
            self._table[self._index[guid], : len(table)] = np.frombuffer(table, np.uint8)
            self._read[self._index[guid]] = True
        self._next = np.full(n * PORTS, _NOTHING, np.int32)
        """What a switch's port is cabled to: the index of a switch, or the number of switches and that of a host."""
        self._towards: dict[tuple[int, int], tuple[int, int]] = {}
        for c in cables:
            self._cable(c.a, c.a_port, c.b, c.b_port)
            self._cable(c.b, c.b_port, c.a, c.a_port)
        for i, p in enumerate(ports):
            self._next[self._index[p.switch_guid] * PORTS + p.switch_port] = n + i
        self._leaf = np.array([self._index[p.switch_guid] for p in ports], np.int32)
        self._leaf_port = np.array([p.switch_port for p in ports], np.int32)
        self._lids = [range(p.lid, p.lid + (1 << p.lmc)) for p in ports]
        self._first_lid = np.array([p.lid for p in ports], np.int32)
        self.many_lids = any(p.lmc for p in ports)
        self.links = n * PORTS + len(ports)
        """One more than the largest number of a link."""

    def _cable(self, guid: int, port: int, other: int, other_port: int) -> None:
        self._next[self._index[guid] * PORTS + port] = self._index[other]
        self._towards[guid, port] = other, other_port

    # -- numbers of links ------------------------------------------------------------------------------------

    def link_of(self, guid: int, port: int) -> int | None:
        """The link on which a switch's port sends; None: it has no cable that was seen."""
        index = self._index.get(guid)
        if index is None or not 0 < port < PORTS or self._next[index * PORTS + port] == _NOTHING:
            return None
        return index * PORTS + port

    def link_of_host(self, port_guid: int) -> int | None:
        """The link on which a host's port sends."""
        index = self.of_port.get(port_guid)
        return None if index is None else len(self.switches) * PORTS + index

    def end_of(self, link: int) -> tuple[int, int]:
        """(GUID of the node, port) that sends on a link."""
        n = len(self.switches) * PORTS
        if link < n:
            return self.switches[link // PORTS], link % PORTS
        return self.ports[link - n].node_guid, self.ports[link - n].port

    def other_end(self, link: int) -> tuple[int, int]:
        """(GUID of the node, port) that a link leads to."""
        n = len(self.switches) * PORTS
        if link >= n:
            return self.ports[link - n].switch_guid, self.ports[link - n].switch_port
        guid, port = self.end_of(link)
        found = self._towards.get((guid, port))
        if found is not None:
            return found
        host = self.ports[int(self._next[link]) - len(self.switches)]
        return host.node_guid, host.port

    def back(self, link: int) -> int:
        """The other direction of a link's cable."""
        n = len(self.switches)
        if link >= n * PORTS:
            port = self.ports[link - n * PORTS]
            return self._index[port.switch_guid] * PORTS + port.switch_port
        beyond = int(self._next[link])
        if beyond >= n:
            return n * PORTS + beyond - n
        guid, port_number = self._towards[self.end_of(link)]
        return self._index[guid] * PORTS + port_number

    def is_between_switches(self, link: int) -> bool:
        """Whether a switch is at both ends."""
        return link < len(self.switches) * PORTS and 0 <= int(self._next[link]) < len(self.switches)

    # -- following -------------------------------------------------------------------------------------------

    def lids(self, port: int) -> range:
        """LIDs that lead to a port of a host, by its index."""
        return self._lids[port]

    def follow(self, sources: Ints, targets: Ints, lids: Ints | None = None) -> Followed:
        """Follow paths between ports of hosts.

        Args:
            sources, targets: indexes of ports, of each path.
            lids: the LID of each path's target; None: its first.
        """
        wanted = self._first_lid[targets] if lids is None else lids
        parts = [
            self._some(slice(first, first + _AT_ONCE), sources, targets, wanted)
            for first in range(0, len(sources), _AT_ONCE)
        ]
        if not parts:
            return Followed(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int8))
        return Followed(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _some(
        self, part: slice, sources: Ints, targets: Ints, lids: Ints
    ) -> tuple[Ints, Ints, NDArray[np.int8]]:
        n, source, target, lid = len(self.switches), sources[part], targets[part], lids[part]
        fate = np.full(len(source), Fate.LOOP, np.int8)
        going = np.arange(len(source), dtype=np.int32)
        at = self._leaf[source]
        paths, links = [going], [n * PORTS + source.astype(np.int32)]
        for _ in range(MOST_HOPS):
            out = self._table[at, lid[going]].astype(np.int32)
            link = at * PORTS + out
            beyond = self._next[link]
            read = self._read[at]
            arrived = read & (out != 0) & (beyond == n + target[going])
            on = read & (out != 0) & (out != NO_ROUTE) & (beyond >= 0) & (beyond < n)
            fate[going] = np.select(
                [~read, arrived, on, out == NO_ROUTE],
                [Fate.UNREAD, Fate.ARRIVES, Fate.LOOP, Fate.NO_ROUTE],
                Fate.DEAD_END,
            )
            moved = arrived | on
            paths.append(going[moved])
            links.append(link[moved].astype(np.int32))
            going, at = going[on], beyond[on]
            if not len(going):
                break
        path, used = np.concatenate(paths), np.concatenate(links)
        whole = fate[path] == Fate.ARRIVES
        return path[whole] + np.int32(part.start), used[whole], fate

    def path(self, source: int, target: int) -> list[tuple[int, int]]:
        """(GUID, port) that sends at each hop between two ports by GUID; empty: no path arrives."""
        pair = (np.array([self.of_port[guid]], np.int32) for guid in (source, target))
        return [self.end_of(int(link)) for link in self.follow(*pair).link]
