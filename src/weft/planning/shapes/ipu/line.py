"""The IPUs of a cloud in time: `weft.planning.queue.timeline`, where a leaf is an IPU-POD or a host.

What is free at some time are bits, as there: IPU-Machines in the order of the cables, and places on shared hosts.
`weft.planning.shapes.ipu.room` chooses what an order gets of them, as for an order that starts now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from weft.model.order import Order
from weft.model.placement import Occupancy
from weft.model.site import Node, Site
from weft.planning.fabric.topology import NO_BLOCK, NodeLocation, Topology, natural
from weft.planning.place.ask import Ask
from weft.planning.place.calendar import Words
from weft.planning.place.decision import Decision
from weft.planning.place.engine import Engine
from weft.planning.place.slots import HOST, slot
from weft.planning.place.view import View
from weft.planning.queue.book import Book
from weft.planning.queue.timeline import Timeline
from weft.planning.queue.windows import check_window
from weft.planning.shapes.ipu.room import Host, Picked, hosts_of, machines_of, pick
from weft.planning.shapes.ipu.run import MachineRow, rows, stretches


@dataclass(frozen=True, slots=True)
class IpuAsk(Ask):
    """`count` adjacent IPU-Machines of one IPU-POD, or of any, with Poplar servers and a controller."""

    ipu_pod: str | None = None
    servers: int = 1

    @classmethod
    def for_order(cls, order: Order, project: str) -> Self:
        """The ask of an order. Raises ValueError for an order without IPUs: a programming error."""
        if order.ipus is None:
            raise ValueError(f"order {order.name} has no IPUs")
        wanted = order.ipus
        return cls(order.name, wanted.machines, project, ipu_pod=wanted.ipu_pod, servers=order.nodes.count)

    @property
    def held(self) -> int:
        """IPU-Machines and places on hosts."""
        return self.count + self.servers + 1

    @property
    def counted(self) -> int:
        return self.count

    @property
    def alike(self) -> tuple[object, ...]:
        return self.ipu_pod, self.servers, self.project, self.exclude


class IpuTimeline(Timeline):
    """Everything that orders of IPUs take in one cloud: see the module's docstring."""

    def __init__(self, site: Site, cloud: str) -> None:
        pods = sorted((n for n, p in site.ipu_pods.items() if p.cloud == cloud), key=natural)
        self._rows = [row for row in rows(site, site.ipu_machines) if row.ipu_pod in pods]
        self._poplars, self._controllers = (hosts_of(site, r, cloud) for r in ("poplar", "controller"))
        members = {name: [m.name for m in machines_of(site, name)] for name in pods}
        for host in (*self._poplars, *self._controllers):
            members[HOST + host.name] = [slot(host.name, n) for n in range(1, host.servers + 1)]
        leaves = {leaf: tuple(names) for leaf, names in members.items() if names}
        locations = {
            name: NodeLocation(name, leaf, NO_BLOCK) for leaf, names in leaves.items() for name in names
        }
        super().__init__(
            Engine(Topology(f"IPUs of {cloud}", locations, leaves, {NO_BLOCK: tuple(leaves)}, {}))
        )
        self._leaf = {leaf: i for i, leaf in enumerate(leaves)}

    @classmethod
    def of(cls, book: Book, site: Site, cloud: str, health: Occupancy, now: float) -> Self:
        """The book's IPUs of a cloud; everything else is ignored.

        Args:
            health: what is out of order; a host that is out of order takes no further servers.
        """
        line = cls(site, cloud)
        maintenance = {m.name: m.maintenance for m in (*site.ipu_machines, *site.nodes) if m.maintenance}
        there = line.engine.ledger.numbers.leaf_of
        for why, reasons in (
            ("maintenance", maintenance),
            ("down", health.down),
            ("quarantine", health.quarantined),
            ("hold", health.on_hold),
            ("drain", health.drained),
            ("checks", health.failing),
            ("report", health.reported),
        ):
            for name, reason in reasons.items():
                places = line.places_of([name])
                for one in places if places[0] in there else ():
                    line.engine.ledger.disable(one, why, reason)
        for lease in book.leases:
            line.engine.ledger.hold(lease.name, lease.nodes)
        book.enter(line, now)
        return line

    def places_of(self, nodes: Iterable[str]) -> tuple[str, ...]:
        leaves = self.engine.ledger.topology.leaves
        return tuple(place for node in nodes for place in leaves.get(HOST + node, (node,)))

    def decide(self, ask: Ask, now: float, end: float) -> Decision | None:
        check_window(now, end)
        return self._in_window(ask, now, end, present=True)

    def free(self, ipu_pod: str, left: Words) -> tuple[int, int]:
        """How many IPU-Machines of an IPU-POD, and how many Poplar servers for it, are among these bits."""
        machines = self.bits_of(left, self._leaf[ipu_pod]).bit_count() if ipu_pod in self._leaf else 0
        mine = [n for n in self._poplars if n.ipu_pod in (None, ipu_pod)]
        return machines, sum(bool(h.free) for h in self._hosts(mine, left))

    def picked(self, ask: IpuAsk, left: Words) -> Picked | None:
        """What the order would get of these free nodes; None: it doesn't fit."""
        among: list[MachineRow] = []
        for row in self._rows:
            if ask.ipu_pod in (None, row.ipu_pod):
                bits = self.bits_of(left, self._leaf[row.ipu_pod]) if row.free else 0
                machines = [m for i, m in enumerate(row.free.values()) if bits >> i & 1]
                free = MachineRow(row.ipu_pod, row.ring, {m.position: m for m in machines})
                if any(len(s) >= ask.count for s in stretches(free)):
                    among.append(free)
        if not among:
            return None
        hosts = (self._hosts(nodes, left) for nodes in (self._poplars, self._controllers))
        return pick(ask.count, ask.servers, among, *hosts)

    def _hosts(self, nodes: Sequence[Node], left: Words) -> list[Host]:
        found: list[Host] = []
        for node in nodes:
            bits = self.bits_of(left, self._leaf[HOST + node.name])
            found.append(Host(node, tuple(n for n in range(1, node.servers + 1) if bits >> (n - 1) & 1)))
        return found

    def _fits(self, ask: Ask, view: View, left: Words, extra_load: Mapping[int, int]) -> bool:
        return self._fitting(ask, view, left, extra_load) is not None

    def _fitting(
        self, ask: Ask, view: View, left: Words, extra_load: Mapping[int, int] | None = None
    ) -> Decision | None:
        if not isinstance(ask, IpuAsk):
            raise TypeError(f"{ask.pod} asks for no IPUs")
        if ask.exclude:
            left = left & ~self.reservations.words(
                self.engine.ledger.numbers.masks(self.places_of(ask.exclude))
            )
        picked = self.picked(ask, left)
        if picked is None:
            return None
        names = [m.name for m in picked.run.machines]
        names += [slot(h.node.name, h.free[0]) for h in (*picked.poplars, picked.controller)]
        bits = tuple(sorted(self.engine.ledger.numbers.masks(names).items()))
        left_over = picked.run.stretch - len(picked.run.positions)
        return self.engine.ledger.decided(view, ask, bits, 0, left_over, 1, free=0)
