"""Location of each node on one fabric: leaf, block (group of leaves), rack.

The site's cables are the only source: a node is on the leaf that its HCAs connect to, those that locate it
(`Hca.locates`). On a rail-wired fabric, where HCA i of every node of a group connects to leaf i, the group's leaves are
one domain, named after the first (`weft.planning.fabric.rails`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Self

from weft.model.errors import InputError
from weft.model.localityorder import LEVELS, Level
from weft.model.site import Hca, Site
from weft.planning.fabric.rails import Domains

NO_FABRIC = "none"
"""Instead of a fabric's name: all hosts, whether cabled or not."""
NO_BLOCK = "-"
"""Block of leaves without one: they form one group."""

_NUMBER = re.compile(r"[0-9]{1,18}")
_DIGITS = re.compile(r"(\d+)")


@lru_cache(maxsize=1 << 18)
def natural(name: str) -> tuple[tuple[int, int | str], ...]:
    """Sort key that puts gpu2 before gpu10; names that differ only in leading zeros keep an order."""
    # Names may come from unknown devices, by LLDP: "²" is a digit to Python, and int() refuses thousands of digits.
    parts = tuple((0, int(p)) if _NUMBER.fullmatch(p) else (1, p) for p in _DIGITS.split(name) if p)
    return (*parts, (2, name))


@dataclass(frozen=True, slots=True)
class NodeLocation:
    """Location of one node.

    Attributes:
        rails: leaf of each of its HCAs on the fabric that is cabled, in the node's order of HCAs.
        hall: hall that its block is in, `building` that its hall is in; `-` if there is none.
        labels: labels that orders can prefer or avoid.
        nvlink_domain: NVLink domain that it is in, all of whose nodes are on its leaf; empty: none.
    """

    node: str
    leaf: str
    block: str
    rack: str | None = None
    rails: tuple[str, ...] = ()
    hall: str = NO_BLOCK
    building: str = NO_BLOCK
    labels: tuple[str, ...] = ()
    nvlink_domain: str = ""


