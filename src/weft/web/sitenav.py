"""The operators' pages, and the rule of the policy that each needs; links are shown to those who may follow them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import quote

DETAILS = "details:show"
"""Without it, verbs of operators answer nothing."""


@dataclass(frozen=True, slots=True)
class SitePage:
    """A page about the whole site.

    Attributes:
        rule: of the API's request whose answer it shows.
        group: its group in the menu.
    """

    path: str
    label: str
    rule: str
    group: str = ""


OWN_PAGES = (
    SitePage("/events", "Events", "events:list"),
    SitePage("/networks", "Networks", "networks:list"),
    SitePage("/webhooks", "Webhooks", "webhooks:list"),
)
"""Pages of the caller's own project, beside those that everyone has."""
PAGES = (
    SitePage("/site/alarms", "Alarms", "pods:list_all_projects", "Pods"),
    SitePage("/site/pods", "All pods", "pods:list_all_projects", "Pods"),
    SitePage("/site/queue", "Queue", "pods:list_all_projects", "Pods"),
    SitePage("/site/capacity", "Capacity over time", "nodes:list", "Pods"),
    SitePage("/site/reservations", "Reservations", "reservations:list", "Pods"),
    SitePage("/site/nodes", "Nodes", "nodes:list", "Nodes"),
    SitePage("/site/health", "Health", "nodes:list", "Nodes"),
    SitePage("/site/picture", "Picture", "nodes:list", "Nodes"),
    SitePage("/site/stops", "Holds and drains", "nodes:list_holds", "Nodes"),
    SitePage("/site/parts", "Parts", "nodes:history", "Nodes"),
    SitePage("/site/check-tokens", "Check tokens", "nodes:list_check_tokens", "Nodes"),
    SitePage("/site/fabrics", "Fabrics", "site:show", "Site"),
    SitePage("/site/links", "Links", "links:show", "Site"),
    SitePage("/site/resources", "Resources", "site:plan", "Site"),
    SitePage("/site/file", "Site file", "site:activate", "Site"),
    SitePage("/site/audit", "Audit", "audit:check", "Records"),
    SitePage("/site/receipts", "Receipts", "pods:list_all_projects", "Records"),
    SitePage("/site/log", "Audit log", "audit_log:list", "Records"),
)
CHANGES = (
    "nodes:hold",
    "nodes:accept",
    "nodes:accept_untested",
    "nodes:clear_report",
    "nodes:forget_checks",
    "nodes:judge_checks",
    "nodes:check_tokens",
    "nodes:drain",
    "nodes:quarantine",
    "audit:repair",
    "reservations:change",
    "site:apply",
    "site:destroy",
)
"""Rules of what can be done on these pages."""
READS = ("networks:list_all_projects", "nodes:bandwidth")
"""Rules of what else these pages show."""
SITE_RULES = (*READS, *(page.rule for page in PAGES), *CHANGES, DETAILS)


OWN_RULES = tuple(page.rule for page in OWN_PAGES)


def own_pages(allowed: Collection[str]) -> list[SitePage]:
    """The pages of a project for someone who may do this there."""
    return [page for page in OWN_PAGES if page.rule in allowed]


def site_menu(allowed: Collection[str]) -> dict[str, list[SitePage]]:
    """The pages for someone who may do this, by group."""
    if DETAILS not in allowed:
        return {}
    found = (page for page in PAGES if page.rule in allowed)
    return {name: [*pages] for name, pages in groupby(found, lambda page: page.group)}


def node_path(name: str) -> str:
    """The page of a node, below the console."""
    return f"/site/nodes/{quote(name, safe='')}"
