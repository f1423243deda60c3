"""Hardware lists with what `ibnetdiscover` shows: it adds switches and adapters, and must not contradict them. Pure.

Adapters are matched by their port GUID, by a node GUID that the lists have once, or by the host and device in their
node description; switches by GUID or name. What belongs to no host of the lists is left out, with a note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from weft.model.errors import InputError
from weft.model.hardware import Cell, HardwareRecord
from weft.model.ids import NAMES, check_name, format_guid, parse_guid
from weft.model.observedfabric import ObservedFabric, ObservedNode
from weft.model.site import Site
from weft.planning.fabric.ibnetdiscover import Discovery, HostPort
from weft.planning.fabric.nodenames import host_and_device, is_a_product, is_in_a_switch, switch_name
from weft.planning.hardware.columns import interface_called
from weft.planning.hardware.kinds import is_host, kind_of
from weft.planning.site.neighbours import Names

LEVELS = ("leaf", "spine", "core")
_LISTS_DECIDE = frozenset({"ports", "level"})
"""Columns of a switch in which the lists may say more: names of ports, a level that the cables don't show."""


@dataclass(slots=True)
class Discovered:
    """One discovery of a fabric, to complete lists of hardware.

    Args:
        fabric: name of the fabric in the site.
        file: of the discovery, for places.
        left_out: a sentence is added for each thing that isn't used.
    """

    fabric: str
    file: str
    discovery: Discovery
    errors: list[InputError]
    left_out: list[str]
    _levels: dict[int, str] = field(default_factory=dict[int, str])
    _names: dict[int, str] = field(default_factory=dict[int, str])

    def added(self, records: Sequence[HardwareRecord]) -> list[HardwareRecord]:
        """The records with the discovery's switches and adapters; problems are added to `errors`."""
        seen = self.discovery.fabric
        self.left_out += [
            f"{self.file}: the discovery is partial, hardware may be missing: {w}" for w in seen.partial
        ]
        self._levels = levels(seen)
        self._names = {node.guid: node.name for node in seen.nodes}
        found = self._with_adapters(records)
        return self._with_switches(found)

    def of_ports(self, site: Site) -> ObservedFabric:
        """The discovery without the cables of ports that the site hasn't: each of its adapters is one port."""
        seen, hosts = self.discovery.fabric, self.discovery.hosts
        mine = {h.guid: h.port_guid for n in site.nodes for h in n.hcas_on(self.fabric)}
        others = {
            (node.guid, hosts[guid].port)
            for node in seen.nodes
            for guid in node.port_guids
            if guid in hosts and guid != mine.get(node.guid, guid)
        }
        links = tuple(k for k in seen.links if not any((end.guid, end.port) in others for end in k))
        return seen.model_copy(update={"links": links})

    def _with_switches(self, records: list[HardwareRecord]) -> list[HardwareRecord]:
        by_guid, by_name = self._listed_switches(records)
        new: list[HardwareRecord] = []
        taken = {name for r in records if (name := r.text("name"))}
        switches = [n for n in self.discovery.fabric.nodes if n.kind == "switch"]
        count = Counter(switch_name(n.name) for n in switches)
        for node in switches:
            name = switch_name(node.name)
            index = by_guid.get(node.guid, by_name.get(name) if count[name] == 1 else None)
            if index is not None:
                records[index] = self._with(records[index], self._cells_of_switch(node), node.guid)
            elif not _is_name(name) or count[name] > 1 or name in taken:
                allowed = (
                    f"a name of its own ({NAMES}); give switch {format_guid(node.guid)} one in the lists: "
                    "name, kind switch, fabric, guid"
                )
                self.errors.append(InputError("switch", node.name, allowed, self.file))
            else:
                cells = {"name": name, "kind": "switch", **self._cells_of_switch(node)}
                new.append(HardwareRecord(self._place(node.guid), self._made(cells, node.guid)))
        return [*records, *new]

    def _listed_switches(self, records: Sequence[HardwareRecord]) -> tuple[dict[int, int], dict[str, int]]:
        """Indexes of the lists' switches: by GUID, and those without one by name."""
        by_guid: dict[int, int] = {}
        by_name: dict[str, int] = {}
        for index, record in enumerate(records):
            if kind_of(record.text("kind") or "") != "switch":
                continue
            guid = _guid(record.text("guid"))
            if guid is not None:
                by_guid[guid] = index
            elif name := record.text("name"):
                by_name[name] = index
        return by_guid, by_name

    def _cells_of_switch(self, node: ObservedNode) -> dict[str, str]:
        cells = {"fabric": self.fabric, "guid": format_guid(node.guid), "ports": str(node.ports)}
        if (level := self._levels.get(node.guid)) is not None:
            cells["level"] = level
        return cells

    def _with_adapters(self, records: Sequence[HardwareRecord]) -> list[HardwareRecord]:
        found = list(records)
        known = _Adapters.of(records)
        for node in self.discovery.fabric.nodes:
            if node.kind == "router":
                self.left_out.append(
                    f"{self.file}: router {format_guid(node.guid)} ({node.name!r}): a site has none"
                )
            if node.kind != "ca" or is_in_a_switch(node.name):
                continue
            ports = [self.discovery.hosts[g] for g in node.port_guids if g in self.discovery.hosts]
            for port in ports:
                place = known.find(node, port, only=len(ports) == 1)
                if place is None:
                    self._leave(node, port, len(ports) > 1)
                    continue
                index, interface = place
                cells = {
                    f"{interface}_fabric": self.fabric,
                    f"{interface}_guid": format_guid(node.guid),
                    f"{interface}_port_guid": format_guid(port.port_guid),
                }
                found[index] = self._with(found[index], cells, node.guid)
        return found

    def _leave(self, node: ObservedNode, port: HostPort, several: bool) -> None:
        at = switch_name(self._names.get(port.peer_guid, ""))
        where = f"on port {port.peer_port} of {at or format_guid(port.peer_guid)}"
        why = "no host of the lists has this name or GUID"
        if is_a_product(node.name):
            why = "no host of the lists has this GUID, and its host has given it no name"
        elif several:
            why = "it has several ports, and a site has the one whose port GUID the lists have"
        guid = format_guid(port.port_guid)
        self.left_out.append(f"{self.file}: adapter {guid} ({node.name!r}) {where}: {why}")

    def _place(self, guid: int) -> str:
        return f"{self.file} ({format_guid(guid)})"

    def _made(self, cells: Mapping[str, str], guid: int) -> dict[str, Cell]:
        place = self._place(guid)
        return {column: Cell(text, column, place) for column, text in cells.items()}

    def _with(self, record: HardwareRecord, cells: Mapping[str, str], guid: int) -> HardwareRecord:
        """The record with cells that it lacks; one that it has with another value is an error."""
        merged = dict(record.cells)
        for column, text in cells.items():
            mine = record.cells.get(column)
            if mine is None:
                merged[column] = Cell(text, column, self._place(guid))
            elif column in _LISTS_DECIDE:
                continue
            elif _plain(column, mine.text) != _plain(column, text):
                allowed = f"{text}, as {self.file} has it"
                self.errors.append(InputError(mine.column, mine.text, allowed, mine.place))
        return replace(record, cells=merged)


