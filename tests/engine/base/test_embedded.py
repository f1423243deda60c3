"""The embedded PostgreSQL: no other user of the machine gets in, and it is restarted if it was killed."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

from tests.helpers.waiting import wait_for
from weft.engine.base import embedded as module
from weft.engine.base.embedded import LONGEST, SOCKET, EmbeddedKeeper, EmbeddedServer, embedded
from weft.engine.base.pulse import Pulse
from weft.model.errors import InputError

NOBODY = 65534


@pytest.fixture
def place() -> Generator[Path]:
    """A folder that every user of the machine may enter."""
    with tempfile.TemporaryDirectory(prefix="weft-pg-", dir="/tmp") as made:
        place = Path(made)
        place.chmod(0o755)
        yield place


def folder_of(url: str) -> Path:
    return Path(parse_qs(urlsplit(url).query)["host"][0])


def as_nobody(url: str) -> str:
    """The answer to another user of the machine who connects; empty: admitted."""
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = ""
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            psycopg.connect(url, connect_timeout=5).close()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(theirs, text.encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        text = answer.read().decode()
    os.waitpid(pid, 0)
    return text


def closed_to_others(url: str) -> Path:
    """The socket's folder is closed; even if it weren't, PostgreSQL would ask the kernel for the peer's user."""
    folder = folder_of(url)
    socket = folder / SOCKET
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and not socket.stat().st_mode & 0o077
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    if os.geteuid() == 0:
        assert "Permission denied" in as_nobody(url)
        folder.chmod(0o755)
        socket.chmod(0o777)
        assert "Peer authentication failed" in as_nobody(url)
        folder.chmod(0o700)
    return folder


def test_socket_excludes_other_users_however_long_the_path(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a path too long for a socket, it is in systemd's folder."""
    (place / "run").mkdir()
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(place / "run"))
    with embedded(place / ("s" * 100)) as url:
        assert closed_to_others(url).is_relative_to(place / "run")


def test_path_too_long_for_a_socket_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the socket's path, to the byte; nothing was made."""
    monkeypatch.delenv("RUNTIME_DIRECTORY", raising=False)
    most = LONGEST - len(f"/postgres/{SOCKET}") - len(str(place)) - 1
    with pytest.raises(InputError, match=r"--state: .*at most 84 bytes"):
        EmbeddedServer(place / ("s" * (most + 1)) / "postgres")
    EmbeddedServer(place / ("s" * most) / "postgres")


def test_runtime_folder_open_to_others_is_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user may have created it."""
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(place))
    data = place / ("s" * 100) / "postgres"
    data.mkdir(parents=True)
    server = EmbeddedServer(data)
    folder = server._sockets  # pyright: ignore[reportPrivateUsage]
    folder.mkdir(mode=0o777)
    with pytest.raises(InputError, match="no other user may enter"):
        server.ensure_postgres_running()


def test_killed_server_is_restarted(place: Path) -> None:
    """With the rows that were committed; other processes that share it find it running. With a short path, the socket
    is in the data folder."""
    pulse = Pulse()
    with embedded(place / "state of weft", pulse) as url:
        data = closed_to_others(url)
        assert data == place / "state of weft" / "postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
        os.kill(int((data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        deadline = time.monotonic() + 60
        while True:
            try:
                with psycopg.connect(url, connect_timeout=5) as connection:
                    assert connection.execute("SELECT n FROM kept").fetchone() == (7,)
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, pulse.checks()
                time.sleep(0.1)
        other = EmbeddedServer(data)
        assert EmbeddedKeeper(other, Pulse()).look() > 0 and not other.revive()


@pytest.mark.parametrize("zombie", [False, True], ids=["another process", "zombie"])
def test_stale_pid_file_does_not_prevent_a_start(place: Path, zombie: bool) -> None:
    """After a power cut the id is another process's; in a container without an init a zombie keeps it."""
    with embedded(place / "state") as url:
        data = folder_of(url)
        noted = (data / "postmaster.pid").read_text()
    pid = os.getpid()
    if zombie:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    (data / "postmaster.pid").write_text("\n".join([str(pid), *noted.splitlines()[1:]]) + "\n")
    try:
        with embedded(place / "state") as url, psycopg.connect(url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert not EmbeddedServer(data).revive()
    finally:
        if zombie:
            os.waitpid(pid, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can own what is another's")
@pytest.mark.parametrize("what", [".", "postgres"])
def test_state_of_another_user_is_refused_and_left_alone(place: Path, what: str) -> None:
    """`weft serve` as root where weft's user has served: files of root's there would stop that one."""
    (place / "postgres").mkdir(parents=True)
    os.chown(place / what, NOBODY - 1, NOBODY - 1)
    before = sorted(place.rglob("*"))
    with (
        pytest.raises(
            InputError, match=r"weft\.state.*is #65533's: run weft as that user \(sudo -u '#65533'\)"
        ),
        embedded(place),
    ):
        raise AssertionError
    assert sorted(place.rglob("*")) == before
    os.chown(place / what, 0, 0)


@pytest.mark.parametrize(
    ("mode", "of_data", "said"),
    [
        (0o777, 65533, ""),
        (0o777, None, ""),
        (0o755, None, "is root's: run weft as that user (sudo -u root)"),
        (0o777, 0, "is root's: run weft as that user"),
    ],
)
def test_embedded_database_starts_in_roots_folder_that_a_nameless_user_may_write(
    place: Path, mode: int, of_data: int | None, said: str
) -> None:
    """As container platforms mount it, for a user of any number; and a refusal is no traceback."""
    state = place / "state"
    state.mkdir()
    state.chmod(mode)
    if of_data is not None:
        (state / "postgres").mkdir()
        os.chown(state / "postgres", of_data, of_data)
    ours, theirs = os.pipe()
    if os.fork() == 0:
        text = ""
        try:
            os.setgroups([])
            os.setgid(65533)
            os.setuid(65533)
            module._refuse_anothers(state, state / "postgres")  # pyright: ignore[reportPrivateUsage]
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(theirs, text.encode())
        os._exit(0)
    os.close(theirs)
    os.wait()
    with os.fdopen(ours) as answer:
        found = answer.read()
    assert said in found and found.partition(":")[0] == ("InputError" if said else "")


def test_server_whose_root_is_another_one_is_recognized(tmp_path: Path) -> None:
    """In a chroot its folder has another name outside: its pid file isn't removed under it."""
    data = tmp_path / "postgres"
    data.mkdir()
    seen_from_outside = tmp_path / "root" / "postgres"
    seen_from_outside.mkdir(parents=True)
    words = [sys.executable, "-c", "import time; time.sleep(60)", "-D", str(data)]
    with subprocess.Popen(words, cwd=seen_from_outside) as server:
        try:
            info = cast(Any, SimpleNamespace(pid=server.pid, is_running=lambda: True))
            words_of = Path("/proc", str(server.pid), "cmdline")
            wait_for(words_of.read_bytes)  # the kernel has it a moment after the program has begun
            assert module._serves(info, data)  # pyright: ignore[reportPrivateUsage]
            assert not module._serves(info, tmp_path / "other")  # pyright: ignore[reportPrivateUsage]
        finally:
            server.kill()
