"""The walk through one order and one release in docs/architecture.md names existing code."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

SOURCE = Path("src/weft")
STEP = re.compile(r"`([a-z]+/[\w/]+\.py)`((?:(?:, | and )`[A-Za-z_.]+`)*)")


def steps() -> list[tuple[str, str]]:
    """(file, name) of each step; the name is empty if only a file is mentioned."""
    text = Path("docs/architecture.md").read_text()
    walk = text.split("## One order and one release, file by file")[1].split("\n## ")[0]
    found: list[tuple[str, str]] = []
    for file, names in STEP.findall(walk):
        found += [(file, name) for name in re.findall(r"`([\w.]+)`", names)] or [(file, "")]
    return found


def defined(file: Path) -> set[str]:
    """Names of functions and classes, and of methods both alone and as `Class.method`."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef)}
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names.add(node.name)
    return names


@pytest.mark.parametrize(("file", "name"), steps(), ids=str)
def test_step_of_the_walk_is_in_its_file(file: str, name: str) -> None:
    assert (SOURCE / file).is_file()
    assert not name or name in defined(SOURCE / file)


def test_documented_walk_passes_six_files_of_a_visit() -> None:
    files = [file for file, _ in steps()]
    visit = files[files.index("engine/visit/reconciler.py") : files.index("engine/visit/verifier.py") + 1]
    assert len({file for file in visit if file.startswith("engine/visit/")}) == 6


def test_architecture_lists_the_engines_rooms_in_the_order_of_the_contract() -> None:
    contracts = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (c["layers"] for c in contracts if c.get("containers") == ["weft.engine"])
    text = Path("docs/architecture.md").read_text().split("## Rooms of the engine")[1]
    picture, table = text.split("```")[1].removeprefix("text"), text.split("## One order")[0]
    floors = [line.split()[0] for line in picture.splitlines() if re.match(r"[a-z]", line)]
    assert floors == [layer.split(" : ")[0] for layer in layers]
    rows = [row.replace("`, `", " : ") for row in re.findall(r"(?m)^\| `([a-z`, ]+)` \|", table)]
    assert rows == layers
