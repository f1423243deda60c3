"""prometheus.yml of a site: what is scraped, and where targets come from."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from weft.model.site import Exporter, Monitoring, Site
from weft.planning.site.monitoring import BMCS, CONTROLLERS, META

RESERVED = "(weft|infiniband|vipu|ipum|prometheus|alertmanager|scrape|ALERTS)[_:].*|up|ALERTS"
"""Names of series that no exporter on a pod's server may offer."""
ROUTING = "site|fabric|switch|agent|severity|to|alertname"
"""Labels by which alerts are routed and grouped, which a pod's server doesn't choose."""
HARDWARE = f"{META}(node|role|rack|leaf|cloud|machine_type)"
OF_PODS = f"{META}(node|rack|leaf|cloud|project|pod|pod_id|server)"
Job = dict[str, Any]


def scraping(site: Site) -> dict[str, Any]:
    """prometheus.yml as a document."""
    one = site.monitoring
    document: dict[str, Any] = {
        "global": {
            "scrape_interval": "15s",
            "evaluation_interval": "15s",
            "external_labels": {"site": site.name},
        },
        "rule_files": ["rules/*.yml"],
    }
    if one.alertmanagers:
        document["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": list(one.alertmanagers)}]}]}
    document["scrape_configs"] = [*_own(one), *_agents(site), *_hosts(one), *_pods(one), *_others(site)]
    return document


def _own(one: Monitoring) -> list[Job]:
    """weft's API processes. Each offers the same info series; rules take one."""
    where = {"static_configs": _static(one)}
    secret = {"authorization": _secret(one)}
    base = {**_tls(one), "scheme": urlsplit(one.api[0]).scheme}
    return [
        {"job_name": "prometheus", "static_configs": [{"targets": [one.prometheus]}]},
        {"job_name": "weft", **base, **where},
        {
            "job_name": "weft-info",
            "scrape_interval": "60s",
            "metrics_path": "/v1/monitoring/info",
            **base,
            **secret,
            **where,
        },
    ]


def _static(one: Monitoring) -> list[dict[str, Any]]:
    return [{"targets": [urlsplit(url).netloc if _has_port(url) else _with_port(url) for url in one.api]}]


def _has_port(url: str) -> bool:
    return urlsplit(url).port is not None


def _with_port(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.netloc}:{443 if parts.scheme == 'https' else 80}"


def _tls(one: Monitoring) -> Job:
    return {"tls_config": {"ca_file": f"{one.folder}/ca.pem"}} if one.ca else {}


def _secret(one: Monitoring) -> Job:
    """The token with its type: Prometheus 2.42 doesn't add a type for service discovery, and sends no usable header."""
    return {"type": "Bearer", "credentials_file": f"{one.folder}/token"}


def _discovery(one: Monitoring, job: str) -> list[Job]:
    """Service discovery from every API process; Prometheus merges equal targets."""
    return [
        {
            "url": f"{url}/v1/monitoring/targets?job={job}",
            "refresh_interval": "60s",
            "authorization": _secret(one),
            **_tls(one),
        }
        for url in one.api
    ]


def _agents(site: Site) -> list[Job]:
    """One job for all fabrics: every agent by itself, with its fabric."""
    groups = [
        {
            "targets": [_netloc(agent.url)],
            "labels": {"fabric": name, "agent": agent.name},
        }
        for name, fabric in sorted(site.fabrics.items())
        for agent in fabric.manager.agents
    ]
    if not groups:
        return []
    folder = site.monitoring.folder
    files = {
        "ca_file": f"{folder}/agents-ca.pem",
        "cert_file": f"{folder}/prometheus.pem",
        "key_file": f"{folder}/prometheus.key",
    }
    return [
        {"job_name": "weft-fabric-agents", "scheme": "https", "tls_config": files, "static_configs": groups}
    ]


def _netloc(url: str) -> str:
    return urlsplit(url).netloc if _has_port(url) else _with_port(url)


def _exporter(one: Monitoring, job: str, exporter: Exporter) -> Job:
    return {
        "job_name": job,
        "scheme": exporter.scheme,
        "metrics_path": exporter.path,
        "http_sd_configs": _discovery(one, job),
    }


def _hosts(one: Monitoring) -> list[Job]:
    keep = [{"action": "labelmap", "regex": HARDWARE}]
    return [
        {**_exporter(one, job, exporter), "relabel_configs": keep}
        for job, exporter in sorted(one.hosts.items())
    ]


def _pods(one: Monitoring) -> list[Job]:
    """A tenant may answer anything: sizes are limited, redirects aren't followed, times and labels of its own don't
    count, and names of others' series are dropped."""
    limits = {
        "honor_labels": False,
        "honor_timestamps": False,
        "follow_redirects": False,
        "enable_http2": False,
        "scrape_interval": "30s",
        "scrape_timeout": "10s",
        "sample_limit": 5000,
        "body_size_limit": "8MB",
        "label_limit": 40,
        "label_name_length_limit": 100,
        "label_value_length_limit": 400,
    }
    return [
        {
            **_exporter(one, job, exporter),
            **limits,
            "relabel_configs": [{"action": "labelmap", "regex": OF_PODS}],
            "metric_relabel_configs": [
                {"regex": ROUTING, "action": "labeldrop"},
                {"source_labels": ["__name__"], "regex": RESERVED, "action": "drop"},
            ],
        }
        for job, exporter in sorted(one.pods.items())
    ]


def _others(site: Site) -> list[Job]:
    """BMCs by their exporter, switches by weft, V-IPU's controllers and machines themselves."""
    one = site.monitoring
    keep = {"action": "labelmap", "regex": HARDWARE}
    found: list[Job] = []
    if one.bmc_exporter is not None:
        found.append(
            {
                "job_name": BMCS,
                "scrape_interval": "60s",
                "scrape_timeout": "50s",
                "metrics_path": one.bmc_path,
                "http_sd_configs": _discovery(one, BMCS),
                "relabel_configs": [
                    {"source_labels": ["__address__"], "target_label": "__param_target"},
                    {"source_labels": ["__address__"], "target_label": "instance"},
                    {"target_label": "__address__", "replacement": one.bmc_exporter},
                    keep,
                ],
            }
        )
    if has_counted_switches(site):
        found.append(
            {
                "job_name": "weft-switches",
                "scrape_interval": "60s",
                "scrape_timeout": "50s",
                "metrics_path": "/v1/monitoring/switches",
                "scheme": urlsplit(one.api[0]).scheme,
                **_tls(one),
                "authorization": _secret(one),
                "static_configs": [{"targets": _static(one)[0]["targets"][:1]}],
            }
        )
    if site.ipu_machines:
        found.append(
            {
                "job_name": CONTROLLERS,
                "http_sd_configs": _discovery(one, CONTROLLERS),
                "relabel_configs": [{"action": "labelmap", "regex": f"{META}(node|rack|project|pod|pod_id)"}],
            }
        )
    return found


def has_counted_switches(site: Site) -> bool:
    """Whether the site has switches whose counters weft reads."""
    return any(
        access.interface != "generic"
        for fabric in site.fabrics.values()
        if fabric.manager.switching is not None
        for access in fabric.manager.switching.switches
    )
