"""The API's verbs, as plain data.

Answers are plain dicts as the API's schema (/openapi.json) says, not models: a client must understand a newer server
that knows more fields. Errors are the `WeftError`s that the server raised, by `weft.model.errortable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlencode

from keystoneauth1.session import Session

from weft.client.asking import LONGEST_WAIT, PAGE, events, listed, part, whole, with_query
from weft.client.capacity import Capacity
from weft.client.fabrics import Fabrics
from weft.client.nodes import Nodes
from weft.client.pods import Pods
from weft.client.site import Site
from weft.client.transport import Json, Transport
from weft.client.webhooks import Webhooks


@dataclass(frozen=True, slots=True)
class Networks:
    """Networks that tenants created in Neutron."""

    weft: Transport

    def list(self, all_projects: bool = False) -> list[Json]:
        """All networks of the project, or of all projects, page after page."""
        given = "true" if all_projects else None
        return listed(self.weft.ask, "/v1/networks", "networks", limit=PAGE, all_projects=given)

    def show(self, name: str) -> Json:
        """A tenant's own network by name or id."""
        return self.weft.ask("GET", f"/v1/networks/{part('network', name)}")

    def events(self, name: str, after: int = 0) -> list[Json]:
        """What happened to a network, including when each port was first and last seen in its partition."""
        return events(self.weft, f"/v1/networks/{part('network', name)}", {"after": after})

    def abandon(self, name: str, reason: str) -> Json:
        """End the release of a network that can't finish; its receipt is never clean; for operators."""
        return self.weft.ask("POST", f"/v1/networks/{part('network', name)}/abandon", {"reason": reason})

    def receipt(self, name: str) -> Json:
        """The signed receipt of the last release of a network; for operators."""
        return self.weft.ask("GET", f"/v1/networks/{part('network', name)}/receipt")


@dataclass(frozen=True, slots=True)
class Audits:
    """The audit of everything outside, and the log of what callers did."""

    weft: Transport

    def run(
        self, repair: bool = False, unknown_pods: Sequence[str] = (), findings: Sequence[str] | None = None
    ) -> Json:
        """Run an audit, which reads everything outside. Args: findings: repair only these, by `key`; None: all."""
        if repair:
            body: dict[str, Any] = {"repair": True}
            if unknown_pods:
                body["unknown_pods"] = list(unknown_pods)
            if findings is not None:  # weft refuses an empty list
                body["findings"] = list(findings)
            return self.weft.ask("POST", "/v1/audit", body, extra_time=1800)
        return whole(partial(self.weft.ask, extra_time=600), "/v1/audit", "findings")

    def accept_database(self) -> Json:
        """Accept a restored database; audits everything outside first, as `run` does."""
        return self.weft.ask("POST", "/v1/audit/accept", extra_time=600)

    def log(self, **search: Any) -> list[Json]:
        """The log, newest first. Args: the fields of `weft.model.views.AuditLogSearch`; None is left out."""
        query = urlencode({k: v for k, v in search.items() if v is not None})
        return self.weft.ask("GET", "/v1/audit-log" + (f"?{query}" if query else ""))["entries"]


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bandwidth tests of pods and of nodes."""

    weft: Transport

    def pod_plan(self, name: str) -> Json:
        """The plan that weft-check needs to test the bandwidth between a pod's servers."""
        return self.weft.ask("GET", f"/v1/pods/{part('name', name)}/bandwidth/plan")

    def report_pod(self, name: str, document: Json) -> Json:
        """Report what was measured in a pod; returns the signed certificate."""
        return self.weft.ask("POST", f"/v1/pods/{part('name', name)}/bandwidth", document, extra_time=60)

    def show_pod(self, name: str) -> Json:
        """The signed certificate of a pod's last bandwidth test."""
        return self.weft.ask("GET", f"/v1/pods/{part('name', name)}/bandwidth")

    def nodes_plan(self, nodes: Sequence[str]) -> Json:
        """The plan that weft-check needs to test the bandwidth between nodes; for operators."""
        return self.weft.ask("GET", f"/v1/bandwidth/plan?{urlencode([('node', node) for node in nodes])}")

    def report_nodes(self, document: Json) -> Json:
        """Report what was measured on nodes; returns the signed certificate; for operators."""
        return self.weft.ask("POST", "/v1/bandwidth", document, extra_time=60)

    def show_node(self, node: str) -> Json:
        """The signed certificate of a node's last bandwidth test; for operators."""
        return self.weft.ask("GET", f"/v1/nodes/{part('node', node)}/bandwidth")


