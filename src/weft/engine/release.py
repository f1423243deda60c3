"""The proof: read every plane back when all was taken away, and say so in a receipt, or keep the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.engine.capacity import PKEYS
from weft.engine.moves import seen_of
from weft.engine.records import PodRecord, ResourceRecord, RowState
from weft.engine.world import World
from weft.model.errors import WeftError
from weft.model.fabric import PortTable
from weft.model.ids import format_guid, format_pkey
from weft.model.receipt import Abandoned, Receipt, ReceiptItem
from weft.model.resources import Kind, PartitionSpec, PortSpec, ServerSpec, VipuAgentSpec
from weft.model.site import Site
from weft.planning.fabriccheck import check_clean, port_name
from weft.ports.clock import Clock

FABRIC_PLANES = frozenset({"partition", "p_key host", "p_key leaf", "p_key elsewhere"})


@dataclass(frozen=True, slots=True)
class ReadBack:
    """What was read.

    Attributes:
        items: one a thing or place, clean or not.
        unclean: node -> why it can't be given back.
        again: keys of resources that were seen, whatever their rows say: they are to be taken away again.
    """

    items: tuple[ReceiptItem, ...]
    unclean: dict[str, str]
    again: frozenset[str] = frozenset()

    @property
    def clean(self) -> bool:
        return all(i.result == "clean" for i in self.items)

    def reason(self) -> str:
        bad = [f"{i.plane} {i.subject}: {i.seen}" for i in self.items if i.result != "clean"]
        more = f" (and {len(bad) - 3} more)" if len(bad) > 3 else ""
        return "; ".join(bad[:3]) + more


class Reader:
    """Reads back one pod that was taken away."""

    def __init__(
        self, pod: PodRecord, records: Sequence[ResourceRecord], world: World, site: Site, clock: Clock
    ) -> None:
        self._pod, self._records, self._world, self._site, self._clock = pod, records, world, site, clock
        self._items: list[ReceiptItem] = []
        self._unclean: dict[str, str] = {}
        self._again: set[str] = set()

    def read(self) -> ReadBack:
        """Cloud, fabric and database, in that order."""
        places = {(r.resource.where, r.kind) for r in self._records if r.kind is not Kind.PARTITION}
        # Servers first: of several reasons why a node is kept, a server that is still there says most.
        for where, kind in sorted(places, key=lambda p: (p[1] is not Kind.SERVER, p)):
            self._listing(where, kind)
        for record in self._records:
            if isinstance(record.resource.spec, PartitionSpec):
                self._fabric(record.resource.where, record.resource.spec)
                if any(i.result == "not clean" and i.plane in FABRIC_PLANES for i in self._items):
                    self._again.add(record.key)
        left = [r.key for r in self._records if r.state not in (RowState.ABSENT, RowState.WANTED)]
        self._item(
            "database",
            f"{len(self._records)} resource rows",
            "not clean" if left else "clean",
            f"not seen to be absent: {', '.join(left[:5])}" if left else "all seen to be absent",
        )
        return ReadBack(tuple(self._items), self._unclean, frozenset(self._again))

    def _listing(self, where: str, kind: Kind) -> None:
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
        everybody = self._pod.nodes
        try:
            reader = self._world.fabric(name)
            configured = reader.partitions()
            tables = reader.tables()
        except WeftError as error:
            self._item("partition", format_pkey(partition.pkey), "unknown", str(error), everybody)
            return
        there = partition.pkey in configured
        self._item(
            "partition",
            format_pkey(partition.pkey),
            "not clean" if there else "clean",
            f"{'still' if there else 'not'} in the partitions of {name}'s subnet managers",
            everybody if there else (),
        )
        for guid in partition.members:
            self._port(guid, partition.pkey, tables.get(guid))
        others = [t for g, t in tables.items() if g not in partition.members and not t.unreachable]
        dirty = [t for t in others if check_clean(t, partition.pkey, "port")]
        names = ", ".join(port_name(self._site, t.port_guid) for t in dirty[:5])
        owners = (self._site.hca_by_port_guid.get(t.port_guid) for t in dirty)
        spares = {o[0].name for o in owners if o and o[0].name in self._pod.spares}
        self._item(
            "p_key elsewhere",
            f"{len(others)} other host ports of {name} and their leaf ports",
            "not clean" if dirty else "clean",
            f"{format_pkey(partition.pkey)} is on {names}"
            if dirty
            else f"none has {format_pkey(partition.pkey)}",
            (*everybody, *sorted(spares)) if dirty else (),
        )

    def _port(self, guid: int, pkey: int, table: PortTable | None) -> None:
        """One member's port and its leaf port."""
        name = port_name(self._site, guid)
        node = self._site.hca_by_port_guid.get(guid)
        nodes = (node[0].name,) if node else self._pod.nodes
        if table is None or table.unreachable:
            why = table.unreachable if table else "it was not found on the fabric"
            self._item("p_key host", f"{name} {format_guid(guid)}", "unknown", why, nodes)
            return
        dirty = {p.text for p in check_clean(table, pkey, name)}
        host = f"{name} has {format_pkey(pkey)}"
        listed = ", ".join(f"0x{k:04x}" for k in sorted(table.keys)) or "no key"
        self._item(
            "p_key host",
            f"{name} {format_guid(guid)}",
            "not clean" if host in dirty else "clean",
            f"table read from the port: {listed}",
            nodes if host in dirty else (),
        )
        leaf_dirty = bool(dirty - {host})
        keys = table.leaf_keys
        seen = (
            "the port keeps no table"
            if keys is None
            else ", ".join(f"0x{k:04x}" for k in sorted(keys)) or "no key"
        )
        self._item(
            "p_key leaf",
            f"{table.leaf}[{table.leaf_port}] of {name}",
            "not clean" if leaf_dirty else "clean",
            f"table read from the port: {seen}",
            nodes if leaf_dirty else (),
        )

    def _item(self, plane: str, subject: str, result: str, seen: str, nodes: Sequence[str] = ()) -> None:
        item = ReceiptItem.model_validate(
            {"plane": plane, "subject": subject, "result": result, "seen": seen, "at": self._clock.now()}
        )
        self._items.append(item)
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
        items=read.items,
        clean=read.clean and abandoned is None,
        quarantined=tuple(sorted(quarantined)),
        abandoned=abandoned,
    )


def _subject(record: ResourceRecord) -> str:
    return f"{record.resource.name} {record.outside_id or '(never made)'}"


def _nodes(record: ResourceRecord, pod: PodRecord) -> tuple[str, ...]:
    """Nodes that can't be given back while this thing is there: its own, or for a shared thing none."""
    spec = record.resource.spec
    if isinstance(spec, ServerSpec | PortSpec | VipuAgentSpec):
        name = record.key.split("/")[1]
        return (name,) if name in pod.nodes else pod.nodes
    return ()
