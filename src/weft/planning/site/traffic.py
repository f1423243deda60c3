"""Checks of `traffic`: agents beside adapters of an Ethernet fabric. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.fabrictypes import FabricKind, Level
from weft.model.site import Fabric, Site, Traffic
from weft.planning.site.wrongvalues import UniqueValues, WrongValue, known

OPERATIONAL = ("eos", "ovs")
"""Interfaces of switches that show their operational state, and not only their configuration."""


def check_traffic(site: Site) -> Iterator[WrongValue]:
    """Everything that is wrong with probe agents, and with the evidence that a fabric requires."""
    for name, fabric in site.fabrics.items():
        yield from _evidence(name, fabric, site)
        if fabric.traffic is None:
            continue
        path = ("fabrics", name, "traffic")
        if fabric.type is not FabricKind.ETHERNET:
            yield path, "probe agents", f"must be omitted: fabric {name} is of type {fabric.type}"
            continue
        mine = {n.name for n in site.nodes if n.hcas_on(name)}
        names, urls, nodes = (
            UniqueValues("an agent's name"),
            UniqueValues("an agent's address"),
            UniqueValues("a node's agent"),
        )
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


def _evidence(name: str, fabric: Fabric, site: Site) -> Iterator[WrongValue]:
    """A level of evidence that can never be reached is refused: no release would be clean."""
    wanted, path, manager = fabric.evidence, ("fabrics", name, "evidence"), fabric.manager
    if fabric.traffic is not None or wanted is Level.CONFIGURATION:
        return
    if wanted is Level.FRAMES:
        yield path, wanted.value, f"operational: fabric {name} has no probe agents (`traffic`)"
    elif manager.driver == "ufm" and not manager.agents:
        yield (
            path,
            wanted.value,
            f"configuration: fabric {name} has no agents that read the ports' own tables",
        )
    elif manager.driver == "ufm" and (
        split := sorted(n.name for n in site.nodes if any(h.vfs for h in n.hcas_on(name)))
    ):
        more = f" and {len(split) - 3} more" if len(split) > 3 else ""
        why = f"{', '.join(split[:3])}{more} give virtual functions of adapters on fabric {name} (`vfs`), whose tables"
        yield path, wanted.value, f"configuration: {why} no agent can read"
    elif manager.switching is not None:
        blind = sorted(s.name for s in manager.switching.switches if s.interface not in OPERATIONAL)
        if blind:
            why = f"{', '.join(blind[:3])} show{'s' if len(blind) == 1 else ''} only the configuration"
            yield path, wanted.value, f"configuration: {why}, and there are no probe agents (`traffic`)"


def _all_have_agents(traffic: Traffic, nodes: set[str], path: tuple[str, ...]) -> Iterator[WrongValue]:
    """Every node needs an agent: without one, no pod on it would become READY, or get its receipt."""
    without = sorted(nodes - {n for a in traffic.agents for n in a.nodes})
    if without:
        more = f" and {len(without) - 3} more" if len(without) > 3 else ""
        yield path, "refuse", f"warn: no probe agent is beside {', '.join(without[:3])}{more}"
