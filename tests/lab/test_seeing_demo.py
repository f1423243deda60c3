"""The parts of `make demo DEMO=seeing` that need no lab: paths, rates, alerts, recorded hosts, and failing claims."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from tests.helpers.paths import ROOT
from weft.model.site import Monitoring
from weft.planning.export.prometheus.files import prometheus_files
from weftcheck.cli import main
from weftlab.fabric.traffic import Hop, hops, sent
from weftlab.hostfolder import HostFolder
from weftlab.layout import LabError, Layout
from weftlab.recordedhost import run
from weftlab.seeingdemo import ALERTS, SeeingDemo, _between, _named  # pyright: ignore[reportPrivateUsage]
from weftlab.site import make_site, settings
from weftlab.watching import quickly

TRACED = """From ca {0x0002c90300300000} portnum 1 lid 4-4 "gpu01 mlx5_0"
[1] -> switch port {0x0002c90300100000}[1] lid 2-2 "leaf01"
[11] -> switch port {0x0002c90300200010}[3] lid 13-13 "spine02"
[4] -> switch port {0x0002c90300100010}[8] lid 12-12 "leaf02"
[1] -> ca port {0x0002c90300300201}[1] lid 6-6 "gpu03 mlx5_0"
To ca {0x0002c90300300200} portnum 1 lid 6-6 "gpu03 mlx5_0"
"""
"""What ibtracert of infiniband-diags 44 printed in the lab."""


def test_traced_path_gives_each_sending_port() -> None:
    path = hops(TRACED)
    assert path == [
        Hop("gpu01/mlx5_0", 1, "leaf01", 1),
        Hop("leaf01", 11, "spine02", 3),
        Hop("spine02", 4, "leaf02", 8),
        Hop("leaf02", 1, "gpu03/mlx5_0", 1),
    ]
    assert _between([tuple(path)]) == {("leaf01", 11), ("spine02", 4)}
    assert path[1].cable == Hop("spine02", 3, "leaf01", 11).cable != path[2].cable
    assert sent([tuple(path), tuple(path[1:2])], 10.0)["leaf01", 11] == 20.0


@pytest.mark.parametrize("text", ["", "ibwarn: can't resolve destination port", TRACED.splitlines()[0]])
def test_ibtracert_output_without_a_path_is_refused(text: str) -> None:
    with pytest.raises(LabError, match="no path"):
        hops(text)


def test_demo_shortens_the_waits_of_exported_alert_rules(tmp_path: Path) -> None:
    """All alerts that the demo looks for are exported, and their expressions stay the same."""
    site = make_site(settings(nodes=4), Layout(Path("/lab"), Path("/cache"), 21000))
    site = site.model_copy(update={"monitoring": Monitoring(api=("http://127.0.0.1:21009",), hosts={})})
    files = prometheus_files(site)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    quickly(tmp_path)
    given, made = (
        {r["alert"]: r for g in yaml.safe_load(text)["groups"] for r in g["rules"] if "alert" in r}
        for text in (files["rules/weft.yml"], (tmp_path / "rules/weft.yml").read_text())
    )
    assert {*ALERTS} <= set(made) and {one["for"] for one in made.values()} == {"2s"}
    assert {n: r["expr"] for n, r in given.items()} == {n: r["expr"] for n, r in made.items()}
    document = yaml.safe_load((tmp_path / "prometheus.yml").read_text())
    assert {job["scrape_interval"] for job in document["scrape_configs"]} == {"2s"}


@pytest.mark.parametrize(("sockets", "code"), [((0, 1), 0), ((1, 1), 1)])
def test_adapter_at_the_other_socket_fails_only_its_gpus_check(
    sockets: tuple[int, int], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    HostFolder(tmp_path / "host", "gpu03", sockets)
    (tmp_path / "expected").write_text('{"version": 1, "distance": "PXB"}')
    assert main(["--expect", str(tmp_path / "expected")], tmp_path / "host", run) == code
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
    assert len(failed) == code and all("PCI_DISTANCE" in line and "SYS to mlx5_0" in line for line in failed)


def test_demo_ends_if_a_planted_fault_is_not_the_only_one_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A fault that isn't named, another one that is, and a pair that didn't run."""
    demo = cast(SeeingDemo, object.__new__(SeeingDemo))
    certificate: dict[str, Any] = {
        "result": "failed",
        "not_run": {},
        "causes": [{"kind": "link", "name": "leaf01:6 - spine01:1", "rail": None}],
    }
    link = ("link", frozenset({"spine01:1", "leaf01:6"}), None)
    demo.claim("named", _named(certificate), ({link}, "failed", {}))
    assert capsys.readouterr().out == "-> named\n"
    for change in (
        {"causes": []},
        {"causes": certificate["causes"] * 1 + [{"kind": "node", "name": "x", "rail": 0}]},
    ):
        with pytest.raises(SystemExit, match="weft demo: named: expected"):
            demo.claim("named", _named({**certificate, **change}), ({link}, "failed", {}))
    with pytest.raises(SystemExit):
        demo.claim("named", _named({**certificate, "not_run": {"NO_LOGIN": 1}}), ({link}, "failed", {}))


def test_demo_is_listed_in_readme_and_makefile() -> None:
    for page in ("README.md", "Makefile"):
        text = (ROOT / page).read_text()
        assert "seeing" in text and "repair" in text
