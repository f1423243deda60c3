"""Evidence about a partition in ports' tables, in the terms of snapshots and receipts. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from weft.drivers.wire.places import AdapterPlaces, LeafPort
from weft.model.agentapi import PortReading
from weft.model.fabric import EvidenceItem, Place, PortSeen
from weft.model.fabrictypes import Level
from weft.model.ids import FULL_MEMBER, format_guid, format_pkey
from weft.model.problem import Side
from weft.model.site import Site
from weft.model.subnet import PortTable
from weft.planning.fabric.check import check_clean, nodes_of_port, port_name, unread_ports

UNREAD_SHOWN = 200
"""Ports that an item names individually; of others it gives the number."""
REASONS_SHOWN = 5


def listing(reasons: Sequence[str]) -> str:
    """The first few reasons, and how many more there are."""
    more = f" (and {len(reasons) - REASONS_SHOWN} more)" if len(reasons) > REASONS_SHOWN else ""
    return "; ".join(dict.fromkeys(reasons[:REASONS_SHOWN])) + more


class Plane(StrEnum):
    """Planes of an InfiniBand fabric, as named in receipts."""

    PARTITION = "partition"
    HOST = "p_key host"
    LEAF = "p_key leaf"
    ELSEWHERE = "p_key elsewhere"
    ADAPTER = "adapter"


class PortTables(Mapping[int, PortTable]):
    """An agent's readings as tables. Each is created on demand, since for most ports it is only needed whether they
    were read."""

    def __init__(self, ports: Mapping[int, PortReading]) -> None:
        self._ports = ports

    def __getitem__(self, guid: int) -> PortTable:
        return port_table(self._ports[guid])

    def __contains__(self, guid: object) -> bool:
        return guid in self._ports

    def keys(self) -> KeysView[int]:
        """GUIDs of all ports that were read."""
        return self._ports.keys()

    def __iter__(self) -> Iterator[int]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)

    @cached_property
    def unreachable(self) -> Mapping[int, str]:
        """Port GUID -> why its table could not be read."""
        return {guid: port.unreachable for guid, port in self._ports.items() if port.unreachable}


@dataclass(frozen=True, slots=True)
class WireReading:
    """The tables of every host port as read through one agent.

    Attributes:
        tables: port GUID -> its table.
        on_wire: P_Key (15 bits) -> host ports that have it, themselves or at their leaf.
        by: name of the agent.
        where: places of machines' adapters.
        partial: why the reading may lack ports.
    """

    site: Site
    fabric: str
    tables: PortTables
    on_wire: Mapping[int, frozenset[int]]
    by: str
    where: AdapterPlaces = field(default_factory=AdapterPlaces)
    partial: tuple[str, ...] = ()


def keys_on_wire(ports: Iterable[PortReading]) -> dict[int, frozenset[int]]:
    """P_Key (15 bits) -> host ports that have it, themselves or at their leaf, as full or limited members."""
    found = defaultdict[int, list[int]](list)
    for port in ports:
        guid, keys, leaf = port.port_guid, port.keys, port.leaf_keys
        for key in keys if leaf is None or leaf == keys else (*keys, *leaf):
            found[key & ~FULL_MEMBER].append(guid)
    return {key: frozenset(guids) for key, guids in found.items()}


def port_seen(site: Site, table: PortTable) -> PortSeen:
    """A port with its own table and that of its leaf port."""
    name = port_name(site, table.port_guid)
    node = "".join(nodes_of_port(site, table.port_guid))
    places = [Place(name, _numbers(table.keys))]
    if table.leaf_keys is not None:
        leaf = f"{table.leaf}[{table.leaf_port}] of {name}"
        places.append(Place(leaf, _numbers(table.leaf_keys)))
    return PortSeen(format_guid(table.port_guid), name, node, tuple(places), table.unreachable)


def wire_items(reading: WireReading, pkey: int, members: Collection[int]) -> Iterator[EvidenceItem]:
    """Former members' ports and leaf ports individually, then all others together."""
    for guid in members:
        yield from identity_items(reading.site, reading.where, guid)
        yield from _port(reading, guid, pkey)
    yield _elsewhere(reading, pkey, frozenset(members))


