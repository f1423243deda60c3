"""Checks of NVLink domains and rails against the cabling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from weft.model.errors import InputError
from weft.model.site import Node, Site
from weft.planning.fabric.topology import NO_FABRIC, Topology, cables, natural
from weft.planning.site.wrongvalues import WrongValue


def check_nvlink(site: Site) -> Iterator[WrongValue]:
    """Each NVLink domain consists of compute nodes of one kind and cloud, all on one leaf of each fabric."""
    domains: dict[str, list[int]] = {}
    for i, node in enumerate(site.nodes):
        if node.nvlink_domain is None:
            continue
        if node.role != "compute":
            allowed = f"only for compute nodes; {node.name} is a {node.role} node"
            yield ("nodes", i, "nvlink_domain"), node.nvlink_domain, allowed
        else:
            domains.setdefault(node.nvlink_domain, []).append(i)
    for members in domains.values():
        first = site.nodes[members[0]]
        for i in members[1:]:
            yield from _alike(site.nodes[i], first, i)
    yield from _on_one_leaf(site, domains)


def _alike(node: Node, first: Node, index: int) -> Iterator[WrongValue]:
    path, where = ("nodes", index, "nvlink_domain"), f"domain {first.nvlink_domain}"
    if node.cloud != first.cloud:
        yield path, node.nvlink_domain, f"nodes of one cloud: {first.name} of {where} is in {first.cloud}"
    mine, theirs = (Counter(a.type for a in n.accelerators) for n in (node, first))
    if mine != theirs:
        has = ", ".join(f"{n} x {kind}" for kind, n in sorted(theirs.items())) or "no accelerators"
        yield path, node.nvlink_domain, f"nodes with the same accelerators: {first.name} of {where} has {has}"


def _on_one_leaf(site: Site, domains: dict[str, list[int]]) -> Iterator[WrongValue]:
    for fabric in (*sorted(site.fabrics), NO_FABRIC) if domains else ():
        try:
            locations = Topology.of(site, fabric).locations
        except InputError:
            continue  # a block in two halls, which is reported separately
        found = False
        for name, members in domains.items():
            there = [(i, locations[site.nodes[i].name]) for i in members if site.nodes[i].name in locations]
            for i, location in there[1:]:
                if location.leaf != there[0][1].leaf:
                    found = True
                    first = there[0][1]
                    other = f"{first.node} of the domain on {first.leaf}"
                    allowed = f"nodes on one leaf: {location.node} is on {location.leaf}, {other}"
                    yield ("nodes", i, "nvlink_domain"), name, allowed
        if found:
            return  # it would be reported again without a fabric


def check_rails(site: Site) -> Iterator[WrongValue]:
    """Only leaves have a rail, and the rails of a node's adapters ascend, as far as the site says which they are.

    A node may lack adapters: swapped cables are found, and a broken adapter is no mistake.
    """
    rail_of = {s.name: s.rail for s in site.switches if s.rail is not None}
    for i, switch in enumerate(site.switches):
        if switch.rail is not None and switch.level != "leaf":
            allowed = f"only for leaf switches; {switch.name} is a {switch.level}"
            yield ("switches", i, "rail"), switch.rail, allowed
    for fabric in site.fabrics if rail_of else ():
        leaf_of = {
            host: switch
            for a, b, _ in cables(site, fabric)
            for host, switch in ((a, b), (b, a))
            if "/" in host and switch in rail_of
        }
        for i, node in enumerate(site.nodes):
            before: tuple[str, int] | None = None
            for hca in sorted(node.hcas_on(fabric), key=lambda h: natural(h.name)):
                if (leaf := leaf_of.get(end := f"{node.name}/{hca.name}")) is None:
                    continue
                if before is not None and rail_of[leaf] <= before[1]:
                    path = ("nodes", i, "hcas", node.hcas.index(hca), "name")
                    yield (
                        path,
                        end,
                        f"a cable to a leaf of a rail above {before[1]}, which {before[0]} is on; {leaf} is of "
                        f"rail {rail_of[leaf]}",
                    )
                before = hca.name, rail_of[leaf]
