"""Fixtures of all rooms: one embedded PostgreSQL and one lab for the whole run, started when first used.

`WEFT_TEST_LAB` names the state folder of a running lab, `WEFT_TEST_STORAGE_LAB` that of one with storage; such a
lab is used as it is and left running.
"""

from __future__ import annotations

import gc
import importlib
import logging
import os
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.amounts import load_profile
from tests.helpers.byrig import ByRig
from tests.helpers.folders import folder_in_memory
from tests.helpers.paths import ROOT

if TYPE_CHECKING:  # xdist's controller doesn't need them; importing takes seconds
    from tests.helpers.turns import Turns
    from weft.engine.base.database import Database
    from weftlab.lab import Lab

load_profile()


def pytest_configure(config: pytest.Config) -> None:
    """Takes labs down if the run is terminated; xdist ends its workers itself."""
    if not hasattr(config, "workerinput"):
        from weftlab.processes import interrupt_on_sigterm

        interrupt_on_sigterm()


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Restores loggers: programs that tests call set levels, and import-linter disables all existing loggers."""
    known = logging.root.manager.loggerDict
    before = {one: (one.level, one.disabled) for one in [*known.values()] if isinstance(one, logging.Logger)}
    yield
    for one in [*known.values()]:
        if isinstance(one, logging.Logger):
            level, disabled = before.get(one, (logging.NOTSET, False))
            one.disabled = disabled
            if one.level != level:
                one.setLevel(level)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`--dist loadgroup` groups tests by fabrics."""
    return ByRig(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: one more than there are processors, because workers sometimes wait."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that use the embedded PostgreSQL, a lab or single services; `make test-fast` leaves them out.
    tools/test.sh chooses folders to collect by the text `mark.fabric` in a test's folder, and files by
    `mark.cloud` in a test's file, so these must be written there.
    """
    for item in items:
        names = getattr(item, "fixturenames", ())
        if "postgres" in names:
            item.add_marker("database")
        if "lab" in names:
            item.add_marker("lab")
        if item.get_closest_marker("cloud") and not item.get_closest_marker("lab"):
            item.add_marker("landing")
        for mark, place in (("cloud", item.path), ("fabric", item.path.parent)):
            if item.get_closest_marker(mark) and not _mentioned(f"mark.{mark}", place):
                raise pytest.UsageError(f"{item.nodeid}: {place} doesn't say mark.{mark}")


@cache
def _mentioned(text: str, place: Path) -> bool:
    return any(text in file.read_text() for file in (place.glob("*.py") if place.is_dir() else [place]))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Workers that collect the same files import a share each first: in a new clone pytest rewrites their
    assertions, and the others read the result. Otherwise each would rewrite all, 20 s of processor time."""
    given = getattr(session.config, "workerinput", None)
    if given is None:
        return
    gc.disable()
    number, workers = int(given["workerid"].removeprefix("gw")), given["workercount"]
    for file in _files(session.config)[number::workers]:
        # Errors of imports are reported when the file is collected.
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))


def _files(config: pytest.Config) -> list[Path]:
    paths = {(ROOT / arg.partition("::")[0]).resolve() for arg in config.args}
    found = (path.rglob("test_*.py") if path.is_dir() else [path] for path in paths)
    return sorted({file for files in found for file in files if file.is_relative_to(ROOT)})


def pytest_collectstart() -> None:
    """No import is collected as garbage; the collector would take a third of the time of a first run's rewriting."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Excludes what was imported from garbage collection, which would take a tenth of the run's time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A lab with 16 nodes and four on Ethernet: `lab.site_path`, `lab.clouds_yaml`, `lab.layout`, `lab.status()`."""
    from tests.helpers.ownlab import own_lab
    from weftlab.lab import Lab

    if state := os.environ.get("WEFT_TEST_LAB"):
        running = Lab(Path(state))
        assert running.running, (
            f"WEFT_TEST_LAB={state}: no lab is there; `weft lab up --fabric both --tenant-networks --state {state}`"
        )
        yield running
        return
    with own_lab(fabric="both", tenant_networks=True) as ours:
        yield ours


@pytest.fixture(scope="session")
def storage_lab() -> Iterator[Lab]:
    """A second lab with Cinder, Manila and a filer. It is here because a fixture is made again for each module
    that imports it."""
    from tests.helpers.ownlab import own_lab
    from weftlab.lab import Lab

    if state := os.environ.get("WEFT_TEST_STORAGE_LAB"):
        yield Lab(Path(state))
        return
    with own_lab(nodes=4, computes=4, ipus=0, storage=True) as ours:
        yield ours


@pytest.fixture(scope="session")
def postgres() -> Generator[str]:
    import psycopg

    from tests.helpers.turns import TEMPLATE
    from weft.engine.base.database import Database
    from weft.engine.base.embedded import embedded

    with folder_in_memory("weft-postgres-") as folder, embedded(folder) as url:
        with psycopg.connect(url, autocommit=True) as connection:
            # No data must outlive the run, so it needn't be durable.
            for setting in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")  # type: ignore[arg-type]
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(f"CREATE DATABASE {TEMPLATE}".encode())
        template = url.replace("/postgres?", f"/{TEMPLATE}?")
        Database(template).close()
        with psycopg.connect(template) as connection:
            # Retention is due at once in a new database, also by the clocks of tests, which begin in November 2026.
            connection.execute("UPDATE retention SET next_at = 'epoch'")
        yield url


@pytest.fixture(scope="session")
def _turns(postgres: str) -> Generator[Turns]:
    from tests.helpers.turns import Turns

    turns = Turns(postgres)
    yield turns
    turns.close()


@pytest.fixture
def database(_turns: Turns) -> Generator[Database]:
    """A database with weft's tables and the rows of a new one."""
    with _turns.one() as database:
        yield database


@pytest.fixture
def database_url(database: Database) -> str:
    return database.url


@pytest.fixture(scope="session")
def shared_database(postgres: str) -> Generator[Database]:
    """One database for all tests that change nothing in it."""
    from tests.helpers.turns import new_database
    from weft.engine.base.database import Database

    with new_database(postgres) as url:
        database = Database(url, connections=20)
        yield database
        database.close()
