"""What Ironic's inspection saw of a machine, compared with the site and the hardware list. Pure.

What the inspection didn't cover is a difference, too: nothing shows that it is as it should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from weft.model.enrollment import ListedMachine
from weft.model.fabrictypes import FabricKind
from weft.model.site import Hca, Node, Site
from weft.planning.fabric.addressing import mac_of_guid
from weft.planning.site.inspected import (
    InspectedInventory,
    SeenInterface,
    SeenNeighbour,
    SeenPci,
    read_inspection,
)
from weft.planning.site.lldpfiles import of_ironic
from weft.planning.site.neighbours import LldpNeighbour, Names, PortNames

NO_PCI = "PCI devices weren't inspected: the agent's collector pci-devices is off"
OUT_OF_BAND = (
    "its adapters and accelerators weren't inspected: its inspection was out of band (Redfish), which sees no more of "
    "interfaces than names and MAC addresses, so inspect it with the agent (interfaces: {inspect: agent})"
)
NOT_HEARD = (
    "no LLDP neighbour was seen (the agent's LLDP collection and the hook parse-lldp, or the adapter's firmware keeps "
    "LLDP frames to itself: switch that off, or give what the switch heard by --lldp)"
)

Heard = Mapping[str, Sequence[LldpNeighbour]]
"""Switch -> its neighbours."""


def inspection_differences(
    site: Site,
    node: Node,
    listed: ListedMachine,
    ids: Mapping[str, str],
    inventory: object,
    plugin_data: object,
    heard: Heard | None = None,
) -> tuple[str, ...]:
    """Every difference from the site and the list, one sentence each.

    Args:
        ids: type of accelerators -> vendor:product on PCI.
        inventory, plugin_data: Ironic's data about the machine.
        heard: what switches heard, for cables on which the machine heard nothing.
    """
    try:
        seen, more = read_inspection(inventory, plugin_data)
    except ValueError as error:
        return (f"its inspection can't be read: {error}",)
    on_fabric = [h for h in node.hcas if site.fabrics[h.fabric].type is FabricKind.INFINIBAND]
    others = [h for h in node.hcas if h not in on_fabric]
    cables = _Cables(site, others, listed, more.parsed_lldp or {}, heard or {})
    blind = seen.is_out_of_band and bool(node.hcas or node.accelerators)
    if blind:
        others = [h for h in others if h.mac]
    return (
        *((OUT_OF_BAND,) if blind else _adapters(on_fabric, seen.interfaces)),
        *_ethernet(others, listed, seen.interfaces, cables),
        *_strangers(others, listed, seen.interfaces),
        *(() if blind and more.pci_devices is None else _accelerators(node, ids, more.pci_devices)),
        *_amounts(listed, seen),
        *_bmc(site, node, listed, seen),
    )


def _adapters(hcas: Iterable[Hca], interfaces: Iterable[SeenInterface]) -> Iterator[str]:
    """InfiniBand adapters: identified by GUID, and at the right PCI address."""
    by_guid = {i.guid: i for i in interfaces if i.guid is not None}
    by_pci = {i.pci_address: i for i in by_guid.values()}
    expected = {h.port_guid for h in hcas}
    for hca in hcas:
        found, there = by_guid.get(hca.port_guid), by_pci.get(hca.pci)
        if found is None and there is not None:
            seen, wanted = f"{there.guid:#018x}", f"{hca.port_guid:#018x}"
            yield f"adapter {hca.name} at {hca.pci} has port GUID {seen}, the site has {wanted}"
        elif found is None:
            yield f"adapter {hca.name} (port GUID {hca.port_guid:#018x}) is missing"
        elif found.pci_address is not None and found.pci_address != hca.pci:
            yield f"adapter {hca.name} is at {found.pci_address}, the site has it at {hca.pci}"
        elif found.mac_address and found.mac_address.lower() != mac_of_guid(hca.port_guid):
            yield f"adapter {hca.name} shows itself as {found.mac_address}, its GUID says {mac_of_guid(hca.port_guid)}"
    places = {h.pci for h in hcas}
    for guid, one in sorted(by_guid.items()):
        if guid not in expected and one.pci_address not in places:
            where = one.pci_address or "an unknown address"
            yield f"an adapter with port GUID {guid:#018x} at {where} isn't in the site"


def _ethernet(
    hcas: Iterable[Hca],
    listed: ListedMachine,
    interfaces: Iterable[SeenInterface],
    cables: _Cables,
) -> Iterator[str]:
    """Ports of the list and Ethernet adapters of the site, and what they are cabled to."""
    by_mac = {i.mac_address.lower(): i for i in interfaces if i.mac_address}
    by_pci = {i.pci_address: i for i in interfaces if i.pci_address}
    for port in listed.ports:
        found = by_mac.get(port.mac)
        if found is None:
            yield f"port {port.mac} is missing"
        elif port.switch is not None or port.switch_port is not None:
            yield from cables.compare(f"port {port.mac}", port.switch, port.switch_port, found)
    for hca in hcas:
        found = by_mac.get(hca.mac) if hca.mac else by_pci.get(hca.pci)
        if found is None:
            yield f"adapter {hca.name} ({hca.mac or hca.pci}) is missing"
            continue
        if found.pci_address is not None and found.pci_address != hca.pci:
            yield f"adapter {hca.name} is at {found.pci_address}, the site has it at {hca.pci}"
        if hca.switch_port is not None:
            switch, _, name = hca.switch_port.partition("/")
            yield from cables.compare(f"adapter {hca.name}", switch, name, found)


def _strangers(
    hcas: Iterable[Hca], listed: ListedMachine, interfaces: Iterable[SeenInterface]
) -> Iterator[str]:
    """Unlisted Ethernet interfaces: an uplink past the fabrics, or the BMC's interface to its host."""
    macs, places = {p.mac for p in listed.ports} | {*listed.ignored_macs}, set[str]()
    for hca in hcas:
        macs |= {hca.mac} if hca.mac else set()
        places |= {hca.pci}
    for one in interfaces:
        mac = (one.mac_address or "").lower()
        if one.guid is None and mac and mac not in macs and one.pci_address not in places:
            where = f" at {one.pci_address}" if one.pci_address else ""
            yield f"interface {one.name} ({mac}){where} is in neither the list nor the site"


