"""The command line against a real API server with the real service, and a small fake Keystone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from tests.helpers.desk import USERS, Desk, sign_in
from tests.helpers.doors import DoorsHouse, doors, no_service
from weft.api.app import create_app
from weft.testing.callers import tokens
from weft.testing.keystone import FakeIdentity, FakeKeystone
from weft.testing.serving import served

__all__ = ["doors"]


@pytest.fixture(scope="session")
def servers() -> Iterator[tuple[FastAPI, str, FakeKeystone]]:
    keystone = FakeKeystone(FakeIdentity())
    app = create_app(no_service(), keystone.identity)
    with served(app) as weft_url, served(keystone.app()) as keystone_url:
        keystone.url = keystone_url
        yield app, weft_url, keystone


@pytest.fixture
def desk(
    servers: tuple[FastAPI, str, FakeKeystone],
    doors: DoorsHouse,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    app, url, keystone = servers
    doors.stand_behind(app, keystone.identity)
    keystone.identity.tokens = tokens()
    keystone.users = {name: ("secret", tokens()[name]) for name in USERS}
    keystone.weft_url = url
    for name in [n for n in os.environ if n.startswith(("OS_", "WEFT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(tmp_path / "clouds.yaml"))
    desk = Desk(tmp_path, doors, keystone, url, capsys, monkeypatch)
    for name in USERS:
        desk.clouds[name] = {"auth": sign_in(keystone.url, name), "region_name": "lab"}
    desk.write_clouds()
    return desk
