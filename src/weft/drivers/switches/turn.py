"""Changes of one switch wait for each other, up to a time limit."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from weft.model.errors import PermanentError, UnknownError

TURN_SECONDS = 60.0
"""Seconds for which a change waits for those before it, in this process and then again for other processes."""
_POLL_SECONDS = 0.05
_UNDER_WAY, _LONGEST = "a change is under way", 100


class Turn:
    """A turn that was obtained.

    Attributes:
        changed: when this host's processes last ended a change of the switch, in seconds of the host's
        monotonic clock, which its processes share: a reading that began before that is outdated.
    """

    def __init__(self, file: IO[str] | None = None) -> None:
        self._file = file
        self.changed = float("-inf") if file is None else _changed(file)

    def begins(self) -> None:
        """Record that a change begins. If the process dies before it ends, no time is recorded, and every reading
        counts as outdated."""
        self._note(_UNDER_WAY)

    def ends(self) -> None:
        """Record that the change has ended, or that its outcome is unknown."""
        self._note(repr(time.monotonic()))

    def _note(self, text: str) -> None:
        if self._file is not None:
            self._file.seek(0)
            self._file.truncate()
            self._file.write(text)
            self._file.flush()


def _changed(file: IO[str]) -> float:
    text, now = file.read(_LONGEST), time.monotonic()
    try:
        return (
            min(float(text), now) if text else float("-inf")
        )  # the clock was ahead before the host was restarted
    except ValueError:
        return now


@contextmanager
def turn(lock: threading.Lock, switch: str, address: str | None = "") -> Generator[Turn]:
    """One session to a switch at a time, among all processes of this user on this host. Raises `UnknownError`
    after `TURN_SECONDS`, and if the lock file can't be used; `PermanentError` if its folder belongs to
    another user.

    Args:
        lock: the switch's lock within this process.
        address: where it is reached, since switches of two sites may have the same name; None: only this
        process uses it.
    """
    if not lock.acquire(timeout=TURN_SECONDS):
        raise _no_turn(switch, f"this process is still changing it after {TURN_SECONDS:.0f} s")
    try:
        if address is None:
            yield Turn()
            return
        with _among_processes(switch, address) as file:
            yield Turn(file)
    finally:
        lock.release()


def folder_of_turns() -> Path:
    """Folder with a lock file for each switch, by name and address. It is in the folder that systemd creates
    for a unit, if any, since a unit may have a private /tmp.
    """
    runtime, _, _ = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")
    return Path(runtime or tempfile.gettempdir()) / f"weft-switches-{os.getuid()}"


@contextmanager
def _among_processes(switch: str, address: str) -> Generator[IO[str]]:
    folder, file_name = folder_of_turns(), switch
    if address:
        file_name += f"-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if (
            folder.lstat().st_uid != os.getuid()
        ):  # before anything is opened there: it may contain links to our files
            said = f"{folder} belongs to another user"
            raise PermanentError("change VLANs", f"switch {switch}", said, "remove it, or set TMPDIR")
        file = (folder / file_name).open("a+")
    except OSError as error:
        raise _no_turn(switch, str(error)) from None
    with file:
        _lock(file, switch)
        file.seek(0)
        yield file


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
