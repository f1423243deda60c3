"""Fixtures of the engine's tests: a store, a clock, a house. Databases are in tests/conftest.py."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.house import House
from tests.engine.timehouse import HandClock
from weft.engine.base.database import Database
from weft.engine.store.store import Store


@pytest.fixture
def store(database: Database) -> Store:
    return Store(database)


@pytest.fixture
def clock() -> HandClock:
    """A clock that a test moves. A module whose tests need the real time has a `house` fixture of its own."""
    return HandClock()


@pytest.fixture
def house(database: Database, database_url: str, clock: HandClock) -> Generator[House]:
    house = House(database, database_url, clock=clock)
    yield house
    house.close()
