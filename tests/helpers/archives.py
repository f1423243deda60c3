"""Unpacks archives."""

from __future__ import annotations

import subprocess
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    """With tar itself: Debian 12's Python 3.11.2 lacks the filters without which later versions warn."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
