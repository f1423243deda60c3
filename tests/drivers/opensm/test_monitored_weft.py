"""A real Prometheus with the files of `weft site export`, a weft with pods, and a fabric agent beside a real
manager.
"""

from __future__ import annotations

import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest

from tests.drivers.opensm.rigs import FABRIC, RealRig
from tests.engine import house as houses
from tests.helpers.certificates import own_certificate
from tests.helpers.doors import ORDER, DoorsHouse
from tests.helpers.prometheus import (
    Prometheus,
    alertmanager,
    checked,
    dashboard_expressions,
    free_ports,
    prometheus,
    until,
)
from weft.api.app import create_app
from weft.app.certificatemetrics import CertificateCollector, certificate_files
from weft.app.dashboards import dashboard_files
from weft.app.metrics import AccountCollector, StoreCollector
from weft.app.monitoringverbs import SwitchCollector
from weft.engine.audit.sweep import Sweeper
from weft.engine.backup.dump import note
from weft.engine.base.database import Database
from weft.engine.watch.fabrickeeper import FabricKeeper
from weft.model.order import Order
from weft.model.portcounters import PortCounters
from weft.model.site import Exporter, Interface, Monitoring, Site, SiteNetwork
from weft.planning.export.prometheus.files import prometheus_files
from weft.planning.site.monitoring import EXPORTER_PORT
from weft.ports.fabric import FabricDriver
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served

TOKEN = "a-token-of-monitoring-0123456789"
HOSTS = """# TYPE node_load1 gauge
node_load1 0.5
"""
POD = """# TYPE node_load1 gauge
node_load1 0.7
# TYPE weft_workers gauge
weft_workers 99
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",project="stolen",site="stolen",to="x"} 80
DCGM_FI_DEV_XID_ERRORS{gpu="0"} 79
DCGM_FI_DEV_ROW_REMAP_FAILURE{gpu="0"} 0
"""
"""Of a hostile pod's server: it exports weft's own series, and names another project."""
PLANTED = """vipu_agents{reachable="true"} 4
vipu_agents{reachable="false"} 0
vipu_ipus{cluster="c",use="free"} 16
vipu_ipus_unhealthy 0
weft_checks_suspended{check="ACS"} 0
weft_certificates_unrenewed{code="CERTIFICATE_KEY_MISSING"} 0
weft_backup_age_seconds{of="planted"} 1
"""
MACHINE = """# TYPE ipum_link_up gauge
ipum_link_up{machine="m1",port="p1"} 1
"""


def switches() -> str:
    """What weft exports of a switch, with the collector's names; each request increases the counters."""
    n = int(time.monotonic() * 1000)
    port = PortCounters("swp1", n, n, n, n, n, n, n, n, n, n, n)
    registry = CollectorRegistry()
    fabric = SimpleNamespace(port_counters=lambda: {"leaf01": [port]})
    registry.register(SwitchCollector({"eth": cast(FabricDriver, fabric)}))
    return generate_latest(registry).decode()


class _Page(BaseHTTPRequestHandler):
    """Serves the server's text and keeps what is posted."""

    server: _Stand  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._answer(f"{self.server.text}{self.server.more()}".encode())

    def do_POST(self) -> None:
        length = min(int(self.headers["content-length"]), 1 << 20)
        self.server.posted.append((self.path, json.loads(self.rfile.read(length))))
        self._answer(b"")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/plain; version=0.0.4")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


class _Stand(ThreadingHTTPServer):
    text = ""
    more: Callable[[], str] = staticmethod(lambda: "")
    daemon_threads = True

    def __init__(self, address: str, port: int = 0, text: str = "") -> None:
        self.posted: list[tuple[str, dict[str, Any]]] = []
        super().__init__((address, port), _Page)
        self.text = text


