"""Changes of files that `stat` doesn't show."""

from __future__ import annotations

import os
from pathlib import Path


def rewrite(path: Path, data: bytes) -> None:
    """Replaces a file's content by the same number of other bytes; inode, size and modification time stay."""
    before = path.stat()
    assert len(data) == before.st_size
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
