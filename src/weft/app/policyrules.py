"""The policy's rules with their defaults; see `weft.app.policy`."""

from __future__ import annotations

from oslo_policy import policy as oslo

_READER = "rule:project_reader or rule:operator or rule:system_reader"
_OPERATOR_READS = "rule:operator or rule:system_reader"

_BASE = (
    oslo.RuleDefault(
        "operator",
        "role:admin and (system_scope:all or (project_name:admin and project_domain_id:default))",
        "Operators: see and change everything.",
    ),
    oslo.RuleDefault(
        "system_reader",
        "system_scope:all and (role:reader or role:member or role:manager)",
        "Operators with read-only access.",
    ),
    oslo.RuleDefault(
        "project_reader",
        "(role:reader or role:member or role:manager or role:admin) and project_id:%(project_id)s",
        "Readers of a project's pods.",
    ),
    oslo.RuleDefault(
        "project_member",
        "(role:member or role:manager or role:admin) and project_id:%(project_id)s",
        "Members who may order and release a project's pods.",
    ),
)


def _documented(
    name: str, check: str, description: str, path: str, method: str = "GET"
) -> oslo.DocumentedRuleDefault:
    return oslo.DocumentedRuleDefault(name, check, description, [{"path": path, "method": method}])


_RULES = (
    _documented("pods:list", _READER, "List a project's pods.", "/v1/pods"),
    _documented(
        "pods:list_all_projects",
        _OPERATOR_READS,
        "List the pods of all projects.",
        "/v1/pods?all_projects=true",
    ),
    _documented(
        "pods:show", _READER, "Show a pod; without it the pod is reported as nonexistent.", "/v1/pods/{name}"
    ),
    _documented("pods:events", _READER, "Show what happened to a pod.", "/v1/pods/{name}/events"),
    _documented(
        "events:list", _READER, "Read what happened to a project's pods, in one stream.", "/v1/events"
    ),
    _documented(
        "events:list_all_projects",
        _OPERATOR_READS,
        "Read what happened to the pods of all projects.",
        "/v1/events?all_projects=true",
    ),
    _documented("use:show", _READER, "Read a project's node and accelerator hours.", "/v1/use"),
    _documented(
        "use:show_all_projects",
        _OPERATOR_READS,
        "Read the node and accelerator hours of all projects.",
        "/v1/use?all_projects=true",
    ),
    _documented(
        "webhooks:list",
        "rule:project_member or rule:operator or rule:system_reader",
        "List a project's webhooks; their URLs may be secrets.",
        "/v1/webhooks",
    ),
    _documented(
        "webhooks:list_all_projects",
        _OPERATOR_READS,
        "List the webhooks of all projects.",
        "/v1/webhooks?all_projects=true",
    ),
    _documented(
        "webhooks:change",
        "rule:project_member",
        "Make, delete, test and enable a project's webhooks, and rotate their secrets.",
        "/v1/webhooks",
        "POST",
    ),
    _documented(
        "webhooks:manage",
        "rule:operator",
        "Delete, test and enable webhooks of any project, by id.",
        "/v1/webhooks/{name}",
        "DELETE",
    ),
    _documented(
        "pods:receipt", _READER, "Fetch the signed receipt of a released pod.", "/v1/pods/{name}/receipt"
    ),
    _documented(
        "pods:topology",
        _READER,
        "Show a pod's topology for programs that place jobs, topograph among them.",
        "/v1/pods/{name}/topology",
    ),
    _documented(
        "pods:links",
        _READER,
        "Show which links of the fabric a pod uses. Without details:show, others and upper switches are hidden.",
        "/v1/pods/{name}/links",
    ),
    _documented(
        "pods:bandwidth",
        _READER,
        "Fetch the plan of a bandwidth test of a pod's servers, and the signed certificate of the last one.",
        "/v1/pods/{name}/bandwidth",
    ),
    _documented(
        "pods:report_bandwidth",
        "rule:project_member",
        "Report what a pod's servers measured; it is certified as the project's word, and changes nothing of nodes.",
        "/v1/pods/{name}/bandwidth",
        "POST",
    ),
    _documented(
        "receipts:key", _READER, "Fetch the public key that receipts are signed with.", "/v1/receipt-key"
    ),
    _documented("pods:plan", _READER, "Plan an order without changing anything.", "/v1/pods/plan", "POST"),
    _documented("pods:create", "rule:project_member", "Order a pod.", "/v1/pods", "POST"),
    _documented(
        "pods:create_exclusive",
        "rule:project_member",
        "Order or plan a pod that keeps others off its leaves (exclusive, apart_from); required in addition to "
        "pods:create or pods:plan. One node of such a pod closes its whole leaf to others.",
        "/v1/pods",
        "POST",
    ),
    _documented(
        "pods:change",
        "rule:project_member or rule:operator",
        "Change a pod by applying an order to it; applying an order under a free name requires pods:create.",
        "/v1/pods/{name}",
        "PUT",
    ),
    _documented(
        "pods:release",
        "rule:project_member or rule:operator",
        "Release a pod.",
        "/v1/pods/{name}/release",
        "POST",
    ),
    _documented(
        "pods:extend",
        "rule:project_member or rule:operator",
        "Extend a pod's lease.",
        "/v1/pods/{name}/extend",
        "POST",
    ),
    _documented(
        "pods:replace",
        "rule:project_member or rule:operator",
        "Replace a node of a pod by another one.",
        "/v1/pods/{name}/replace",
        "POST",
    ),
    _documented(
        "pods:report",
        "rule:project_member or rule:operator",
        "Report a node of a pod: none of the project's orders gets it until an operator clears the report.",
        "/v1/pods/{name}/report",
        "POST",
    ),
    _documented(
        "pods:choose_node",
        "rule:operator",
        "Choose the node that takes another one's place; required in addition to pods:replace.",
        "/v1/pods/{name}/replace",
        "POST",
    ),
    _documented(
        "pods:retry",
        "rule:project_member or rule:operator",
        "Resume a FAILED pod.",
        "/v1/pods/{name}/retry",
        "POST",
    ),
    _documented(
        "pods:abandon",
        "rule:operator",
        "End a release that can't finish; its receipt is never clean.",
        "/v1/pods/{name}/abandon",
        "POST",
    ),
    _documented(
        "pods:operate",
        "rule:project_member or rule:operator",
        "Reboot a pod's server, or boot it into a rescue system.",
        "/v1/pods/{name}/servers/{server}/action",
        "POST",
    ),
    _documented(
        "pods:console",
        "rule:project_member or rule:operator",
        "Open a console of a pod's server.",
        "/v1/pods/{name}/servers/{server}/console",
        "POST",
    ),
    _documented("networks:list", _READER, "List a project's own networks on a fabric.", "/v1/networks"),
    _documented(
        "networks:list_all_projects",
        _OPERATOR_READS,
        "List the networks of all projects.",
        "/v1/networks?all_projects=true",
    ),
    _documented(
        "networks:show",
        _READER,
        "Show a network and its ports; without it the network is reported as nonexistent.",
        "/v1/networks/{name}",
    ),
    _documented(
        "networks:receipt",
        _OPERATOR_READS,
        "Read the receipt of a network that was released; it names nodes and adapters, which its project isn't shown.",
        "/v1/networks/{name}/receipt",
    ),
    _documented(
        "networks:abandon",
        "rule:operator",
        "End the release of a network that can't finish; its receipt is never clean.",
        "/v1/networks/{name}/abandon",
        "POST",
    ),
    _documented("capacity:show", _READER, "See what can be ordered, now and later.", "/v1/capacity"),
    _documented("reservations:list", _OPERATOR_READS, "List reservations.", "/v1/reservations"),
    _documented(
        "reservations:change",
        "rule:operator",
        "Create and delete reservations.",
        "/v1/reservations",
        "POST",
    ),
    _documented(
        "site:show",
        _OPERATOR_READS,
        "Show the site, its fabrics' managers, and cabling differences.",
        "/v1/site",
    ),
    _documented(
        "site:activate",
        "rule:operator",
        "Activate a site, or adopt the discovered cabling.",
        "/v1/site",
        "PUT",
    ),
    _documented(
        "site:plan",
        _OPERATOR_READS,
        "Compare what the site needs in its clouds with what is there; see what was applied.",
        "/v1/site/plan",
    ),
    _documented(
        "site:apply",
        "rule:operator",
        "Create or change what the site needs in its clouds.",
        "/v1/site/apply",
        "POST",
    ),
    _documented(
        "site:destroy",
        "rule:operator",
        "Remove the site's applied resources, or end a removal that can't finish.",
        "/v1/site/destroy",
        "POST",
    ),
    _documented(
        "site:impact",
        _OPERATOR_READS,
        "Show which nodes, pods and promises an outage of a part of the site would touch.",
        "/v1/site/impact",
    ),
    _documented(
        "site:certificates",
        _OPERATOR_READS,
        "List certificates of the site's agents, when they end, and whether they are renewed.",
        "/v1/site/certificates",
    ),
    _documented(
        "links:show",
        _OPERATOR_READS,
        "Show which pods are on a link, and which share links with a pod.",
        "/v1/links",
    ),
    _documented(
        "nodes:bandwidth",
        _OPERATOR_READS,
        "Fetch the plan of a bandwidth test of nodes, and the signed certificate of a node's last one.",
        "/v1/nodes/{name}/bandwidth",
    ),
    _documented(
        "nodes:report_bandwidth",
        "rule:operator",
        "Report what was measured on nodes: where the site wants that, only nodes that passed are accepted.",
        "/v1/bandwidth",
        "POST",
    ),
    _documented("nodes:list", _OPERATOR_READS, "List nodes and who holds them.", "/v1/nodes"),
    _documented(
        "nodes:history",
        _OPERATOR_READS,
        "Read what happened to a node. Without details:show, pods, projects and users are hidden.",
        "/v1/nodes/{name}/history",
    ),
    _documented(
        "nodes:quarantine",
        "rule:operator",
        "Quarantine a node, or clear it.",
        "/v1/nodes/{name}/quarantine",
        "PUT",
    ),
    _documented(
        "nodes:hold",
        "rule:operator",
        "Hold a node until it is accepted: it isn't assigned.",
        "/v1/nodes/{name}/hold",
        "PUT",
    ),
    _documented(
        "nodes:clear_report",
        "rule:operator",
        "Clear projects' reports of a node: their orders may get it again.",
        "/v1/nodes/{name}/reports",
        "DELETE",
    ),
    _documented(
        "nodes:list_checks",
        _OPERATOR_READS,
        "Read what nodes' own checks reported.",
        "/v1/nodes/{name}/checks",
    ),
    _documented(
        "nodes:forget_checks",
        "rule:operator",
        "Forget what a node's own checks reported, failed ones included.",
        "/v1/nodes/{name}/checks",
        "DELETE",
    ),
    _documented(
        "nodes:judge_checks",
        "rule:operator",
        "Say whether a check that fails on many nodes is real: it keeps all of them from orders; or a mistake: none.",
        "/v1/checks/{name}/judgement",
        "PUT",
    ),
    _documented(
        "nodes:report_tests",
        "rule:operator",
        "Report what an outside test found on a held node, which ends the hold if all tests passed. A program that "
        "tests nodes needs this and nodes:list_holds only.",
        "/v1/nodes/{name}/tests/{test}",
        "POST",
    ),
    _documented(
        "nodes:check_tokens",
        "rule:operator",
        "Make and revoke the tokens with which nodes report their checks. Reports themselves need such a token, and no "
        "rule.",
        "/v1/nodes/{name}/check-tokens",
        "POST",
    ),
    _documented(
        "nodes:list_check_tokens",
        _OPERATOR_READS,
        "List the tokens with which nodes report their checks, without their secrets.",
        "/v1/check-tokens",
    ),
    _documented(
        "nodes:drain",
        "rule:operator",
        "Drain nodes: they get no new orders; or end that.",
        "/v1/drains",
        "POST",
    ),
    _documented(
        "nodes:accept",
        "rule:operator",
        "Accept a node that is held. A program that tests nodes needs this and nodes:list_holds only.",
        "/v1/nodes/{name}/hold",
        "DELETE",
    ),
    _documented(
        "nodes:accept_untested",
        "rule:operator",
        "Accept a node without a test that the site wants (without_test); required in addition to nodes:accept.",
        "/v1/nodes/{name}/hold",
        "DELETE",
    ),
    _documented(
        "nodes:list_holds",
        _OPERATOR_READS,
        "List the nodes that are held, by whom and for what.",
        "/v1/holds",
    ),
    _documented(
        "monitoring:read",
        _OPERATOR_READS,
        "Read what Prometheus reads: targets with their pods, and which pod is on which node. The token of weft serve "
        "--monitoring-token may, too.",
        "/v1/monitoring/targets",
    ),
    _documented("audit:check", _OPERATOR_READS, "Compare cloud and fabric with what pods own.", "/v1/audit"),
    _documented("audit:repair", "rule:operator", "Repair what is weft's.", "/v1/audit", "POST"),
    _documented("audit_log:list", _OPERATOR_READS, "Read who did what.", "/v1/audit-log"),
    _documented(
        "details:show",
        _OPERATOR_READS,
        "See adapters' ids, hosts' addresses and other projects' names in plans, pods, events and errors.",
        "/v1/pods/{name}",
    ),
)

CHANGES = frozenset(
    rule.name for rule in _RULES if rule.operations[0]["method"] != "GET" and rule.name != "pods:plan"
)
"""Rules for requests that change something."""


def list_rules() -> list[oslo.RuleDefault]:
    """All rules with their defaults: entry point `oslo.policy.policies`, for oslopolicy-sample-generator."""
    return [*_BASE, *_RULES]
