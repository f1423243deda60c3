"""Files that change without a trace in what `stat` says of them, as if only their owner or mode had been mended."""

from __future__ import annotations

import os
from pathlib import Path


def rewrite(path: Path, data: bytes) -> None:
    """Replace the content of a file by as many other bytes; inode, size and time of change stay."""
    before = path.stat()
    assert len(data) == before.st_size
    with path.open("r+b") as file:
        file.write(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
