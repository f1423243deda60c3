"""The API's verbs about nodes; see `weft.client.verbs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from weft.client.transport import Json, listed, with_query
from weft.model.errors import InputError


def part(field: str, name: str) -> str:
    """A name as one part of a path. Raises `InputError` for what would be another path."""
    if name in ("", ".", ".."):
        raise InputError(field, name, "a name or an id")
    return quote(name, safe="")


class NodeClient:
    """Args: ask: `weft.client.transport.Transport.ask`."""

    def __init__(self, ask: Callable[..., Json]) -> None:
        self._ask = ask

    def nodes(self) -> list[Json]:
        return listed(self._ask, "/v1/nodes", "nodes")

    def quarantine_node(self, node: str, reason: str) -> Json:
        """Keep a node from being assigned until it is cleared."""
        return self._ask("PUT", f"/v1/nodes/{part('node', node)}/quarantine", {"reason": reason})

    def clear_node(self, node: str) -> Json:
        return self._ask("DELETE", f"/v1/nodes/{part('node', node)}/quarantine")

    def show_node(self, node: str) -> Json:
        return self._ask("GET", f"/v1/nodes/{part('node', node)}")

    def node_history(self, node: str, before: int | None = None, limit: int | None = None) -> Json:
        """One page, the newest entries first."""
        path = f"/v1/nodes/{part('node', node)}/history"
        return self._ask("GET", with_query(path, before=before, limit=limit))

    def hold_node(self, node: str, what: str) -> Json:
        """Keep a node from being assigned until it is accepted for this."""
        return self._ask("PUT", f"/v1/nodes/{part('node', node)}/hold", {"what": what})

    def accept_node(
        self, node: str, what: str | None = None, every: bool = False, without_test: str | None = None
    ) -> Json:
        """End a hold: this one, the only one, or all; `without_test`: why without the tests that the site wants."""
        given = {"all": "true"} if every else {"what": what} if what is not None else {}
        given |= {"without_test": without_test} if without_test is not None else {}
        query = f"?{urlencode(given)}" if given else ""
        return self._ask("DELETE", f"/v1/nodes/{part('node', node)}/hold{query}")

    def holds(self) -> list[Json]:
        return listed(self._ask, "/v1/holds", "holds")

    def reports(self) -> list[Json]:
        return listed(self._ask, "/v1/reports", "reports")

    def clear_report(self, node: str, project: str | None = None) -> list[Json]:
        """End the reports of a node: a project's, by id, or all."""
        path = with_query(f"/v1/nodes/{part('node', node)}/reports", project=project)
        return self._ask("DELETE", path)["reports"]

    def node_checks(self, node: str) -> Json:
        """What the node's own checks reported last."""
        return self._ask("GET", f"/v1/nodes/{part('node', node)}/checks")

    def forget_checks(self, node: str) -> Json:
        return self._ask("DELETE", f"/v1/nodes/{part('node', node)}/checks")

    def report_test(self, node: str, test: str, **given: Any) -> Json:
        """What an outside test found on a held node. Args: fields of `NodeTestReport`; None is left out."""
        body = {name: value for name, value in given.items() if value is not None}
        return self._ask("POST", f"/v1/nodes/{part('node', node)}/tests/{part('test', test)}", body)

    def make_check_token(self, node: str, until: str | None = None) -> Json:
        """A token with which the node reports its checks; shown once."""
        body = {} if until is None else {"until": until}
        return self._ask("POST", f"/v1/nodes/{part('node', node)}/check-tokens", body)

    def check_tokens(self, node: str | None = None) -> list[Json]:
        return listed(self._ask, "/v1/check-tokens", "tokens", node=node)

    def revoke_check_token(self, token: str) -> Json:
        """End a token by its id."""
        return self._ask("DELETE", f"/v1/check-tokens/{part('id', token)}")

    def drain(self, target: str, **given: Any) -> Json:
        """Give no new orders to a place's nodes. Args: fields of `DrainRequest`; None is left out."""
        more = {name: value for name, value in given.items() if value is not None}
        return self._ask("POST", "/v1/drains", {"target": target, **more})

    def undrain(self, target: str) -> Json:
        return self._ask("DELETE", f"/v1/drains/{part('target', target)}")