@dataclass(frozen=True, slots=True)
class Topology:
    """The nodes of one fabric in tree order: by block, then leaf, then NVLink domain, then name, each in natural order.

    Attributes:
        fabric: name of the fabric.
        locations: node -> its location, in tree order.
        leaves: leaf -> its nodes, in tree order.
        blocks: block -> its leaves, in tree order.
        uncabled: node with HCAs on the fabric -> why it has no location.
        above: block -> (building, hall); empty if the fabric has no level above blocks.
        uplinks: leaf -> Gb/s of its cables to other switches, of all rails of its nodes together; empty if the
            cables aren't known.
        rails: leaf switch -> the leaf that it is a rail of; itself if it is the first or only one.
        nvlink: whether any node is in an NVLink domain.
        left_out: what the source has, or may have, and the topology lacks; a sentence each.
    """

    fabric: str
    locations: dict[str, NodeLocation]
    leaves: dict[str, tuple[str, ...]]
    blocks: dict[str, tuple[str, ...]]
    uncabled: dict[str, str]
    above: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    uplinks: dict[str, int] = field(default_factory=dict[str, int])
    rails: dict[str, str] = field(default_factory=dict[str, str])
    nvlink: bool = False
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, site: Site, fabric: str) -> Self:
        """The topology of one fabric of the site, or of `NO_FABRIC`. Raises InputError if there is no such fabric."""
        if fabric not in site.fabrics and fabric != NO_FABRIC:
            raise InputError("fabric", fabric, f"fabrics of {site.name}: {', '.join(site.fabrics)}")
        for known, name, topology in tuple(_RECENT):
            if known is site and name == fabric and isinstance(topology, cls):
                return topology
        found = cls._of_all(site) if fabric == NO_FABRIC else cls._of_fabric(site, fabric)
        _RECENT.append((site, fabric, found))
        return found

    @classmethod
    def _of_fabric(cls, site: Site, fabric: str) -> Self:
        leaf_of = leaf_of_each_hca(site, fabric)
        rails: dict[str, tuple[str, ...]] = {}
        locating: dict[str, tuple[str, ...]] = {}
        uncabled: dict[str, str] = {}
        for node in site.nodes:
            hcas = node.hcas_on(fabric)
            ends = (f"{node.name}/{h.name}" for h in hcas)
            rails[node.name] = tuple(leaf_of[end] for end in ends if end in leaf_of)
            near = (f"{node.name}/{h.name}" for h in hcas if h.locates)
            locating[node.name] = tuple(leaf_of[end] for end in near if end in leaf_of) or rails[node.name]
            if hcas and not rails[node.name]:
                uncabled[node.name] = (
                    f"the site has no link from {_names(node.name, hcas)} to a leaf of {fabric}"
                )
        domains = Domains.of(locating.values())
        switch = {s.name: s for s in site.switches if s.fabric == fabric}
        locations: list[NodeLocation] = []
        for node in site.nodes:
            if mine := rails[node.name]:
                leaf = switch[domains.of_rails[locating[node.name]]]
                block, hall, building = (x or NO_BLOCK for x in (leaf.block, leaf.hall, leaf.building))
                nvlink = node.nvlink_domain or ""
                locations.append(
                    NodeLocation(
                        node.name, leaf.name, block, node.rack, mine, hall, building, node.labels, nvlink
                    )
                )
        uplinks = domains.uplinks(_uplinks(site, fabric))
        return cls.from_locations(fabric, locations, uncabled, uplinks, domains.of_leaf)

    @classmethod
    def _of_all(cls, site: Site) -> Self:
        """All hosts, each on its leaf of the first fabric that it is cabled to, so that leaves aren't fragmented.

        Others by rack, as if that were a leaf. Blocks of several fabrics are distinguished by the fabric's name.
        """
        locations: dict[str, NodeLocation] = {}
        rails: dict[str, str] = {}
        for fabric in sorted(site.fabrics):
            one = cls.of(site, fabric)
            rails |= one.rails
            for name, location in one.locations.items():
                block = location.block if len(site.fabrics) == 1 else f"{fabric}/{location.block}"
                locations.setdefault(name, replace(location, block=block, rails=()))
        for node in site.nodes:
            if node.name not in locations:
                locations[node.name] = NodeLocation(
                    node.name,
                    node.rack or NO_BLOCK,
                    NO_BLOCK,
                    node.rack,
                    labels=node.labels,
                    nvlink_domain=node.nvlink_domain or "",
                )
        return cls.from_locations(NO_FABRIC, locations.values(), rails=rails)

    @classmethod
    def from_locations(
        cls,
        fabric: str,
        locations: Iterable[NodeLocation],
        uncabled: dict[str, str] | None = None,
        uplinks: dict[str, int] | None = None,
        rails: dict[str, str] | None = None,
    ) -> Self:
        """A topology from the nodes' locations, whatever their source (site, discovery, CSV).

        Raises InputError if a block is in two halls, or a hall in two buildings.
        """
        ordered = sorted(
            locations,
            key=lambda s: (
                natural(s.building), natural(s.hall), natural(s.block), natural(s.leaf),
                natural(s.nvlink_domain), natural(s.node),
            ),
        )  # fmt: skip
        leaves: dict[str, list[str]] = {}
        blocks: dict[str, dict[str, None]] = {}
        above: dict[str, tuple[str, str]] = {}
        building_of: dict[str, str] = {}
        for location in ordered:
            leaves.setdefault(location.leaf, []).append(location.node)
            blocks.setdefault(location.block, {})[location.leaf] = None
            if above.setdefault(location.block, (location.building, location.hall)) != (
                location.building,
                location.hall,
            ):
                raise InputError(
                    "hall", location.hall, f"one hall for each block: {location.block} is in two"
                )
            if building_of.setdefault(location.hall, location.building) != location.building:
                raise InputError(
                    "building", location.building, f"one building for each hall: {location.hall} is in two"
                )
        deep = {domain for domains in above.values() for domain in domains} != {NO_BLOCK}
        return cls(
            fabric,
            {s.node: s for s in ordered},
            {leaf: tuple(nodes) for leaf, nodes in leaves.items()},
            {block: tuple(members) for block, members in blocks.items()},
            uncabled or {},
            above if deep else {},
            uplinks or {},
            rails or {leaf: leaf for leaf in leaves},
            any(s.nvlink_domain for s in ordered),
        )

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels that this fabric has, the nearest first."""
        halls = {hall for _, hall in self.above.values()}
        buildings = {building for building, _ in self.above.values()}
        return tuple(
            level
            for level in LEVELS
            if not (level == "nvlink_domain" and not self.nvlink)
            and not (level == "hall" and len(halls) < 2)
            and not (level == "building" and len(buildings) < 2)
        )

    def rails_of(self, leaves: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Leaf -> the switches that count as this leaf, in natural order; without leaves that are a single switch."""
        found: dict[str, list[str]] = {leaf: [] for leaf in leaves}
        for switch, leaf in self.rails.items():
            if leaf in found:
                found[leaf].append(switch)
        return {k: tuple(sorted(v, key=natural)) for k, v in found.items() if len(v) > 1}

    def level_of(self, nodes: Iterable[str]) -> Level:
        """The nearest level that holds all of these nodes; they must be on the fabric."""
        locations = [self.locations[n] for n in nodes]
        if len(locations) == 1:
            return "node"
        if len({s.leaf for s in locations}) == 1:
            domains = {s.nvlink_domain for s in locations}
            return "nvlink_domain" if len(domains) == 1 and "" not in domains else "leaf"
        if len({s.block for s in locations}) == 1:
            return "block"
        levels = self.levels
        if "hall" in levels and len({s.hall for s in locations}) == 1:
            return "hall"
        return "building" if "building" in levels and len({s.building for s in locations}) == 1 else "site"