@dataclass(slots=True)
class _Adapters:
    """The lists' adapters: (index of the record, interface), by what identifies them."""

    ports: dict[int, tuple[int, str]]
    nodes: dict[int, list[tuple[int, str]]]
    hosts: dict[str, int]
    names: Names

    @classmethod
    def of(cls, records: Sequence[HardwareRecord]) -> _Adapters:
        found = cls({}, {}, {}, Names(name for r in records if is_host(r) and (name := r.text("name"))))
        for index, record in enumerate(records):
            if not is_host(record):
                continue
            found.hosts.setdefault(record.text("name") or "", index)
            for column, cell in record.cells.items():
                guid = _guid(cell.text) if column.endswith("_guid") else None
                if guid is None:
                    continue
                if column.endswith("_port_guid"):
                    found.ports[guid] = (index, column.removesuffix("_port_guid"))
                else:
                    found.nodes.setdefault(guid, []).append((index, column.removesuffix("_guid")))
        return found

    def find(self, node: ObservedNode, port: HostPort, only: bool) -> tuple[int, str] | None:
        """The lists' adapter that a discovered port is, by GUID, or by host and device; None: none.

        Args:
            only: whether no other port of this adapter is cabled.
        """
        if (place := self.ports.get(port.port_guid)) is not None:
            return place
        mine = self.nodes.get(node.guid, [])
        if mine:
            return mine[0] if only and len(mine) == 1 else None
        host, device = host_and_device(node.name)
        index = self.hosts.get(self.names.find(host))
        if index is None or not device or not only or is_a_product(node.name):
            return None
        try:
            return index, interface_called(device, {})
        except ValueError:
            return None


def chosen_fabric(names: Collection[str], fabric: str | None, site_file: str) -> str:
    """The fabric that a discovery is of, by default the only one. Raises `InputError`.

    Args:
        names: InfiniBand fabrics of the site file.
    """
    if fabric is None and len(names) == 1:
        return next(iter(names))
    if fabric is None or fabric not in names:
        listed = ", ".join(sorted(names)) or "it has none"
        raise InputError(
            "--fabric", fabric, f"FABRIC=FILE with an InfiniBand fabric of {site_file}: {listed}"
        )
    return fabric


def levels(seen: ObservedFabric) -> dict[int, str]:
    """GUID of a switch -> its level, as far as the cables say it: leaves have hosts, spines leaves, cores spines.

    A switch that has the same switches above it as a leaf is a leaf without hosts yet.
    """
    switches = {n.guid for n in seen.nodes if n.kind == "switch"}
    hosts = {n.guid for n in seen.nodes if n.kind == "ca" and not is_in_a_switch(n.name)}
    beside: dict[int, set[int]] = {guid: set() for guid in switches}
    found: dict[int, str] = {}
    for one, other in _both(seen):
        if one in switches and other in switches:
            beside[one].add(other)
        elif one in switches and other in hosts:
            found[one] = LEVELS[0]
    above = {frozenset(beside[leaf]) for leaf in found if beside[leaf]}
    found |= {guid: LEVELS[0] for guid in switches - found.keys() if frozenset(beside[guid]) in above}
    for lower, level in pairwise(LEVELS):
        below = {guid for guid, its in found.items() if its == lower}
        found |= {guid: level for guid in switches - found.keys() if beside[guid] & below}
    return found


def _both(seen: ObservedFabric) -> Iterator[tuple[int, int]]:
    for a, b in seen.links:
        yield a.guid, b.guid
        yield b.guid, a.guid


def _guid(text: str | None) -> int | None:
    try:
        return parse_guid(text) if text else None
    except ValueError:
        return None


def _is_name(text: str) -> bool:
    try:
        check_name("name", text)
    except InputError:
        return False
    return True


def _plain(column: str, text: str) -> str:
    guid = _guid(text) if column.endswith("guid") else None
    return text if guid is None else format_guid(guid)
