"""The proof: read every plane back when all was taken away, and say so in a receipt, or keep the nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from weft.engine.capacity import PKEYS
from weft.engine.departure import read_guests, read_hosts
from weft.engine.membership import all_members
from weft.engine.moves import seen_of
from weft.engine.records import PodRecord, ResourceRecord, RowState, StaleKey
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.fabric import ManagerFiles, PortTable
from weft.model.ids import format_guid, format_pkey
from weft.model.kinds import AnyKind, Home
from weft.model.problem import Side
from weft.model.receipt import Abandoned, FabricPlane, Receipt, ReceiptItem
from weft.model.resources import PartitionSpec
from weft.model.site import Site
from weft.planning.fabric.check import check_clean, port_name, unread_ports
from weft.ports.clock import Clock

FABRIC_PLANES = frozenset(FabricPlane)
UNREAD_SHOWN = 200
"""Ports that an item names one by one; of the others it gives the number."""


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What was read.

    Attributes:
        items: one a thing or place, clean or not.
        unclean: node -> why it can't be given back.
        again: keys of resources that were seen, whatever their rows say: they are to be taken away again.
        stale: P_Keys that nobody may be given yet, though the pod's are gone from the wire and from the master.
    """

    items: tuple[ReceiptItem, ...]
    unclean: dict[str, str]
    again: frozenset[str] = frozenset()
    stale: tuple[StaleKey, ...] = ()

    @property
    def clean(self) -> bool:
        return all(i.result == "clean" for i in self.items)

    def reason(self) -> str:
        bad = [f"{i.plane} {i.subject}: {i.seen}" for i in self.items if i.result != "clean"]
        more = f" (and {len(bad) - 3} more)" if len(bad) > 3 else ""
        return "; ".join(bad[:3]) + more


