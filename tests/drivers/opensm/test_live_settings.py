"""`weft site check --live` against real subnet managers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.drivers.opensm.rigs import FABRIC, RealRig
from tests.fabricagent.test_hardening import UPSTREAM_LACKS
from weft.cli.main import main


@pytest.mark.fabric
def test_site_check_asks_the_real_managers(
    real: RealRig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each weak setting of both managers, with what it allows; exit code 1."""
    path = tmp_path / "site.yaml"
    document = real.site.model_dump(mode="json", exclude_none=True)
    for ipu_pod in document["ipu_pods"].values():  # not checked here
        ipu_pod["gateway"]["keys_in_clear"] = True
    path.write_text(yaml.safe_dump(document))
    assert main(["site", "check", str(path)]) == 0
    capsys.readouterr()
    assert main(["site", "check", str(path), "--live"]) == 1
    said = capsys.readouterr().out
    assert "2 managers queried" in said and f"{FABRIC}, sm2: m_key is (not set)" in said
    assert "P_Key table" in said
    assert main(["site", "check", str(path), "--live", "--json"]) == 1
    live = json.loads(capsys.readouterr().out)["live"]
    assert live["managers"] == 2 and live["problems"] == []
    assert {w["setting"] for w in live["weaknesses"]} >= UPSTREAM_LACKS
    real.stop("agent-sm2")
    assert main(["site", "check", str(path), "--live"]) == 1
    assert "settings of sm2 can't be read" in capsys.readouterr().out
