"""Who calls a verb, and which verbs answer tenants. The verbs are the methods of `weft.app.service.Service`.

Every verb checks the caller's roles by policy, writes the audit log for a change, and raises only `WeftError`s.
`name` of a pod may be its id too. A pod that the caller may not see is `NotFoundError`, as if it didn't exist.
A `RefusedError` carries the explanation as `detail`.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.ports.cloud import Caller

TENANTS = frozenset(
    {
        "may",
        "may_apply",
        "allowed",
        "is_known_to_be_allowed",
        "plan_pod",
        "apply_pod",
        "create_pod",
        "order_pod",
        "list_pods",
        "show_pod",
        "pod_events",
        "events",
        "use",
        "pod_health",
        "webhooks",
        "show_webhook",
        "make_webhook",
        "delete_webhook",
        "rotate_webhook",
        "enable_webhook",
        "test_webhook",
        "may_read_events",
        "release_pod",
        "begin_release",
        "extend_pod",
        "plan_replacement",
        "replace_node",
        "report_node",
        "retry_pod",
        "abandon_pod",
        "act_on_server",
        "pod_console",
        "pod_receipt",
        "pod_topology",
        "pod_links",
        "pod_bandwidth",
        "pod_bandwidth_plan",
        "report_pod_bandwidth",
        "receipt_key",
        "capacity",
        "list_networks",
        "show_network",
        "search",
        "network_events",
        "abandon_network",
        "accept_node",
        "report_test",
        "holds",
        "node_history",
    }
)
"""Verbs that answer others than operators, as far as the policy lets them ask."""


@dataclass(frozen=True, slots=True)
class Request:
    """The caller, and where the request came from."""

    caller: Caller
    address: str
    request_id: str
    user_agent: str = ""
