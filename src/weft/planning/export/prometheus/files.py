"""The files: Prometheus' configuration and rules, Alertmanager's configuration, and what they need besides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from weft.model.errors import InputError
from weft.model.ids import span
from weft.model.site import Site
from weft.planning.export.prometheus.rules import RECORDINGS, Alert, Recording, alerts
from weft.planning.export.prometheus.scraping import has_counted_switches, scraping
from weft.planning.export.prometheus.syslog import syslog_files
from weft.planning.export.text import head, yaml_file

NOTHING = "weft-none"
"""Name of a job that doesn't exist, for expressions that match none."""
RUNBOOKS = "alerts"


def prometheus_files(site: Site) -> dict[str, str]:
    """Path -> text. Raises `InputError` if the site has no URL of weft's API."""
    if not site.monitoring.api:
        raise InputError(
            "monitoring.api", None, "URLs of weft's API processes, which Prometheus reads targets from"
        )
    return {
        "prometheus.yml": yaml_file(site.name, scraping(site)),
        "rules/weft.yml": yaml_file(site.name, rules(site)),
        "alertmanager.yml": yaml_file(site.name, alertmanager(site)),
        "README.md": readme(site),
        **syslog_files(site),
    }


def rules(site: Site) -> dict[str, Any]:
    """Recording rules, then alerts by group."""
    groups: list[dict[str, Any]] = [
        {"name": "weft-recordings", "rules": [_recording(r) for r in RECORDINGS if not r.slow]},
        {
            "name": "weft-slow-recordings",
            "interval": "1m",
            "rules": [_recording(r) for r in RECORDINGS if r.slow],
        },
    ]
    made = site_alerts(site)
    for name in dict.fromkeys(one.group for one in made):
        mine = [_rule(site, one) for one in made if one.group == name]
        groups.append({"name": f"weft-{name}", "rules": mine})
    return {"groups": groups}


def site_alerts(site: Site) -> tuple[Alert, ...]:
    """The alerts with the site's own limits and jobs."""
    one = site.monitoring
    return alerts(int(span(one.backup_age).total_seconds()), jobs(one.hosts), jobs(one.pods))


def jobs(names: Mapping[str, object]) -> str:
    """A regular expression that matches these jobs, or none."""
    return "|".join(re.escape(name).replace("\\-", "-") for name in sorted(names)) or NOTHING


def _recording(one: Recording) -> dict[str, Any]:
    return {"record": one.record, "expr": one.expr}


def _rule(site: Site, one: Alert) -> dict[str, Any]:
    labels = {"severity": one.severity, "to": one.to}
    url = f"{site.monitoring.runbooks.rstrip('/')}/{RUNBOOKS}#{one.name.lower()}"
    return {
        "alert": one.name,
        "expr": one.expr,
        "for": one.lasts,
        "labels": labels,
        "annotations": {"summary": one.summary, "runbook_url": url},
    }


def alertmanager(site: Site) -> dict[str, Any]:
    """Routes by severity; alerts of their own servers to projects that the site names, and to operators as well."""
    one = site.monitoring
    routes: list[dict[str, Any]] = [
        {
            "receiver": f"weft-project-{project}",
            "matchers": ['to="projects"', f'project="{project}"'],
            "group_by": ["alertname", "project", "pod"],
            "continue": True,
        }
        for project in sorted(one.projects)
    ]
    routes.append(
        {
            "receiver": "weft-page",
            "matchers": ['severity="page"'],
            "group_wait": "10s",
            "repeat_interval": "1h",
        }
    )
    receivers = [
        _receiver("weft-page", one.page),
        _receiver("weft-ticket", one.ticket),
        *(_receiver(f"weft-project-{project}", url) for project, url in sorted(one.projects.items())),
    ]
    return {
        "route": {
            "receiver": "weft-ticket",
            "group_by": ["site", "alertname", "fabric"],
            "group_wait": "30s",
            "group_interval": "5m",
            "repeat_interval": "12h",
            "routes": routes,
        },
        "inhibit_rules": _inhibitions(),
        "receivers": receivers,
    }


def _receiver(name: str, url: str | None) -> dict[str, Any]:
    """A receiver with a webhook; without a URL, one without integrations."""
    return {"name": name, **({"webhook_configs": [{"url": url}]} if url else {})}


def _inhibitions() -> list[dict[str, Any]]:
    """Inhibition rules: alerts that follow from a worse one aren't sent while that lasts."""

    def rule(source: str, targets: Sequence[str], equal: Sequence[str]) -> dict[str, Any]:
        return {
            "source_matchers": [f'alertname="{source}"'],
            "target_matchers": [f'alertname=~"{"|".join(targets)}"'],
            "equal": list(equal),
        }

    return [
        rule("WeftDown", ["WeftProcessDown", "WeftTargetsUnread"], ["site"]),
        rule("WeftDatabaseDown", ["WeftApiErrors", "WeftTargetsUnread"], ["site"]),
        rule("WeftChangesStopped", ["WeftTargetsUnread"], ["site"]),
        rule(
            "WeftFabricDown",
            ["WeftFabricUnread", "WeftFabricProblems", "WeftFabricAgentSilent"],
            ["site", "fabric"],
        ),
        rule("WeftCertificateEndsSoon", ["WeftCertificateEnds"], ["site", "certificate", "fabric", "agent"]),
    ]


def readme(site: Site) -> str:
    """README.md: which file belongs where, and which files aren't exported."""
    one = site.monitoring
    secrets = [
        f"- `{one.folder}/token`: the token of `weft serve --monitoring-token`, readable by Prometheus alone"
    ]
    if one.ca:
        secrets.append(f"- `{one.folder}/ca.pem`: the CA of the API's certificate")
    if any(fabric.manager.agents for fabric in site.fabrics.values()):
        secrets.append(
            f"- `{one.folder}/agents-ca.pem`, `prometheus.pem`, `prometheus.key`: of `weft fabric-agent certs "
            "--dir DIR --agent … --client prometheus`; name `prometheus` in each agent's `tls.scrapers`"
        )
    switches = (
        "\n- Counters of Ethernet switches: weft asks the switches (job `weft-switches`)."
        if has_counted_switches(site)
        else ""
    )
    projects = ", ".join(sorted(one.projects)) or "none"
    return f"""<!-- {head(site.name).removeprefix("# ").strip()} -->
# Monitoring of site {site.name}

`prometheus.yml` and `rules/` are Prometheus' (2.42 or later), `alertmanager.yml` is Alertmanager's (0.25 or later),
`dashboards/` are Grafana's (11.6 or later, as provisioned files or imported). Check them with

    promtool check config prometheus.yml
    amtool check-config alertmanager.yml

## For whom
- Operators: everything here. Prometheus sees all projects: give no tenant access to it.
- Projects: alerts about their own servers alone, by webhook: {projects}.
- Severity `page` wakes someone, `ticket` waits for working hours. Receivers without a
  webhook are to be completed.{switches}

## Files that aren't exported
{chr(10).join(secrets)}
"""
