"""Bandwidth tests of pods and of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from weft.client.asking import part
from weft.client.transport import Json, Transport


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """See `weft.client.client.Client`."""

    weft: Transport

    def pod_plan(self, name: str) -> Json:
        """What weft-check needs to test the bandwidth between a pod's servers."""
        return self.weft.ask("GET", f"/v1/pods/{part('name', name)}/bandwidth/plan")

    def report_pod(self, name: str, document: Json) -> Json:
        """Report what was measured in a pod; returns the signed certificate."""
        return self.weft.ask("POST", f"/v1/pods/{part('name', name)}/bandwidth", document, extra_time=60)

    def show_pod(self, name: str) -> Json:
        """The signed certificate of a pod's last bandwidth test."""
        return self.weft.ask("GET", f"/v1/pods/{part('name', name)}/bandwidth")

    def nodes_plan(self, nodes: Sequence[str]) -> Json:
        """What weft-check needs to test the bandwidth between nodes; for operators."""
        return self.weft.ask("GET", f"/v1/bandwidth/plan?{urlencode([('node', node) for node in nodes])}")

    def report_nodes(self, document: Json) -> Json:
        """Report what was measured on nodes; returns the signed certificate; for operators."""
        return self.weft.ask("POST", "/v1/bandwidth", document, extra_time=60)

    def show_node(self, node: str) -> Json:
        """The signed certificate of a node's last bandwidth test; for operators."""
        return self.weft.ask("GET", f"/v1/nodes/{part('node', node)}/bandwidth")
