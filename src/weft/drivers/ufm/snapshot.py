"""One reading of a fabric: UFM's partitions, and the ports, with their own tables where an agent reads them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from weft.drivers.ufm.eyes import Looked
from weft.drivers.ufm.inventory import UfmPort, VirtualPort, VirtualPorts
from weft.drivers.ufm.partitions import PartitionListing
from weft.drivers.wire.items import port_seen
from weft.drivers.wire.places import AdapterPlaces, LeafPort, machine_places
from weft.model.fabric import Configured, Membership, Place, PortSeen, Snapshot
from weft.model.ids import format_guid, parse_guid
from weft.model.mark import Mark
from weft.model.site import Site
from weft.model.specs import SegmentSpec
from weft.model.subnet import PortTable
from weft.planning.fabric.check import Outsiders, manager_ports, nodes_of_port, port_name

MANAGER = "ufm"
"""UFM's name among a fabric's managers: it is one, whichever node is active."""


@dataclass(frozen=True, slots=True)
class Later:
    """What is read on demand: UFM's virtual ports, and its rows of host ports by their GUIDs."""

    virtual: Callable[[], VirtualPorts]
    hosts: Callable[[], Mapping[int, UfmPort]]


class UfmSnapshot(Snapshot):
    """One reading of a fabric. The partitions are read first, then weft's records, then the ports.

    Attributes:
        listing: UFM's partitions.
        looked: tables of every host port, read by an agent; None: the site has no agent there.
        inventory: GUID -> UFM's row of each host port; empty where an agent reads them.
        virtual: virtual ports by their GUIDs; read once, on first use, since most sites have none.
        wanted: what the database wants, by number: UFM's partitions have no marks.
    """

    def __init__(
        self,
        site: Site,
        fabric: str,
        began: float,
        listing: PartitionListing,
        looked: Looked | None,
        inventory: Mapping[int, UfmPort],
        later: Later,
        wanted: Mapping[Mark, SegmentSpec],
    ) -> None:
        self.site, self.listing, self.looked, self.inventory = site, listing, looked, inventory
        self._later = later
        self.wanted = {spec.number: mark for mark, spec in wanted.items()}
        configured = Configured(MANAGER, {MANAGER: {n: p.name for n, p in listing.partitions.items()}})
        super().__init__(fabric, began, configured, self._ports)

    @property
    def virtual(self) -> Mapping[int, tuple[VirtualPort, ...]]:
        """Virtual ports by their GUIDs, read on first use. Raises `UnknownError` if UFM can't be asked."""
        return self._later.virtual().by_guid

    @property
    def functions(self) -> Mapping[str, frozenset[str]]:
        if not any(h.vfs for n in self.site.nodes for h in n.hcas_on(self.fabric)):
            return {}  # a site without virtual ports needs none
        up = {guid: [v for v in shown if v.active] for guid, shown in self.virtual.items()}
        return {format_guid(g): frozenset(format_guid(v.physical) for v in vs) for g, vs in up.items() if vs}

    def elsewhere(self, members: Iterable[Membership]) -> Mapping[str, str]:
        found = {m.port: "; ".join(why for _, why in self.misplaced(m)) for m in members if m.behind}
        return {port: why for port, why in found.items() if why}

    def misplaced(self, member: Membership) -> Iterator[tuple[tuple[str, ...], str]]:
        """Places where a function's GUID is, other than its own: (nodes, if they are known; a sentence)."""
        behind, up = {parse_guid(p) for p in member.behind}, list[VirtualPort]()
        for one in self.virtual.get(parse_guid(member.port), ()):
            if one.physical not in behind:
                why = f"UFM shows it behind {port_name(self.site, one.physical)}"
                yield nodes_of_port(self.site, one.physical), why
            elif one.active:
                up.append(one)
        if (
            len({(v.physical, v.lid) for v in up}) > 1
        ):  # a row that occurs twice only means that the list grew between two pages
            where = ", ".join(port_name(self.site, v.physical) for v in up)
            why = f"UFM shows {len(up)} active virtual ports with this GUID, behind {where}: one is an earlier server's"
            yield (), why

    def blind(self, behind: Collection[int]) -> str:
        """Why a virtual port that isn't shown behind these ports may still exist; empty if it doesn't. UFM
        shows only what it has discovered: the ports themselves must be up, and it must show some virtual
        port.
        """
        found, ports = self._later.virtual(), self._later.hosts()  # in this order
        for guid in sorted(behind):
            port = ports.get(guid)
            if port is None or not port.active:
                how = (
                    f"shows {self.named(guid)} as {port.state}"
                    if port
                    else f"doesn't list {self.named(guid)}"
                )
                return f"UFM {how}, and nothing behind it"
        return (
            "UFM shows no virtual ports at all: it may not have discovered them yet" if found.unproved else ""
        )

    @property
    def tables(self) -> Mapping[int, PortTable]:
        """Port GUID -> the port's own table; empty without agents."""
        return self.looked.wire.tables if self.looked else {}

    @cached_property
    def described(self) -> frozenset[int]:
        """GUIDs of the ports that the site has on this fabric."""
        return self.site.ports_on(self.fabric)

    @cached_property
    def outsiders(self) -> Outsiders:
        """Ports with keys of the range that the site doesn't have; none without agents."""
        mine = self.site.fabrics[self.fabric].segments
        wire, managers = self.looked and self.looked.wire, manager_ports(self.site, self.fabric)
        if wire is None:
            return Outsiders((), ())
        return Outsiders.of(wire.tables.keys(), wire.tables.unreachable, wire.on_wire, mine, managers)

    @property
    def ports_read(self) -> int:
        """Ports whose tables were read; without agents those that UFM shows active."""
        if self.looked:
            return len(self.looked.wire.tables) - len(self.looked.wire.tables.unreachable)
        return sum(1 for p in self.inventory.values() if p.active)

    def physical(self, guid: int) -> bool:
        """Whether the port has a table of its own to read."""
        return guid in self.described or guid in self.tables or guid in self.inventory

    def on_wire(self, number: int) -> frozenset[int]:
        """Ports whose own table, or leaf's, has the key."""
        return self.looked.wire.on_wire.get(number, frozenset()) if self.looked else frozenset()

    def why_unread(self, guid: int) -> str:
        """Why a physical port could not be read; empty: it could."""
        if self.looked:
            table = self.tables.get(guid)
            return "not seen on the fabric" if table is None else table.unreachable
        port = self.inventory.get(guid)
        if port is None:
            return "UFM doesn't list it"
        return "" if port.active else f"UFM shows it as {port.state}"

    def down(self, guid: int) -> str:
        """What shows that a machine's silent port is down, as those of a cleaned machine are; empty if nothing does.
        Without an agent, only UFM can say so. A port with a link that isn't active comes up with the table that it has,
        e.g. while the subnet manager doesn't sweep.
        """
        if self.looked:
            found = self.looked.wire.where.down(guid)
            return f"nothing is seen at its leaf port {found[0].text}" if found else ""
        port = self.inventory.get(guid) if guid in machine_places(self.site, self.fabric) else None
        return f"UFM shows it as {port.state}" if port is not None and port.down else ""

    @cached_property
    def where(self) -> AdapterPlaces:
        """Where machines' adapters are, by UFM's inventory. That has leaves only by GUID and nothing about a leaf's
        ports, so a leaf port counts as idle if its adapter is down."""
        machines = machine_places(self.site, self.fabric)
        known = {guid: place for guid, place in machines.items() if place.guid is not None}
        seen = {
            port.guid: LeafPort(format_guid(port.peer[0]), *port.peer)
            for port in self.inventory.values()
            if port.peer is not None and not port.down and (port.guid in known or port.guid not in machines)
        }
        idle = {(p.guid or 0, p.port): frozenset[int]() for guid, p in known.items() if self.down(guid)}
        return AdapterPlaces(machines, idle, seen)

    def named(self, guid: int) -> str:
        """Display name: `node/adapter`, with `virtual port` for a VF."""
        if not self.physical(guid) and guid in self.virtual:
            return (
                f"virtual port {format_guid(guid)} of {port_name(self.site, self.virtual[guid][0].physical)}"
            )
        return port_name(self.site, guid)

    def nodes_of(self, guid: int) -> tuple[str, ...]:
        """Names of the nodes that a port, or a virtual port's adapters, belong to."""
        virtual = () if self.physical(guid) else self.virtual.get(guid, ())
        behind = [v.physical for v in virtual] or [guid]
        return tuple(sorted({node for p in behind for node in nodes_of_port(self.site, p)}))

    def _ports(self) -> Mapping[str, PortSeen]:
        guids = self.described | self.tables.keys() | self.inventory.keys() | self.listing.of_port.keys()
        return {format_guid(g): self._port(g) for g in sorted(guids)}

    def _port(self, guid: int) -> PortSeen:
        listed = Place(
            f"UFM's list of members, {self.named(guid)}", self.listing.of_port.get(guid, frozenset())
        )
        node = next(iter(self.nodes_of(guid)), "")
        why = self.why_unread(guid) if self.physical(guid) else ""
        if why:
            return PortSeen(format_guid(guid), self.named(guid), node, unread=why)
        places: tuple[Place, ...] = (listed,)
        if guid in self.tables:
            places = (*port_seen(self.site, self.tables[guid]).places, listed)
        return PortSeen(format_guid(guid), self.named(guid), node, places)
