"""Links of a fabric by the site's names, and what isn't known of their routes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from weft.model.ids import format_guid
from weft.model.linkreading import UNKNOWN_RATE, PortRate, RouteReading
from weft.model.messages import links as messages
from weft.model.site import Hca, Site
from weft.model.site.devices import plain_port
from weft.planning.fabric.forwarding import Forwarding
from weft.planning.fabric.linkuse import PodAdapter, forwarding_of
from weft.planning.fabric.topology import Topology
from weft.planning.kept import kept

_ADAPTIVE = "ar_"
"""Prefix of NVIDIA's routing engines with adaptive routing."""
_STATIC = frozenset(
    ("minhop", "updn", "dnup", "ftree", "file", "lash", "dor", "torus-2QoS", "nue", "dfsssp", "sssp")
)
"""OpenSM's own engines (`osm_subnet.h`, `osm_opensm.c`): with these, all packets of a pair take the tables' path."""
Level = Literal["adapter", "leaf", "other"]


class LinkEnd(NamedTuple):
    """One end of a link.

    Attributes:
        name: a switch, or node/adapter.
        port: its number there; `port_name`: the vendor's name of it, on switches whose ports have names.
    """

    name: str
    port: int
    level: Level
    port_name: str = ""


@dataclass(frozen=True)
class LinkMap:
    """One fabric as its site and a reading of routes have it."""

    site: Site
    fabric: str
    routes: RouteReading

    @property
    def forwarding(self) -> Forwarding:
        """The forwarding tables, ready to be followed."""
        return forwarding_of(self.routes)

    def adapters(self, ports: Iterable[str]) -> tuple[PodAdapter, ...]:
        """The adapters of ports by their ids; without ports that the site doesn't have."""
        known = _adapters(self.site, self.fabric)
        return tuple(known[p] for p in ports if p in known)

    def both_ways(self, switch: str, port: str) -> tuple[int, int] | None:
        """The two links of the cable at a switch's port; None: none was discovered there."""
        if self.routes.equal_paths:
            return self._both_ways(switch, port)
        found = self.site.switch_by_name.get(switch)
        number = int(port) if port.isascii() and port.isdecimal() and len(port) < 4 else 0
        link = None if found is None or found.guid is None else self.forwarding.link_of(found.guid, number)
        return None if link is None else (link, self.forwarding.back(link))

    def _both_ways(self, switch: str, port: str) -> tuple[int, int] | None:
        """Both directions of a cable, one end of which is known by names alone."""
        wanted = switch, plain_port(port)
        names = self.routes.port_names
        ends = (e for e, name in names.items() if (self.routes.names[e[0]], plain_port(name)) == wanted)
        links = (self.forwarding.link_of(*end) for end in ends)
        link = next((found for found in links if found is not None), None)
        return None if link is None else (link, self.forwarding.back(link))

    def ends(self, link: int) -> tuple[LinkEnd, LinkEnd]:
        """The end that sends, and the one that receives."""
        sender, receiver = self.forwarding.end_of(link), self.forwarding.other_end(link)
        return self._end(*sender), self._end(*receiver)

    def _end(self, guid: int, port: int) -> LinkEnd:
        """One end of a link, named by the site, else by itself, else by its GUID."""
        if (named := self.routes.port_names.get((guid, port))) is not None:
            switch = self.routes.names[guid]
            known = self.site.switch_by_name.get(switch)
            return LinkEnd(
                switch, port, "leaf" if known is not None and known.level == "leaf" else "other", named
            )
        name, level = names_by_guid(self.site, self.fabric).get(guid) or (
            self.routes.names.get(guid) or format_guid(guid),
            "other",
        )
        return LinkEnd(name, port, level)

    def gbps(self, link: int) -> int | None:
        """Gb/s of a link; None: not known."""
        return self._speeds.get(link)

    @cached_property
    def _speeds(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for c in self.routes.cables:
            for guid, port in ((c.a, c.a_port), (c.b, c.b_port)) if c.gbps else ():
                if (link := self.forwarding.link_of(guid, port)) is not None:
                    found[link] = c.gbps
        for guid, gbps in self.routes.host_gbps.items():
            if (link := self.forwarding.link_of_host(guid)) is not None:
                found[link] = found[self.forwarding.back(link)] = gbps
        return found

    def rate(self, link: int, rates: Mapping[tuple[int, int], PortRate]) -> PortRate:
        """What the port that sends on a link counts."""
        return rates.get(self.forwarding.end_of(link), UNKNOWN_RATE)

    def load(self, hca: Hca, rates: Mapping[tuple[int, int], PortRate]) -> float | None:
        """Share of its link's speed that an adapter sends or receives, whichever is more; None: not known, also if
        both ends' counters were reset. The switch at the other end counts the same, and is believed if the adapter
        doesn't say.
        """
        link = self.forwarding.link_of_host(hca.port_guid)
        if link is None:
            return None
        own, other = self.rate(link, rates), self.rate(self.forwarding.back(link), rates)
        exact = [rate for rate in (own, other) if not rate.at_least]
        known = [value for rate in exact for value in (rate.sent, rate.received) if value is not None]
        return max(known) * 8 / 1e9 / (self.gbps(link) or hca.rate_gbps) if known else None

    @property
    def exact(self) -> bool:
        """Whether a path is certainly the one that every packet of a pair takes."""
        return not self.forwarding.many_lids and self.routes.engine in _STATIC and not self.routes.partial

    def notes(self) -> Iterator[str]:
        """What isn't known of the routes, a sentence each."""
        routes = self.routes
        yield from routes.partial
        if routes.unread:
            yield f"the tables of {len(routes.unread)} switches weren't read: paths by way of them are unknown"
        if routes.engine and routes.configured and routes.engine != routes.configured[0]:
            yield messages.ROUTING_ENGINE(configured=routes.configured[0], used=routes.engine)
        if not routes.engine and not routes.equal_paths:
            yield "opensm's log doesn't say which routing engine is in force: paths may be adaptive"
        if self.forwarding.many_lids:
            yield "ports have several LIDs (LMC above 0): the path of each is counted"
        if routes.engine.startswith(_ADAPTIVE):
            yield f"routing is adaptive ({routes.engine}): the paths are possible, others are, too"
        elif routes.engine and routes.engine not in _STATIC:
            yield f"it isn't known whether routing is adaptive ({routes.engine}): the paths are possible"


@kept
def _adapters(site: Site, fabric: str) -> Mapping[str, PodAdapter]:
    """Id of a port on a fabric -> the adapter; nodes in the tree's order, rails in that of a node's adapters."""
    order = {node: i for i, node in enumerate(Topology.of(site, fabric).locations)}
    return {
        hca.port_id: PodAdapter(hca.port_guid, order.get(node.name, len(order) + number), rail)
        for number, node in enumerate(site.nodes)
        for rail, hca in enumerate(node.hcas_on(fabric))
    }


@kept
def names_by_guid(site: Site, fabric: str) -> Mapping[int, tuple[str, Level]]:
    """GUID of a node of the fabric -> its name in the site, and what it is."""
    found: dict[int, tuple[str, Level]] = {
        s.guid: (s.name, "leaf" if s.level == "leaf" else "other")
        for s in site.switches
        if s.fabric == fabric and s.guid is not None
    }
    for node in site.nodes:
        for hca in node.hcas_on(fabric):
            found[hca.guid] = f"{node.name}/{hca.name}", "adapter"
    return found
