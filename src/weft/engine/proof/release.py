"""The proof of a release: reads every plane back after everything was deleted, for the receipt. What isn't clean keeps
its nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from weft.engine.base.world import World
from weft.engine.book.occupancy import whole_nodes
from weft.engine.hold.defects import known
from weft.engine.proof.departure import Beside, read_guests, read_hosts
from weft.engine.proof.membership import all_members
from weft.engine.proof.readback import OFF_THE_WIRE, OVER, ReadBack, nodes_of, subject_of
from weft.engine.proof.seen import as_left, kept_item, seen_of
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import PodRecord, ResourceRecord, StaleNumber
from weft.model.errors import WeftError
from weft.model.fabric import Clean, EvidenceItem, Membership, Result
from weft.model.fabrictypes import Level
from weft.model.kindrow import AnyKind, Home
from weft.model.kinds import Kind
from weft.model.receipt import ReceiptItem
from weft.model.resources import Status
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.planning.owners.numbers import numbers_of
from weft.ports.clock import Clock


def _unshared(nodes: Collection[str]) -> frozenset[str]:
    """No node is shared with other pods."""
    return frozenset()


class ReleaseReader:
    """Reads back what was removed of one owner.

    Args:
        clock: measures the time since `began`.
        began: the database's time.
        holding: nodes that a pod still holds; the others were freed before, and may belong to someone else.
        former: key of a segment -> ports of nodes that a pod doesn't want any more but still holds.
        beside: ids of all pods' servers on nodes that several share; asked after the hosts were read.
        numbers: what the owner still holds. A segment whose number was returned was read back clean before, and its
            number may be another owner's by now. None: it holds all of them.
    """

    def __init__(
        self,
        owner: OwnerRecord,
        records: Sequence[ResourceRecord],
        world: World,
        site: Site,
        clock: Clock,
        began: datetime,
        holding: Collection[str] = (),
        former: Mapping[str, tuple[Membership, ...]] | None = None,
        beside: Beside = _unshared,
        numbers: Collection[tuple[str, int]] | None = None,
    ) -> None:
        self._numbers = numbers
        self._of_numbers: dict[tuple[str, int], tuple[ReceiptItem, ...]] = {}
        self._owner, self._records, self._world, self._site, self._clock = owner, records, world, site, clock
        self._pod = owner if isinstance(owner, PodRecord) else None
        self._holding = frozenset(holding)
        self._began, self._mark = began, clock.monotonic()
        self._former, self._beside = former or {}, beside
        self._items: list[ReceiptItem] = []
        self._unclean: dict[str, str] = {}
        self._again: set[str] = set()
        self._stale: list[StaleNumber] = []
        self._of_fabric: list[ReceiptItem] = []
        self._of_nodes: dict[str, tuple[ReceiptItem, ...]] = {}
        self._ended: dict[str, str] = {}
        self._elsewhere: dict[str, str] = {}
        self._stays = False

    def _now(self) -> datetime:
        """The database's time, continued from `began` by this process's clock."""
        return self._began + timedelta(seconds=self._clock.monotonic() - self._mark)

    def read_nodes(self, nodes: Collection[str]) -> ReadBack:
        """Read what is on and around nodes that the pod doesn't want any more, while it continues elsewhere."""
        segments = [r for r in self._records if r.kind is Kind.SEGMENT]
        self._records = [r for r in self._records if not r.wanted and r.resource.node in nodes]
        self._clouds()
        for record in segments:
            self._former_ports(record, nodes)
        again = frozenset(self._again)
        return ReadBack(
            tuple(self._items),
            self._unclean,
            self._now(),
            again,
            ended=self._ended,
            elsewhere=self._elsewhere,
        )

    def _former_ports(self, record: ResourceRecord, nodes: Collection[str]) -> None:
        """Read ports of these nodes that were in a segment which continues, by the fabric's driver."""
        spec, name, at = record.resource.spec, record.resource.where, self._now()
        assert isinstance(spec, SegmentSpec)
        # On a shared host where other servers of the pod are, or have come to, its adapters may be in again.
        wanted = all_members(self._owner, record.resource).ports
        former = (m for m in self._former.get(record.key, ()) if m.port not in wanted)
        segment = spec.model_copy(update={"members": tuple(former)})
        if not segment.members:
            return
        try:
            fabric = self._world.fabric(name)
            clean = fabric.clean(segment, fabric.snapshot())
        except Exception as error:
            self._item(Kind.SEGMENT, segment.text, "unknown", str(known(error)), sorted(nodes), at)
            return
        # Items about the segment as a whole don't count: the pod still has the segment.
        for item in self._tried(name, segment, [i for i in clean.items if not i.whole]):
            kept = () if item.result in OVER else item.nodes or sorted(nodes)
            self._item(item.plane, item.subject, item.result, item.seen, kept, at, item.unread, item.level)
        for port, why in sorted(clean.behind.items()):
            its = self._site.port_by_id.get((name, port))
            kept = [its[0].name] if its else sorted(nodes)
            self._item(Kind.SEGMENT, f"{segment.text} {port}", "unknown", why, kept, at)

    def _tried(self, fabric: str, segment: SegmentSpec, items: Sequence[EvidenceItem]) -> list[EvidenceItem]:
        """Add what former members send, if a prober can test it, once everything that can be read is clean.

        The last reading names what was not tested.
        """
        prober, read = self._world.probers.get(fabric), list(items)
        wanted = self._wanted_level(fabric)
        left = [i for i in self._items if i.plane not in OFF_THE_WIRE]
        if prober is None or any(i.result not in OVER for i in (*left, *read)):
            return [item.weighed(wanted) for item in read]
        elsewhere = self._given_back(fabric, segment)
        mine = tuple(m for m in segment.members if m.port not in elsewhere)
        found, untried = (
            prober.clean(segment.model_copy(update={"members": mine})) if mine else (Clean(()), ())
        )
        if elsewhere:
            nodes = ", ".join(sorted({*elsewhere.values()}))
            untried = (*untried, f"frames of {nodes} were not tested: given back before")
        if found.items and not untried and all(i.result in OVER for i in found.items):
            read = [replace(i, level=Level.FRAMES) if i.level is not None else i for i in read]
        if untried and read:
            read[-1] = replace(read[-1], unread=(*read[-1].unread, *untried))
        return [*(item.weighed(wanted) for item in read), *found.items]

    def _wanted_level(self, fabric: str) -> Level:
        """How closely former members' ports must be read; nothing is known of a fabric that the site no longer has."""
        described = self._site.fabrics.get(fabric)
        return Level.CONFIGURATION if described is None else described.evidence

    def _given_back(self, fabric: str, segment: SegmentSpec) -> Mapping[str, str]:
        """Member -> its node, for nodes that may be another pod's by now, so that their traffic is that pod's.

        Some are nodes that no pod ever holds.
        """
        released, pod, site = self._owner.released_at is not None, self._pod, self._site
        gone = frozenset(pod.held) - self._holding if pod is not None else frozenset[str]()
        nodes: dict[str, str] = {}
        for at in [(fabric, m.port) for m in segment.members]:
            if at in site.port_by_id:
                nodes[at[1]] = site.port_by_id[at][0].name
            elif at in site.machine_by_port:
                nodes[at[1]] = site.machine_by_port[at].name
        return {port: node for port, node in nodes.items() if released or node in gone}

    def read(self) -> ReadBack:
        """Read cloud, fabric and database, in that order."""
        self._clouds()
        for record in self._records:
            if record.kind is Kind.SEGMENT and self._holds(record):
                self._fabric(record)
        left = [r.key for r in self._records if not r.is_nowhere]
        self._item(
            "database",
            f"{len(self._records)} resource rows",
            "not clean" if left else "clean",
            f"not proved absent: {', '.join(left[:5])}" if left else "all proved absent",
        )
        return ReadBack(
            tuple(self._items),
            self._unclean,
            self._now(),
            frozenset(self._again),
            tuple(self._stale),
            tuple(self._of_fabric),
            self._of_nodes,
            elsewhere=self._elsewhere,
            stays=self._stays,
            of_numbers=self._of_numbers,
        )

    def _holds(self, record: ResourceRecord) -> bool:
        """Whether the owner still holds its number."""
        return self._numbers is None or not self._numbers_of(record).isdisjoint(self._numbers)

    def _numbers_of(self, record: ResourceRecord) -> frozenset[tuple[str, int]]:
        return numbers_of([record.resource], self._site)

    def read_segments(self, keys: Collection[str]) -> ReadBack:
        """Read these segments alone, of an owner that continues with others."""
        for record in self._records:
            if record.key in keys:
                self._fabric(record)
        return ReadBack(
            tuple(self._items), self._unclean, self._now(), frozenset(self._again), tuple(self._stale)
        )

    def _clouds(self) -> None:
        """Read resources, guests and hosts."""
        records = [
            r for r in self._records if r.kind.row.home is not Home.FABRIC and not self._is_anothers(r)
        ]
        places = {(r.resource.where, r.kind) for r in records}
        # Servers first: of several reasons to keep a node, a server that still exists says most.
        for where, kind in sorted(places, key=lambda p: (not p[1].row.on_host, p)):
            self._listing(where, kind, [r for r in records if (r.resource.where, r.kind) == (where, kind)])
        if self._pod is not None:
            try:
                self._on_nodes(self._pod)
            except WeftError:
                raise
            except Exception as error:
                nodes = sorted(self._holding)
                self._item("host", ", ".join(nodes) or "none", "unknown", str(known(error)), nodes)
                self._stays = True

    def _is_anothers(self, record: ResourceRecord) -> bool:
        """Whether another pod may have it: its node was freed, read back clean, and the resource stays with the
        node."""
        node = record.resource.node
        lent = record.kind.row.lent and record.is_nowhere
        return lent and self._pod is not None and bool(node) and node not in self._holding

    def _on_nodes(self, pod: PodRecord) -> None:
        """Read what is left on the nodes that a pod held, and on others that its servers moved to."""
        maybe: dict[str, str] = {}
        for guest in read_guests(pod, self._records, self._world, self._holding):
            kept = () if guest.result == "clean" else nodes_of(guest.record, pod)
            item = self._item("guest", subject_of(guest.record), guest.result, guest.seen, kept)
            self._of_node(guest.record.resource.node, item)
            if guest.result == "clean" and guest.record.outside_id:
                self._ended[guest.record.outside_id] = guest.seen
            self._stays = self._stays or guest.stays
            for host in guest.hosts:
                maybe.setdefault(host, f"{subject_of(guest.record)} may run on it: {guest.seen}")
        for node in whole_nodes(self._site, pod.plan.cloud) if maybe else ():
            if node.nova_host in maybe and node.name not in self._holding:
                self._elsewhere[node.name] = maybe[node.nova_host]
        hosts = read_hosts(pod, self._records, self._world, self._site, self._holding, maybe, self._beside)
        for host in hosts:
            kept = () if host.result == "clean" else (host.node,)
            self._of_node(host.node, self._item("host", host.node, host.result, host.seen, kept))

    def _of_node(self, node: str | None, item: ReceiptItem) -> None:
        """Note an item for its node: it isn't read again once the node was freed."""
        if node:
            self._of_nodes[node] = (*self._of_nodes.get(node, ()), item)

    def _listing(self, where: str, kind: AnyKind, group: Sequence[ResourceRecord]) -> None:
        ids = {r.key: r.outside_id for r in self._records if r.outside_id}
        try:
            driver = self._world.driver(where)
            scope = replace(self._owner.scope, leaving=True)
            seen = seen_of(driver.find(scope, [as_left(r, self._records) for r in group], ids), group)
        except Exception as error:
            why = str(known(error))
            for record in group:
                item = self._item(kind, subject_of(record), "unknown", why, nodes_of(record, self._pod))
                self._of_number(record, item)
            return
        for record in group:
            found = seen[record.key]
            if found.there:
                self._again.add(record.key)
                what = f"still exists as {found.id}"
                item = self._item(kind, subject_of(record), "not clean", what, nodes_of(record, self._pod))
                self._of_number(record, item)
            elif found.status is Status.KEPT:
                self._items.append(kept_item(record, found, self._now()))
            else:
                item = self._item(kind, subject_of(record), "clean", f"{where}: {found.reason}")
                self._of_number(record, item)
                if kind.row.lent:
                    self._of_node(record.resource.node, item)

    def _of_number(self, record: ResourceRecord, *items: ReceiptItem) -> None:
        """Note items for the numbers they decide on; a remaining server, or rule for addresses, decides on networks'
        VLANs."""
        for number in self._numbers_of(record) if items else ():
            self._of_numbers[number] = (*self._of_numbers.get(number, ()), *items)
        row = record.kind.row
        if (row.on_host or row.admits) and any(i.result not in OVER for i in items):
            self._stays = True

    def _fabric(self, record: ResourceRecord) -> None:
        """What the fabric's driver proves of a segment, by a reading that began after its removal."""
        segment, name = all_members(self._owner, record.resource), record.resource.where
        at = self._now()
        former = [m for m in self._former.get(record.key, ()) if m.port not in segment.ports]
        segment = segment.model_copy(update={"members": (*segment.members, *former)})
        try:
            fabric = self._world.fabric(name)
            clean = fabric.clean(segment, fabric.snapshot())
        except Exception as error:
            item = EvidenceItem(Kind.SEGMENT, segment.text, "unknown", str(known(error)), whole=True)
            clean = Clean((item,))
        before = len(self._of_fabric)
        for item in self._tried(name, segment, clean.items):
            nodes = () if item.result in OVER else self._kept_for(item)
            self._item(item.plane, item.subject, item.result, item.seen, nodes, at, item.unread, item.level)
            self._of_fabric.append(self._items[-1])
        self._of_number(record, *self._of_fabric[before:])
        if any(i.result == "not clean" for i in clean.items):
            self._again.add(record.key)
        for manager, why in sorted(clean.stale.items()):
            self._stale.append(StaleNumber(name, manager, segment.number, why, segment.text))

    def _kept_for(self, item: EvidenceItem) -> tuple[str, ...]:
        """Nodes that an unclean item keeps: the port's own, or all if the port is unknown.

        All are those that the pod holds, including those it is leaving; spares weren't in the segment unless named.
        """
        if item.nodes and not item.whole:
            return item.nodes
        spares = frozenset(self._pod.spares if self._pod else ()) - {*item.nodes}
        return tuple(sorted(self._holding - spares))

    def _item(
        self,
        plane: str,
        subject: str,
        result: Result,
        seen: str,
        nodes: Sequence[str] = (),
        at: datetime | None = None,
        unread: Sequence[str] = (),
        level: Level | None = None,
    ) -> ReceiptItem:
        item = ReceiptItem(
            plane=str(plane),
            subject=subject,
            result=result,
            seen=seen,
            at=at or self._now(),
            unread=tuple(unread),
            level=None if level is None else level.value,
        )
        self._items.append(item)
        for node in nodes:
            self._unclean.setdefault(node, f"{plane} {subject}: {seen}")
        return item
