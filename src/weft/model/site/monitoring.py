"""What Prometheus reads of a site, and where Alertmanager sends alerts: for `weft site export --format prometheus`."""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from weft.model.base import Document
from weft.model.ids import Duration, Name
from weft.model.site.deployment import API_URL, Url
from weft.model.site.networks import ProjectId

JOB_NAME = r"^[a-z][a-z0-9_-]{0,30}$"
HOST_PORT = r"^([A-Za-z0-9][A-Za-z0-9.-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]):[1-9][0-9]{0,4}$"
METRICS_PATH = r"^/[!-~]{0,200}$"
HOOK_URL = r"^https?://[^\s/?#@{}%$]+(/([^\s?#@{}$%]|%[0-9A-Fa-f]{2})*)?$"
FOLDER = r"^/[A-Za-z0-9._/-]{1,200}$"
JobName = Annotated[str, StringConstraints(pattern=JOB_NAME)]


def _possible(value: str) -> str:
    """Raises ValueError if the port, or the address in brackets, is impossible."""
    host, _, port = value.rpartition(":")
    try:
        if host.startswith("["):
            IPv6Address(host.strip("[]"))
        if int(port) <= 65_535:
            return value
    except ValueError:
        pass
    raise ValueError("a host name or address, IPv6 in brackets, and a port of 1 to 65535")


HostPort = Annotated[str, StringConstraints(pattern=HOST_PORT), AfterValidator(_possible)]
"""A host name or address and a port. IPv6 addresses are in brackets."""
BaseUrl = Annotated[Url, StringConstraints(pattern=API_URL)]
"""A URL with nothing after host and port, and without credentials."""
HookUrl = Annotated[Url, StringConstraints(pattern=HOOK_URL)]
Folder = Annotated[str, StringConstraints(pattern=FOLDER)]
OWN_JOBS = frozenset(
    {
        "prometheus",
        "alertmanager",
        "weft",
        "weft-fabric-agents",
        "weft-info",
        "weft-switches",
        "weft-bmcs",
        "weft-vipu",
    }
)
"""Jobs that an export has of its own."""


class Exporter(Document):
    """A program on hosts or on pods' servers that offers metrics."""

    port: int = Field(ge=1, le=65_535, description="TCP port that it listens on.")
    path: str = Field(default="/metrics", pattern=METRICS_PATH, description="Path of its metrics.")
    scheme: Literal["http", "https"] = Field(default="http", description="http or https.")
    accelerators: bool = Field(
        default=False, description="Only where there are accelerators, such as for dcgm-exporter."
    )


def _node_exporter() -> dict[str, Exporter]:
    return {"node": Exporter(port=9100)}


class Monitoring(Document):
    """What Prometheus reads of the site, and where alerts go. Contains no secrets."""

    api: tuple[BaseUrl, ...] = Field(
        default=(),
        max_length=16,
        description="URLs of weft's API processes as Prometheus reaches them, each by itself and not through a load "
        "balancer, such as https://weft1.example:8787; all http or all https. Targets are read from each of them, "
        "switches' counters from the first one.",
    )
    prometheus: HostPort = Field(
        default="localhost:9090", description="Where Prometheus reads its own metrics."
    )
    network: Name | None = Field(
        default=None,
        description="Network of the site on which exporters of hosts listen. Default: the first one with the role "
        "management, infrastructure, internal-api or provisioning on which the host has an interface.",
    )
    hosts: dict[JobName, Exporter] = Field(
        default_factory=_node_exporter,
        max_length=16,
        description="Job -> exporter on hosts that aren't bare-metal machines. Default: `node` at port 9100.",
    )
    pods: dict[JobName, Exporter] = Field(
        default_factory=dict[str, Exporter],
        max_length=16,
        description="Job -> exporter on pods' servers, such as `pod-node` and `pod-dcgm`. Tenants may put anything "
        "there, so what is read is bounded. None by default.",
    )
    bmc_exporter: HostPort | None = Field(
        default=None,
        description="Exporter that reads BMCs by `?target=`, such as redfish_exporter or ipmi_exporter. Default: BMCs "
        "aren't read.",
    )
    bmc_path: str = Field(
        default="/redfish",
        pattern=METRICS_PATH,
        description="Its path; that of ipmi_exporter is /ipmi.",
    )
    alertmanagers: tuple[HostPort, ...] = Field(
        default=(), max_length=8, description="Alertmanagers that Prometheus sends alerts to."
    )
    page: HookUrl | None = Field(
        default=None,
        description="Webhook for alerts of severity `page`, which wake someone. Default: a receiver without "
        "integrations, to be completed in Alertmanager.",
    )
    ticket: HookUrl | None = Field(
        default=None, description="Webhook for alerts of severity `ticket`, which wait for working hours."
    )
    projects: dict[ProjectId, HookUrl] = Field(
        default_factory=dict[str, str],
        max_length=1000,
        description="Project -> webhook for alerts about its own pods' servers. They go to operators, too. None by "
        "default: no tenant gets alerts.",
    )
    folder: Folder = Field(
        default="/etc/prometheus/weft",
        description="Folder on Prometheus' host with the files that aren't exported: `token` (of weft serve "
        "--monitoring-token), `ca.pem` (of the API, if it isn't one of the host's own), `agents-ca.pem`, "
        "`prometheus.pem` and `prometheus.key` (for fabric agents).",
    )
    ca: bool = Field(
        default=False, description="Whether the API's certificate is verified by `ca.pem` of `folder`."
    )
    runbooks: HookUrl = Field(
        default="https://weft.example/docs",
        description="Where weft's documentation is published: the beginning of alerts' `runbook_url`.",
    )
    backup_age: Duration = Field(
        default="26h", description="An older last backup is an alert. There is none without any backup."
    )
    syslog: HostPort | None = Field(
        default=None,
        description="Where BMCs and IPU-Gateways send their logs, which `weft site export` configures rsyslog for: the "
        "address and port that it listens on.",
    )

    @model_validator(mode="after")
    def _one_scheme(self) -> Self:
        if len({urlsplit(url).scheme for url in self.api}) > 1:
            raise ValueError("api: URLs that are all http or all https: they are one job of Prometheus'")
        return self

    @model_validator(mode="after")
    def _jobs_differ(self) -> Self:
        hosts, pods = self.hosts.keys(), self.pods.keys()
        if taken := sorted((hosts & pods) | (OWN_JOBS & (hosts | pods))):
            raise ValueError(f"jobs with names of their own; {taken[0]} is used twice")
        return self
