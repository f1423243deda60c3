"""The API's verbs about bandwidth tests."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from weft.client.links import LinkClient
from weft.client.nodes import part
from weft.client.transport import Json


class BandwidthClient(LinkClient):
    """See `weft.client.verbs.Client`."""

    def pod_bandwidth_plan(self, name: str) -> Json:
        """What weft-check needs to test the bandwidth between a pod's servers."""
        return self._ask("GET", f"/v1/pods/{part('name', name)}/bandwidth/plan")

    def report_pod_bandwidth(self, name: str, document: Json) -> Json:
        """Report what was measured in a pod; returns the signed certificate."""
        return self._ask("POST", f"/v1/pods/{part('name', name)}/bandwidth", document, extra_time=60)

    def pod_bandwidth(self, name: str) -> Json:
        """The signed certificate of a pod's last bandwidth test."""
        return self._ask("GET", f"/v1/pods/{part('name', name)}/bandwidth")

    def nodes_bandwidth_plan(self, nodes: Sequence[str]) -> Json:
        """What weft-check needs to test the bandwidth between nodes; for operators."""
        return self._ask("GET", f"/v1/bandwidth/plan?{urlencode([('node', node) for node in nodes])}")

    def report_nodes_bandwidth(self, document: Json) -> Json:
        """Report what was measured on nodes; returns the signed certificate; for operators."""
        return self._ask("POST", "/v1/bandwidth", document, extra_time=60)

    def node_bandwidth(self, node: str) -> Json:
        """The signed certificate of a node's last bandwidth test; for operators."""
        return self._ask("GET", f"/v1/nodes/{part('node', node)}/bandwidth")
