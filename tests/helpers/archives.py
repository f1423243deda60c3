"""Unpacks archives."""

from __future__ import annotations

import subprocess
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    """By the program: Debian 12's Python 3.11.2 has no filters yet, without which later ones warn."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
