"""The distributions of this tree: their projects, their files, and what they declare."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.helpers.paths import ROOT

PROJECTS: Mapping[str, Path] = {
    "weft-pods": ROOT,
    "weft-pods-agents": ROOT / "packages" / "agents",
    "openvipu": ROOT / "packages" / "openvipu",
    "weft-pods-lab": ROOT / "lab",
}
PACKAGES: Mapping[str, Path] = {
    "weft": ROOT / "src" / "weft",
    "openvipu": ROOT / "src" / "openvipu",
    "weftcheck": ROOT / "src" / "weftcheck",
    "weftlab": ROOT / "lab" / "weftlab",
}
"""Import name -> its folder in the tree."""
ELSEWHERE = {"weftlab": re.compile(r"(^|/)programs/")}
"""Files of a package that run in the environment of the lab's OpenStack (lab/weftlab/constraints.txt)."""


def project(distribution: str) -> dict[str, Any]:
    return tomllib.loads((PROJECTS[distribution] / "pyproject.toml").read_text())


@cache
def files_of_agents() -> frozenset[str]:
    """Files of weft-pods-agents, relative to `src`, directories expanded."""
    hook = project("weft-pods-agents")["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    return frozenset(
        str(file.relative_to(ROOT / "src")) for name in hook["files"] for file in _files(ROOT / "src" / name)
    )


def _files(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    else:
        yield from (f for f in path.rglob("*") if f.is_file() and "__pycache__" not in f.parts)


def tree(package: str) -> set[str]:
    """Files of a package, by their installed names."""
    folder = PACKAGES[package]
    return {str(f.relative_to(folder.parent)) for f in _files(folder)}


def distribution_of(package: str, file: str) -> str:
    """The distribution that contains a package's file."""
    if package == "weft":
        return "weft-pods-agents" if file in files_of_agents() else "weft-pods"
    return {"openvipu": "openvipu", "weftcheck": "weft-pods-agents", "weftlab": "weft-pods-lab"}[package]


def declared(distribution: str) -> set[str]:
    """Normalized names of a distribution's dependencies, with those of its extras."""
    table = project(distribution)["project"]
    extras = table.get("optional-dependencies", {}).values()
    return {
        normalized(re.split(r"[\[<>=!~; ]", one, maxsplit=1)[0])
        for one in (*table["dependencies"], *(d for extra in extras for d in extra))
    }


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imports(path: Path) -> Iterator[str]:
    """Modules that a file imports anywhere; `from a import b` counts as both `a` and `a.b`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def build(distribution: str, folder: Path) -> Path:
    """Builds the distribution's wheel with this environment's hatchling; the wheel."""
    known = set(folder.glob("*.whl"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(
        command, cwd=PROJECTS[distribution], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    [wheel] = set(folder.glob("*.whl")) - known
    return wheel
