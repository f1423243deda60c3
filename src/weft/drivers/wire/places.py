"""Machines' adapters: where the site has them cabled, what is seen there, and what adapters that are down
have left. Pure.
A cleaned machine is off, and its ports are down: their own tables can't be read, and are written again when
they come up. Until then the table of the leaf's port isolates them. A tenant with root may have given an
adapter another GUID, which what is seen at its place reveals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weft.model.agentapi import PortReading, Tables
from weft.model.ids import format_guid, parse_guid
from weft.model.site import Site
from weft.planning.kept import kept


@dataclass(frozen=True, slots=True)
class LeafPort:
    """A leaf's port.

    Attributes:
        guid: node GUID of the leaf; None if the site doesn't have it.
    """

    leaf: str
    guid: int | None
    port: int

    @property
    def text(self) -> str:
        """`leaf01[17]`."""
        return f"{self.leaf}[{self.port}]"


Idle = Mapping[tuple[int, int], frozenset[int]]
"""GUID of a leaf and its port -> P_Keys in its table, without the default one; nothing is seen at these
ports."""


@kept
def machine_places(site: Site, fabric: str) -> Mapping[int, LeafPort]:
    """Port GUID of machines' adapters on a fabric -> the leaf port that the site has them cabled to."""
    machines = {h.port_guid for n in site.nodes if n.machine is not None for h in n.hcas_on(fabric)}
    return {guid: place for guid, place in places_of(site, fabric).items() if guid in machines}


def places_of(site: Site, fabric: str) -> Mapping[int, LeafPort]:
    """Port GUID of all adapters on a fabric -> the leaf port that the site has them cabled to."""
    ends = {f"{n.name}/{h.name}": h.port_guid for n in site.nodes for h in n.hcas_on(fabric)}
    guids = {switch.name: switch.guid for switch in site.switches if switch.fabric == fabric}
    found: dict[int, LeafPort] = {}
    for link in site.links:
        for end, other, port in ((link.a, link.b, link.b_port), (link.b, link.a, link.a_port)):
            if end in ends and other in guids:
                found[ends[end]] = LeafPort(other, guids[other], port)
    return found


def idle_ports(tables: Tables) -> Idle:
    """Idle ports as reported by an agent; empty if it is too old to report them."""
    keys = {(v.switch_guid, v.port): frozenset(v.keys) for v in tables.vacant}
    listed = ((parse_guid(leaf), port) for leaf, ports in tables.idle.items() for port in ports)
    return {place: keys.get(place, frozenset()) for place in listed}


def down_at(guid: int, places: Mapping[int, LeafPort], idle: Idle) -> tuple[LeafPort, frozenset[int]] | None:
    """Where an adapter that isn't seen is cabled, and what is left in the leaf's table; None if unknown."""
    place = places.get(guid)
    if place is None or place.guid is None or (keys := idle.get((place.guid, place.port))) is None:
        return None
    return place, keys


def place_of(port: PortReading) -> LeafPort | None:
    """Where an adapter is seen; None if it isn't."""
    return LeafPort(port.leaf, port.leaf_guid, port.leaf_port) if port.leaf_port else None


def seen_at(ports: Iterable[PortReading]) -> Mapping[int, LeafPort]:
    """Port GUID -> where it is seen."""
    return {port.port_guid: place for port in ports if (place := place_of(port)) is not None}


@dataclass(frozen=True, slots=True)
class AdapterPlaces:
    """Places of adapters in one reading.

    Attributes:
        machines: port GUID of machines' adapters -> where the site has them.
        seen: port GUID -> where it is seen on the fabric.
    """

    machines: Mapping[int, LeafPort] = field(default_factory=dict[int, LeafPort])
    idle: Idle = field(default_factory=dict[tuple[int, int], frozenset[int]])
    seen: Mapping[int, LeafPort] = field(default_factory=dict[int, LeafPort])

    def down(self, guid: int) -> tuple[LeafPort, frozenset[int]] | None:
        """See `down_at`; None also for an adapter that is seen."""
        return None if guid in self.seen else down_at(guid, self.machines, self.idle)

    def identity(self, guid: int) -> tuple[bool | None, str] | None:
        """Whether a machine's adapter is the site's, and what was seen; None if the port isn't a machine's.
        A first element of None: it isn't seen, and it isn't known what is at its place.
        """
        place = self.machines.get(guid)
        if place is None:
            return None
        now = self.seen.get(guid)
        if now is not None:
            if _same(now, place):
                return True, f"it is seen at {place.text}, where the site has it"
            return False, f"it is seen at {now.text}; the site has it at {place.text}"
        for other, at in self.seen.items():
            if _same(at, place):
                return False, f"{format_guid(other)} is seen at {place.text} instead of it"
        if self.down(guid) is None:
            return None, f"it isn't seen, and it isn't known what is at {place.text}"
        return (
            True,
            f"its port is down: nothing is seen at {place.text}, where the site has it, and it nowhere else",
        )


def _same(one: LeafPort, other: LeafPort) -> bool:
    if one.guid is not None and other.guid is not None:
        return (one.guid, one.port) == (other.guid, other.port)
    return (one.leaf, one.port) == (other.leaf, other.port)
