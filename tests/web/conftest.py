"""The console on a real HTTP server, over a real weft and a small Keystone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.helpers.consoles import Browser, Console, console_of
from tests.helpers.doors import DoorsHouse, doors
from weft.engine.base.database import Database

__all__ = ["doors"]


@pytest.fixture(scope="session")
def still_console(
    shared_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Console, DoorsHouse]]:
    """One server for all tests; tests with pods put a house of their own behind it."""
    house = DoorsHouse(shared_database, shared_database.url)
    with console_of(house, tmp_path_factory.mktemp("console")) as made:
        yield made, house
    house.close()


@pytest.fixture
def console(still_console: tuple[Console, DoorsHouse]) -> Console:
    """A console without pods and sessions."""
    made, house = still_console
    made.stand_before(house)
    return made


@pytest.fixture
def pods_console(still_console: tuple[Console, DoorsHouse], doors: DoorsHouse) -> Console:
    """A console over a weft of its own, for tests that order pods."""
    made, _ = still_console
    made.stand_before(doors)
    return made


@pytest.fixture
def browser(still_console: tuple[Console, DoorsHouse]) -> Iterator[Browser]:
    """A browser that isn't signed in."""
    with Browser(still_console[0].url) as made:
        yield made
