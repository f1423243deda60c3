"""Changes of one switch wait for each other, and not for ever."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

from weft.model.errors import PermanentError, UnknownError

TURN_SECONDS = 60.0
"""How long a change waits for those before it, in this process and then in others."""
_POLL_SECONDS = 0.05


@contextmanager
def turn(lock: threading.Lock, switch: str, address: str | None = "") -> Generator[None]:
    """One session to a switch at a time, of all processes of this user on this host.

    Raises `UnknownError` after `TURN_SECONDS`, and if the file that stands for the turn can't be used; `PermanentError`
    if its folder is another user's.

    Args:
        lock: the switch's own, of this process.
        address: where it is reached, as switches of two sites may have one name; None: it is this process's alone.
    """
    if not lock.acquire(timeout=TURN_SECONDS):
        raise _no_turn(switch, f"this process is still changing it after {TURN_SECONDS:.0f} s")
    try:
        with nullcontext() if address is None else _among_processes(switch, address):
            yield
    finally:
        lock.release()


def folder_of_turns() -> Path:
    """With a file for each switch, by name and address: who has it locked has the turn."""
    return Path(tempfile.gettempdir()) / f"weft-switches-{os.getuid()}"


@contextmanager
def _among_processes(switch: str, address: str) -> Generator[None]:
    folder, file_name = folder_of_turns(), switch
    if address:
        file_name += f"-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if (
            folder.lstat().st_uid != os.getuid()
        ):  # before anything is opened there: it may hold links to our files
            said = f"{folder} belongs to somebody else"
            raise PermanentError("change VLANs", f"switch {switch}", said, "remove it, or set TMPDIR")
        file = (folder / file_name).open("w")
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
        time.sleep(_POLL_SECONDS)


def _no_turn(switch: str, said: str) -> UnknownError:
    return UnknownError("take a turn", f"switch {switch}", said)