def cables(site: Site, fabric: str) -> Iterator[tuple[str, str, int | None]]:
    """Both ends of each cable of a fabric, as switch or `node/adapter`, and its rate in Gb/s if it is given.

    From the table `links`, or, where the switches are described port by port, from `switch_port` of the adapters and
    the links of `manager.switching`. Peer links of MLAG pairs carry no traffic while both switches are up.
    """
    switches = {s.name for s in site.switches if s.fabric == fabric}
    for link in site.links:
        if link.a in switches or link.b in switches:
            yield link.a, link.b, link.rate_gbps
    switching = site.fabrics[fabric].manager.switching
    if switching is None:
        return
    for node in site.nodes:
        for hca in node.hcas_on(fabric):
            if hca.switch_port is not None:
                yield f"{node.name}/{hca.name}", hca.switch_port.partition("/")[0], hca.rate_gbps
    for link in switching.links:
        if not link.peer:
            yield link.a.partition("/")[0], link.b.partition("/")[0], link.rate_gbps


def _uplinks(site: Site, fabric: str) -> dict[str, int]:
    """Leaf -> Gb/s of its cables to other switches of this fabric."""
    level = {s.name: s.level for s in site.switches if s.fabric == fabric}
    fastest = max((h.rate_gbps for n in site.nodes for h in n.hcas_on(fabric)), default=0)
    found = {name: 0 for name, kind in level.items() if kind == "leaf"}
    for a, b, rate in cables(site, fabric):
        for one, other in ((a, b), (b, a)):
            if one in found and other in level:
                found[one] += rate or fastest
    return found


def leaf_of_each_hca(site: Site, fabric: str) -> dict[str, str]:
    """`node/hca` -> the switch of this fabric at the other end of its cable."""
    switches = {s.name for s in site.switches if s.fabric == fabric}
    found: dict[str, str] = {}
    for a, b, _ in cables(site, fabric):
        for host, switch in ((a, b), (b, a)):
            if "/" in host and switch in switches:
                found.setdefault(host, switch)
    return found


def _names(node: str, hcas: tuple[Hca, ...]) -> str:
    return ", ".join(f"{node}/{h.name}" for h in hcas)


_RECENT: deque[tuple[Site, str, Topology]] = deque(maxlen=8)
"""Topologies of recent sites, by identity: sites are frozen, and the same ones are used repeatedly."""
