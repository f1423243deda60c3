"""Tokens against the real Keystone: none, nonsense, expired, revoked."""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import httpx
import pytest
import yaml

from weftlab import checks, cloud
from weftlab.catalog import API_SERVICES
from weftlab.environment import environment_path
from weftlab.lab import Lab
from weftlab.supervisor import Supervisor

pytestmark = pytest.mark.cloud


@pytest.fixture
def hasty_keystone(lab: Lab, tmp_path: Path) -> Generator[str]:
    """A second Keystone with the lab's database and keys, whose tokens live for six seconds; gives its URL."""
    port = lab.layout.ports + 50
    hasty = tmp_path / "hasty.conf"
    hasty.write_text("[token]\nexpiration = 6\n")
    keystone = next(api for api in API_SERVICES if api.name == "keystone")
    usual = cloud.api_service(lab.layout, environment_path(lab.layout.cache), keystone, ())
    old, new = (f"127.0.0.1:{p}" for p in (lab.layout.port("keystone"), port))
    files = f"{usual.env['OS_KEYSTONE_CONFIG_FILES']};{hasty}"
    service = replace(
        usual,
        name="keystone-hasty",
        argv=tuple(word.replace(old, new) for word in usual.argv),
        env={**usual.env, "OS_KEYSTONE_CONFIG_FILES": files},
        log=tmp_path / "keystone-hasty.log",
        logs=(),
        cwd=tmp_path / "work",
        ready=checks.answers_http(port),
    )
    (tmp_path / "run").mkdir()
    supervisor = Supervisor(tmp_path / "run")
    try:
        supervisor.start(service)
        supervisor.await_ready(service)
        yield f"http://{new}/v3"
    finally:
        supervisor.stop()


def sign_in(lab: Lab, url: str, profile: str = "team-a") -> tuple[str, datetime]:
    """A token and when it expires, from the Keystone at `url`."""
    auth = yaml.safe_load(lab.clouds_yaml.read_text())["clouds"][profile]["auth"]
    user = {"name": auth["username"], "domain": {"id": "default"}, "password": auth["password"]}
    project = {"name": auth["project_name"], "domain": {"id": "default"}}
    identity = {"methods": ["password"], "password": {"user": user}}
    answer = httpx.post(
        f"{url}/auth/tokens", json={"auth": {"identity": identity, "scope": {"project": project}}}
    )
    assert answer.status_code == 201, answer.text
    return answer.headers["X-Subject-Token"], datetime.fromisoformat(answer.json()["token"]["expires_at"])


def pods(lab: Lab, token: str | None) -> httpx.Response:
    headers = {} if token is None else {"X-Auth-Token": token}
    return httpx.get(f"http://127.0.0.1:{lab.layout.port('weft')}/v1/pods", headers=headers)


def test_no_token_and_nonsense_are_refused(lab: Lab) -> None:
    """401 with a problem document that says what to do, and the address of Keystone."""
    for token in (None, "nonsense", "gAAAA" + "x" * 200):
        answer = pods(lab, token)
        assert answer.status_code == 401 and "Keystone" in answer.headers["WWW-Authenticate"]
        assert answer.headers["content-type"] == "application/problem+json"


def test_an_expired_token_is_refused(lab: Lab, hasty_keystone: str) -> None:
    """It opens the door while it is valid, and never after, also if weft remembers it."""
    token, expires = sign_in(lab, hasty_keystone)
    assert pods(lab, token).status_code == 200
    while datetime.now(expires.tzinfo) <= expires:
        time.sleep(0.2)
    assert pods(lab, token).status_code == 401


def test_a_revoked_token_is_refused(lab: Lab) -> None:
    """A token that its owner gave back opens nothing."""
    url = f"{lab.layout.url('keystone')}/v3"
    token, _ = sign_in(lab, url)
    httpx.delete(f"{url}/auth/tokens", headers={"X-Auth-Token": token, "X-Subject-Token": token})
    assert pods(lab, token).status_code == 401