def _port(reading: WireReading, guid: int, pkey: int) -> Iterator[EvidenceItem]:
    """One former member's port and its leaf port; never clean if unreadable."""
    site, table = reading.site, reading.tables.get(guid)
    name, nodes = port_name(site, guid), nodes_of_port(site, guid)
    subject = f"{name} {format_guid(guid)}"
    if table is None and (down := reading.where.down(guid)) is not None:
        yield _port_that_is_down(reading, subject, pkey, *down, nodes)
        return
    if table is None or table.unreachable:
        why = table.unreachable if table else "it was not found on the fabric"
        yield EvidenceItem(Plane.HOST, subject, "unknown", why, nodes)
        return
    dirty = {p.side for p in check_clean(site, reading.fabric, table, pkey)}
    leaf = f"{table.leaf}[{table.leaf_port}] of {name}"
    sides = (
        (Side.HOST, Plane.HOST, subject, table.keys),
        (Side.LEAF, Plane.LEAF, leaf, table.leaf_keys),
    )
    for side, plane, subject, keys in sides:
        listed = "the port keeps no table" if keys is None else _keys(keys)
        result = "not clean" if side in dirty else "clean"
        seen = f"table read from the port by way of {reading.by}: {listed}"
        yield EvidenceItem(plane, subject, result, seen, nodes, level=Level.OPERATIONAL)


def _port_that_is_down(
    reading: WireReading,
    subject: str,
    pkey: int,
    place: LeafPort,
    keys: frozenset[int],
    nodes: tuple[str, ...],
) -> EvidenceItem:
    """Evidence on a port of a machine that is off: the leaf isolates it, and the manager rewrites the port's table when
    it comes up."""
    seen = f"nothing is seen at {place.text}; its table, read from the leaf by way of {reading.by}: {_keys(keys)}"
    return EvidenceItem(
        Plane.HOST,
        subject,
        "not clean" if pkey in _numbers(keys) else "clean",
        seen,
        nodes,
        ("its own table: the port is down, and its table is rewritten when it comes up",),
        level=Level.OPERATIONAL,
    )


def identity_items(site: Site, where: AdapterPlaces, guid: int, by: str = "") -> Iterator[EvidenceItem]:
    """Evidence that a machine's adapter has the site's GUID: a tenant with root may have changed it.

    Args:
        by: the source, if it wasn't read from the fabric itself.
    """
    if (found := where.identity(guid)) is None:
        return
    good, seen = found
    subject = f"{port_name(site, guid)} {format_guid(guid)}"
    result = "unknown" if good is None else "clean" if good else "not clean"
    yield EvidenceItem(Plane.ADAPTER, subject, result, by + seen, nodes_of_port(site, guid))


def _elsewhere(reading: WireReading, pkey: int, members: frozenset[int]) -> EvidenceItem:
    """Ports that were never members; unreadable ones are named, with their number."""
    site, name, tables = reading.site, reading.fabric, reading.tables
    key = format_pkey(pkey)
    unread = unread_ports(site, name, members, tables.keys(), tables.unreachable)
    others = len(tables.keys() - members - tables.unreachable.keys())
    dirty = sorted(reading.on_wire.get(pkey, frozenset()) - members - unread.keys())
    names = ", ".join(port_name(site, g) for g in dirty[:5])
    seen = f"{key} is on {names}" if dirty else f"none has {key}"
    seen += f"; tables read from the ports by way of {reading.by}"
    if unread:
        seen += f"; {len(unread)} more could not be read"
    listed = [f"{port_name(site, g)}: {why}" for g, why in list(unread.items())[:UNREAD_SHOWN]]
    if len(unread) > UNREAD_SHOWN:
        listed.append(f"and {len(unread) - UNREAD_SHOWN} more ports")
    if reading.partial:
        seen += "; the discovery was partial"
        listed += [f"ports that the discovery doesn't show: {why}" for why in reading.partial]
    return EvidenceItem(
        Plane.ELSEWHERE,
        f"{others} other host ports of {name} and their leaf ports",
        "not clean" if dirty else "clean",
        seen,
        tuple(sorted({n for g in dirty for n in nodes_of_port(site, g)})),
        tuple(listed),
        whole=True,
    )


def port_table(port: PortReading) -> PortTable:
    """An agent's reading as a table."""
    return PortTable(
        port_guid=port.port_guid,
        keys=frozenset(port.keys),
        leaf_keys=None if port.leaf_keys is None else frozenset(port.leaf_keys),
        capacity=port.capacity,
        leaf=port.leaf,
        leaf_port=port.leaf_port,
        unreachable=port.unreachable,
    )


def _numbers(keys: frozenset[int]) -> frozenset[int]:
    return frozenset(k & ~FULL_MEMBER for k in keys)


def _keys(keys: frozenset[int]) -> str:
    return ", ".join(f"0x{k:04x}" for k in sorted(keys)) or "no key"
