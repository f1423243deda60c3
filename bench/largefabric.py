"""A site with a fabric of 5,007 nodes: as many as the largest public capture has, which can't be shipped."""

from __future__ import annotations

from weft.model.site import Site
from weft.planning.site.fattree import adapter, design, server
from weftlab.layout import Layout
from weftlab.site import make_site, settings

SERVERS, RADIX, NODES = 4351, 36, 5007
"""Adapters; ports of a switch; adapters and switches together."""
_GUID = 0x0002C90310000000


def large_site(layout: Layout) -> Site:
    """The lab's site with 800 hosts, on a fat tree of three levels without oversubscription instead of its own.

    Its two subnet managers are on the last two servers of the tree.
    """
    base, tree = make_site(settings(nodes=800, hcas=1), layout), design(SERVERS, RADIX)
    template = next(node for node in base.nodes if node.role == "compute")
    fabric = template.hcas[0].fabric
    managers = [node for node in base.nodes if node.role == "subnet-manager"]
    kinds = [*[template] * (SERVERS - len(managers)), *managers]
    renamed: dict[str, str] = {}
    nodes = list[object]()
    for number, kind in enumerate(kinds):
        guid = _GUID + 0x100 * (number + 1)
        hca = kind.hcas[0].model_copy(update={"guid": guid, "port_guid": guid + 1, "mac": None})
        name = kind.name if kind in managers else f"gpu{number + 1:04}"
        renamed[f"{server(number)}/{adapter(0)}"] = f"{name}/{hca.name}"
        nodes.append(kind.model_copy(update={"name": name, "hcas": (hca,)}))
    switches = tuple(
        switch.model_copy(update={"guid": _GUID - 0x100 * (number + 1), "fabric": fabric})
        for number, switch in enumerate(tree.switches)
    )
    links = tuple(
        link.model_copy(update={"a": renamed.get(link.a, link.a), "b": renamed.get(link.b, link.b)})
        for link in tree.links
    )
    if len(nodes) + len(switches) != NODES:
        raise RuntimeError(f"the tree has {len(nodes)} adapters and {len(switches)} switches")
    return base.model_copy(
        update={"nodes": tuple(nodes), "switches": switches, "links": links, "ipu_machines": ()}
    )