class Reader:
    """Reads back one pod that was taken away.

    Args:
        holding: nodes that the pod holds still; the others were given back before, and may be somebody else's.
    """

    def __init__(
        self,
        pod: PodRecord,
        records: Sequence[ResourceRecord],
        world: World,
        site: Site,
        clock: Clock,
        holding: Collection[str],
    ) -> None:
        self._pod, self._records, self._world, self._site, self._clock = pod, records, world, site, clock
        self._holding = frozenset(holding)
        self._items: list[ReceiptItem] = []
        self._unclean: dict[str, str] = {}
        self._again: set[str] = set()
        self._stale: list[StaleKey] = []

    def read(self) -> ReadBack:
        """Cloud, fabric and database, in that order."""
        places = {(r.resource.where, r.kind) for r in self._records if r.kind.row.home is not Home.FABRIC}
        # Servers first: of several reasons why a node is kept, a server that is still there says most.
        for where, kind in sorted(places, key=lambda p: (not p[1].row.on_host, p)):
            self._listing(where, kind)
        for guest in read_guests(self._pod, self._records, self._world, self._holding):
            kept = () if guest.result == "clean" else _nodes(guest.record, self._pod)
            self._item("guest", _subject(guest.record), guest.result, guest.seen, kept)
        for host in read_hosts(self._pod, self._world, self._site, self._holding):
            kept = () if host.result == "clean" else (host.node,)
            self._item("host", host.node, host.result, host.seen, kept)
        for record in self._records:
            if isinstance(record.resource.spec, PartitionSpec):
                self._fabric(record.resource.where, all_members(self._pod, record.resource))
                if any(i.result == "not clean" and i.plane in FABRIC_PLANES for i in self._items):
                    self._again.add(record.key)
        left = [r.key for r in self._records if r.state not in (RowState.ABSENT, RowState.WANTED)]
        self._item(
            "database",
            f"{len(self._records)} resource rows",
            "not clean" if left else "clean",
            f"not seen to be absent: {', '.join(left[:5])}" if left else "all seen to be absent",
        )
        return ReadBack(tuple(self._items), self._unclean, frozenset(self._again), tuple(self._stale))

    def _listing(self, where: str, kind: AnyKind) -> None:
        group = [r for r in self._records if r.resource.where == where and r.kind is kind]
        ids = {r.key: r.outside_id for r in self._records if r.outside_id}
        try:
            driver = self._world.driver(where)
            seen = seen_of(driver.find(self._pod.scope, [r.resource for r in group], ids), group)
        except WeftError as error:
            for record in group:
                self._item(kind, _subject(record), "unknown", str(error), _nodes(record, self._pod))
            return
        for record in group:
            found = seen[record.key]
            if found.there:
                self._again.add(record.key)
                what = f"still there as {found.id}"
                self._item(kind, _subject(record), "not clean", what, _nodes(record, self._pod))
            else:
                self._item(kind, _subject(record), "clean", f"{where}: {found.reason}")

    def _fabric(self, name: str, partition: PartitionSpec) -> None:
        """What every manager is told, and every table of the fabric; what could not be read is named."""
        pkey, at = partition.pkey, self._clock.now()
        try:
            reader = self._world.fabric(name)
            files = reader.files()
            tables = reader.tables()
        except WeftError as error:
            self._item(FabricPlane.PARTITION, format_pkey(pkey), "unknown", str(error), self._pod.nodes, at)
            return
        self._partition(name, pkey, files, at)
        for guid in partition.members:
            self._port(name, guid, pkey, tables.get(guid), files.master, at)
        self._elsewhere(name, partition, tables, files.master, at)

    def _partition(self, name: str, pkey: int, files: ManagerFiles, at: datetime) -> None:
        there = pkey in files.in_force
        stale = files.stale(pkey)
        self._stale += [StaleKey(name, manager, pkey, why) for manager, why in sorted(stale.items())]
        told = [m for m in sorted(files.read) if m != files.master and m not in stale]
        others = f" nor in those of {', '.join(told)}" if told else ""
        self._item(
            FabricPlane.PARTITION,
            format_pkey(pkey),
            "not clean" if there else "clean",
            f"still in the partitions of {files.master}, the master of {name}"
            if there
            else f"not in the partitions of {files.master}, the master of {name}{others}",
            self._pod.nodes if there else (),
            at,
            [
                f"{m}: {why}; the P_Key stays held until it was read without it"
                for m, why in sorted(stale.items())
            ],
        )

    def _elsewhere(
        self, name: str, partition: PartitionSpec, tables: Mapping[int, PortTable], master: str, at: datetime
    ) -> None:
        """Ports that were never members: those that could not be read are named, with their number."""
        key = format_pkey(partition.pkey)
        others = [t for g, t in tables.items() if g not in partition.members and not t.unreachable]
        unread = unread_ports(self._site, name, partition.members, tables)
        dirty = [t for t in others if check_clean(self._site, name, t, partition.pkey)]
        names = ", ".join(port_name(self._site, t.port_guid) for t in dirty[:5])
        owners = (self._site.hca_by_port_guid.get(t.port_guid) for t in dirty)
        spares = {o[0].name for o in owners if o and o[0].name in self._pod.spares}
        seen = f"{key} is on {names}" if dirty else f"none has {key}"
        seen += f"; tables read from the ports by way of {master}"
        if unread:
            seen += f"; {len(unread)} more could not be read"
        listed = [f"{port_name(self._site, g)}: {why}" for g, why in list(unread.items())[:UNREAD_SHOWN]]
        if len(unread) > UNREAD_SHOWN:
            listed.append(f"and {len(unread) - UNREAD_SHOWN} more ports")
        self._item(
            FabricPlane.ELSEWHERE,
            f"{len(others)} other host ports of {name} and their leaf ports",
            "not clean" if dirty else "clean",
            seen,
            (*self._pod.nodes, *sorted(spares)) if dirty else (),
            at,
            listed,
        )

    def _port(
        self, fabric: str, guid: int, pkey: int, table: PortTable | None, master: str, at: datetime
    ) -> None:
        """One former member's port and its leaf port. One that can't be read is never clean."""
        name = port_name(self._site, guid)
        node = self._site.hca_by_port_guid.get(guid)
        nodes = (node[0].name,) if node else self._pod.nodes
        if table is None or table.unreachable:
            why = table.unreachable if table else "it was not found on the fabric"
            self._item(FabricPlane.HOST, f"{name} {format_guid(guid)}", "unknown", why, nodes, at)
            return
        dirty = {p.side for p in check_clean(self._site, fabric, table, pkey)}
        sides = (
            (Side.HOST, FabricPlane.HOST, f"{name} {format_guid(guid)}", table.keys),
            (Side.LEAF, FabricPlane.LEAF, f"{table.leaf}[{table.leaf_port}] of {name}", table.leaf_keys),
        )
        for side, plane, subject, keys in sides:
            listed = "the port keeps no table" if keys is None else _keys(keys)
            self._item(
                plane,
                subject,
                "not clean" if side in dirty else "clean",
                f"table read from the port by way of {master}: {listed}",
                nodes if side in dirty else (),
                at,
            )

    def _item(
        self,
        plane: str,
        subject: str,
        result: Literal["clean", "not clean", "unknown"],
        seen: str,
        nodes: Sequence[str] = (),
        at: datetime | None = None,
        unread: Sequence[str] = (),
    ) -> None:
        self._items.append(
            ReceiptItem(
                plane=str(plane),
                subject=subject,
                result=result,
                seen=seen,
                at=at or self._clock.now(),
                unread=tuple(unread),
            )
        )
        for node in nodes:
            self._unclean.setdefault(node, f"{plane} {subject}: {seen}")


