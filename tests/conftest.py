"""What tests of several rooms use: one embedded PostgreSQL and one lab for the whole run, started when first asked for.

`WEFT_TEST_LAB` names the state folder of a running lab; it is used as it is, and left up.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.helpers.amounts import load_profile
from tests.helpers.folders import in_memory
from weft.engine.database import Database, embedded
from weftlab.lab import Lab
from weftlab.layout import free_ports

load_profile()

_number = itertools.count()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The lab with its default 16 nodes: `lab.site_path`, `lab.clouds_yaml`, `lab.layout`, `lab.status()`."""
    if state := os.environ.get("WEFT_TEST_LAB"):
        running = Lab(Path(state))
        assert running.running, f"WEFT_TEST_LAB={state}: no lab is there; `weft lab up --state {state}`"
        yield running
        return
    ours = Lab(tmp_path_factory.mktemp("lab"), ports=free_ports(), say=print)
    ours.up()
    try:
        yield ours
    finally:
        ours.down()
        assert ours.layout.taken_ports() == {}


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    # Not pytest's own folder: another run makes that private again, and PostgreSQL runs as a user of its own.
    with (
        tempfile.TemporaryDirectory(prefix="weft-pg-", dir=in_memory()) as folder,
        embedded(Path(folder)) as url,
    ):
        with psycopg.connect(url, autocommit=True) as connection:
            # Nothing here outlives the run, and nothing is to come in between.
            for setting in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")  # type: ignore[arg-type]
            connection.execute("SELECT pg_reload_conf()")
            connection.execute("CREATE DATABASE template_weft")
        Database(url.replace("/postgres?", "/template_weft?")).close()
        yield url


@contextmanager
def _new_database(postgres: str) -> Generator[str]:
    """A database of its own, with weft's tables in it."""
    name = f"weft_{next(_number)}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template_weft STRATEGY FILE_COPY")  # type: ignore[arg-type]
        yield postgres.replace("/postgres?", f"/{name}?")
        # Whoever is still connected has forgotten to close what it opened; the next test must not meet it.
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[arg-type]


@pytest.fixture
def database_url(postgres: str) -> Generator[str]:
    with _new_database(postgres) as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Generator[Database]:
    database = Database(database_url, connections=20)
    yield database
    database.close()


@pytest.fixture(scope="session")
def shared_database(postgres: str) -> Generator[Database]:
    """One for all tests that change nothing in it."""
    with _new_database(postgres) as url:
        database = Database(url, connections=20)
        yield database
        database.close()
