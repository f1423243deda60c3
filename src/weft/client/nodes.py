"""Nodes: their state, what keeps orders from them, and their histories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from weft.client.asking import listed, matching, part, with_query
from weft.client.transport import Json, Transport


@dataclass(frozen=True, slots=True)
class Nodes:
    """See `weft.client.client.Client`."""

    weft: Transport

    def list(self) -> list[Json]:
        """All nodes with their states; for operators."""
        return listed(self.weft.ask, "/v1/nodes", "nodes")

    def show(self, node: str) -> Json:
        """One node, by its name."""
        return self.weft.ask("GET", f"/v1/nodes/{part('node', node)}")

    def history(self, node: str, before: int | None = None, limit: int | None = None) -> Json:
        """A page of a node's history, the newest entries first."""
        path = f"/v1/nodes/{part('node', node)}/history"
        return self.weft.ask("GET", with_query(path, before=before, limit=limit))

    def part_history(self, serial: str) -> Json:
        """History of a GPU or adapter: the nodes that it was in, and its checks that failed there, newest first."""
        return self.weft.ask("GET", f"/v1/parts/{part('serial', serial)}/history")

    def health(self, node: str) -> Json:
        """Whether a node is well, and what that follows from, with the age of each."""
        return self.weft.ask("GET", f"/v1/nodes/{part('node', node)}/health")

    def healths(self, health: str | None = None) -> list[Json]:
        """All nodes, or those of one health."""
        return listed(self.weft.ask, "/v1/site/health/nodes", "nodes", health=health)

    def quarantine(self, node: str, reason: str) -> Json:
        """Keep a node from being assigned until it is cleared."""
        return self.weft.ask("PUT", f"/v1/nodes/{part('node', node)}/quarantine", {"reason": reason})

    def clear(self, node: str, revision: int | None = None) -> Json:
        """End a node's quarantine. Args: revision: only if it has this one."""
        path = f"/v1/nodes/{part('node', node)}/quarantine"
        return self.weft.ask("DELETE", path, headers=matching(revision))

    def hold(self, node: str, what: str) -> Json:
        """Keep a node from being assigned until it is accepted for this."""
        return self.weft.ask("PUT", f"/v1/nodes/{part('node', node)}/hold", {"what": what})

    def accept(
        self,
        node: str,
        what: str | None = None,
        every: bool = False,
        without_test: str | None = None,
        revision: int | None = None,
    ) -> Json:
        """End a hold: this one, the only one, or all; `without_test`: why without the tests that the site wants;
        `revision`: only if it is the highest of those that end."""
        given = {"all": "true"} if every else {"what": what} if what is not None else {}
        given |= {"without_test": without_test} if without_test is not None else {}
        query = f"?{urlencode(given)}" if given else ""
        path = f"/v1/nodes/{part('node', node)}/hold{query}"
        return self.weft.ask("DELETE", path, headers=matching(revision))

    def holds(self) -> list[Json]:
        """Nodes that are held, with what each must be accepted for."""
        return listed(self.weft.ask, "/v1/holds", "holds")

    def reports(self) -> list[Json]:
        """Nodes that tenants reported as faulty."""
        return listed(self.weft.ask, "/v1/reports", "reports")

    def clear_report(self, node: str, project: str | None = None) -> list[Json]:
        """End the reports of a node: a project's, by id, or all."""
        path = with_query(f"/v1/nodes/{part('node', node)}/reports", project=project)
        return self.weft.ask("DELETE", path)["reports"]

    def drains(self) -> list[Json]:
        """Drained nodes, also those that pods have."""
        return listed(self.weft.ask, "/v1/drains", "drains")

    def drain(self, target: str, **given: Any) -> Json:
        """Drain the nodes of a node, rack or leaf. Args: fields of `DrainRequest`; None is left out."""
        more = {name: value for name, value in given.items() if value is not None}
        return self.weft.ask("POST", "/v1/drains", {"target": target, **more})

    def undrain(self, target: str, revision: int | None = None) -> Json:
        """End the drains of a node, rack or leaf. Args: revision: only if it is the highest of the drains that end."""
        return self.weft.ask("DELETE", f"/v1/drains/{part('target', target)}", headers=matching(revision))
