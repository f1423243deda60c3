"""The tables that the fake's subnet managers manage, and what a partition file asks for."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from weft.drivers.wire.places import LeafPort, places_of
from weft.generate.partitions_conf import parse, split
from weft.model.agentapi import ConfiguredPartition, WeftPartitionDocument
from weft.model.ids import DEFAULT_PKEY, FULL_MEMBER, format_guid
from weft.model.site import Site
from weft.planning.fabric.portkeys import table_order

EVERY_PORT = DEFAULT_PKEY | FULL_MEMBER
FILES = 4
"""Number of parsed partition files that are kept: one with thousands of partitions takes some megabytes."""
NOWHERE = LeafPort("leaf", None, 1)
"""Leaf port of host ports whose cable the site doesn't describe."""


class Manager(Protocol):
    """A subnet manager. `text`: its partition file; `rules`: whether it is master."""

    text: str | None
    running: bool
    rules: bool

    @property
    def site(self) -> str:
        """Name of the site in its file's markers."""
        ...

    @property
    def port_guid(self) -> int:
        """GUID of the port that it works through."""
        ...

    def stop(self) -> None:
        """End the manager; a standby takes over."""


class PartitionFile:
    """A parsed partition file, parsed once for each text so that the fake costs little in benchmarks."""

    def __init__(self, text: str, site: str) -> None:
        before, _, after = split(text, site)
        self.digests = (digest(text), digest(before + after))
        self.conf = parse(text, site)
        self.weft = tuple(
            WeftPartitionDocument(pkey=p.pkey, mark=p.mark.text(), members=p.members)
            for p in self.conf.partitions
        )
        self.configured = tuple(map(ConfiguredPartition.of, self.conf.configured().values()))
        self._expected: dict[int, Mapping[int, frozenset[int]]] = {}

    def expected(self, hosts: Collection[int], manager: int) -> Mapping[int, frozenset[int]]:
        """See `PartitionsConf.expected`; the hosts of a wire are always the same."""
        if manager not in self._expected:
            self._expected[manager] = self.conf.expected(hosts, [manager])
        return self._expected[manager]


class FakeWire:
    """Tables of every host port and of its leaf port, and what the active manager believes of them."""

    def __init__(self, site: Site, fabric: str, capacity: int, functions: Sequence[int] = ()) -> None:
        """Args: functions: GUIDs of ports besides those of adapters."""
        self.lock = threading.RLock()
        self.capacity = capacity
        self.site, self.fabric = site, fabric
        guids = [*(h.port_guid for n in site.nodes for h in n.hcas_on(fabric)), *functions]
        self.hosts: dict[int, set[int]] = {g: {EVERY_PORT} for g in guids}
        self.leaves: dict[int, set[int]] = {g: {EVERY_PORT} for g in guids}
        self.believed: dict[int, frozenset[int]] = {}
        self.cut: set[int] = set()
        self.off: set[int] = set()
        self.overlooked: set[int] = set()
        self.cut_links: set[tuple[str, int]] = set()
        """Cables between switches that are cut, by one end: switch and port."""
        self.places = dict(places_of(site, fabric))
        self.faults: list[str] = []
        self.log: list[str] = []
        self.reads_until_sweep = 0
        self.managers: Sequence[Manager] = ()
        self._files: dict[tuple[str, str], PartitionFile] = {}

    def file(self, text: str, site: str) -> PartitionFile:
        """The partition file with this text, from those kept or parsed now."""
        found = self._files.pop((text, site), None) or PartitionFile(text, site)
        self._files[text, site] = found
        while len(self._files) > FILES:
            del self._files[next(iter(self._files))]
        return found

    def master(self) -> Manager | None:
        """The manager that is master, or None."""
        return next((m for m in self.managers if m.rules), None)

    def elect(self) -> None:
        """The first running manager becomes master; it then reads every table and uses its own file."""
        old, new = self.master(), next((m for m in self.managers if m.running), None)
        for manager in self.managers:
            manager.rules = manager is new
        if new is not None and new is not old:
            self.believed.clear()
            self.sweep()

    def sweep(self) -> None:
        """Do what OpenSM does after SIGHUP: trust its memory, write what has changed, fail open."""
        master = self.master()
        if master is None:
            return
        self.log = []
        file = self.file(master.text or "", master.site)
        wanted: Mapping[int, frozenset[int]]
        if master.text is None or file.conf.fatal:
            if master.text is not None:
                self.log.append("PARSE ERROR; Partition configuration in error; retrying with default config")
            wanted = {g: frozenset({EVERY_PORT}) for g in self.hosts}
        else:
            wanted = file.expected(self.hosts, master.port_guid)
        for guid, keys in wanted.items():
            if self.believed.get(guid) == keys and len(keys) <= self.capacity:
                continue
            kept = _that_fit(keys, self.believed.get(guid, frozenset()), self.capacity)
            if kept != keys:
                self.log.append(
                    f"ERR 0512: Failed to set PKey because Pkey table is full: {format_guid(guid)}"
                )
            if guid not in self.cut | self.off and self.believed.get(guid) != kept:
                self.believed[guid] = kept
                self.hosts[guid], self.leaves[guid] = set(kept), set(kept)


def _that_fit(keys: frozenset[int], before: frozenset[int], capacity: int) -> frozenset[int]:
    """The keys that fit into a table: the default key has its place, existing keys stay, new ones come in OpenSM's
    order.
    """
    numbers = {k & ~FULL_MEMBER for k in before}

    def order(key: int) -> tuple[bool, bool, int]:
        number = key & ~FULL_MEMBER
        return number != DEFAULT_PKEY, number not in numbers, table_order(number)

    return keys if len(keys) <= capacity else frozenset(sorted(keys, key=order)[:capacity])


def digest(text: str) -> str:
    """SHA-256 of a partition file, in hex."""
    return hashlib.sha256(text.encode("latin-1")).hexdigest()