@contextmanager
def stand(address: str = "127.0.0.1", port: int = 0, text: str = "") -> Generator[_Stand]:
    """A stand-in of an exporter or of a webhook's receiver."""
    server = _Stand(address, port, text)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def monitored(site: Site, monitoring: Monitoring) -> Site:
    """The site with hosts' exporters on loopback, and pods' servers on addresses there."""
    network = {
        "physical_network": "p1",
        "subnets": {
            "mgmt": {"role": "management", "addresses": "127.0.0.0/16", "dhcp": False},
            "bmc": {"role": "bmc", "addresses": "10.8.0.0/16", "dhcp": False},
        },
    }
    interfaces = tuple(
        Interface.model_validate(
            {
                "device": n.name,
                "name": "m",
                "network": "hosts",
                "mac": f"02:00:00:00:00:{i:02x}",
                "address": "127.0.0.1",
            }
        )
        for i, n in enumerate(site.nodes)
    )
    [(name, cloud)] = site.clouds.items()
    management = cloud.management.model_copy(update={"addresses": "127.64.0.0/16"})
    cloud = cloud.model_validate({**cloud.model_dump(), "management": management.model_dump()})
    return site.model_copy(
        update={
            "clouds": {name: cloud},
            "networks": {"hosts": SiteNetwork.model_validate(network)},
            "interfaces": interfaces,
            "monitoring": monitoring,
        }
    )


@pytest.fixture
def doors(
    real: RealRig, database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DoorsHouse]:
    """A weft whose site is that of the real fabric."""
    monkeypatch.setattr(houses, "small_site", lambda: real.site)
    house = DoorsHouse(database, database_url)
    yield house
    house.close()


def lived(house: DoorsHouse) -> None:
    """A worker, a sweep, a look at the fabrics and a backup have run."""
    house.store.worker_lives("w1")
    Sweeper(house.store, house.keeper.world, house.keeper.site, house.time).run_due()
    FabricKeeper(house.database, house.keeper.world).tend()
    note(house.database.url, house.clock.now() - timedelta(hours=1))


def quickly(folder: Path) -> None:
    """The exported files with intervals of a second and without waiting."""
    text = (folder / "prometheus.yml").read_text()
    text = re.sub(r"(scrape_interval|refresh_interval|evaluation_interval): .*", r"\1: 1s", text)
    text = re.sub(r"scrape_timeout: .*", "scrape_timeout: 1s", text)
    document = yaml.safe_load(text)
    document["global"]["scrape_timeout"] = "1s"
    (folder / "prometheus.yml").write_text(yaml.safe_dump(document))
    rules = (folder / "rules/weft.yml").read_text()
    (folder / "rules/weft.yml").write_text(
        re.sub(r"interval: .*", "interval: 1s", re.sub(r"for: .*", "for: 0s", rules))
    )
    alerts = (folder / "alertmanager.yml").read_text()
    (folder / "alertmanager.yml").write_text(re.sub(r"group_wait: .*", "group_wait: 1s", alerts))


def operands(expr: str) -> list[str]:
    """The expressions that an alert compares: these must have series whether it fires or not."""
    if inner := re.fullmatch(r"absent\((.*) == 1\)", expr):
        return [inner[1]]
    parts = re.split(r" unless on \(\) | and changes", expr)
    return [re.sub(r" *(==|<|>) [\d.]+", "", part) for part in parts if not part.startswith("(")]


