"""The API with fake verbs, on a real HTTP server on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI

from weft.api.app import create_app
from weft.app.redact import redacted
from weft.testing.callers import by, tokens
from weft.testing.serving import served
from weft.testing.verbs import FakeIdentity, FakeVerbs


@pytest.fixture
def verbs() -> FakeVerbs:
    return FakeVerbs()


@pytest.fixture
def identity() -> FakeIdentity:
    return FakeIdentity(tokens())


@pytest.fixture(scope="session")
def server() -> Iterator[tuple[FastAPI, str]]:
    """One server for all tests; each test puts its own verbs and identity into it."""
    app = create_app(FakeVerbs(), FakeIdentity(), auth_url="http://keystone.example/v3")
    with served(app) as url:
        yield app, url


@pytest.fixture
def api(server: tuple[FastAPI, str], verbs: FakeVerbs, identity: FakeIdentity) -> Iterator[httpx.Client]:
    """A client that is alice of team-a, unless a request says otherwise."""
    app, url = server
    app.state.verbs, app.state.identity = redacted(verbs, verbs.policy), identity
    with httpx.Client(base_url=url, headers=by("a-member"), trust_env=False, timeout=60) as client:
        yield client
