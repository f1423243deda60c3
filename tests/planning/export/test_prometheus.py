"""`weft site export --format prometheus`, checked by Debian's promtool and amtool."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tests.helpers.certificates import own_certificate
from tests.helpers.paths import DOCS, EXAMPLES
from tests.helpers.prometheus import checked, dashboard_expressions, free_ports, programs, running, until
from tests.planning.export.prometheus_cases import CASES, FURTHER
from weft.app.siteexport import export_site
from weft.app.sitefile import load_site
from weft.cli.main import main
from weft.model.errors import InputError
from weft.model.site import Exporter, Monitoring, Site
from weft.model.site.fabrics import FabricAgent
from weft.planning.export.prometheus.files import prometheus_files, site_alerts
from weft.planning.export.prometheus.panels import BOARDS
from weft.planning.export.prometheus.rules import RECORDINGS
from weft.planning.export.prometheus.syslog import LOGS, TABLE

HOSTILE = "weft_up|weft_workers|infiniband_ports_unread|up|weft:port_wait:ratio5m|ALERTS|vipu_agents|ALERTS_FOR_STATE"


def monitored(name: str, folder: Path) -> Site:
    """An example's site with every field of `monitoring`, and the files that aren't exported."""
    site = load_site(EXAMPLES / f"sites/{name}/site.yaml")
    folder.mkdir(exist_ok=True)
    certificate, key = own_certificate(folder)
    (folder / "token").write_text("x" * 32)
    for file in ("ca.pem", "agents-ca.pem", "prometheus.pem"):
        (folder / file).write_bytes(certificate.read_bytes())
    (folder / "prometheus.key").write_bytes(key.read_bytes())
    monitoring = Monitoring(
        api=("https://weft1.example:8787", "https://weft2.example"),
        pods={"pod-node": Exporter(port=9100), "pod-dcgm": Exporter(port=9400, accelerators=True)},
        bmc_exporter="bmcs.example:9610",
        alertmanagers=("127.0.0.1:9093",),
        page="http://127.0.0.1:1/page",
        projects={"p1": "http://127.0.0.1:1/p1"},
        folder=str(folder),
        ca=True,
    )
    return site.model_copy(update={"monitoring": monitoring})


def written(site: Site, into: Path) -> Path:
    for name, text in prometheus_files(site).items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        (into / name).write_text(text)
    return into


@pytest.mark.parametrize("name", ["small", "roce", "ipupod64", "rdg"])
def test_checkers_accept_the_files_of_each_example(name: str, tmp_path: Path) -> None:
    folder = written(monitored(name, tmp_path / "secret"), tmp_path / "out")
    assert "SUCCESS" in checked("promtool", "check", "config", folder / "prometheus.yml")
    rules = checked("promtool", "check", "rules", folder / "rules/weft.yml")
    assert f"{len(CASES) + len(RECORDINGS)} rules found" in rules
    assert "SUCCESS" in checked("amtool", "check-config", folder / "alertmanager.yml")


def test_checkers_find_planted_mistakes(tmp_path: Path) -> None:
    """A wrong expression, a missing file, an unknown receiver."""
    folder = written(monitored("small", tmp_path / "secret"), tmp_path / "out")
    for file, old, new, checker in (
        ("rules/weft.yml", "max(weft_up)", "max(weft_up", ("promtool", "check", "rules")),
        ("prometheus.yml", "/token", "/nosuch", ("promtool", "check", "config")),
        ("alertmanager.yml", "receiver: weft-page", "receiver: nosuch", ("amtool", "check-config")),
    ):
        text = (folder / file).read_text()
        assert old in text
        (folder / file).write_text(text.replace(old, new, 1))
        done = subprocess.run([*checker, folder / file], capture_output=True, check=False, timeout=300)
        assert done.returncode != 0, file
        (folder / file).write_text(text)


def recorded_for(expression: str, records: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The recording rules that an expression needs, directly or not, in order of evaluation."""
    found: dict[str, dict[str, Any]] = {}
    for name in re.findall(r"weft:\w+(?::\w+)?", expression):
        found |= {one["record"]: one for one in recorded_for(records[name]["expr"], records)} | {
            name: records[name]
        }
    return [*found.values()]


