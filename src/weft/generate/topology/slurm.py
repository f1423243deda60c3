"""Slurm's topology.conf (topology/tree, topology/block) and topology.yaml.

Sources: topology.conf(5), topology.yaml(5) of Slurm 22.05 to 26.05. One root: two start with a warning, and jobs
never span them. Block sizes are the smallest block times powers of two: 24.11 refuses others, and smaller blocks.
"""

from __future__ import annotations

from typing import Any

from weft.generate.topology.text import heading, hostlist, yaml_text
from weft.model.errors import ConflictError
from weft.model.messages import topology as messages
from weft.planning.fabric.podtopology import PodTopology


def tree_conf(pod: PodTopology) -> str:
    """`topology.conf` of TopologyPlugin=topology/tree."""
    lines = heading(pod, "Slurm topology.conf, TopologyPlugin topology/tree")
    for switch, switches, nodes in tree(pod):
        lines.append(f"SwitchName={switch} " + (f"Nodes={nodes}" if nodes else f"Switches={switches}"))
    return "\n".join([*lines, ""])


def block_conf(pod: PodTopology) -> str:
    """`topology.conf` of TopologyPlugin=topology/block, of NVLink domains. Raises `ConflictError` without any."""
    blocks = _blocks(pod)
    if not blocks:
        raise ConflictError(messages.TOPOLOGY_NO_NVLINK(pod=pod.pod, format="slurm-block-conf"))
    lines = heading(pod, "Slurm topology.conf, TopologyPlugin topology/block", more=_outside(pod))
    lines += [f"BlockName={name} Nodes={hostlist(nodes)}" for name, nodes in blocks.items()]
    sizes = ",".join(map(str, _sizes(blocks)))
    return "\n".join([*lines, f"BlockSizes={sizes}", ""])


def topology_yaml(pod: PodTopology) -> str:
    """`topology.yaml` (from 25.05): the fabric as the cluster's tree, and blocks of NVLink domains if there are any."""
    switches = [
        {"switch": switch, **({"nodes": nodes} if nodes else {"children": children})}
        for switch, children, nodes in tree(pod)
    ]
    document: list[dict[str, Any]] = [
        {"topology": "fabric", "cluster_default": True, "tree": {"switches": switches}}
    ]
    blocks = _blocks(pod)
    if blocks:
        listed = [{"block": name, "nodes": hostlist(nodes)} for name, nodes in blocks.items()]
        document.append(
            {
                "topology": "nvlink",
                "cluster_default": False,
                "block": {"block_sizes": _sizes(blocks), "blocks": listed},
            }
        )
    more = _outside(pod) if blocks else []
    lines = heading(pod, "Slurm topology.yaml", more=more)
    return "\n".join([*lines, yaml_text(document)])


def tree(pod: PodTopology) -> list[tuple[str, str, str]]:
    """(switch, switches below, nodes below), from the leaves to the root; one of the latter two is empty."""
    nodes: dict[str, list[str]] = {}
    below: dict[int, dict[str, dict[str, None]]] = {}
    for server in pod.located:
        nodes.setdefault(server.path[-1], []).append(server.name)
        for depth in range(len(server.path) - 2, -1, -1):
            below.setdefault(depth, {}).setdefault(server.path[depth], {})[server.path[depth + 1]] = None
    leaves = [(leaf, "", hostlist(names)) for leaf, names in nodes.items()]
    above = [
        (switch, ",".join(children), "")
        for depth in sorted(below, reverse=True)
        for switch, children in below[depth].items()
    ]
    return leaves + above


def _blocks(pod: PodTopology) -> dict[str, list[str]]:
    """NVLink domain -> its servers."""
    found: dict[str, list[str]] = {}
    for server in pod.located:
        if server.nvlink_domain:
            found.setdefault(server.nvlink_domain, []).append(server.name)
    return found


def _sizes(blocks: dict[str, list[str]]) -> list[int]:
    smallest = min(map(len, blocks.values()))
    sizes = [smallest]
    while len(sizes) < 16 and sizes[-1] * 2 <= smallest * len(blocks):
        sizes.append(sizes[-1] * 2)
    return sizes


def _outside(pod: PodTopology) -> list[str]:
    names = [s.name for s in pod.located if not s.nvlink_domain]
    return [f"in no NVLink domain, so in no block: {hostlist(names)}"] if names else []
