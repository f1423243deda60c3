"""Where what a run leaves behind costs least, and for no longer than the run."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOM = 2 << 30
"""Octets that must be free in memory."""


def in_memory() -> str | None:
    """Memory, where there is enough of it: a database is hundreds of small files. None is the usual place."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < ROOM:
        return None
    return str(memory)


@contextmanager
def folder_in_memory(prefix: str) -> Generator[Path]:
    """A folder for hundreds of small files, gone at the end. A run that was killed leaves its own in memory for good:
    the next one with this prefix removes it.

    Not pytest's own folder: another run makes that private again, and PostgreSQL runs as a user of its own.
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
    except OSError:  # in use, another user's, or gone
        return


@contextmanager
def _locked(path: Path, how: int = 0) -> Generator[None]:
    """Hold the lock of a folder or a file, which ends with the process."""
    flags = os.O_RDONLY | os.O_NOFOLLOW if path.is_dir() else os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    number = os.open(path, flags, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(number)
