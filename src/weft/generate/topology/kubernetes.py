"""Labels of Kubernetes nodes and Kueue's Topology, in the names of topograph 1.0; and topograph's graph.

Sources: topograph 1.0 (`fabric.topograph.run/tier-N`, 0 next to the node; `accelerator.topograph.run/domain`; engine
`graph`); Kueue's API (`Topology`, levels coarsest first).
"""

from __future__ import annotations

import json
from typing import Any

from weft.generate.topology.text import heading, left_out, yaml_text
from weft.planning.fabric.podtopology import DOMAIN, TIER, PodTopology, node_labels, short


def kubectl(pod: PodTopology) -> str:
    """A `kubectl label` command for each node."""
    lines = heading(pod, "Labels of Kubernetes nodes, as topograph 1.0 names them")
    for server in pod.located:
        pairs = " ".join(f"{name}={value}" for name, value in node_labels(server).items())
        lines.append(f"kubectl label --overwrite node {server.name} {pairs}")
    return "\n".join([*lines, ""])


def node_features(pod: PodTopology) -> str:
    """A NodeFeature of Node Feature Discovery for each node, which its master makes labels of."""
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "nfd.k8s-sigs.io/v1alpha1",
            "kind": "NodeFeature",
            "metadata": {
                "name": f"weft-{server.name}",
                "labels": {"nfd.node.kubernetes.io/node-name": server.name},
            },
            "spec": {"labels": node_labels(server)},
        }
        for server in pod.located
    ]
    lines = heading(pod, "NodeFeatures of Node Feature Discovery")
    # JSON is YAML, and written a hundred times faster.
    return "\n".join([*lines, *(f"---\n{json.dumps(one, indent=2)}" for one in documents), ""])


def kueue(pod: PodTopology) -> str:
    """Kueue's `Topology` of the fabric's levels; all of a pod's nodes have its labels."""
    keys = [f"{TIER}{tier}" for tier in range(len(pod.levels) - 1, -1, -1)]
    if all(server.nvlink_domain for server in pod.located):
        keys.append(DOMAIN)
    document = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Topology",
        "metadata": {"name": pod.pod},
        "spec": {"levels": [{"nodeLabel": key} for key in (*keys, "kubernetes.io/hostname")]},
    }
    tiers = ", ".join(f"tier-{len(pod.levels) - 1 - i} {level}" for i, level in enumerate(pod.levels))
    lines = heading(pod, "Kueue Topology", more=[f"levels: {tiers}"])
    return "\n".join([*lines, yaml_text(document)])


def graph(pod: PodTopology) -> str:
    """topograph's graph: `id` is Nova's, `network_layers` go from the leaf to the root."""
    instances = [
        {
            "id": server.id,
            "name": server.name,
            "network_layers": list(reversed(server.path)),
            **({"labels": {DOMAIN: short(server.nvlink_domain)}} if server.nvlink_domain else {}),
        }
        for server in pod.located
    ]
    document = {"instances": instances, "left_out": left_out(pod)}
    return json.dumps(document, indent=2) + "\n"
