"""The nodes of a bandwidth test by the site: their adapters on one fabric, rails, nominal rates and leaves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from weft.model.bandwidth import MOST_RAILS, SHARES, BandwidthPlan, PlannedAdapter, PlannedNode
from weft.model.fabrictypes import FabricKind
from weft.model.ids import FULL_MEMBER, format_guid
from weft.model.site import Site
from weft.planning.bandwidth.candidates import LinksOf
from weft.planning.bandwidth.expected import Planned
from weft.planning.bandwidth.values import Pair
from weft.planning.fabric.linkmap import LinkEnd, LinkMap
from weft.planning.fabric.topology import Topology, leaf_of_each_hca


def plan_nodes(site: Site, fabric: str, named: Mapping[str, str]) -> Planned:
    """The nodes of a test, those without adapters on the fabric left out.

    Args:
        named: name in the test (of a server, or a node) -> node of the site.
    """
    leaves, locations = leaf_of_each_hca(site, fabric), Topology.of(site, fabric).locations
    infiniband = site.fabrics[fabric].type is FabricKind.INFINIBAND
    nodes: list[PlannedNode] = []
    at: dict[tuple[str, int], str] = {}
    devices: dict[tuple[str, int], str] = {}
    for name, host in named.items():
        node = site.node_by_name.get(host)
        adapters: list[PlannedAdapter] = []
        for rail, hca in enumerate(node.hcas_on(fabric)[:MOST_RAILS] if node is not None else ()):
            guid = format_guid(hca.port_guid if infiniband else hca.guid)
            adapters.append(PlannedAdapter(rail=rail, guid=guid, gbps=hca.rate_gbps))
            devices[name, rail] = hca.name
            if (leaf := leaves.get(f"{host}/{hca.name}")) is not None:
                at[name, rail] = leaf
        if adapters:
            leaf = locations[host].leaf if host in locations else ""
            nodes.append(PlannedNode(name=name, leaf=leaf, adapters=tuple(adapters)))
    return Planned(tuple(nodes), at, devices)


def plan_document(
    planned: Planned, type_: str, segment: int | None, seed: str, floor: float | None = None
) -> BandwidthPlan:
    """The plan for `weft-check bandwidth`.

    Args:
        type_: of the fabric; empty, or without a segment: no P_Key is given.
        floor: share of the nominal rate; None: that of host memory.
    """
    infiniband = type_ == str(FabricKind.INFINIBAND) and segment is not None
    return BandwidthPlan(
        nodes=planned.nodes,
        pkey=f"0x{(segment or 0) | FULL_MEMBER:04x}" if infiniband else None,
        share=SHARES["host"] / 1000 if floor is None else floor,
        seed=seed,
    )


def common_fabric(site: Site, nodes: Iterable[str]) -> str | None:
    """The fabric on which all of these nodes have adapters; None: there is none. Of several, the one with the highest
    rate in all, so that storage's isn't tested instead of the pods'."""
    known = [site.node_by_name[name] for name in nodes if name in site.node_by_name]
    common = (
        set[str].intersection(*({h.fabric for h in node.hcas} for node in known)) if known else set[str]()
    )
    rates = {
        f: sum(h.rate_gbps for node in known for h in node.hcas_on(f)) for f in common if f in site.fabrics
    }
    return min(rates, key=lambda name: (-rates[name], name), default=None)


def links_of_pairs(
    map_: LinkMap, planned: Planned, named: Mapping[str, str], hidden: bool = False
) -> LinksOf | None:
    """The cables between switches that each pair takes, by the forwarding tables; None: routing may take others.

    Args:
        hidden: names are without switches above leaves and without ports, as tenants are shown them.
    """
    if not map_.exact:
        return None
    forwarding, site = map_.forwarding, map_.site
    ports: dict[tuple[str, int], int] = {}
    for node in planned.nodes:
        for one in node.adapters:
            hca = site.node_by_name[named[node.name]].hcas_on(map_.fabric)[one.rail]
            if (index := forwarding.of_port.get(hca.port_guid)) is not None:
                ports[node.name, one.rail] = index
    pairs = [Pair(a, b, r) for a, r in ports for b, s in ports if r == s and a != b]
    sources = np.array([ports[p.sender, p.rail] for p in pairs], np.int32)
    targets = np.array([ports[p.receiver, p.rail] for p in pairs], np.int32)
    followed = forwarding.follow(sources, targets)
    found: dict[Pair, list[str]] = {}
    names: dict[int, str] = {}
    for place, link in zip(followed.path.tolist(), followed.link.tolist(), strict=True):
        if forwarding.is_between_switches(link):
            cable = min(link, forwarding.back(link))
            if cable not in names:
                ends = map_.ends(cable)
                names[cable] = (
                    _hidden(ends, len(names)) if hidden else " - ".join(f"{e.name}:{e.port}" for e in ends)
                )
            found.setdefault(pairs[place], []).append(names[cable])
    return lambda pair: found.get(pair, ())


def _hidden(ends: Iterable[LinkEnd], number: int) -> str:
    """A cable for tenants; the number keeps it apart from others, and says nothing."""
    leaf = next((end.name for end in ends if end.level == "leaf"), None)
    return f"{number + 1}, " + ("above the leaves" if leaf is None else f"an uplink of {leaf}")


def ends_of(planned: Planned, named: Mapping[str, str], name: str, rail: int | None) -> Sequence[str]:
    """`node/adapter` of a node's adapters in the site: of one rail, or all."""
    return [
        f"{named[node]}/{device}"
        for (node, at), device in planned.devices.items()
        if node == name and rail in (None, at)
    ]
