"""What a distribution imports is declared by it, and weft names only declared extras."""

from __future__ import annotations

import sys
from importlib.metadata import packages_distributions

import pytest

from tests.helpers.paths import ROOT
from tests.packages.distributions import (
    ELSEWHERE,
    PACKAGES,
    PROJECTS,
    declared,
    distribution_of,
    files_of_agents,
    imports,
    normalized,
    project,
    tree,
)
from weft import __version__
from weft.model.extras import DISTRIBUTION, EXTRAS, installation

pytestmark = pytest.mark.landing

_INSTALLED = packages_distributions()


def _undeclared(package: str) -> list[str]:
    found: set[str] = set()
    for file in tree(package):
        elsewhere = ELSEWHERE.get(package)
        if not file.endswith(".py") or (elsewhere is not None and elsewhere.search(file)):
            continue
        own = distribution_of(package, file)
        for name in {module.partition(".")[0] for module in imports(PACKAGES[package].parent / file)}:
            if name in sys.stdlib_module_names or name == package:
                continue
            given = {
                "weft": ["weft-pods"],
                "weftcheck": ["weft-pods-agents"],
                "weftlab": ["weft-pods-lab"],
                "openvipu": ["openvipu"],
            }
            of = {normalized(d) for d in given.get(name) or _INSTALLED.get(name, [name])}
            if not of & declared(own):
                found.add(f"{own}: {file} imports {name} ({', '.join(sorted(of))})")
    return sorted(found)


@pytest.mark.parametrize("package", PACKAGES)
def test_imported_distributions_are_declared(package: str) -> None:
    """Not only through another one's dependencies, which may change: each import is of a declared distribution."""
    assert _undeclared(package) == []


def test_agents_import_only_their_distribution() -> None:
    """Also within functions; `weft.program` imports more only where more is installed."""
    own = files_of_agents()
    lacking = {
        f"{file} imports {module}"
        for file in own
        if file.endswith(".py") and file != "weft/program.py"
        for module in imports(ROOT / "src" / file)
        if module.startswith("weft.") and (there := _file(module)) is not None and there not in own
    }
    assert lacking == set()


def _file(module: str) -> str | None:
    path = module.replace(".", "/")
    return next((f for f in (f"{path}.py", f"{path}/__init__.py") if (ROOT / "src" / f).is_file()), None)


def test_distributions_have_one_version() -> None:
    """weft's, openvipu's and the lab's are released together and depend on each other by that exact version."""
    tables = {name: project(name)["project"] for name in PROJECTS}
    assert {name: table["version"] for name, table in tables.items()} == dict.fromkeys(PROJECTS, __version__)
    needs = [
        need
        for table in tables.values()
        for list_ in (table["dependencies"], *table.get("optional-dependencies", {}).values())
        for need in list_
        if need.startswith(tuple(PROJECTS))
    ]
    assert needs and all(need.endswith(f"=={__version__}") for need in needs)


def test_extras_named_in_messages_are_declared() -> None:
    """So that `pip install` accepts them."""
    table = project("weft-pods")["project"]
    assert table["name"] == DISTRIBUTION and EXTRAS.keys() == table["optional-dependencies"].keys()
    assert installation("vipu") == "pip install 'weft-pods[vipu]'"


def test_runtime_and_development_are_locked_apart_with_hashes() -> None:
    """requirements.lock has runtime packages only; both files have the same version of each."""
    locks = {name: _pins(name) for name in ("requirements.lock", "requirements-dev.lock")}
    runtime, both = locks.values()
    assert runtime.items() < both.items()
    assert not runtime.keys() & {"pytest", "ruff", "ortools", "atheris", "hypothesis", "grpcio-tools"}
    declared_ = declared("weft-pods") - {normalized(p) for p in PROJECTS}
    assert declared_ <= runtime.keys()


def _pins(name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    lines = (ROOT / name).read_text().splitlines()
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if "==" in line and not line.startswith((" ", "#")):
            package, _, version = line.partition("==")
            assert version.endswith(" \\") and after.startswith("    --hash=sha256:"), line
            found[normalized(package.partition("[")[0])] = version.removesuffix(" \\")
    return found
