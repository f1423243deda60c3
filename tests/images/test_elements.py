"""Elements for guest images, checked by diskimage-builder's own tools, shellcheck and systemd."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from diskimage_builder import element_dependencies
from diskimage_builder import paths as dib

REPOSITORY = Path(__file__).parents[2]
ELEMENTS = REPOSITORY / "images/elements"
TOOLS = REPOSITORY / ".venv/bin"
NAMES = sorted(path.name for path in ELEMENTS.iterdir())
SCRIPTS = sorted(p for p in ELEMENTS.rglob("*") if p.is_file() and p.read_bytes().startswith(b"#!/bin/bash"))
ENVIRONMENTS = sorted(ELEMENTS.glob("*/environment.d/*"))
UNITS = sorted(ELEMENTS.rglob("*.service"))


def dib_lint(elements: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Runs dib-lint without flake8, which our environment's neutron-lib breaks; ruff checks the Python code
    instead."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "flake8").write_text(f'#!/bin/sh\nexec {TOOLS}/ruff check --quiet --no-cache "$@"\n')
    (tools / "flake8").chmod(0o755)
    path = f"{tools}:{TOOLS}:{os.environ['PATH']}"
    return subprocess.run(
        [TOOLS / "dib-lint"],
        cwd=REPOSITORY,
        env={**os.environ, "PATH": path, "ELEMENTS_DIR": str(elements), "LIB_DIR": str(elements)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_dib_lint_finds_nothing(tmp_path: Path) -> None:
    linted = dib_lint(ELEMENTS, tmp_path)
    assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "PASS" in linted.stdout
    assert set(re.findall("^Checking (.*)$", linted.stdout, re.M)) >= {str(script) for script in SCRIPTS}


def test_dib_lint_finds_a_script_that_ignores_errors(tmp_path: Path) -> None:
    script = tmp_path / "elements/broken/install.d/10-broken"
    script.parent.mkdir(parents=True)
    (tmp_path / "elements/broken/README.rst").write_text("broken\n")
    script.write_text("#!/bin/bash\nfalse\n")
    script.chmod(0o755)
    linted = dib_lint(tmp_path / "elements", tmp_path)
    assert linted.returncode == 1
    assert f"{script} is not set -e" in linted.stdout


@pytest.mark.parametrize("path", [*SCRIPTS, *ENVIRONMENTS], ids=lambda path: str(path.relative_to(ELEMENTS)))
def test_shellcheck_finds_nothing(path: Path) -> None:
    checked = subprocess.run(
        [TOOLS / "shellcheck", "--shell=bash", path], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("name", NAMES)
def test_dependencies_of_an_element_resolve(name: str) -> None:
    found = element_dependencies.get_elements(
        ["debian-minimal", name], f"{ELEMENTS}:{dib.get_path('elements')}"
    )
    folders = {element: Path(path) for element, path in found}
    assert {"package-installs", name} <= set(folders)
    if (ELEMENTS / name / "pkg-map").exists():
        assert "pkg-map" in folders
    if (ELEMENTS / name / "static").exists():
        assert "install-static" in folders


def test_all_elements_fit_into_one_image() -> None:
    found = element_dependencies.get_elements(
        ["ubuntu-minimal", *NAMES], f"{ELEMENTS}:{dib.get_path('elements')}"
    )
    assert set(NAMES) <= {element for element, _ in found}


@pytest.mark.parametrize("name", [n for n in NAMES if (ELEMENTS / n / "pkg-map").exists()])
def test_mapped_packages_match_installed_ones(name: str) -> None:
    """The element installs each mapped name, and placeholder names are mapped for every distribution."""
    installed = set(yaml.safe_load((ELEMENTS / name / "package-installs.yaml").read_text()))
    table = json.loads((ELEMENTS / name / "pkg-map").read_text())
    own = {
        package
        for packages in [
            table.get("default", {}),
            *table.get("family", {}).values(),
            *table.get("distro", {}).values(),
        ]
        for package in packages
    }
    assert own <= installed
    for family, distros in {"debian": ("debian", "ubuntu"), "redhat": ("rhel",)}.items():
        for distro in distros:
            named = {
                **table.get("default", {}),
                **table.get("family", {}).get(family, {}),
                **table.get("distro", {}).get(distro, {}),
            }
            unknown = {p for p in installed if p.startswith(("kernel-", "compiler-")) and p not in named}
            assert not unknown, f"{distro} has no package for {unknown}"


@pytest.mark.parametrize(
    ("name", "given", "lacks"),
    [
        ("weft-doca-ofed", {}, "WEFT_DOCA_VERSION"),
        ("weft-doca-ofed", {"WEFT_DOCA_VERSION": "3.1.0"}, "WEFT_DOCA_DISTRO"),
        ("weft-cuda", {"WEFT_CUDA_DISTRO": "ubuntu2404"}, "WEFT_CUDA_TOOLKIT"),
        ("weft-cuda", {"WEFT_CUDA_TOOLKIT": "cuda-toolkit-12-8"}, "WEFT_CUDA_DISTRO"),
        ("weft-poplar", {"WEFT_VIPU_CLIENT": "/vipu.tar"}, "WEFT_POPLAR_SDK"),
        ("weft-poplar", {"WEFT_POPLAR_SDK": "/sdk.tar"}, "WEFT_VIPU_CLIENT"),
    ],
)
def test_missing_variable_is_named(name: str, given: dict[str, str], lacks: str) -> None:
    (path,) = (ELEMENTS / name / "environment.d").iterdir()
    sourced = subprocess.run(
        ["bash", "-eu", "-c", f". {path}"], env=given, capture_output=True, text=True, check=False
    )
    assert sourced.returncode != 0
    assert f"{name} needs {lacks}" in sourced.stderr


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda path: path.parent.parent.name)
def test_variables_are_documented(path: Path) -> None:
    readme = (path.parent.parent / "README.rst").read_text()
    for name in re.findall(r"export (WEFT_\w+)=|\{(WEFT_\w+):\?", path.read_text()):
        assert (name[0] or name[1]) in readme


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_the_unit(path: Path, tmp_path: Path) -> None:
    """The programs that it starts are in a folder of the test."""
    text = path.read_text()
    program = re.search(r"^ExecStart=(\S+)", text, re.M)
    assert program
    if "/local/" in program[1]:
        own = path.parents[3] / program[1].lstrip("/")
        assert os.access(own, os.X_OK), f"{program[1]} isn't in the element"
    unit = tmp_path / path.name
    unit.write_text(text.replace(program[1], "/bin/true"))
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False
    )
    assert path.name not in verified.stderr, verified.stderr
    assert verified.returncode == 0, verified.stderr


def test_modules_are_loaded_before_cloud_init_reads_the_config_drive() -> None:
    (path,) = (p for p in UNITS if p.name == "weft-ipoib.service")
    settings: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            settings.setdefault(key, []).extend(value.split())
    assert {"cloud-init-local.service", "cloud-init-main.service", "network-pre.target"} <= set(
        settings["Before"]
    )
    # After sysinit.target there would be a cycle: on Debian and Ubuntu, cloud-init-local is before it.
    assert settings["DefaultDependencies"] == ["no"]
    assert settings["WantedBy"] == ["sysinit.target"]
    assert settings["Type"] == ["oneshot"]
