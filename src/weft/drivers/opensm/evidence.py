"""Evidence about a partition in one reading: exact while a pod lives, gone when it is released. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from weft.drivers.opensm.observe import IndexedReading
from weft.drivers.opensm.section import DesiredPartition
from weft.drivers.wire.items import Plane, PortTables, WireReading, port_seen, wire_items
from weft.drivers.wire.places import AdapterPlaces, seen_at
from weft.model.agentapi import AgentPartitions
from weft.model.errors import OutsideError, WeftError
from weft.model.fabric import Clean, Configured, EvidenceItem, PortSeen, Snapshot
from weft.model.ids import format_guid, format_pkey
from weft.model.site import Site
from weft.planning.fabric.check import Outsiders, manager_ports


class OpenSmSnapshot(Snapshot):
    """The managers' files and every host port's tables, read in this order."""

    def __init__(self, site: Site, fabric: str, began: float, seen: IndexedReading) -> None:
        self.site, self.seen = site, seen
        super().__init__(fabric, began, configured(seen.files, seen.unread, seen.master), self._ports)

    @cached_property
    def tables(self) -> PortTables:
        """Port GUID -> its tables."""
        return PortTables(self.seen.ports)

    @cached_property
    def reading(self) -> WireReading:
        """The ports' tables with the places of machines' adapters, as evidence."""
        seen = self.seen
        # Only machines' adapters have places; ports of other adapters are never looked up here.
        where = AdapterPlaces(seen.machines, seen.idle, seen_at(seen.ports.values()) if seen.machines else {})
        return WireReading(
            self.site, self.fabric, self.tables, seen.on_wire, seen.master, where, seen.tables.partial
        )

    def _ports(self) -> Mapping[str, PortSeen]:
        return {format_guid(g): port_seen(self.site, t) for g, t in self.tables.items()}

    @cached_property
    def outsiders(self) -> Outsiders:
        """Ports from which there must be no path to members."""
        mine = self.site.fabrics[self.fabric].segments
        managers = manager_ports(self.site, self.fabric)
        return Outsiders.of(self.tables.keys(), self.tables.unreachable, self.seen.on_wire, mine, managers)


def configured(
    read: Mapping[str, AgentPartitions], unread: Mapping[str, WeftError], master: str
) -> Configured:
    """The managers' files in terms common to all fabrics."""
    return Configured(
        active=master,
        read={n: {p.pkey: p.name for p in f.configured} for n, f in read.items()},
        # Only the response: this goes into receipts, which tenants read, and they must not see addresses.
        unread={n: e.answer if isinstance(e, OutsideError) else str(e) for n, e in unread.items()},
    )


def stale(configured: Configured, pkey: int) -> dict[str, str]:
    """Managers other than the master that may still have a partition that the master doesn't have -> why."""
    unread = {name: f"its file could not be read: {why}" for name, why in configured.unread.items()}
    still = {
        name: "its file still has the partition"
        for name, partitions in configured.read.items()
        if name != configured.active and pkey in partitions
    }
    return unread | still


def stale_members(wanted: DesiredPartition, snapshot: OpenSmSnapshot) -> dict[str, str]:
    """Former members that managers other than the master may still have in the partition -> why."""
    configured = snapshot.configured
    unread = [f"the file of {name} could not be read: {why}" for name, why in configured.unread.items()]
    ports = [format_guid(guid) for guid in wanted.members]
    found = {port: list(unread) for port in ports}
    for name, partitions in configured.read.items():
        if name == configured.active or wanted.pkey not in partitions:
            continue
        same = [p for p in snapshot.seen.files[name].configured if p.pkey == wanted.pkey]
        for port in ports:
            if any(p.everybody or port in p.members for p in same):
                found[port].append(f"the file of {name} still has it in the partition")
    return {port: "; ".join(reasons) for port, reasons in found.items() if reasons}


def clean(wanted: DesiredPartition, snapshot: OpenSmSnapshot) -> Clean:
    """The configuration of every manager, and every table of the fabric; what could not be read is named."""
    behind = stale(snapshot.configured, wanted.pkey)
    return Clean(
        (
            _partition(wanted.pkey, snapshot, behind),
            *wire_items(snapshot.reading, wanted.pkey, wanted.members),
        ),
        behind,
        stale_members(wanted, snapshot),
    )


def _partition(pkey: int, snapshot: OpenSmSnapshot, behind: Mapping[str, str]) -> EvidenceItem:
    there, master, name = pkey in snapshot.segments, snapshot.configured.active, snapshot.fabric
    without = [m for m in sorted(snapshot.configured.read) if m != master and m not in behind]
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
