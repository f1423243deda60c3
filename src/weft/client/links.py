"""The API's verbs about links of a fabric."""

from __future__ import annotations

from urllib.parse import urlencode

from weft.client.nodes import NodeClient, part
from weft.client.transport import Json


class LinkClient(NodeClient):
    """See `weft.client.verbs.Client`."""

    def show_link(self, target: str, pattern: str = "rail") -> Json:
        """Which pods are on a cable of a fabric, by one of its ends, and what it carries now; for operators."""
        return self._ask(
            "GET", f"/v1/links?{urlencode({'target': target, 'pattern': pattern})}", extra_time=60
        )

    def pod_links(self, name: str, pattern: str = "rail") -> Json:
        """Links of the fabric that a pod's paths use, and with how many others it shares each."""
        return self._ask(
            "GET", f"/v1/pods/{part('name', name)}/links?{urlencode({'pattern': pattern})}", extra_time=60
        )

    def who_disturbs(self, pod: str, pattern: str = "rail") -> Json:
        """Which other pods share links with a pod, and which of them explains congestion; for operators."""
        query = urlencode({"pod": pod, "pattern": pattern})
        return self._ask("GET", f"/v1/site/who-disturbs?{query}", extra_time=60)