@pytest.mark.fabric
def test_real_prometheus_reads_a_real_weft(real: RealRig, doors: DoorsHouse, tmp_path: Path) -> None:
    """Every target is up, every expression has series, pods' servers come and go, an alert reaches its webhook, and
    a hostile server changes no other's series.
    """
    certificate, _ = own_certificate(tmp_path)
    own = ExitStack()
    with own:
        hook = own.enter_context(stand())
        hosts = own.enter_context(stand(text=HOSTS))
        planted = own.enter_context(stand(text=PLANTED))
        planted.more = switches
        for machine in real.site.ipu_machines:
            own.enter_context(stand(str(machine.gw_address), EXPORTER_PORT, MACHINE))
        app = create_app(
            doors.service,
            FakeIdentity(),
            collectors=[
                StoreCollector(doors.store),
                AccountCollector(lambda: False),
                CertificateCollector(lambda: certificate_files(doors.store, str(certificate))),
            ],
            monitoring_token=TOKEN,
        )
        url = own.enter_context(served(app))
        secret = tmp_path / "secret"
        shutil.copytree(Path(real.site.fabrics[FABRIC].manager.ca or "").parent, secret)
        manager = real.site.fabrics[FABRIC].manager
        for name, source in (
            ("agents-ca.pem", manager.ca),
            ("prometheus.pem", manager.certificate),
            ("prometheus.key", manager.key),
        ):
            if Path(source or "").resolve() != (secret / name).resolve():
                shutil.copy(source or "", secret / name)
        (secret / "token").write_text(TOKEN)
        post = f"http://127.0.0.1:{hook.server_address[1]}"
        pod_port = free_ports(24000, 24400)
        monitoring = Monitoring(
            api=(url,),
            hosts={"node": Exporter(port=hosts.server_address[1])},
            pods={"pod-node": Exporter(port=pod_port)},
            page=f"{post}/page",
            ticket=f"{post}/ticket",
            bmc_exporter=f"127.0.0.1:{planted.server_address[1]}",
            projects={"team-a": f"{post}/team-a"},
            folder=str(secret),
        )
        site = monitored(real.site, monitoring)
        doors.store.activate_site(site, "test")
        doors.site = site
        lived(doors)
        folder = tmp_path / "export"
        for name, text in {**prometheus_files(site), **dashboard_files(site)}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        quickly(folder)
        alerts = own.enter_context(alertmanager(folder / "alertmanager.yml", tmp_path))
        document = yaml.safe_load((folder / "prometheus.yml").read_text())
        document["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [alerts]}]}]}
        document["scrape_configs"].append(
            {
                "job_name": "planted",
                "static_configs": [{"targets": [f"127.0.0.1:{planted.server_address[1]}"]}],
            }
        )
        (folder / "prometheus.yml").write_text(yaml.safe_dump(document))
        order = Order.model_validate(ORDER)
        with prometheus(folder / "prometheus.yml", tmp_path) as found:
            # its name isn't known before it listens
            for job in document["scrape_configs"]:
                if job["job_name"] == "prometheus":
                    job["static_configs"] = [{"targets": [found.url.removeprefix("http://")]}]
            (folder / "prometheus.yml").write_text(yaml.safe_dump(document))
            checked("promtool", "check", "config", folder / "prometheus.yml")
            assert found.client.post("/-/reload").status_code == 200
            pod = doors.ready(order)
            servers = doors.service.pods.show(doors.request(), str(pod.id)).servers
            for server in servers:
                own.enter_context(stand(server.management_address, pod_port, POD))
            _everything_is_up(found, len(site.nodes), {s.name for s in servers})
            _no_server_passes_for_weft(found, len(servers))
            _play(real, found, doors)
            _expressions(found, folder)
            _alerts_arrive(found, doors, hook)
            doors.service.pods.release(doors.request(), str(pod.id))
            until(
                lambda: not [t for t in found.targets() if t["labels"]["job"] == "pod-node"],
                why="the pod's servers are no targets any more",
            )


def _everything_is_up(found: Prometheus, hosts: int, servers: set[str]) -> None:
    def missing() -> str:
        by_job: dict[str, list[dict[str, Any]]] = {}
        for target in found.targets():
            by_job.setdefault(target["labels"]["job"], []).append(target)
        down = [
            f"{t['scrapeUrl']}: {t['lastError']}" for ts in by_job.values() for t in ts if t["health"] != "up"
        ]
        if {t["labels"].get("server") for t in by_job.get("pod-node", [])} != servers:
            down.append("pods' servers")
        if len(by_job.get("node", [])) != hosts:
            down.append("hosts")
        return "; ".join(down)

    last = ""

    def done() -> bool:
        nonlocal last
        last = missing()
        return not last

    try:
        until(done, 60)
    except AssertionError:
        raise AssertionError(last) from None
    [one] = [t for t in found.targets() if t["labels"].get("server") == min(servers)]
    assert one["labels"]["project"] == "team-a" and one["labels"]["pod"] == "train"
    assert {"node", "rack", "leaf"} <= one["labels"].keys()
    ends = {
        s["metric"].get("agent"): s
        for s in found.query('weft_certificate_not_after_seconds{certificate="agent"}')
    }
    assert len(ends) == 2, "each agent exports when its certificate ends"


def _no_server_passes_for_weft(found: Prometheus, servers: int) -> None:
    assert [s["value"][1] for s in found.query("weft_workers")] == ["1"]
    shown = until(lambda: found.query("DCGM_FI_DEV_GPU_UTIL"))
    assert len(shown) == servers
    assert {s["metric"]["project"] for s in shown} == {"team-a"}
    assert {s["metric"]["exported_project"] for s in shown} == {"stolen"}
    assert not [s for s in shown if {"site", "to"} & s["metric"].keys()], (
        "alerts aren't routed by what the server says"
    )


def _play(real: RealRig, found: Prometheus, doors: DoorsHouse) -> None:
    """Traffic on a port, often enough for rates."""
    node = next(n for n in real.site.nodes if n.role == "compute")
    end = f"{node.name}/{node.hcas[0].name}"

    def played() -> bool:
        real.faults.count_traffic(end, int(time.time()) * 10**6, int(time.time()) * 10**5)
        doors.store.worker_lives("w1")
        time.sleep(1)
        return any(float(s["value"][1]) > 0 for s in found.query("weft:port_transmit_bytes:rate5m"))

    until(played, 90, "no port has a rate")


def _expressions(found: Prometheus, folder: Path) -> None:
    """The expressions of each dashboard, recording rule and alert."""
    rules = yaml.safe_load((folder / "rules/weft.yml").read_text())
    asked = dashboard_expressions(folder / "dashboards")
    for group in rules["groups"]:
        for rule in group["rules"]:
            parts = operands(rule["expr"]) if "alert" in rule else [rule["expr"]]
            asked |= {f"{rule.get('alert') or rule['record']} {i}": e for i, e in enumerate(parts)}
    assert len(asked) > 80
    empty = dict(asked)

    def all_found() -> bool:
        for name in list(empty):
            if found.query(empty[name]):
                del empty[name]
        return not empty

    try:
        until(all_found, 40)
    except AssertionError:
        raise AssertionError("\n".join(f"{name}: {expr}" for name, expr in empty.items())) from None


def _alerts_arrive(found: Prometheus, doors: DoorsHouse, hook: _Stand) -> None:
    """A quarantined node is a ticket, and a silent server's project gets its alert."""
    doors.store.quarantine(doors.site.nodes[-1].name, "a test", "olga")

    def posted(path: str, alert: str) -> list[dict[str, Any]]:
        bodies = [body for at, body in hook.posted if at == path]
        return [a for body in bodies for a in body["alerts"] if a["labels"]["alertname"] == alert]

    [one, *_] = until(lambda: posted("/ticket", "WeftNodesQuarantined"), 60, "no alert arrived")
    assert one["annotations"]["runbook_url"].endswith("/alerts#weftnodesquarantined")
    assert one["annotations"]["summary"] == "1 nodes are in quarantine until an operator clears them."
    assert one["labels"]["site"] == "lab" and one["labels"]["severity"] == "ticket"
    assert not posted("/team-a", "WeftNodesQuarantined")
    assert datetime.fromisoformat(one["startsAt"]) < datetime.now(UTC) + timedelta(minutes=1)
