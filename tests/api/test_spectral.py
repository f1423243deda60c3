"""Spectral's OpenAPI rules (from npm) on the committed description of the API."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.helpers.paths import DOCS, ROOT
from weftlab.layout import default_cache

VERSION = "6.16.3"


@pytest.fixture(scope="module")
def spectral() -> Path:
    """The program, installed once, without running install scripts of packages."""
    folder = default_cache() / f"spectral-{VERSION}"
    program = folder / "node_modules/.bin/spectral"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text("{}")
        subprocess.run(
            [
                "npm",
                "install",
                "--no-audit",
                "--no-fund",
                "--ignore-scripts",
                f"@stoplight/spectral-cli@{VERSION}",
            ],
            cwd=folder,
            check=True,
            capture_output=True,
            timeout=600,
        )
    return program


@pytest.mark.nightly(reason="242 packages of npm; independent clients read the same description by day")
def test_description_of_the_api_follows_spectrals_rules(spectral: Path, tmp_path: Path) -> None:
    """A description with a fault fails, so the rules are in effect."""

    def lint(file: Path) -> list[str]:
        rules = ROOT / "tests/data/spectral.yaml"
        found = tmp_path / "found.json"
        words = ["lint", "--ruleset", rules, "--format", "json", "--output", found, file]
        done = subprocess.run([spectral, *words], capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode in (0, 1), done.stderr
        return [f"{one['code']}: {'.'.join(one['path'])}" for one in json.loads(found.read_text())]

    described = DOCS / "schemas/openapi.json"
    assert lint(described) == []
    wrong = json.loads(described.read_text())
    del wrong["paths"]["/v1/pods"]["get"]["operationId"]
    (tmp_path / "openapi.json").write_text(json.dumps(wrong))
    assert any("operation-operationId" in one for one in lint(tmp_path / "openapi.json"))