def test_each_alert_fires_for_its_series_and_not_for_others(tmp_path: Path) -> None:
    site = monitored("small", tmp_path / "secret")
    folder = written(site, tmp_path / "out")
    known = {one.name: one for one in site_alerts(site)}
    assert known.keys() == CASES.keys(), "every alert has a case"
    rules = yaml.safe_load((folder / "rules/weft.yml").read_text())
    by_name = {r["alert"]: r for g in rules["groups"] for r in g["rules"] if "alert" in r}
    records = {r["record"]: r for g in rules["groups"] for r in g["rules"] if "record" in r}
    documents: dict[str, dict[str, Any]] = {}
    for name, case in (*CASES.items(), *FURTHER):
        one = documents.setdefault(
            name, {"rule_files": [f"{name}.rules.yml"], "evaluation_interval": "1m", "tests": []}
        )
        for series, expected in ((case.fires, True), (case.quiet, False)):
            rows = [{"series": key, "values": values} for key, values in series.items()]
            alert: dict[str, Any] = {"eval_time": case.at, "alertname": name, "exp_alerts": []}
            if expected:
                labels = {**by_name[name]["labels"], **case.labels}
                alert["exp_alerts"] = [{"exp_labels": labels}]
            one["tests"].append({"interval": "1m", "input_series": rows, "alert_rule_test": [alert]})
    for name, document in documents.items():
        # Only this alert and the rules that it needs, since promtool evaluates every rule at each minute. Without
        # annotations, which promtool would compare too.
        mine = {**by_name[name]}
        mine.pop("annotations", None)
        groups = [
            {"name": "recorded", "rules": recorded_for(mine["expr"], records)},
            {"name": "tried", "rules": [mine]},
        ]
        (tmp_path / f"{name}.rules.yml").write_text(yaml.safe_dump({"groups": groups}))
        (tmp_path / f"{name}.yml").write_text(yaml.safe_dump(document))
    checked("promtool", "test", "rules", *(f"{name}.yml" for name in documents), cwd=tmp_path)
    first, document = next(iter(documents.items()))
    document["tests"][0]["alert_rule_test"][0]["exp_alerts"] = []
    (tmp_path / f"{first}.yml").write_text(yaml.safe_dump(document))
    done = subprocess.run(
        ["promtool", "test", "rules", f"{first}.yml"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
        timeout=600,
    )
    assert done.returncode != 0, "promtool finds an alert that fires though none is expected"


def test_pod_traffic_is_the_same_for_any_number_of_api_processes(tmp_path: Path) -> None:
    """Each process has the same series; a node that two pods hold counts for neither."""
    folder = written(monitored("small", tmp_path / "secret"), tmp_path / "out")
    port = "infiniband_hca_port_transmit_data_bytes_total{port='1',fabric='ib',instance='s',agent='sm1'"
    series = [
        {"series": f"{port},guid='{guid}'}}".replace("'", '"'), "values": "0+6000x40"}
        for guid in ("0x1", "0x2")
    ]
    for process in ("a", "b"):
        rows = [
            *(f"weft_adapter_info{{guid='0x{n}',node='n{n}'" for n in (1, 2)),
            *(f"weft_pod_node_info{{node='n1',pod='{p}',pod_id='{p}',project='x'" for p in ("whole",)),
            *(f"weft_pod_node_info{{node='n2',pod='{p}',pod_id='{p}',project='x'" for p in ("one", "two")),
        ]
        series += [
            {"series": f"{r},instance='{process}'}}".replace("'", '"'), "values": "1x40"} for r in rows
        ]
    labels = '{project="x",pod="whole",pod_id="whole"}'
    tests = [
        {
            "interval": "1m",
            "input_series": series,
            "promql_expr_test": [
                {
                    "expr": expr,
                    "eval_time": "20m",
                    "exp_samples": [{"labels": wanted, "value": 100}],
                }
                for expr, wanted in (
                    ("weft:pod_transmit_bytes:rate5m", f"weft:pod_transmit_bytes:rate5m{labels}"),
                    (_traffic_of_a_pod(), '{node="n1",pod="whole"}'),
                )
            ],
        }
    ]
    (tmp_path / "rules.yml").write_text((folder / "rules/weft.yml").read_text())
    (tmp_path / "tests.yml").write_text(yaml.safe_dump({"rule_files": ["rules.yml"], "tests": tests}))
    checked("promtool", "test", "rules", tmp_path / "tests.yml", cwd=tmp_path)


def _traffic_of_a_pod() -> str:
    """The dashboard's expression that joins nodes to a pod, for its nodes' rate."""
    panel = next(p for b in BOARDS if b.uid == "weft-pod" for p in b.panels if "node_load1" in str(p.lines))
    rate = (
        "max by (node) (rate(infiniband_hca_port_transmit_data_bytes_total[5m]) * on (guid) group_left (node) "
        "max by (guid, node) (weft_adapter_info))"
    )
    expr = next(iter(panel.lines)).replace("max by (node) (node_load1)", rate).replace('"$pod"', '".*"')
    assert "node_load1" not in expr
    return expr


def test_each_alert_has_a_page(tmp_path: Path) -> None:
    """`runbook_url` leads to a section of docs/alerts.md, and each section there belongs to an alert."""
    site = monitored("small", tmp_path / "secret")
    page = (DOCS / "alerts.md").read_text()
    sections = re.findall(r"^## (Weft\w+)$", page, re.MULTILINE)
    assert sections == sorted(one.name for one in site_alerts(site))
    text = prometheus_files(site)["rules/weft.yml"]
    assert "runbook_url: https://weft.example/docs/alerts#weftdown" in text


def test_series_of_pods_servers_can_not_use_names_of_other_series(tmp_path: Path) -> None:
    """Prometheus anchors the regular expression, which drops the names that rules read."""
    document = yaml.safe_load(prometheus_files(monitored("small", tmp_path / "secret"))["prometheus.yml"])
    jobs = {job["job_name"]: job for job in document["scrape_configs"]}
    for name in ("pod-node", "pod-dcgm"):
        labels, drop = jobs[name]["metric_relabel_configs"]
        assert labels == {"regex": "site|fabric|switch|agent|severity|to|alertname", "action": "labeldrop"}
        assert (drop["action"], drop["source_labels"]) == ("drop", ["__name__"])
        pattern = re.compile(f"(?:{drop['regex']})")
        assert all(pattern.fullmatch(series) for series in HOSTILE.split("|"))
        assert not any(
            pattern.fullmatch(series) for series in ("node_load1", "DCGM_FI_DEV_GPU_UTIL", "uptime")
        )
        assert (
            jobs[name]["sample_limit"]
            and jobs[name]["body_size_limit"]
            and not jobs[name]["follow_redirects"]
        )
    assert "project" not in str(jobs["node"]["relabel_configs"])


def test_alerts_of_a_project_go_to_its_receiver_in_the_site(tmp_path: Path) -> None:
    folder = written(monitored("small", tmp_path / "secret"), tmp_path / "out")

    def receivers(*labels: str) -> str:
        config = f"--config.file={folder / 'alertmanager.yml'}"
        return checked("amtool", "config", "routes", "test", config, *labels).splitlines()[0]

    assert receivers("severity=page", "to=operators") == "weft-page"
    assert receivers("severity=ticket", "to=operators") == "weft-ticket"
    assert receivers("severity=ticket", "to=operators", "project=p1") == "weft-ticket"
    assert receivers("severity=page", "to=projects", "project=p1") == "weft-project-p1,weft-page"
    assert "weft-project-p1" in receivers("severity=ticket", "to=projects", "project=p1")
    assert receivers("severity=ticket", "to=projects", "project=p2") == "weft-ticket"


def test_export_needs_an_api_address_and_refuses_a_cloud(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(EXAMPLES / "sites/small/site.yaml")
    assert main(["site", "export", path, "--format", "prometheus", "-o", str(tmp_path / "out")]) == 2
    assert "monitoring.api" in capsys.readouterr().err and not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="whole site"):
        export_site(path, "prometheus", "cloud", str(tmp_path / "out"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("api", ["http://weft.example:99999"]),
        ("api", ["http://weft.example:abc"]),
        ("api", ["http://[::1"]),
        ("api", ["https://a.example", "http://b.example"]),
        ("prometheus", "localhost:65536"),
        ("alertmanagers", ["[::::]:9093"]),
        ("bmc_exporter", "bmcs.example:99999"),
        ("syslog", "logs.example:99999"),
        ("page", "http://oncall.example:abc/x"),
        ("page", "http://oncall.example/%zz"),
        ("ticket", "http://[::1/"),
        ("projects", {"p1": "http://oncall.example:99999"}),
        ("runbooks", "https://docs.example/{{ printf 1 }}"),
    ],
)
def test_values_that_prometheus_does_not_accept_are_refused(field: str, value: object) -> None:
    """When the site file is read, not at the export or at Alertmanager's start."""
    with pytest.raises(ValidationError, match=field):
        Monitoring.model_validate({field: value})


def test_agent_with_an_impossible_port_is_refused() -> None:
    with pytest.raises(ValidationError, match="port of 1 to 65535"):
        FabricAgent.model_validate({"name": "sm1", "url": "https://sm1.example:99999"})


def test_checkers_accept_unusual_values_that_the_site_accepts(tmp_path: Path) -> None:
    site = monitored("small", tmp_path / "secret")
    strange = {
        "api": ["https://[2001:db8::1]:8787", "https://weft.example"],
        "alertmanagers": ["[::1]:9093"],
        "page": "http://oncall.example/a'b\"c`d\\e%20ü",
        "runbooks": "https://docs.example/a'b\"c`d\\e",
        "hosts": {"node": {"port": 65535, "path": "/x?a=$1&{{x}}'\"`%zz"}},
        "bmc_path": "/x?module=$1&{{x}}%zz",
    }
    monitoring = Monitoring.model_validate({**site.monitoring.model_dump(mode="json"), **strange})
    folder = written(site.model_copy(update={"monitoring": monitoring}), tmp_path / "out")
    checked("promtool", "check", "config", folder / "prometheus.yml")
    checked("promtool", "check", "rules", folder / "rules/weft.yml")
    checked("amtool", "check-config", folder / "alertmanager.yml")


def test_logs_of_machines_are_filed_by_their_address(tmp_path: Path) -> None:
    """A real rsyslogd files a message by its sender's address, whatever host it names, and drops unknown senders."""
    site = monitored("ipupod64", tmp_path / "secret")
    assert not [name for name in prometheus_files(site) if name.startswith("rsyslog")], (
        "only if the site has a syslog address"
    )
    port = free_ports(24500, 24900)
    machine, other = site.ipu_machines[:2]
    machine = machine.model_copy(update={"gw_address": IPv4Address("127.0.0.21")})
    update = {
        "monitoring": site.monitoring.model_copy(update={"syslog": f"127.0.0.1:{port}"}),
        "ipu_machines": (machine, other),
    }
    folder = written(site.model_copy(update=update), tmp_path / "out") / "rsyslog"
    text = (folder / "weft.conf").read_text()
    text = text.replace(TABLE, str(folder / "weft-sources.json")).replace(LOGS, str(tmp_path / "logs"))
    config = tmp_path / "rsyslog.conf"
    config.write_text(text)
    programs()
    checked("rsyslogd", "-N1", "-f", config)
    (tmp_path / "wrong.conf").write_text(text.replace('action(type="omfile"', 'action(type="nosuch"'))
    wrong = ["rsyslogd", "-N1", "-f", str(tmp_path / "wrong.conf")]
    assert subprocess.run(wrong, capture_output=True, check=False, timeout=300).returncode != 0
    command = ("rsyslogd", "-n", "-f", config, "-i", tmp_path / "pid")
    log = tmp_path / "logs" / f"{machine.name}-gateway.log"
    with running(*command, log=tmp_path / "rsyslogd.log"):

        def sent() -> bool:
            for source in ("127.0.0.21", "127.0.0.22"):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
                    one.bind((source, 0))
                    one.sendto(
                        b"<11>Nov 29 10:00:00 ../../etc/x bmc: fan 3\x1b[2J failed", ("127.0.0.1", port)
                    )
            return log.exists() and bool(log.read_text())

        until(sent, 30, "no message was filed")
    line = log.read_text().splitlines()[0]
    assert " 127.0.0.21 err " in line and line.endswith("bmc: fan 3#033[2J failed")
    assert [p.name for p in (tmp_path / "logs").iterdir()] == [log.name]


def test_dashboards_are_exported_where_grafana_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (EXAMPLES / "sites/small/site.yaml").read_text()
    for file in (EXAMPLES / "sites/small").iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    site = tmp_path / "site.yaml"
    site.write_text(f'{text}\nmonitoring: {{api: ["http://weft.example:8787"]}}\n')
    first = export_site(str(site), "prometheus", None, str(tmp_path / "out"))
    assert first.notes == [] and len(dashboard_expressions(tmp_path / "out/dashboards")) > 30
    assert export_site(str(site), "prometheus", None, str(tmp_path / "out")).written == []
    monkeypatch.setitem(sys.modules, "grafana_foundation_sdk", None)
    without = export_site(str(site), "prometheus", None, str(tmp_path / "bare"))
    assert without.notes == ["no dashboards of Grafana: pip install 'weft-pods[grafana]'"]
    assert not (tmp_path / "bare/dashboards").exists()


def test_prometheus_is_debians_version() -> None:
    programs()
    assert "2.42" in checked("prometheus", "--version")
