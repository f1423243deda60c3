"""The subnet manager as a process with a partition file and a log: what the agent does on the host itself."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from weft.fabricagent.config import OpenSm
from weft.model.errors import ConflictError, PermanentError

_ENCODING = "latin-1"
"""Every byte is one character: foreign content passes through unchanged."""
_MOST = 64 << 20
_FIRST_LOOK = 1 << 20
_TROUBLE = re.compile(r"PARSE ERROR|configuration in error|ERR 0512|ERR 0507|ERR 3119|Errors during")
_TRIED = re.compile(
    r"num:25[6789] \(|Bad [PQ]_Key:|ERR (?:1A04|2F13|2F18|2F19|2F1A|2F1B|430B|4608)\b|with non-matching sm_key"
)
"""Traps of wrong M_Keys and P_Keys, and requests that manager and administrator refused, as logged by OpenSM
3.3.23."""
_SECRET = re.compile(r"(sm_key:? ?|!= SM_Key: ?)0x[0-9a-f]+", re.IGNORECASE)
_NOT_AGAIN = re.compile(r" TID:0x[0-9a-f]+| QP[12]:0x[0-9a-f]+")
"""Parts that differ between repetitions of the same attempt."""
TRIED_SECONDS = 3600.0
"""Seconds for which an attempt is reported."""
_UP = "SUBNET UP"
_ROUTED = re.compile(r" ([\w-]{1,40}) tables configured on all switches")
"""The line that names the routing engine in force; other lines name engines that were tried."""
_KEPT = 20
_NONE_YET = -1
"""Stands for an inode if there was no log yet, so that all of a new log counts."""
_MOST_TRIED = 1000
"""Most different attempts that are counted, so that attempts with ever new keys don't fill the memory."""


def digest(text: str | None) -> str:
    """SHA-256 in hex; "" for a missing file."""
    return "" if text is None else hashlib.sha256(text.encode(_ENCODING)).hexdigest()


class PartitionFile:
    """partitions.conf: read and replaced as a whole, since OpenSM may read it at any moment."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> str | None:
        """The text, or None if there is no file. Raises PermanentError if it exists but can't be read."""
        try:
            with self.path.open("rb") as file:
                octets = file.read(_MOST + 1)
            if len(octets) > _MOST:
                raise OSError(f"it has more than {_MOST} octets")
            return octets.decode(_ENCODING)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PermanentError(
                "read the partition file",
                str(self.path),
                str(error),
                "let the agent's user read and write it",
            ) from error

    def write(self, text: str, expected: str) -> None:
        """Replace the file: write a temporary one next to it, fsync, rename. Owner and mode are kept.

        A symlink stays one, and its target is replaced: OpenSM may use either name.

        Args:
            expected: digest of the file as it was read.

        Raises:
            ConflictError: someone else changed it while the new one was being written.
            PermanentError: it can't be written (disk full, immutable file, missing permission); it is unchanged.
        """
        try:
            target = self.path.resolve()
            handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
            temporary = Path(name)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(text.encode(_ENCODING))
                    file.flush()
                    os.fsync(file.fileno())
                self._same_access(temporary)
                if digest(self.read()) != expected:
                    raise ConflictError(
                        f"{self.path} was changed by someone else in the meantime: read it again"
                    )
                temporary.replace(target)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            self._sync_folder(target.parent)
        except OSError as error:
            raise PermanentError(
                "write the partition file",
                str(self.path),
                str(error),
                "let the agent's user write its folder",
            ) from error

    def _same_access(self, temporary: Path) -> None:
        try:
            shutil.copymode(self.path, temporary)
            old = self.path.stat()
            os.chown(temporary, old.st_uid, old.st_gid)
        except FileNotFoundError:
            temporary.chmod(0o644)
        except PermissionError:
            temporary.chmod(
                0o644
            )  # a file of another user that we may replace: OpenSM must be able to read ours

    def _sync_folder(self, path: Path) -> None:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class OpenSmProcess:
    """opensm's process, found by pid file or command and checked by its name before anything is sent to it."""

    def __init__(self, settings: OpenSm) -> None:
        self._settings = settings

    def pid(self) -> int | None:
        """opensm's PID, or None if it doesn't run: a stale PID file must never hit another program."""
        text = ""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            if self._settings.pid_file is not None:
                text = self._settings.pid_file.read_text()
            elif self._settings.pid_command is not None:
                text = subprocess.run(
                    self._settings.pid_command, capture_output=True, text=True, timeout=10, check=True
                ).stdout
        number = int(text) if text.strip().isdigit() else 0
        if number <= 1:
            return None
        with contextlib.suppress(OSError):
            if Path(f"/proc/{number}/comm").read_text().strip() == "opensm":
                return number
        return None

    def reload(self) -> int | None:
        """SIGHUP: reload the configuration and sweep. Returns the PID, or None if it doesn't run."""
        pid = self.pid()
        if pid is None:
            return None
        try:
            os.kill(pid, signal.SIGHUP)
        except ProcessLookupError:
            return None
        except PermissionError as error:
            raise PermanentError(
                "send SIGHUP", f"opensm, process {pid}", str(error), "run the agent as opensm's user or root"
            ) from error
        return pid


