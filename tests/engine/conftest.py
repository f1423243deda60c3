"""One embedded PostgreSQL for the whole run, a fresh database for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest

from tests.engine.house import House
from tests.engine.timehouse import HandClock
from weft.engine.database import Database, embedded
from weft.engine.store import Store

ROOM = 2 << 30
"""Octets that must be free in memory for the databases of a run."""

_number = itertools.count()


def _quickest_folder() -> str | None:
    """Memory, where there is enough of it: a database is hundreds of small files. None is the usual place."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < ROOM:
        return None
    return str(memory)


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    # Not pytest's own folder: another run makes that private again, and PostgreSQL runs as a user of its own.
    with (
        tempfile.TemporaryDirectory(prefix="weft-pg-", dir=_quickest_folder()) as folder,
        embedded(Path(folder)) as url,
    ):
        with psycopg.connect(url, autocommit=True) as connection:
            # Nothing here outlives the run.
            for setting in ("fsync", "full_page_writes", "synchronous_commit"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")  # type: ignore[arg-type]
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("CREATE DATABASE template_weft")
        Database(url.replace("/postgres?", "/template_weft?")).close()
        yield url


@pytest.fixture
def database_url(postgres: str) -> Generator[str]:
    name = f"weft_{next(_number)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template_weft")  # type: ignore[arg-type]
        yield postgres.replace("/postgres?", f"/{name}?")
        # Whoever is still connected has forgotten to close what it opened; the next test must not meet it.
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    database = Database(database_url, connections=20)
    yield database
    database.close()


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@pytest.fixture
def clock() -> HandClock:
    """A clock that a test moves; modules that need none have a `house` of their own."""
    return HandClock()


@pytest.fixture
def house(database: Database, database_url: str, clock: HandClock) -> Generator[House]:
    house = House(database, database_url, clock=clock)
    yield house
    house.close()
