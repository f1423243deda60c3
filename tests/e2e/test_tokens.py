"""Tokens against the real Keystone: none, nonsense, expired, revoked."""

from __future__ import annotations

import time
import uuid
from collections.abc import Generator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import httpx
import pytest
import yaml
from openstack.config import OpenStackConfig
from openstack.connection import Connection

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
    usual = cloud.api_service(lab.layout, environment_path(lab.layout.cache), keystone, lab.site, ())
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


@pytest.fixture
def another_domains_admin(lab: Lab) -> Generator[str]:
    """A token of role `admin` in a project called `admin`, in a domain that isn't the operator's."""
    identity = Connection(
        config=OpenStackConfig(config_files=[str(lab.clouds_yaml)]).get_one("operator")
    ).identity
    name = f"customer-{uuid.uuid4().hex[:8]}"
    domain = identity.create_domain(name=name)
    try:
        project = identity.create_project(name="admin", domain_id=domain.id)
        user = identity.create_user(name="mallory", domain_id=domain.id, password=name)
        identity.assign_project_role_to_user(project, user, identity.find_role("admin"))
        who = {"name": "mallory", "domain": {"id": domain.id}, "password": name}
        asked = {"methods": ["password"], "password": {"user": who}}
        scope = {"project": {"name": "admin", "domain": {"id": domain.id}}}
        url = f"{lab.layout.url('keystone')}/v3/auth/tokens"
        answer = httpx.post(url, json={"auth": {"identity": asked, "scope": scope}})
        assert answer.status_code == 201, answer.text
        yield answer.headers["X-Subject-Token"]
    finally:
        identity.update_domain(domain, is_enabled=False)
        identity.delete_domain(domain)


def test_admin_of_another_domain_is_not_an_operator(lab: Lab, another_domains_admin: str) -> None:
    """Keystone lets every domain have a project called admin; weft takes it for a tenant's."""
    base, headers = f"http://127.0.0.1:{lab.layout.port('weft')}/v1", {"X-Auth-Token": another_domains_admin}
    for path in ("site", "nodes", "audit", "audit-log", "reservations", "pods?all_projects=true"):
        assert httpx.get(f"{base}/{path}", headers=headers).status_code == 403, path
    assert httpx.put(f"{base}/site", headers=headers, json={"name": "mine"}).status_code == 403
    assert pods(lab, another_domains_admin).json() == {"pods": []}


def pods(lab: Lab, token: str | None) -> httpx.Response:
    headers = {} if token is None else {"X-Auth-Token": token}
    return httpx.get(f"http://127.0.0.1:{lab.layout.port('weft')}/v1/pods", headers=headers)


def test_missing_or_malformed_token_is_refused(lab: Lab) -> None:
    """401 with a problem document that says what to do, and the address of Keystone."""
    for token in (None, "nonsense", "gAAAA" + "x" * 200):
        answer = pods(lab, token)
        assert answer.status_code == 401 and "Keystone" in answer.headers["WWW-Authenticate"]
        assert answer.headers["content-type"] == "application/problem+json"


def test_expired_token_is_refused(lab: Lab, hasty_keystone: str) -> None:
    """It is accepted while it is valid, and never after, even if weft remembers it."""
    token, expires = sign_in(lab, hasty_keystone)
    assert pods(lab, token).status_code == 200
    while datetime.now(expires.tzinfo) <= expires:
        time.sleep(0.2)
    assert pods(lab, token).status_code == 401


def test_revoked_token_is_refused(lab: Lab) -> None:
    """Its owner has ended it. The owner's other token is accepted before and after."""
    url = f"{lab.layout.url('keystone')}/v3"
    (token, _), (other, _) = sign_in(lab, url), sign_in(lab, url)
    assert pods(lab, other).status_code == 200
    ended = httpx.delete(f"{url}/auth/tokens", headers={"X-Auth-Token": token, "X-Subject-Token": token})
    assert ended.status_code == 204
    assert pods(lab, token).status_code == 401
    assert pods(lab, other).status_code == 200
