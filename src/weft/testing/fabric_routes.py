"""What the fake's switches forward: shortest paths, spread over LIDs as OpenSM's minhop spreads them."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Mapping

from weft.model.agentlinks import (
    NO_ROUTE,
    Counters,
    RoutedPort,
    Routes,
    RoutesQuery,
    SwitchCable,
    SwitchTable,
)
from weft.model.ids import format_guid
from weft.model.linkreading import PortRate
from weft.model.site import Site
from weft.testing.fabric_wire import FakeWire


class FakeRoutes:
    """Tables of one fabric of a site, computed again when a cable was cut or repaired.

    Attributes:
        silent: switches that don't answer; `overridden`: (switch, LID) -> port, as if someone had written it.
        engine, configured: routing engines.
        seconds: lengths of the intervals between readings of counters.
    """

    def __init__(self, wire: FakeWire) -> None:
        self._wire = wire
        self.silent: set[str] = set()
        self.overridden: dict[tuple[str, int], int] = {}
        self.engine, self.configured = "minhop", tuple[str, ...]()
        self.lmc = 0
        self.traffic: dict[tuple[int, int], PortRate] = {}
        """(GUID of the node, port) -> the rate at which it sends; ports that aren't listed send nothing."""
        self.seconds: tuple[float, ...] = (15.0, 15.0)
        self._made: tuple[object, ...] = ()
        self._routes: Routes | None = None

    def answer(self, query: RoutesQuery) -> Routes:
        """The forwarding tables as an agent returns them."""
        wire = self._wire
        made = (
            frozenset(wire.cut | wire.off), frozenset(wire.cut_links), frozenset(self.silent),
            tuple(self.overridden.items()), self.engine, self.configured, self.lmc,
        )  # fmt: skip
        if self._routes is None or made != self._made:
            self._made, self._routes = made, self._computed()
        switches = tuple(
            s.model_copy(update={"table": None}) if query.have.get(format_guid(s.guid)) == s.digest else s
            for s in self._routes.switches
        )
        return self._routes.model_copy(update={"switches": switches})

    def counters(self) -> Counters:
        """The ports' rates as an agent returns them."""
        routes = self.answer(RoutesQuery())
        ends = [(p.node_guid, p.port) for p in routes.ports] + [
            (p.switch_guid, p.switch_port) for p in routes.ports
        ]
        ends += [end for c in routes.cables for end in ((c.a, c.a_port), (c.b, c.b_port))]
        idle = PortRate(0.0, 0.0, 0.0, 0.0)
        columns = [self.traffic.get(end, idle) for end in ends]
        return Counters(
            age=0.0,
            seconds=self.seconds,
            node=tuple(guid for guid, _ in ends),
            port=tuple(port for _, port in ends),
            sent=tuple(c.sent for c in columns),
            received=tuple(c.received for c in columns),
            waiting=tuple(c.waiting for c in columns),
            waiting_before=tuple(c.waiting_before for c in columns),
            at_least=tuple(i for i, c in enumerate(columns) if c.at_least),
            full=tuple(i for i, c in enumerate(columns) if c.full),
        )

    def _computed(self) -> Routes:
        site, fabric, gone = self._wire.site, self._wire.fabric, self._wire.cut | self._wire.off
        switches = {s.name: s for s in site.switches if s.fabric == fabric}
        hosts = {
            f"{n.name}/{h.name}": h for n in site.nodes for h in n.hcas_on(fabric) if h.port_guid not in gone
        }
        next_to: dict[str, dict[str, list[int]]] = {name: {} for name in switches}
        cables: list[SwitchCable] = []
        ports: list[RoutedPort] = []
        step = 1 << self.lmc
        lid = (len(switches) // step + 1) * step
        for link in site.links:
            a, a_port, b, b_port = link.a, link.a_port, link.b, link.b_port
            if a not in switches:
                a, a_port, b, b_port = b, b_port, a, a_port
            if (a, a_port) in self._wire.cut_links or (b, b_port) in self._wire.cut_links:
                continue
            if a in switches and b in switches:
                next_to[a].setdefault(b, []).append(a_port)
                next_to[b].setdefault(a, []).append(b_port)
                guids = switches[a].guid or 0, switches[b].guid or 0
                cables.append(SwitchCable(a=guids[0], a_port=a_port, b=guids[1], b_port=b_port, gbps=200))
            elif a in switches and b in hosts:
                hca = hosts[b]
                ports.append(
                    RoutedPort(
                        port_guid=hca.port_guid, lid=lid, lmc=self.lmc, node_guid=hca.guid, port=b_port,
                        switch_guid=switches[a].guid or 0, switch_port=a_port,
                    )
                )  # fmt: skip
                lid += step
        tables = self._tables(site, next_to, ports, lid)
        return Routes(
            age=0.0,
            switches=tuple(
                SwitchTable(
                    guid=switches[name].guid or 0, name=name, lid=number, ports=switches[name].ports,
                    digest=hashlib.sha256(tables[name]).hexdigest(), table=tables[name],
                )
                for number, name in enumerate(switches, 1)
                if name not in self.silent
            ),
            ports=tuple(ports),
            cables=tuple(cables),
            unread={format_guid(switches[name].guid or 0): "no answer" for name in self.silent},
            engine=self.engine,
            configured=self.configured,
        )  # fmt: skip

    def _tables(
        self, site: Site, next_to: Mapping[str, Mapping[str, list[int]]], ports: list[RoutedPort], last: int
    ) -> dict[str, bytes]:
        names = {s.guid: s.name for s in site.switches}
        tables = {name: bytearray([NO_ROUTE] * last) for name in next_to}
        for number, name in enumerate(next_to, 1):
            tables[name][number] = 0
        far = {leaf: _distances(next_to, leaf) for leaf in {names[p.switch_guid] for p in ports}}
        for port in ports:
            leaf = names[port.switch_guid]
            for lid in range(port.lid, port.lid + (1 << port.lmc)):
                for name, table in tables.items():
                    if name == leaf:
                        table[lid] = port.switch_port
                    elif name in far[leaf]:
                        near = sorted(
                            out for other, outs in next_to[name].items() for out in outs
                            if far[leaf].get(other) == far[leaf][name] - 1
                        )  # fmt: skip
                        table[lid] = near[lid % len(near)]
        for (name, lid), out in self.overridden.items():
            tables[name][lid] = out
        return {name: bytes(table) for name, table in tables.items()}


def _distances(next_to: Mapping[str, Mapping[str, list[int]]], first: str) -> dict[str, int]:
    found, waiting = {first: 0}, deque([first])
    while waiting:
        switch = waiting.popleft()
        for other in next_to[switch]:
            if other not in found:
                found[other] = found[switch] + 1
                waiting.append(other)
    return found
