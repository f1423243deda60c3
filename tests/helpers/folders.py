"""Folders in memory for what a run writes, removed with the run."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOM = 2 << 30
"""Bytes that must be free in memory."""


def in_memory() -> str | None:
    """A folder in memory with enough space for databases of hundreds of small files, or None for the usual place."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < ROOM:
        return None
    return str(memory)


@contextmanager
def folder_in_memory(prefix: str) -> Generator[Path]:
    """A folder for hundreds of small files, removed at the end.

    One left by a killed run is removed by the next run with this prefix. It isn't in pytest's folder: another run
    makes that private, and PostgreSQL runs as another user.
    """
    place = Path(in_memory() or tempfile.gettempdir())
    with ExitStack() as stack:
        with _locked(place / f"{prefix}{os.geteuid()}.lock"):
            for left in place.glob(f"{prefix}*/"):
                _remove_unless_in_use(left)
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=prefix, dir=place)))
            stack.enter_context(_locked(path))
        yield path


def _remove_unless_in_use(folder: Path) -> None:
    try:
        with _locked(folder, fcntl.LOCK_NB):
            shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # in use, another user's, or removed meanwhile
        return


@contextmanager
def _locked(path: Path, how: int = 0) -> Generator[None]:
    """Holds the lock of a folder or file, which the kernel releases when the process ends."""
    flags = os.O_RDONLY | os.O_NOFOLLOW if path.is_dir() else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    number = os.open(path, flags, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(number)
