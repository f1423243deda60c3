"""Folders of the repository."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
BENCH_DATA = ROOT / "bench" / "data"
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples"
GOLDEN = ROOT / "tests" / "golden"
RECORDED = ROOT / "tests" / "data"
SMALL = EXAMPLES / "sites" / "small"
