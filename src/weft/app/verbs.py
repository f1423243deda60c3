"""Who calls a verb, and which verbs answer tenants. The verbs are methods of the parts of `weft.app.service.Service`.

Every verb checks the caller's roles by policy, writes the audit log for a change, and raises only `WeftError`s.
`name` of a pod may be its id too. A pod that the caller may not see is `NotFoundError`, as if it didn't exist.
A `RefusedError` carries the explanation as `detail`.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.ports.cloud import Caller

TENANTS = frozenset(
    {
        "bandwidth.pod_plan",
        "bandwidth.report_pod",
        "bandwidth.show_pod",
        "capacity.show",
        "checks.report_test",
        "events.may_read",
        "events.page",
        "fabrics.pod_links",
        "networks.abandon",
        "networks.events",
        "networks.list",
        "networks.show",
        "nodes.accept",
        "nodes.history",
        "nodes.holds",
        "permissions.allowed",
        "permissions.check",
        "permissions.is_known",
        "pods.abandon",
        "pods.act_on_server",
        "pods.apply",
        "pods.begin_release",
        "pods.console",
        "pods.create",
        "pods.events",
        "pods.extend",
        "pods.find",
        "pods.health",
        "pods.list",
        "pods.may_apply",
        "pods.order",
        "pods.order_names",
        "pods.plan",
        "pods.plan_replacement",
        "pods.receipt",
        "pods.release",
        "pods.replace_node",
        "pods.report_node",
        "pods.retry",
        "pods.show",
        "pods.topology",
        "receipt_key",
        "search",
        "use",
        "webhooks.check",
        "webhooks.delete",
        "webhooks.enable",
        "webhooks.list",
        "webhooks.make",
        "webhooks.rotate",
        "webhooks.show",
        "webhooks.test",
    }
)
"""Verbs that answer others than operators, as far as the policy lets them ask, with their part of the service."""


@dataclass(frozen=True, slots=True)
class Request:
    """The caller, and where the request came from."""

    caller: Caller
    address: str
    request_id: str
    user_agent: str = ""