@dataclass(frozen=True, slots=True)
class Checks:
    """What nodes' own checks and outside tests report."""

    weft: Transport

    def show(self, node: str) -> Json:
        """What the node's own checks reported last."""
        return self.weft.ask("GET", f"/v1/nodes/{part('node', node)}/checks")

    def forget(self, node: str) -> Json:
        """Drop what a node's checks reported last, for one that reports no more; for operators."""
        return self.weft.ask("DELETE", f"/v1/nodes/{part('node', node)}/checks")

    def judge(self, check: str, judged: str) -> Json:
        """Judge a failing check: `real`, a `mistake`, or `open` again."""
        return self.weft.ask("PUT", f"/v1/checks/{part('check', check)}/judgement", {"judged": judged})

    def report_test(self, node: str, test: str, **given: Any) -> Json:
        """Report what an outside test found on a held node. Args: fields of `NodeTestReport`; None is left out."""
        body = {name: value for name, value in given.items() if value is not None}
        return self.weft.ask("POST", f"/v1/nodes/{part('node', node)}/tests/{part('test', test)}", body)

    def make_token(self, node: str, until: str | None = None) -> Json:
        """Create a token with which the node reports its checks; it is shown once."""
        body = {} if until is None else {"until": until}
        return self.weft.ask("POST", f"/v1/nodes/{part('node', node)}/check-tokens", body)

    def tokens(self, node: str | None = None) -> list[Json]:
        """Tokens of all nodes, or of one, without the tokens themselves."""
        return listed(self.weft.ask, "/v1/check-tokens", "tokens", node=node)

    def revoke_token(self, token: str) -> Json:
        """End a token by its id."""
        return self.weft.ask("DELETE", f"/v1/check-tokens/{part('id', token)}")


class Client:
    """The API's verbs; orders and answers are plain JSON.

    Args:
        session: signed in, or able to.
        url: address of the API, with or without `/v1`.
        timeout: seconds that a single answer may take, waiting on purpose not counted.
    """

    def __init__(self, session: Session, url: str, timeout: float = 60.0) -> None:
        self._transport = weft = Transport(session, url, timeout)
        self.url = weft.url
        self.pods = Pods(weft)
        self.nodes = Nodes(weft)
        self.checks = Checks(weft)
        self.fabrics = Fabrics(weft)
        self.bandwidth = Bandwidth(weft)
        self.capacity = Capacity(weft)
        self.site = Site(weft)
        self.networks = Networks(weft)
        self.webhooks = Webhooks(weft)
        self.audits = Audits(weft)

    def events(
        self,
        after: str | None = None,
        wait: float = 0.0,
        newest: int | None = None,
        all_projects: bool = False,
        project: str | None = None,
    ) -> Json:
        """A page of events of all pods of the project: `events`, `position` to go on after, and if there are `more`.

        Args:
            after: `position` of an earlier page; None: the oldest that are kept.
            wait: seconds to wait for an event after it, at most `LONGEST_WAIT`.
            newest: only the last so many, at most 1,000; without `after`.
            all_projects: of all projects, or of `project` (operators).
        """
        wait = min(wait, LONGEST_WAIT)
        given = {"after": after, "newest": newest, "project": project, "wait": f"{wait:g}" if wait else None}
        path = with_query("/v1/events", **given, all_projects="true" if all_projects else None)
        return self._transport.ask("GET", path, extra_time=wait)

    def use(
        self,
        since: str,
        until: str | None = None,
        by: str = "pod",
        all_projects: bool = False,
        project: str | None = None,
    ) -> Json:
        """Node and accelerator hours of a period, of the caller's project or of all. Args: by: pod, project or type."""
        every = "true" if all_projects else None
        given = {"since": since, "until": until, "by": by, "project": project, "all_projects": every}
        return whole(self._transport.ask, "/v1/use", "rows", "until", **given)

    def search(self, text: str) -> Json:
        """Search for what has exactly this value: a name, id, GUID, address, P_Key or VLAN."""
        return self._transport.ask("GET", f"/v1/search?{urlencode({'text': text})}")

    def receipt_key(self) -> Json:
        """The public key that this site's receipts are signed with."""
        return self._transport.ask("GET", "/v1/receipt-key")
