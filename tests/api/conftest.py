"""The API of the real service, on a real HTTP server on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from tests.helpers.doors import DoorsHouse, doors, no_service
from weft.api.app import create_app
from weft.engine.base.database import Database
from weft.testing.callers import by, tokens
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served

__all__ = ["doors"]


@pytest.fixture(scope="session")
def still_doors(shared_database: Database) -> Iterator[DoorsHouse]:
    """One weft that all tests share which change nothing in it."""
    house = DoorsHouse(shared_database, shared_database.url)
    yield house
    house.close()


@pytest.fixture
def identity() -> FakeIdentity:
    return FakeIdentity(tokens())


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[FastAPI, str]]:
    """One server for all tests; each test puts its own service and identity behind it."""
    app = create_app(no_service(), FakeIdentity(), auth_url="http://keystone.example/v3")
    with served(app) as url:
        yield app, url


@pytest.fixture
def api(server: tuple[FastAPI, str], doors: DoorsHouse, identity: FakeIdentity) -> Iterator[httpx.Client]:
    """A client that is alice of team-a, unless a request says otherwise."""
    with _client(server, doors, identity) as client:
        yield client


@pytest.fixture
def still_api(
    server: tuple[FastAPI, str], still_doors: DoorsHouse, identity: FakeIdentity
) -> Iterator[httpx.Client]:
    """The same client for the shared weft: for tests that change nothing."""
    with _client(server, still_doors, identity) as client:
        yield client


def _client(server: tuple[FastAPI, str], house: DoorsHouse, identity: FakeIdentity) -> httpx.Client:
    app, url = server
    house.stand_behind(app, identity)
    return httpx.Client(base_url=url, headers=by("a-member"), trust_env=False, timeout=60)
