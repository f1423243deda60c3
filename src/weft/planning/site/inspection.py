"""What Ironic's inspection saw of a machine against what the site and the hardware list say of it. Pure.

What the inspection didn't look at is a difference, too: nobody has seen that it is as it should be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from ipaddress import AddressValueError, IPv4Address
from urllib.parse import urlsplit

from weft.model.enrollment import ListedMachine
from weft.model.fabrictypes import FabricKind
from weft.model.site import Hca, Node, Site
from weft.planning.fabric.addressing import mac_of_guid
from weft.planning.site.inspected import Inventory, SeenInterface, SeenNeighbour, SeenPci, read_inspection

NO_PCI = "PCI devices weren't inspected: the agent's collector pci-devices is off"


def inspection_differences(
    site: Site,
    node: Node,
    listed: ListedMachine,
    ids: Mapping[str, str],
    inventory: object,
    plugin_data: object,
) -> tuple[str, ...]:
    """Everything that isn't as the site and the list say, one sentence each.

    Args:
        ids: type of accelerators -> vendor:product on PCI.
        inventory, plugin_data: as Ironic has them of the machine.
    """
    try:
        seen, more = read_inspection(inventory, plugin_data)
    except ValueError as error:
        return (f"its inspection can't be read: {error}",)
    on_fabric = [h for h in node.hcas if site.fabrics[h.fabric].type is FabricKind.INFINIBAND]
    others = [h for h in node.hcas if h not in on_fabric]
    return (
        *_adapters(on_fabric, seen.interfaces),
        *_ethernet(others, listed, seen.interfaces, more.parsed_lldp or {}),
        *_strangers(others, listed, seen.interfaces),
        *_accelerators(node, ids, more.pci_devices),
        *_amounts(listed, seen),
        *_bmc(site, node, listed, seen),
    )


def _adapters(hcas: Iterable[Hca], interfaces: Iterable[SeenInterface]) -> Iterator[str]:
    """InfiniBand: by GUID, and where it should be."""
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
    neighbours: Mapping[str, SeenNeighbour],
) -> Iterator[str]:
    """Ports of the list and Ethernet adapters of the site, and what they are cabled to."""
    by_mac = {i.mac_address.lower(): i for i in interfaces if i.mac_address}
    by_pci = {i.pci_address: i for i in interfaces if i.pci_address}
    for port in listed.ports:
        found = by_mac.get(port.mac)
        if found is None:
            yield f"port {port.mac} is missing"
        elif port.switch is not None or port.switch_port is not None:
            yield from _cable(f"port {port.mac}", port.switch, port.switch_port, neighbours.get(found.name))
    for hca in hcas:
        found = by_mac.get(hca.mac) if hca.mac else by_pci.get(hca.pci)
        if found is None:
            yield f"adapter {hca.name} ({hca.mac or hca.pci}) is missing"
            continue
        if found.pci_address is not None and found.pci_address != hca.pci:
            yield f"adapter {hca.name} is at {found.pci_address}, the site has it at {hca.pci}"
        if hca.switch_port is not None:
            switch, _, name = hca.switch_port.partition("/")
            yield from _cable(f"adapter {hca.name}", switch, name, neighbours.get(found.name))


def _strangers(
    hcas: Iterable[Hca], listed: ListedMachine, interfaces: Iterable[SeenInterface]
) -> Iterator[str]:
    """Ethernet that nobody has listed: an uplink past the fabrics, or the BMC's interface to its host."""
    macs, places = {p.mac for p in listed.ports}, set[str]()
    for hca in hcas:
        macs |= {hca.mac} if hca.mac else set()
        places |= {hca.pci}
    for one in interfaces:
        mac = (one.mac_address or "").lower()
        if one.guid is None and mac and mac not in macs and one.pci_address not in places:
            where = f" at {one.pci_address}" if one.pci_address else ""
            yield f"interface {one.name} ({mac}){where} is in neither the list nor the site"


def _bmc(site: Site, node: Node, listed: ListedMachine, seen: Inventory) -> Iterator[str]:
    """Another machine's: whoever is asked to switch this one off would switch off that one."""
    host, found = urlsplit(listed.bmc).hostname or "", _address(seen.bmc_address)
    if found is not None and (wanted := _address(host)) is not None and found != wanted:
        yield f"its BMC has address {found}, the list has {wanted}"
    known = {i.mac for i in site.interfaces if i.device == node.name and str(i.address) == host and i.mac}
    mac = (seen.bmc_mac or "").lower()
    if mac and known and mac not in known:
        yield f"its BMC has MAC address {mac}, the site has {', '.join(sorted(known))}"


def _address(text: str | None) -> IPv4Address | None:
    """None: it is none; the agent says 0.0.0.0 where it found no BMC."""
    try:
        found = IPv4Address(text or "")
    except AddressValueError:
        return None
    return None if found.is_unspecified else found


def _cable(what: str, switch: str | None, port: str | None, seen: SeenNeighbour | None) -> Iterator[str]:
    if seen is None:
        yield f"{what}: no LLDP neighbour was seen (the agent's LLDP collection and the hook parse-lldp)"
        return
    wanted = tuple(x for x in (switch, port) if x is not None)
    found = tuple(
        x for x, y in ((seen.switch_system_name, switch), (seen.switch_port_id, port)) if y is not None
    )
    if found != wanted:
        told = "/".join(x or "unknown" for x in found)
        yield f"{what} is cabled to {told}, it should be {'/'.join(wanted)}"


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


def _amounts(listed: ListedMachine, seen: Inventory) -> Iterator[str]:
    if listed.memory_gib is not None:
        found = seen.memory.physical_mb if seen.memory else None
        if found is None:
            yield "its memory wasn't inspected"
        elif found // 1024 != listed.memory_gib:
            yield f"it has {found / 1024:.0f} GiB of memory, it should have {listed.memory_gib}"
    # Arrays are listed like disks, beside those that they are made of.
    disks = [d for d in seen.disks or () if not str(d.get("name")).startswith("/dev/md")]
    if listed.disks is not None and len(disks) != listed.disks:
        told = "its disks weren't inspected" if seen.disks is None else f"it has {len(disks)} disks"
        yield f"{told}, it should have {listed.disks}"