class Log:
    """opensm's log since the last read. Each heavy sweep logs its errors again and ends with SUBNET UP.

    So only the last completed sweep and the current one count.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._offset = 0
        self._inode = 0
        self._rest = ""
        self._last: list[str] = []
        self._now: list[str] = []
        self._since: list[str] = []
        self._asked_to_sweep: float | None = None
        self._tried: dict[str, tuple[int, float]] = {}
        self._sweeps, self._engine = 0, ""

    def attempts(self, now: float) -> tuple[str, ...]:
        """Refused attempts (wrong keys, untrusted requests) within the last `TRIED_SECONDS`: each once, with its count.

        Args:
            now: seconds of the same clock each time.
        """
        with self._lock:
            self._read(now)
            self._tried = {t: v for t, v in self._tried.items() if now - v[1] < TRIED_SECONDS}
            newest = sorted(self._tried.items(), key=lambda i: i[1][1])[-_KEPT:]
            return tuple(f"{text} ({number} times)" if number > 1 else text for text, (number, _) in newest)

    def troubles(self) -> tuple[str, ...]:
        """Error lines of the last heavy sweep, newest last, at most 20."""
        with self._lock:
            self._read()
            return tuple(dict.fromkeys([*self._last, *self._now]))[-_KEPT:]

    def mark(self, now: float) -> None:
        """Mark this point for `since_mark`. The manager is asked to sweep now, at `now` seconds."""
        with self._lock:
            self._read()
            self._since = []
            self._asked_to_sweep = self._asked_to_sweep or now

    def silence(self, now: float) -> float:
        """Seconds since the manager was first asked to sweep without completing one; 0 if it has."""
        with self._lock:
            self._read()
            return now - self._asked_to_sweep if self._asked_to_sweep else 0.0

    def sweeps(self) -> int:
        """Number of completed sweeps in the log so far. When it changes, tables may have changed."""
        with self._lock:
            self._read()
            return self._sweeps

    def engine(self) -> str:
        """Routing engine of the last sweep that computed routes; empty: the log doesn't say."""
        with self._lock:
            self._read()
            return self._engine

    def since_mark(self) -> tuple[str, ...]:
        """Error lines since the last `mark`, at most 20."""
        with self._lock:
            self._read()
            return tuple(dict.fromkeys(self._since))[-_KEPT:]

    def _read(self, now: float = 0.0) -> None:
        first = self._inode == 0
        try:
            with self._path.open("rb") as file:
                info = os.fstat(file.fileno())
                if info.st_ino != self._inode:
                    # First read, or rotated: the beginning of a rotated log is new, that of an old log isn't.
                    self._inode = info.st_ino
                    self._offset = max(0, info.st_size - _FIRST_LOOK) if first else 0
                    self._rest = ""
                elif info.st_size < self._offset:
                    self._offset, self._rest = 0, ""
                file.seek(self._offset)
                text = file.read()
                self._offset += len(text)
        except FileNotFoundError:
            self._inode = self._inode or _NONE_YET
            return
        except OSError:
            return
        *lines, self._rest = (self._rest + text.decode(errors="replace")).split("\n")
        for line in lines:
            self._line(line, now or time.monotonic(), first)

    def _line(self, line: str, now: float, old: bool) -> None:
        """Process a line. Args: old: logged before the agent started, so that the time of the attempt isn't
        known."""
        if not old and _TRIED.search(line):
            said = _NOT_AGAIN.sub("", _SECRET.sub(r"\1…", line.partition(" -> ")[2] or line)).strip()
            number, _ = self._tried.get(said, (0, 0.0))
            if number or len(self._tried) < _MOST_TRIED:
                self._tried[said] = number + 1, now
        if routed := _ROUTED.search(line):
            self._engine = routed[1]
        if _UP in line:
            self._sweeps += 1
            self._last, self._now, self._asked_to_sweep = self._now, [], None
        elif _TROUBLE.search(line):
            said = line.partition(" -> ")[2] or line
            self._now = [*self._now[-_KEPT:], said]
            self._since = [*self._since[-_KEPT:], said]
