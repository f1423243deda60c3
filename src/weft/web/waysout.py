"""Ways out of what a code says: the commands that its section of docs/problems names, as pages of the console."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.web.problems import verbs_of


@dataclass(frozen=True, slots=True)
class Way:
    """A page that does what a command does.

    Attributes:
        path: below the console, with `{pod}` or `{node}` where it is about one.
        rule: of the policy, that a caller needs; empty: all who see the page may follow it.
        effect: what following it leads to.
    """

    label: str
    path: str
    rule: str
    effect: str


WAYS = {
    "pod apply": Way("Change the order…", "/pods/{pod}/change", "pods:change", "shows the difference first"),
    "pod bandwidth": Way("Bandwidth test", "/pods/{pod}/bandwidth", "", "the last certificate names causes"),
    "pod extend": Way("Extend the lease…", "/pods/{pod}/extend", "pods:extend", "it ends later"),
    "pod reboot": Way("Reboot a server…", "/pods/{pod}/servers/act", "pods:operate", "the others go on"),
    "pod console": Way(
        "Open a console…",
        "/pods/{pod}/servers/console",
        "pods:console",
        "of a server's screen or serial port",
    ),
    "pod links": Way("Links", "/pods/{pod}/links", "", "its adapters, leaf switches and cables"),
    "pod receipt": Way("Receipt", "/pods/{pod}/receipt", "", "what was read back"),
    "pod release": Way(
        "Release this pod…",
        "/pods/{pod}/release",
        "pods:release",
        "says first what is lost; a new order follows",
    ),
    "pod replace": Way(
        "Replace a node…",
        "/pods/{pod}/replace",
        "pods:replace",
        "another one takes its place; the other servers go on",
    ),
    "pod report": Way(
        "Report a node…", "/pods/{pod}/report", "pods:report", "no further order of the project gets it"
    ),
    "pod retry": Way(
        "Retry…", "/pods/{pod}/retry", "pods:retry", "goes on where it failed, once the cause is gone"
    ),
    "pod abandon": Way(
        "Abandon the release…",
        "/pods/{pod}/abandon",
        "pods:abandon",
        "ends it though not everything is seen gone; the receipt is never clean",
    ),
    "audit --repair": Way(
        "Audit…",
        "/site/audit?run=true&pod={pod}",
        "audit:check",
        "compares cloud and fabric with what the pod owns, and repairs findings one by one",
    ),
    "audit --accept": Way("Audit…", "/site/audit", "audit:repair", "accepts a restored database"),
    "fabric status": Way("Fabrics", "/site/fabrics?now=true", "site:show", "asks their managers now"),
    "fabric compare": Way(
        "Fabrics", "/site/fabrics", "site:show", "cables of the site beside those that are discovered"
    ),
    "site resources": Way("Resources", "/site/resources", "site:plan", "what was applied of the site"),
    "site apply": Way(
        "Plan…",
        "/site/resources/plan",
        "site:plan",
        "what the site needs in its clouds; applies what was shown",
    ),
    "site who-disturbs": Way(
        "Who disturbs it", "/site/pods/{pod}/disturbers", "links:show", "pods on its links, and congestion"
    ),
    "link show": Way("Links", "/site/links", "links:show", "which pods are on a cable of a fabric"),
    "site activate": Way("Site file…", "/site/file", "site:activate", "shows the difference first"),
    "site show": Way("Fabrics", "/site/fabrics?now=true", "site:show", "asks their managers now"),
    "reservation list": Way("Reservations", "/site/reservations", "reservations:list", "when, and for whom"),
    "reservation show": Way("Reservations", "/site/reservations", "reservations:list", "when, and for whom"),
    "reservation delete": Way(
        "Reservations", "/site/reservations", "reservations:list", "each can be deleted there"
    ),
    "node list": Way("Nodes", "/site/nodes", "nodes:list", "who has them, and what keeps them from orders"),
    "node holds": Way("Holds and drains", "/site/stops", "nodes:list_holds", "what nodes are held for"),
    "node drains": Way("Holds and drains", "/site/stops", "nodes:list_holds", "which nodes are drained"),
    "node reports": Way("Nodes", "/site/nodes", "nodes:list", "the page of each has its reports"),
    "audit-log --action": Way("Audit log", "/site/log", "audit_log:list", "who did what"),
    "node show": Way("Node", "/site/nodes/{node}", "nodes:list", "what keeps it from orders"),
    "node clear": Way(
        "Clear the quarantine…",
        "/site/nodes/{node}/clear",
        "nodes:quarantine",
        "new orders may get the node again",
    ),
    "node quarantine": Way(
        "Quarantine…",
        "/site/nodes/{node}/quarantine",
        "nodes:quarantine",
        "out of service until an operator clears it",
    ),
    "node accept": Way("Accept…", "/site/nodes/{node}/accept", "nodes:accept", "ends its holds"),
    "node hold": Way(
        "Hold…", "/site/nodes/{node}/hold", "nodes:hold", "no new orders until an operator accepts it"
    ),
    "node drain": Way(
        "Drain…", "/site/drain?target=node:{node}", "nodes:drain", "no new orders; its project learns of it"
    ),
    "node undrain": Way(
        "End the drain…",
        "/site/undrain?target={node}",
        "nodes:drain",
        "new orders may get the node again",
    ),
    "node clear-report": Way(
        "Clear its reports…",
        "/site/nodes/{node}/clear-report",
        "nodes:clear_report",
        "orders of these projects may get the node again",
    ),
    "node bandwidth": Way(
        "Bandwidth test", "/site/nodes/{node}/bandwidth", "nodes:bandwidth", "the last certificate"
    ),
    "node check-tokens": Way(
        "Check tokens",
        "/site/check-tokens",
        "nodes:list_check_tokens",
        "with which nodes report their checks",
    ),
    "node revoke-check-token": Way(
        "Check tokens", "/site/check-tokens", "nodes:list_check_tokens", "each can be revoked there"
    ),
    "part history": Way("Parts", "/site/parts", "nodes:history", "where a part was, by its serial number"),
    "webhook list": Way("Webhooks", "/webhooks", "webhooks:list", "whether they are delivered"),
    "webhook show": Way("Webhooks", "/webhooks", "webhooks:list", "whether they are delivered"),
    "webhook enable": Way("Webhooks", "/webhooks", "webhooks:list", "the page of each enables it"),
    "webhook test": Way("Webhooks", "/webhooks", "webhooks:list", "the page of each sends a test message"),
    "events --follow": Way("Events", "/events", "events:list", "the page follows"),
    "pod create": Way("Order a pod", "/order", "", "with its plan beside it"),
    "pod plan": Way("Order a pod", "/order", "", "with its plan beside it"),
    "pod list": Way("Pods", "/", "", "of the project"),
    "pod show": Way("Pod", "/pods/{pod}", "", "follows it"),
    "pod servers": Way("Pod", "/pods/{pod}", "", "its servers with their addresses"),
    "pod wait": Way("Pod", "/pods/{pod}", "", "follows it"),
}
"""Pages by the command that they stand for."""
ELSEWHERE = {
    "pod verify-bandwidth": "runs over SSH, where the key is",
    "pod bandwidth-plan": "writes a file for weft-check",
    "node verify-bandwidth": "runs over SSH, where the key is",
    "pod topology": "writes a file for schedulers",
    "site check": "needs the site's file",
    "fabric-agent certs": "runs on the fabric's manager",
    "node checks": "the document of a node's own checks",
    "upgrade --finish": "asks the database as its owner, when the last process of the older version has ended",
}
"""Commands that have no page, and why."""


def ways_of_pod(pod: str, codes: Iterable[str], allowed: Iterable[str]) -> list[tuple[str, str, str]]:
    """Label, path and effect of each way out that the codes name and the caller may follow, without duplicates.

    Args:
        pod: its id.
        allowed: rules of the policy.
    """
    may = {*allowed, ""}
    here = f"/pods/{pod}"
    found: dict[str, tuple[str, str, str]] = {}
    for code in codes:
        for verb in verbs_of(code):
            way = WAYS.get(verb)
            if way is None or way.rule not in may or "{node}" in way.path:
                continue
            path = way.path.format(pod=pod)
            if path != here:
                found.setdefault(path, (way.label, path, way.effect))
    return list(found.values())
