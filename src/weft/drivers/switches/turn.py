"""Changes of one switch wait for each other, and not for ever."""

from __future__ import annotations

import fcntl
import os
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from weft.drivers.switches.switch import PAUSE
from weft.model.errors import PermanentError, UnknownError

TURN_SECONDS = 60.0
"""How long a change waits for those before it, in this process and then in others."""


@contextmanager
def turn(lock: threading.Lock, switch: str) -> Generator[None]:
    """One session to a switch at a time, of all processes of this user on this host.

    Raises `UnknownError` after `TURN_SECONDS`, and if the file that stands for the turn can't be used; `PermanentError`
    if its folder is another user's.

    Args:
        lock: the switch's own, of this process.
    """
    if not lock.acquire(timeout=TURN_SECONDS):
        raise _no_turn(switch, f"this process is still changing it after {TURN_SECONDS:.0f} s")
    try:
        with _among_processes(switch):
            yield
    finally:
        lock.release()


def folder_of_turns() -> Path:
    """With a file for each switch, by name: who has it locked has the turn."""
    return Path(tempfile.gettempdir()) / f"weft-switches-{os.getuid()}"


@contextmanager
def _among_processes(switch: str) -> Generator[None]:
    folder = folder_of_turns()
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if (
            folder.lstat().st_uid != os.getuid()
        ):  # before anything is opened there: it may hold links to our files
            said = f"{folder} belongs to somebody else"
            raise PermanentError("change VLANs", f"switch {switch}", said, "remove it, or set TMPDIR")
        file = (folder / switch).open("w")
    except OSError as error:
        raise _no_turn(switch, str(error)) from None
    with file:
        _lock(file, switch)
        yield


def _lock(file: IO[str], switch: str) -> None:
    end = time.monotonic() + TURN_SECONDS
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                said = f"another process is still changing it after {TURN_SECONDS:.0f} s"
                raise _no_turn(switch, said) from None
        except OSError as error:
            raise _no_turn(switch, str(error)) from None
        time.sleep(PAUSE)


def _no_turn(switch: str, said: str) -> UnknownError:
    return UnknownError("take a turn", f"switch {switch}", said)
