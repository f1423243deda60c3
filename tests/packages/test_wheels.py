"""What is in the wheels that this tree builds."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT
from tests.packages.distributions import PROJECTS, build, files_of_agents, tree

Contents = Mapping[str, Mapping[str, str]]
"""Distribution -> file in its wheel -> its text; empty for files of modules."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """All four, built once."""
    folder = tmp_path_factory.mktemp("wheels")
    return {name: _read(build(name, folder)) for name in PROJECTS}


def _read(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {n: archive.read(n).decode() if ".dist-info/" in n else "" for n in archive.namelist()}


def _modules(contents: Mapping[str, str]) -> set[str]:
    return {name for name in contents if ".dist-info/" not in name}


def test_each_file_of_the_tree_is_in_one_wheel(wheels: Contents) -> None:
    """SQL, policies and constraints included; no two distributions install the same file."""
    assert _modules(wheels["weft-pods-agents"]) == files_of_agents()
    explained = {f"weft/web/problems/{page.name}" for page in (ROOT / "docs" / "problems").iterdir()}
    assert len(explained) > 10
    assert _modules(wheels["weft-pods"]) == tree("weft") - files_of_agents() | explained
    assert _modules(wheels["openvipu"]) == tree("openvipu")
    assert _modules(wheels["weft-pods-lab"]) == tree("weftlab")


def test_package_data_is_in_the_wheels(wheels: Contents) -> None:
    """Files that modules read from their own package."""
    weft = wheels["weft-pods"]
    assert {"weft/engine/rows/queries.sql", "weft/engine/migrations/0001_spine.sql"} <= weft.keys()
    assert "weft/planning/export/policies/nova.yaml" in weft
    assert {"weft/web/templates/base.html", "weft/web/static/vendor/SHA256SUMS"} <= weft.keys()
    assert "openvipu/proto/vipuuser.proto" in wheels["openvipu"]
    assert "weftlab/constraints.txt" in wheels["weft-pods-lab"]


def test_wheels_have_license_and_names(wheels: Contents) -> None:
    """In the metadata, according to PEP 639."""
    for name, contents in wheels.items():
        [licence] = [n for n in contents if n.endswith(".dist-info/licenses/LICENSE")]
        assert "Apache License" in contents[licence]
        [metadata] = [text for n, text in contents.items() if n.endswith(".dist-info/METADATA")]
        assert f"\nName: {name}\n" in metadata and "\nLicense-Expression: Apache-2.0\n" in metadata


def test_production_wheel_has_neither_lab_nor_its_command(wheels: Contents) -> None:
    """`weft lab` is in weft-pods-lab, openvipu's programs in openvipu."""
    points = {
        name: "".join(text for n, text in contents.items() if n.endswith("entry_points.txt"))
        for name, contents in wheels.items()
    }
    assert "weftlab" not in points["weft-pods"] and "openvipu" not in points["weft-pods"]
    assert "[weft.commands]\nlab = weftlab.cli\n" in points["weft-pods-lab"]
    assert "openvipu-server = openvipu.server_main:main" in points["openvipu"]
    assert "\nweft-check = weftcheck.cli:main\n" in points["weft-pods-agents"]
    for name in ("weft-pods", "weft-pods-agents"):
        assert "[console_scripts]\nweft = weft.program:main\n" in points[name]