def unfree(read: ReadBack, numbers: Mapping[str, int]) -> dict[str, int]:
    """Space -> number of those that may still be in use outside: not to be given to anybody.

    A P_Key is a segment of a network too, and everything else is the cloud's: what isn't seen gone there keeps them.
    """
    dirty = {i.plane for i in read.items if i.result != "clean"} - {"database"}
    cloud = bool(dirty - FABRIC_PLANES)
    fabric = bool(dirty & FABRIC_PLANES)
    return {s: n for s, n in numbers.items() if cloud or (fabric and s.startswith(PKEYS))}


def make_receipt(
    pod: PodRecord,
    read: ReadBack,
    quarantined: Sequence[str],
    clock: Clock,
    abandoned: Abandoned | None = None,
) -> Receipt:
    """What will be signed."""
    return Receipt(
        site=pod.plan.site,
        pod_id=str(pod.id),
        pod=pod.name,
        project_id=pod.project_id,
        ordered_at=pod.created_at,
        released_at=clock.now(),
        nodes=pod.nodes,
        spares=pod.spares,
        pkey=format_pkey(pkey) if (pkey := pod.plan.allotment.pkey) is not None else "",
        items=tuple(_for_everybody(i) for i in read.items),
        clean=read.clean and abandoned is None,
        quarantined=tuple(sorted(quarantined)),
        abandoned=abandoned,
        late_until=pod.late_until,
    )


def _for_everybody(item: ReceiptItem) -> ReceiptItem:
    """Its project reads the receipt; who else is on a host, or what a service answered, is in operators' events."""
    told = {"not clean": "it is not gone, or not the pod's alone", "unknown": "it could not be read"}
    return item if item.result == "clean" else item.model_copy(update={"seen": told[item.result]})


def _keys(keys: frozenset[int]) -> str:
    return ", ".join(f"0x{k:04x}" for k in sorted(keys)) or "no key"


def _subject(record: ResourceRecord) -> str:
    return f"{record.resource.name} {record.outside_id or '(never made)'}"


def _nodes(record: ResourceRecord, pod: PodRecord) -> tuple[str, ...]:
    """Nodes that can't be given back while this thing is there: its own, or for a shared thing none."""
    node = record.resource.node
    if not record.kind.row.keeps_node or not node:
        return ()
    return (node,) if node in pod.nodes else pod.nodes
