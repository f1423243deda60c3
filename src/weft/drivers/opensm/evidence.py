"""What of one reading speaks for or against a partition: exact while a pod lives, gone when it is released. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cached_property

from weft.drivers.opensm.observe import Seen
from weft.drivers.opensm.section import Wanted
from weft.model.agentapi import AgentPartitions, PortReading
from weft.model.errors import OutsideError, WeftError
from weft.model.fabric import Clean, EvidenceItem, Place, PortSeen, Snapshot, Told
from weft.model.ids import FULL_MEMBER, format_guid, format_pkey
from weft.model.problem import Side
from weft.model.site import Site
from weft.model.subnet import PortTable
from weft.planning.fabric.check import (
    Outsiders,
    check_clean,
    manager_ports,
    nodes_of_port,
    port_name,
    unread_ports,
)

UNREAD_SHOWN = 200
"""Ports that an item names one by one; of the others it gives the number."""


class Plane(StrEnum):
    """Planes of the fabric, as items of a receipt name them."""

    PARTITION = "partition"
    HOST = "p_key host"
    LEAF = "p_key leaf"
    ELSEWHERE = "p_key elsewhere"


class OpenSmSnapshot(Snapshot):
    """The managers' files and every host port's tables, read in this order."""

    def __init__(self, site: Site, fabric: str, began: float, seen: Seen) -> None:
        self.site, self.seen = site, seen
        self.tables = {p.port_guid: port_table(p) for p in seen.tables.ports}
        super().__init__(fabric, began, told(seen.files, seen.unread, seen.master), self._ports)

    def _ports(self) -> Mapping[str, PortSeen]:
        return {format_guid(g): self._port(t) for g, t in self.tables.items()}

    @cached_property
    def outsiders(self) -> Outsiders:
        mine = self.site.fabrics[self.fabric].segments
        return Outsiders.of(self.tables, mine, manager_ports(self.site, self.fabric))

    def _port(self, table: PortTable) -> PortSeen:
        name = port_name(self.site, table.port_guid)
        node = "".join(nodes_of_port(self.site, table.port_guid))
        places = [Place(name, _numbers(table.keys))]
        if table.leaf_keys is not None:
            leaf = f"{table.leaf}[{table.leaf_port}] of {name}"
            places.append(Place(leaf, _numbers(table.leaf_keys)))
        return PortSeen(format_guid(table.port_guid), name, node, tuple(places), table.unreachable)


def told(read: Mapping[str, AgentPartitions], unread: Mapping[str, WeftError], master: str) -> Told:
    """The managers' files in the words of every fabric."""
    return Told(
        ruling=master,
        read={n: {p.pkey: p.name for p in f.configured} for n, f in read.items()},
        # The answer alone: this goes into receipts, which tenants read, and addresses are none of their business.
        unread={n: e.answer if isinstance(e, OutsideError) else str(e) for n, e in unread.items()},
    )


def stale(told: Told, pkey: int) -> dict[str, str]:
    """Managers besides the master that may still have a partition that the master has not -> why."""
    unread = {name: f"its file could not be read: {why}" for name, why in told.unread.items()}
    still = {
        name: "its file still has the partition"
        for name, partitions in told.read.items()
        if name != told.ruling and pkey in partitions
    }
    return unread | still


def clean(wanted: Wanted, snapshot: OpenSmSnapshot) -> Clean:
    """What every manager is told, and every table of the fabric; what could not be read is named."""
    behind = stale(snapshot.told, wanted.pkey)
    return Clean(
        (
            _partition(wanted.pkey, snapshot, behind),
            *(item for guid in wanted.members for item in _port(guid, wanted.pkey, snapshot)),
            _elsewhere(wanted, snapshot),
        ),
        behind,
    )


def _partition(pkey: int, snapshot: OpenSmSnapshot, behind: Mapping[str, str]) -> EvidenceItem:
    there, master, name = pkey in snapshot.segments, snapshot.told.ruling, snapshot.fabric
    without = [m for m in sorted(snapshot.told.read) if m != master and m not in behind]
    others = f" nor in those of {', '.join(without)}" if without else ""
    return EvidenceItem(
        Plane.PARTITION,
        format_pkey(pkey),
        "not clean" if there else "clean",
        f"still in the partitions of {master}, the master of {name}"
        if there
        else f"not in the partitions of {master}, the master of {name}{others}",
        unread=tuple(
            f"{m}: {why}; the P_Key stays held until it was read without it"
            for m, why in sorted(behind.items())
        ),
        whole=True,
    )


def _port(guid: int, pkey: int, snapshot: OpenSmSnapshot) -> Iterator[EvidenceItem]:
    """One former member's port and its leaf port. One that can't be read is never clean."""
    site, table = snapshot.site, snapshot.tables.get(guid)
    name, nodes = port_name(site, guid), nodes_of_port(site, guid)
    subject = f"{name} {format_guid(guid)}"
    if table is None or table.unreachable:
        why = table.unreachable if table else "it was not found on the fabric"
        yield EvidenceItem(Plane.HOST, subject, "unknown", why, nodes)
        return
    dirty = {p.side for p in check_clean(site, snapshot.fabric, table, pkey)}
    leaf = f"{table.leaf}[{table.leaf_port}] of {name}"
    sides = (
        (Side.HOST, Plane.HOST, subject, table.keys),
        (Side.LEAF, Plane.LEAF, leaf, table.leaf_keys),
    )
    for side, plane, subject, keys in sides:
        listed = "the port keeps no table" if keys is None else _keys(keys)
        result = "not clean" if side in dirty else "clean"
        seen = f"table read from the port by way of {snapshot.told.ruling}: {listed}"
        yield EvidenceItem(plane, subject, result, seen, nodes)


def _elsewhere(wanted: Wanted, snapshot: OpenSmSnapshot) -> EvidenceItem:
    """Ports that were never members: those that could not be read are named, with their number."""
    site, name, tables = snapshot.site, snapshot.fabric, snapshot.tables
    key, members = format_pkey(wanted.pkey), frozenset(wanted.members)
    others = sum(1 for g, t in tables.items() if g not in members and not t.unreachable)
    unread = unread_ports(site, name, members, tables)
    dirty = sorted(snapshot.seen.on_wire.get(wanted.pkey, frozenset()) - members - unread.keys())
    names = ", ".join(port_name(site, g) for g in dirty[:5])
    seen = f"{key} is on {names}" if dirty else f"none has {key}"
    seen += f"; tables read from the ports by way of {snapshot.told.ruling}"
    if unread:
        seen += f"; {len(unread)} more could not be read"
    listed = [f"{port_name(site, g)}: {why}" for g, why in list(unread.items())[:UNREAD_SHOWN]]
    if len(unread) > UNREAD_SHOWN:
        listed.append(f"and {len(unread) - UNREAD_SHOWN} more ports")
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