def ignored_interfaces(listed: ListedMachine, inventory: object) -> Iterator[str]:
    """Interfaces that exist but aren't compared, because the list ignores them; a sentence each."""
    try:
        seen, _ = read_inspection(inventory, None)
    except ValueError:
        return  # reported with the differences
    for one in seen.interfaces:
        if (mac := (one.mac_address or "").lower()) in listed.ignored_macs:
            yield f"interface {one.name} ({mac}) is ignored, as the list says"


def _bmc(site: Site, node: Node, listed: ListedMachine, seen: InspectedInventory) -> Iterator[str]:
    """The BMC must be this machine's: otherwise switching this machine off would switch off another."""
    host = urlsplit(listed.bmc).hostname or ""
    wanted, found = _address(host), (_address(seen.bmc_address), _address(seen.bmc_v6address))
    same = [one for one in found if one is not None and wanted is not None and one.version == wanted.version]
    if same and wanted not in same:
        yield f"its BMC has address {same[0]}, the list has {wanted}"
    known = {i.mac for i in site.interfaces if i.device == node.name and i.address == wanted and i.mac}
    mac = (seen.bmc_mac or "").lower()
    if mac and known and mac not in known:
        yield f"its BMC has MAC address {mac}, the site has {', '.join(sorted(known))}"


def _address(text: str | None) -> IPv4Address | IPv6Address | None:
    """A BMC's address; None: there is none. The agent reports 0.0.0.0 and ::/0 where it found no BMC, and other IPv6
    addresses with a prefix length."""
    try:
        found = ip_address((text or "").partition("/")[0])
    except ValueError:
        return None
    return None if found.is_unspecified else found


