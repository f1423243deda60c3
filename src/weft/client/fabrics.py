"""Fabrics: what was read of their managers, their cabling, and the links that pods use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from urllib.parse import quote, urlencode

from weft.client.asking import listed, part, whole
from weft.client.transport import Json, Transport


@dataclass(frozen=True, slots=True)
class Fabrics:
    """See `weft.client.client.Client`."""

    weft: Transport

    def readings(self) -> list[Json]:
        """The last reading of each fabric's managers; no manager is asked."""
        return self.weft.ask("GET", "/v1/site/fabrics")["fabrics"]

    def compare(self, fabric: str | None = None) -> Json:
        """Differences between the site's cabling and what is discovered, of all fabrics or one."""
        return self.weft.ask("GET", "/v1/site/differences" + _fabric(fabric), extra_time=120)

    def adopt_cabling(self, fabric: str | None = None) -> Json:
        """Adopt the discovered cabling as a new generation of the site; for operators."""
        return self.weft.ask("POST", "/v1/site/adopt-cabling" + _fabric(fabric), extra_time=240)

    def leaves(self) -> list[Json]:
        """The leaves of the site's fabrics that nodes are on."""
        return listed(self.weft.ask, "/v1/site/leaves", "leaves")

    def show_link(self, target: str, pattern: str = "rail") -> Json:
        """Which pods are on a cable of a fabric, by one of its ends, and what it carries now; for operators."""
        return self.weft.ask(
            "GET", f"/v1/links?{urlencode({'target': target, 'pattern': pattern})}", extra_time=60
        )

    def pod_links(self, name: str, pattern: str = "rail") -> Json:
        """Links of the fabric that a pod's paths use, and with how many others it shares each."""
        return self.weft.ask(
            "GET", f"/v1/pods/{part('name', name)}/links?{urlencode({'pattern': pattern})}", extra_time=60
        )

    def who_disturbs(self, pod: str, pattern: str = "rail") -> Json:
        """Which other pods share links with a pod, and which of them explains congestion; for operators."""
        query = urlencode({"pod": pod, "pattern": pattern})
        return self.weft.ask("GET", f"/v1/site/who-disturbs?{query}", extra_time=60)

    def node_loads(self) -> Json:
        """How much of its links each node uses now: `nodes` with `load` from 0 to 1, or None, and the fabrics that
        are `unread`; for operators."""
        return whole(partial(self.weft.ask, extra_time=60), "/v1/site/loads", "nodes")


def _fabric(name: str | None) -> str:
    return "" if name is None else f"?fabric={quote(name, safe='')}"
