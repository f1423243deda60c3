"""Checks of what shared nodes are divided by: virtual functions, and cores and memory by NUMA node. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

from weft.model.site import Hca, Node, Site
from weft.planning.fabric.functions import first_mac, mac_of, routing_id
from weft.planning.site.wrongvalues import WrongValue


def check_parts_of_nodes(site: Site) -> Iterator[WrongValue]:
    """Everything that is wrong with virtual functions, and with cores and memory, by node and flavor."""
    yield from _functions(site)
    for i, node in enumerate(site.nodes):
        yield from _numa(node, i)
    for name, cloud in site.clouds.items():
        for flavor, one in cloud.flavors.items():
            path, numa = ("clouds", name, "flavors", flavor), one.numa or 1
            if one.one_numa and one.numa_nodes not in (None, 1):
                yield (*path, "numa_nodes"), one.numa_nodes, "1, or leave out one_numa"
            for field, value in (("cores", one.cores), ("memory_mib", one.memory_mib)):
                if value % numa:
                    allowed = f"a multiple of its {numa} NUMA nodes: Nova refuses to spread it unevenly"
                    yield (*path, field), value, allowed


def _functions(site: Site) -> Iterator[WrongValue]:
    """MAC addresses, GUIDs and PCI addresses of functions are unique, and differ from those of adapters."""
    taken = _addresses(site)
    blocks: list[tuple[int, int, str]] = []
    for i, node in enumerate(site.nodes):
        for j, hca in enumerate(node.hcas):
            path, owner = ("nodes", i, "hcas", j), f"{node.name}/{hca.name}"
            if not hca.vfs:
                for field, value in (("vf_mac", hca.vf_mac), ("vf_pci", hca.vf_pci)):
                    if value is not None:
                        yield (
                            (*path, field),
                            value,
                            f"left out, or vfs given: {owner} has no virtual functions",
                        )
                continue
            first = first_mac(hca)
            if (
                first >> 40 & 1 or (first + hca.vfs - 1) >> 40 & 1
            ):  # the group bit of the first and the last one
                allowed = f"a unicast address with {hca.vfs} addresses from it on"
                yield (*path, "vf_mac"), hca.vf_mac, allowed
                continue
            blocks.append((first, first + hca.vfs, f"{owner}: {i} {j}"))
            yield from _taken(hca, first, path, taken)
            if hca.vf_pci is not None:
                yield from _slots(node, hca, path)
    blocks.sort()
    for (_, end, owner), (start, _, other) in pairwise(blocks):
        if start < end:
            name, _, place = other.partition(": ")
            i, j = map(int, place.split())
            also = owner.partition(":")[0]
            allowed = (
                f"one with addresses of its own: virtual functions of {name} would have some of {also}'s"
            )
            yield ("nodes", i, "hcas", j, "vf_mac"), site.nodes[i].hcas[j].vf_mac, allowed


def _addresses(site: Site) -> list[int]:
    """MAC addresses of adapters, and those whose functions would have an adapter's GUID; sorted."""
    found: list[int] = []
    for hca in (h for n in site.nodes for h in n.hcas):
        if hca.mac is not None:
            found.append(int(hca.mac.replace(":", ""), 16))
        both = (hca.guid, hca.port_guid)
        # Two zero bytes in the middle: as `guid_of` makes them.
        found += [guid >> 40 << 24 | guid & 0xFFFFFF for guid in both if not guid >> 24 & 0xFFFF]
    return sorted(found)


def _taken(hca: Hca, first: int, path: tuple[str | int, ...], taken: list[int]) -> Iterator[WrongValue]:
    next_ = bisect_left(taken, first)
    if next_ < len(taken) and taken[next_] < first + hca.vfs:
        mac = mac_of(hca, taken[next_] - first)
        yield (*path, "vf_mac"), hca.vf_mac, f"another one: {mac}, or its GUID, is that of an adapter"


def _slots(node: Node, hca: Hca, path: tuple[str | int, ...]) -> Iterator[WrongValue]:
    """PCI addresses of its functions beside those of everything else on the host."""
    assert hca.vf_pci is not None
    start = routing_id(hca.vf_pci)
    end = start + hca.vfs
    if start >> 16 != end - 1 >> 16:
        yield (*path, "vf_pci"), hca.vf_pci, f"{hca.vfs} addresses from it on inside one PCI domain"
        return
    for other in (*node.hcas, *node.accelerators):
        if start <= routing_id(other.pci) < end:
            yield (
                (*path, "vf_pci"),
                hca.vf_pci,
                f"another one: {other.pci} would be a virtual function's, too",
            )
            return
    for other in node.hcas:
        if other.vf_pci is None or not other.vfs or other is hca:
            continue
        theirs = routing_id(other.vf_pci)
        if theirs <= start < theirs + other.vfs:
            allowed = f"another one: it is that of a virtual function of {other.name}, too"
            yield (*path, "vf_pci"), hca.vf_pci, allowed
            return


def _numa(node: Node, i: int) -> Iterator[WrongValue]:
    most = max((d.numa for d in (*node.accelerators, *node.hcas)), default=0)
    if node.numa_nodes is not None and most >= node.numa_nodes:
        allowed = f"{most + 1} or more, since a device is on NUMA node {most}"
        yield ("nodes", i, "numa_nodes"), node.numa_nodes, allowed
    if node.sockets is not None and node.numa % node.sockets:
        yield ("nodes", i, "sockets"), node.sockets, f"a divisor of its {node.numa} NUMA nodes"
