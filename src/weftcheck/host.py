"""What a check may read: files below one root, and the output of commands, both bounded."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

FILE_LIMIT = 65536
"""Most bytes read of a file; kernel files are smaller."""
OUTPUT_LIMIT = 16 * 1024 * 1024
"""Most bytes read of a command's output; 8 GPUs of `nvidia-smi -q -x` are 0.4 MB."""
TIMEOUT = 30.0
"""Seconds for a command."""
NAMES_LIMIT = 8192
"""Most names read of a folder."""
_AFTER_KILL = 2.0
"""Seconds to wait for a killed command; one stuck in the kernel never ends."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/mellanox/bin"


class UnreadableError(Exception):
    """Something can't be read: `source` is the file or command, `reason` says why."""

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: {reason}")
        self.source = source
        self.reason = reason


class MissingError(UnreadableError):
    """The file or the program doesn't exist."""


class Output(NamedTuple):
    """What a command printed on standard output, how it ended, and what it printed on standard error."""

    text: str
    code: int
    error: str = ""
    cut: bool = False
    """Output beyond the limit was dropped."""


class Runner(Protocol):
    """Runs a command. Raises MissingError without the program, UnreadableError after the time limit."""

    def __call__(self, command: Sequence[str], timeout: float) -> Output: ...


def run(command: Sequence[str], timeout: float) -> Output:
    """Run a program of the system's folders in locale C, without input; a `Runner`."""
    name = " ".join(command)
    environment = {"PATH": _PATH, "LC_ALL": "C", "LANG": "C", "HOME": "/"}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
        )
    except FileNotFoundError:
        raise MissingError(name, f"the program {command[0]} isn't installed") from None
    except OSError as error:
        raise UnreadableError(name, f"can't be started: {error.strerror}") from None
    try:
        return _collect(process, name, timeout)
    finally:
        _end(process)


def _collect(process: subprocess.Popen[bytes], name: str, timeout: float) -> Output:
    assert process.stdout is not None and process.stderr is not None
    deadline = time.monotonic() + timeout
    streams = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    open_, cut = set(streams), False
    while open_:
        left = deadline - time.monotonic()
        ready = select.select(list(open_), [], [], max(0.0, left))[0] if left > 0 else []
        if not ready:
            raise UnreadableError(name, f"ended after {timeout:g} s without an answer")
        for stream in ready:
            data = os.read(stream, 65536)
            room = OUTPUT_LIMIT - len(streams[stream])
            streams[stream] += data[:room]
            cut = cut or len(data) > room
            if not data:
                open_.discard(stream)
        if cut:
            break
    out, error = (bytes(data).decode("utf-8", "replace") for data in streams.values())
    if cut:
        return Output(out, 0, error[:2000], cut=True)
    try:
        code = process.wait(max(0.1, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise UnreadableError(name, f"ended after {timeout:g} s without an end") from None
    return Output(out, code, error[:2000])


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what still runs of the command's process group, and wait a bounded time for it.

    Not `poll` first: it would free the group's number while children that outlive their parent still have it.
    """
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except OSError:
            process.kill()
        try:
            process.wait(_AFTER_KILL)
        except subprocess.TimeoutExpired:
            process.returncode = -signal.SIGKILL  # stuck in the kernel: don't wait for it, nor warn of it
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


class Host:
    """Files below `root` and commands by `runner`; paths are relative to the root, without a leading slash."""

    def __init__(self, root: Path, runner: Runner = run) -> None:
        self.root = Path(os.path.realpath(root))
        self.runner = runner

    def data(self, path: str, limit: int = FILE_LIMIT) -> bytes:
        """The first bytes of a file. Raises MissingError, UnreadableError."""
        try:
            with (self.root / path).open("rb") as file:
                return file.read(limit)
        except FileNotFoundError:
            raise MissingError(f"/{path}", "doesn't exist") from None
        except OSError as error:
            raise UnreadableError(f"/{path}", f"can't be read: {error.strerror}") from None

    def text(self, path: str, limit: int = FILE_LIMIT) -> str:
        """A file as text, without blanks at its ends. Raises MissingError, UnreadableError."""
        return self.data(path, limit).decode("utf-8", "replace").strip()

    def number(self, path: str) -> int:
        """A file as a number, decimal or with 0x. Raises MissingError, UnreadableError."""
        text = self.text(path)
        try:
            return int(text, 0)
        except ValueError:
            raise UnreadableError(f"/{path}", f"{shown(text)} isn't a number") from None

    def names(self, path: str) -> list[str]:
        """Names in a folder, sorted. Raises MissingError, UnreadableError, also for more than NAMES_LIMIT."""
        try:
            found = sorted(os.listdir(self.root / path))  # noqa: PTH208
        except (FileNotFoundError, NotADirectoryError):
            raise MissingError(f"/{path}", "doesn't exist") from None
        except OSError as error:
            raise UnreadableError(f"/{path}", f"can't be listed: {error.strerror}") from None
        if len(found) > NAMES_LIMIT:
            raise UnreadableError(f"/{path}", f"has {len(found)} entries, more than {NAMES_LIMIT}")
        return found

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        return (self.root / path).exists()

    def target(self, path: str) -> str:
        """Target of a link, relative to the root. Raises MissingError, UnreadableError if it leads out."""
        real = os.path.realpath(self.root / path)
        if not os.path.exists(real):  # noqa: PTH110
            raise MissingError(f"/{path}", "doesn't exist")
        inside = os.path.relpath(real, self.root)
        if inside.startswith(".."):
            raise UnreadableError(f"/{path}", "is a link to outside of the root folder")
        return inside

    def output(self, *command: str, timeout: float = TIMEOUT) -> Output:
        """A command's output with exit code 0. Raises MissingError, UnreadableError with what it said."""
        done = self.runner(command, timeout)
        if done.code != 0:
            said = shown((done.error.strip() or done.text.strip() or "nothing").splitlines()[-1])
            raise UnreadableError(" ".join(command), f"exit code {done.code}, saying {said}")
        return done


def shown(text: str, limit: int = 120) -> str:
    """Foreign text as one printable, quoted line of at most `limit` characters."""
    return repr(text if len(text) <= limit else text[: limit - 1] + "…")
