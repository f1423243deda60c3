"""Unexpected occupants of recently released nodes: ports in segments, pods' servers on hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.engine.audit.outside import Outside, OutsideFabric
from weft.engine.base.world import World
from weft.engine.rows.events import insert_event
from weft.engine.rows.records import PodRecord, ResourceRecord
from weft.engine.rows.traces import Trace, Traces
from weft.engine.store.store import Store
from weft.model.errors import WeftError
from weft.model.kinds import kind_named
from weft.model.site import Node, Site
from weft.model.specs import SegmentSpec

HOST, MEMBERSHIP = "host", "membership"
"""Kinds of traces that belong to others."""


class StrangerCheck:
    """Reports foreign members, and quarantines their node, which the next tenant would share with them."""

    def __init__(self, store: Store, world: World, site: Site, traces: Traces) -> None:
        self._store, self._world, self._site, self._traces = store, world, site, traces
        self._seen: set[tuple[str, str]] = set()

    def check(self, pods: Iterable[PodRecord], outside: Outside) -> list[str]:
        """Check the nodes of these released pods; returns what could not be read."""
        last: dict[str, PodRecord] = {}
        for pod in pods:  # the one released last comes first
            for node in pod.held:
                last.setdefault(node, pod)
        held = self._store.capacity().held
        free = {name: pod for name, pod in last.items() if name not in held and name in self._site.units}
        unread: list[str] = []
        for fabric, wire in outside.wires.items():
            if not isinstance(wire, WeftError):
                try:
                    self._check_ports(fabric, wire, free, outside)
                except WeftError as error:
                    unread.append(f"ports of {fabric}: {error}")
        unread += self._check_hosts({n: pod for n, pod in free.items() if n in self._site.node_by_name})
        self._end(outside, bool(unread))
        return unread

    def _end(self, outside: Outside, hosts_unread: bool) -> None:
        """End traces of what isn't seen any more, if everything could be read."""
        for trace in self._traces.open():
            blind = (
                hosts_unread if trace.kind == HOST else isinstance(outside.wires.get(trace.place), WeftError)
            )
            if trace.others and not blind and (trace.kind, trace.subject) not in self._seen:
                self._traces.ended(trace.id, trace.owner_id, f"no longer seen: {trace.what}")

    def _check_ports(
        self, fabric: str, wire: OutsideFabric, free: Mapping[str, PodRecord], outside: Outside
    ) -> None:
        found = outside.marked.get(fabric, ())
        none = isinstance(found, WeftError)
        listed = set[object]() if none else {t.facts.get("number") for t in found if t.owner is None}
        members = self._members(fabric)
        mine, words = self._site.fabrics[fabric].segments, self._site.fabrics[fabric].words
        for name, pod in sorted(free.items()):
            for adapter, port_id in self._site.ports_of(name, fabric):
                port = wire.snapshot.ports.get(port_id)
                if port is None or port.unread:
                    continue  # an unreadable member's port keeps its node; the audit reports it
                for number in sorted(n for n in port.numbers if n in mine):
                    # A number that no segment explains is weft's own to remove, and is removed.
                    if number in listed or port.port in members.get(number, ()):
                        continue
                    if not self._is_there_now(fabric, name, port.port, number):
                        continue
                    named, text = words.named(number), words.text(number)
                    what = f"{name}/{adapter} has the foreign {named} after the node was released"
                    subject = f"{port.port} {text}"
                    self._keep(name, pod, Trace(pod.id, MEMBERSHIP, fabric, subject, what, others=True))

    def _is_there_now(self, fabric: str, node: str, port: str, number: int) -> bool:
        """Check again: what the round read at its start may have belonged to a pod released since."""
        seen = self._world.fabric(fabric).snapshot().ports.get(port)
        if seen is None or seen.unread or number not in seen.numbers:
            return False
        return node not in self._store.capacity().held and port not in self._members(fabric).get(number, ())

    def _members(self, fabric: str) -> dict[int, frozenset[str]]:
        """Number -> ports that are members of a live owner's segment, read after the ports were.

        Raises `UnreadableError`: whose ports they are is unknown.
        """
        found: dict[int, frozenset[str]] = {}
        rows = self._store.database.rows("segments_of_live", fabric=fabric)
        for row in rows:
            record = ResourceRecord.of(row)
            spec = record.resource.spec
            if isinstance(spec, SegmentSpec):
                found[spec.number] = found.get(spec.number, frozenset()) | spec.ports
        return found

    def _check_hosts(self, free: Mapping[str, PodRecord]) -> list[str]:
        """Servers of pods on hosts that no pod has: moved there, or restored."""
        unread: list[str] = []
        for cloud, facts in sorted(self._world.clouds.items()):
            nodes = [n for name in sorted(free) if (n := self._site.node_by_name[name]).cloud == cloud]
            seen = facts.on_hosts([n.nova_host for n in nodes]) if nodes else {}
            for node in nodes:
                one = seen[node.nova_host]
                if one.unknown:
                    unread.append(f"what is on {node.name}: {one.unknown}")
                self._check_host(node, [o.id for o in one.occupants if o.runs], free[node.name], cloud)
        return unread

    def _check_host(self, node: Node, servers: list[str], pod: PodRecord, cloud: str) -> None:
        known = self._store.database.rows("owners_of", ids=servers, owners=[]) if servers else []
        for row in known:
            kind = kind_named(row["kind"])
            if kind is None or not kind.row.on_host or node.name in self._store.capacity().held:
                continue
            whose = f"{row['owner_kind']} {row['name']}"
            what = (
                f"{kind.row.one} {row['outside_id']} of {whose} is on {node.name} after the node was released"
            )
            subject = f"{node.name} {row['outside_id']}"
            self._keep(node.name, pod, Trace(pod.id, HOST, cloud, subject, what, others=True))

    def _keep(self, node: str, pod: PodRecord, trace: Trace) -> None:
        self._seen.add((trace.kind, trace.subject))
        self._traces.found(trace)
        if node not in self._store.capacity().quarantines:
            self._store.database.gate.foretell()
        with self._store.database.transaction() as tx:
            row = tx.row("quarantine_free", node=node, reason=trace.what, at=tx.now(), pod_id=pod.id)
            if row is not None:
                insert_event(tx, pod.id, "quarantine", f"{node}: {trace.what}")
                tx.run("touch_queue", at=tx.now())
                self._store.database.gate.hurry()
