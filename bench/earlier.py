"""Files of an earlier commit, taken out of git once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def files_of(commit: str, under: str, *paths: str) -> Path:
    """The commit's files (all, or those under `paths`) in build/`under`/, by its full hash: names may move.

    Raises `CalledProcessError` for a commit that git doesn't have; a checkout that fails leaves nothing behind.
    """
    words = ["git", "rev-parse", "--verify", "--end-of-options", f"{commit}^{{commit}}"]
    full = subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    tree = ROOT / "build" / under / full
    if tree.is_dir():
        return tree
    half = tree.with_name(f"{full}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", full, *paths], cwd=ROOT, check=True, stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", str(half)], input=archive.stdout, check=True)
    return half.rename(tree)
