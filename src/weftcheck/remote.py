"""Nodes of a test, reached by the system's `ssh`: one connection each, on which all scripts of the node run.

Nothing is installed on a node. Scripts are `sh`'s, every program in them ends by `timeout`, and the node's lock is held
by a session that ends with its input: if this process dies, nothing stays.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from weftcheck.bandwidthplan import Node

LOGIN = 30.0
"""Seconds for a login, and for reading a node's devices."""
_MOST = 1024 * 1024
_LOCK = """
d=/run/lock; [ -w "$d" ] || d=/tmp
exec 9>>"$d/weft-bandwidth.lock" || { echo busy; exit 75; }
flock -n 9
case $? in 0) ;; 1) echo busy; exit 75;; *) echo without; exit 69;; esac
echo held; cat >/dev/null
"""
_OPTIONS = (
    *(
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=15",
        "-o",
        "ServerAliveInterval=5",
        "-o",
        "ServerAliveCountMax=3",
    ),
    *("-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", "LogLevel=ERROR", "-T"),
)


class Ended(NamedTuple):
    """How a script ended. Attributes: code: None: it didn't end in time; text: what it printed, both ways."""

    code: int | None
    text: str


class Session:
    """SSH to one node. Exit code 255 of a script is SSH's own failure, and so is the end of the lock's session."""

    def __init__(self, node: Node, command: Sequence[str], folder: str) -> None:
        self._node = node
        user = f"{node.user}@{node.address}" if node.user else node.address
        port = ("-p", str(node.port)) if node.port else ()
        self._command = [*command, "-o", f"ControlPath={folder}/%C", *port, "--", user]
        self._holder: subprocess.Popen[bytes] | None = None

    def hold(self) -> str | None:
        """Log in, and take the node's lock until `close`; a code of `REASONS` if that isn't possible."""
        script = f"sh -c '{_LOCK.strip()}'"
        self._holder = subprocess.Popen(
            [*self._command, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        said = _line(self._holder, LOGIN)
        if said == "held":
            return None
        self.close()
        return {"busy": "BUSY", "without": "NO_PROGRAM"}.get(said, "NO_LOGIN")

    @property
    def lost(self) -> bool:
        """Whether the session that holds the lock has ended."""
        return self._holder is None or self._holder.poll() is not None

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """Start a script; the caller ends it with `finish`."""
        process = subprocess.Popen(
            [*self._command, "sh -s"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # killed whole, and not ended by ^C
        )
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.write(script.encode())
            process.stdin.close()
        return process

    def run(self, script: str, seconds: float) -> Ended:
        """Run a script to its end."""
        return finish(self.start(script), seconds)

    def close(self) -> None:
        """End the lock's session."""
        if self._holder is not None:
            for pipe in (self._holder.stdin, self._holder.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
            _end(self._holder)
            self._holder = None


def finish(process: subprocess.Popen[bytes], seconds: float) -> Ended:
    """Wait for a started script, at most so long, and read what it printed, up to 1 MiB."""
    assert process.stdout is not None
    timer = threading.Timer(seconds, _kill, (process,))
    timer.start()
    try:
        data = bytearray()
        while block := process.stdout.read1(65536):  # pyright: ignore[reportAttributeAccessIssue]
            data += block[: max(0, _MOST - len(data))]
        code = process.wait()
    finally:
        timer.cancel()
        process.stdout.close()
        _end(process)
    return Ended(None if code == -9 else code, data.decode("utf-8", "replace"))


@contextlib.contextmanager
def sessions(nodes: Sequence[Node], command: Sequence[str]) -> Generator[list[Session], None, None]:
    """Sessions of nodes, which end with this context, and with them their connections.

    Args:
        command: `ssh` with the user's own options.
    """
    folder = tempfile.mkdtemp(prefix="weft-ssh-")  # 0700: the control sockets are passwords
    made = [Session(node, [*command, *_OPTIONS], folder) for node in nodes]
    try:
        yield made
    finally:
        for one in made:
            one.close()
        for path in Path(folder).iterdir():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                stop = [command[0], "-o", f"ControlPath={path}", "-O", "exit", "none"]
                subprocess.run(stop, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _line(process: subprocess.Popen[bytes], seconds: float) -> str:
    """The first line that a process prints within a time; empty: none."""
    assert process.stdout is not None
    found: list[bytes] = []
    out = process.stdout
    thread = threading.Thread(target=lambda: found.append(out.readline(100)), daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        _kill(process)
    return found[0].decode("utf-8", "replace").strip() if found else ""


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            _kill(process)
            process.wait()


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and what it started, which would hold its output open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
