"""Checks of `traffic`: agents beside adapters of an Ethernet fabric. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.fabrictypes import FabricKind
from weft.model.site import Site, Traffic
from weft.planning.site.seen import Seen, WrongValue, known


def check_traffic(site: Site) -> Iterator[WrongValue]:
    for name, fabric in site.fabrics.items():
        if fabric.traffic is None:
            continue
        path = ("fabrics", name, "traffic")
        if fabric.type is not FabricKind.ETHERNET:
            yield path, "probe agents", f"must be omitted: fabric {name} is of type {fabric.type}"
            continue
        mine = {n.name for n in site.nodes if n.hcas_on(name)}
        names, urls, nodes = Seen("an agent's name"), Seen("an agent's address"), Seen("a node's agent")
        for i, agent in enumerate(fabric.traffic.agents):
            here = (*path, "agents", i)
            yield from names.check(agent.name, f"agent {agent.name}", (*here, "name"))
            yield from urls.check(agent.url.rstrip("/"), f"agent {agent.name}", (*here, "url"))
            for j, node in enumerate(agent.nodes):
                at = (*here, "nodes", j)
                yield from known(at, node, mine, f"nodes with an adapter on fabric {name}")
                yield from nodes.check(node, f"agent {agent.name}", at)
        if fabric.traffic.policy == "refuse":
            yield from _all_have_agents(fabric.traffic, mine, (*path, "policy"))


def _all_have_agents(traffic: Traffic, nodes: set[str], path: tuple[str, ...]) -> Iterator[WrongValue]:
    """Where one has none, no pod of it would get READY, and none would get its receipt."""
    without = sorted(nodes - {n for a in traffic.agents for n in a.nodes})
    if without:
        more = f" and {len(without) - 3} more" if len(without) > 3 else ""
        yield path, "refuse", f"warn: no probe agent is beside {', '.join(without[:3])}{more}"
