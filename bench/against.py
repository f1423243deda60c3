"""Suites of this build beside those of an earlier one, each with its own libraries and on its own database, in turns.

`make bench SUITE=against BASE=93bb7bfa`: the commit is taken out of git into build/against and gets an environment from
its own lock. A round runs each suite once in both trees, and the next round in the other order, so that other load on
the machine affects both. The suites' clients should be the same files in both trees: a row counts those that differ.
`ROUNDS` (default 5) and `OF` (suites, separated by spaces) shorten it.
"""

from __future__ import annotations

import filecmp
import json
import os
import statistics
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench.earlier import ROOT, files_of
from bench.row import row

BASE = os.environ.get("BASE", "93bb7bfa")
ROUNDS = int(os.environ.get("ROUNDS", "5"))
SUITES = {
    "endtoend": ("endtoend.py", "endtoend_server.py"),
    "loop": ("loop.py", "world.py"),
    "site": ("site.py", "sites.py"),
}
"""Suite -> the files that measure."""
GOALS = {
    "orders end to end": ("≥", 1.7),
    "loop: processor of a pod from claim to READY": ("≤", 0.55),
    "claim of an order with 10,000 pods, processor, p50": ("≤", 0.6),
    "site of 100,000 nodes: one node changed, file to in force": ("≤", 0.1),
    "site of 100,000 nodes: one node changed, memory of the client": ("≤", 0.25),
}
"""Goals for this build divided by the earlier one."""
_SITE = "site of 100,000 nodes: "
SUMS = {
    f"{_SITE}one node changed, file to in force": (
        f"{_SITE}read its files",
        f"{_SITE}change of one node, to the site in force",
    ),
    f"{_SITE}one node changed, memory of the client": (f"{_SITE}memory of the client",),
}
"""Rows that earlier builds only have in parts. The sum of these is less than the row, since it lacks the client's
start.
"""
LONGEST = 1800


def rows() -> list[dict[str, Any]]:
    chosen = os.environ.get("OF", " ".join(SUITES)).split()
    if unknown := set(chosen) - set(SUITES):
        raise ValueError(f"OF: {min(unknown)!r} is not one of {', '.join(SUITES)}")
    base = _tree(BASE)
    measured: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    units: dict[str, str] = {}
    for turn in range(ROUNDS):
        for suite in chosen:
            for which, tree in sorted(((0, ROOT), (1, base)), reverse=bool(turn % 2)):
                for one in _summed(_run(tree, suite)):
                    measured[one["name"]][which].append(one["value"])
                    units[one["name"]] = one["unit"]
        print(f"# round {turn + 1} of {ROUNDS}", flush=True)
    other = [file for suite in chosen for file in SUITES[suite] if not _same(base, file)]
    found = [row("files of the suites that differ", len(other), "", compared_with=", ".join(other) or BASE)]
    return [*found, *_compared(measured, units)]


def _summed(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a build, those that it has in parts included."""
    values = {one["name"]: one for one in found}
    for name, parts in SUMS.items():
        if name not in values and all(part in values for part in parts):
            value = sum(values[part]["value"] for part in parts)
            found.append({**values[parts[0]], "name": name, "value": value})
    return found


def _compared(
    measured: Mapping[str, tuple[list[float], list[float]]], units: Mapping[str, str]
) -> Iterable[dict[str, Any]]:
    """Medians of both with their spread, and their ratio."""
    for name, (now, was) in measured.items():
        if not now or not was:
            yield row(f"{name} (only in one build)", statistics.median(now or was), units[name])
            continue
        median, before = statistics.median(now), statistics.median(was)
        beside = f"{BASE}: {before:.4g} ({min(was):.4g} to {max(was):.4g})"
        yield row(f"{name} ({min(now):.4g} to {max(now):.4g})", median, units[name], compared_with=beside)
        if not before:
            continue
        ratio = median / before
        if name not in GOALS:
            yield row(f"{name}, ratio", ratio, "x", compared_with=BASE)
            continue
        sign, most = GOALS[name]
        met = ratio >= most if sign == "≥" else ratio <= most
        yield row(f"{name}, ratio", ratio, "x", f"{sign} {most:g}", met, BASE)


def _run(tree: Path, suite: str) -> list[dict[str, Any]]:
    """Rows of a suite in a tree, by its own environment."""
    with tempfile.TemporaryDirectory(prefix="weft-against-") as folder:
        output = Path(folder) / "rows.json"
        words = [str(tree / ".venv/bin/python"), "-m", "bench", suite, "--output", str(output)]
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        done = subprocess.run(
            words,
            check=False,
            cwd=tree,
            env=kept,
            timeout=LONGEST,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            text = done.stdout.decode(errors="replace")[-500:]
            raise RuntimeError(f"suite {suite} of {tree.name} ended with {done.returncode}: {text}")
        return json.loads(output.read_text())


def _tree(commit: str) -> Path:
    """The commit's files, with an environment."""
    tree = files_of(commit, "against")
    subprocess.run(["make", "setup"], cwd=tree, check=True, stdout=subprocess.DEVNULL)
    return tree


def _same(base: Path, file: str) -> bool:
    there = base / "bench" / file
    return there.is_file() and filecmp.cmp(ROOT / "bench" / file, there, shallow=False)