class _Cables:
    """What a machine is cabled to, as the machine or its switches heard by LLDP.

    Args:
        seen: interface -> its neighbour.
        heard: switch -> its neighbours.
    """

    def __init__(
        self,
        site: Site,
        hcas: Iterable[Hca],
        listed: ListedMachine,
        seen: Mapping[str, SeenNeighbour],
        heard: Heard,
    ) -> None:
        ends = [(p.switch, p.switch_port) for p in listed.ports]
        ends += [(end[0], end[2]) for h in hcas if h.switch_port for end in (h.switch_port.partition("/"),)]
        switches = (*site.switches, *(d for d in site.devices if d.kind == "switch"))
        self._names = Names((*(s.name for s in switches), *(switch for switch, _ in ends if switch)))
        self._ports = PortNames((switch, port) for switch, port in ends if switch and port)
        self._seen, self._heard = seen, heard

    def compare(self, what: str, switch: str | None, port: str | None, found: SeenInterface) -> Iterator[str]:
        """Differences of an interface's cable. Args: switch, port: the expected ones; None: not given."""
        at = self._at(switch, found)
        if at is None:
            yield f"{what}: {NOT_HEARD}"
            return
        wanted = tuple(x for x in (switch, port) if x is not None)
        seen = tuple(x for x, y in zip(at, (switch, port), strict=True) if y is not None)
        if seen != wanted:
            found_at = "/".join(x or "unknown" for x in seen)
            yield f"{what} is cabled to {found_at}, it should be {'/'.join(wanted)}"

    def _at(self, wanted: str | None, found: SeenInterface) -> tuple[str | None, str | None] | None:
        """Switch and port; None: neither side heard the other."""
        one = self._seen.get(found.name)
        if one is not None:
            switch = self._names.find(one.switch_system_name) if one.switch_system_name else None
            if one.switch_port_id is None:
                return switch, None
            said = of_ironic(found.name, switch or "", one.switch_port_id, one.switch_port_description)
            return switch, self._ports.find(switch or wanted or "", said)
        mac = (found.mac_address or "").lower()
        for device, neighbours in self._heard.items():
            if local := next((n.local for n in neighbours if mac and n.mac == mac), None):
                switch = self._names.find(device)
                return switch, self._ports.find(switch, LldpNeighbour("", device, local))
        return None


def _accelerators(node: Node, ids: Mapping[str, str], devices: list[SeenPci] | None) -> Iterator[str]:
    if devices is None:
        if node.accelerators:
            yield NO_PCI
        return
    by_bus = {d.bus.lower(): d for d in devices}
    for one in node.accelerators:
        found, wanted = by_bus.get(one.pci), ids.get(one.type)
        if found is None:
            yield f"accelerator {one.type} at {one.pci} is missing"
        elif wanted is None:
            yield f"the device at {one.pci} is {found.ids}: the list has no PCI ids of {one.type} (accelerators)"
        elif found.ids != wanted:
            yield f"the device at {one.pci} is {found.ids}, {one.type} is {wanted}"
    known, there = {i: t for t, i in ids.items()}, {a.pci for a in node.accelerators}
    for bus, device in sorted(by_bus.items()):
        if device.ids in known and bus not in there:
            yield f"an accelerator {known[device.ids]} at {bus} isn't in the site"


def _amounts(listed: ListedMachine, seen: InspectedInventory) -> Iterator[str]:
    if listed.memory_gib is not None:
        found = seen.memory.physical_mb if seen.memory else None
        if found is None:
            yield "its memory wasn't inspected"
        elif found // 1024 != listed.memory_gib:
            yield f"it has {found / 1024:.0f} GiB of memory, it should have {listed.memory_gib}"
    # Arrays are listed like disks, along with their member disks.
    disks = [d for d in seen.disks or () if not str(d.get("name")).startswith("/dev/md")]
    if listed.disks is not None and len(disks) != listed.disks:
        disks_seen = "its disks weren't inspected" if seen.disks is None else f"it has {len(disks)} disks"
        yield f"{disks_seen}, it should have {listed.disks}"
