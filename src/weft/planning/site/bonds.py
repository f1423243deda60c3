"""Checks of hosts' bonds on Ethernet fabrics: link aggregations of their leaves, and both functions of one NIC. Pure.

Source: NVIDIA, "VF LAG" (ASAP² Direct): both physical functions of one adapter, in switchdev mode; bond modes 1, 2, 4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from weft.model.fabrictypes import FabricKind
from weft.model.site import Hca, Site, Switching
from weft.planning.site.wrongvalues import WrongValue

Path = tuple[str | int, ...]
FAILOVER = "active-backup"
"""The mode that leaves aren't aware of: one link carries everything until it fails."""
SINGLE: Mapping[str, str] = {"eos": r"Ethernet\d+(/\d+)*", "nvue": r"swp\d+(s\d+)?", "sonic": r"Ethernet\d+"}
"""Vendors' names of ports that aren't link aggregations; other vendors' names don't show it."""


def check_bonds(site: Site) -> Iterator[WrongValue]:
    """Everything that is wrong with adapters that are bonds, and with the leaves' ends of bonds."""
    for i, node in enumerate(site.nodes):
        functions = {h.pci: h.name for h in node.hcas}
        for j, hca in enumerate(node.hcas):
            path = ("nodes", i, "hcas", j)
            if hca.bond_pci is None:
                if hca.bond_mode is not None:
                    allowed = "nothing: without bond_pci the adapter is no bond"
                    yield (*path, "bond_mode"), hca.bond_mode, allowed
                continue
            yield from _functions(hca, functions, path)
            fabric = site.fabrics.get(hca.fabric)
            if fabric is None:
                continue  # reported elsewhere
            if fabric.type is not FabricKind.ETHERNET:
                allowed = f"nothing: fabric {hca.fabric} is of type {fabric.type}, which has no bonds"
                yield (*path, "bond_pci"), hca.bond_pci, allowed
            elif fabric.manager.switching is not None and hca.switch_port is not None:
                yield from _leaf_ends(hca, fabric.manager.switching, path)
    yield from _pairs(site)


def _functions(hca: Hca, functions: Mapping[str, str], path: Path) -> Iterator[WrongValue]:
    """The other function is on the same NIC, and isn't a rail of its own."""
    other = hca.bond_pci or ""
    if other == hca.pci or other.rpartition(".")[0] != hca.pci.rpartition(".")[0]:
        allowed = (
            f"the other physical function of the same NIC: {hca.pci.rpartition('.')[0]}.N, not {hca.pci}"
        )
        yield (*path, "bond_pci"), other, allowed
    elif other in functions:
        allowed = f"no adapter of its own: {functions[other]} has it, and a bond is one adapter"
        yield (*path, "bond_pci"), other, allowed
    if hca.bond_mode is None:
        yield (*path, "bond_mode"), None, "the mode of the bond: 802.3ad, balance-xor or active-backup"
    if hca.vfs and hca.eswitch != "switchdev":
        allowed = "switchdev: virtual functions of a bond (VF-LAG) need it on both physical functions"
        yield (*path, "eswitch"), hca.eswitch, allowed


def _leaf_ends(hca: Hca, switching: Switching, path: Path) -> Iterator[WrongValue]:
    """Both of the NIC's cables must be known, so that both ends are changed together."""
    bundled = any(hca.switch_port in b.ports for b in switching.bundles)
    if hca.bond_mode == FAILOVER and not bundled:
        allowed = "with both switch ports in manager.switching.bundles: either may carry everything"
        yield (*path, "switch_port"), hca.switch_port, allowed
    elif (
        hca.bond_mode not in (None, FAILOVER) and not bundled and _is_single(switching, hca.switch_port or "")
    ):
        allowed = "a link aggregation of both cables, or both ends in manager.switching.bundles"
        yield (*path, "switch_port"), hca.switch_port, allowed


def _pairs(site: Site) -> Iterator[WrongValue]:
    """Two switches with ends of one bond are an MLAG pair with a peer link, and the ends are aggregations on both."""
    for name, fabric in site.fabrics.items():
        switching = fabric.manager.switching
        if switching is None:
            continue
        modes = {h.switch_port: h.bond_mode for n in site.nodes for h in n.hcas_on(name)}
        peers = {frozenset((k.a.partition("/")[0], k.b.partition("/")[0])) for k in switching.links if k.peer}
        for i, bundle in enumerate(switching.bundles):
            path = ("fabrics", name, "manager", "switching", "bundles", i, "ports")
            ours = [modes[end] for end in bundle.ports if end in modes]
            if len(ours) != 1 or ours[0] == FAILOVER:
                continue  # its owner isn't clear: reported elsewhere
            switches = sorted({end.partition("/")[0] for end in bundle.ports})
            for a, b in pairwise(switches):
                if frozenset((a, b)) not in peers:
                    allowed = f"ends on one MLAG pair: no link of {a} and {b} is a peer link"
                    yield path, ", ".join(bundle.ports), allowed
            for j, end in enumerate(bundle.ports):
                if _is_single(switching, end):
                    allowed = "a link aggregation: the bond's links are ports of one on each switch"
                    yield (*path, j), end, allowed


def _is_single(switching: Switching, end: str) -> bool:
    """Whether the port's name shows that it isn't an aggregation."""
    switch, _, port = end.partition("/")
    interface = next((s.interface for s in switching.switches if s.name == switch), "")
    return interface in SINGLE and re.fullmatch(SINGLE[interface], port) is not None
