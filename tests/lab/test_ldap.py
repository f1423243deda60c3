"""Keystone's LDAP domain by the exported file: a real slapd over TLS and a real Keystone, without the rest of a
lab."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.helpers.customers import NAME, Domain, exported, give_role, sign_in
from tests.helpers.rdg import Document, changed, deployment, rdg
from tests.helpers.waiting import wait_for
from tests.helpers.weftrole import Ansible
from tests.planning.export.test_tripleo import validators
from weft.app.policy import Policy
from weft.drivers.openstack import KeystoneIdentity, Sessions
from weft.model.errors import ForbiddenError
from weftlab import bootstrap, cloud, config, database, ldap
from weftlab.catalog import API_SERVICES
from weftlab.environment import ensure_environment
from weftlab.layout import Layout, default_cache, free_ports
from weftlab.service import Service
from weftlab.supervisor import Supervisor

pytestmark = pytest.mark.cloud
ALICE, BOB = ldap.PEOPLE["alice"], ldap.PEOPLE["bob"]


@dataclass(frozen=True)
class Identities:
    """A Keystone and a directory.

    Attributes:
        domain: the customers'.
        file: of that domain.
    """

    layout: Layout
    supervisor: Supervisor
    keystone: Service
    domain: Domain
    file: Path

    def restart(self) -> None:
        self.supervisor.stop(["keystone"], giving_up=False)
        self.supervisor.start(self.keystone)
        self.supervisor.await_ready(self.keystone)

    @property
    def identity(self) -> Any:
        return bootstrap.connect(self.layout).identity


@pytest.fixture(scope="module")
def customers(tmp_path_factory: pytest.TempPathFactory) -> Generator[Identities]:
    """Set up as the export's README says: the domain, its file, a restart."""
    layout = Layout(tmp_path_factory.mktemp("ldap"), default_cache(), free_ports())
    env = ensure_environment(layout.cache, print)
    ldap.ensure(layout.cache, env, print)
    ldap.write(layout)
    service = _keystone(layout, env)
    supervisor = Supervisor(layout.run)
    try:
        for one in (ldap.server(layout), service):
            supervisor.start(one)
            supervisor.await_ready(one)
        made = bootstrap.connect(layout).identity.create_domain(name="customers")
        file = ldap.domains_path(layout) / NAME
        file.write_text(exported(layout))
        found = Identities(layout, supervisor, service, Domain(made.id, ""), file)
        found.restart()
        yield Identities(layout, supervisor, service, give_role(found.identity, made.id), file)
    finally:
        supervisor.stop()


def _keystone(layout: Layout, env: Path) -> Service:
    """Keystone as in a lab, with SQLite."""
    etc, data = layout.etc / "keystone", layout.data / "keystone"
    for folder in (etc, data / "lock", layout.run):
        folder.mkdir(parents=True, exist_ok=True)
    sections = {**config.keystone(layout, env), "database": {"connection": f"sqlite:///{data}/keystone.db"}}
    (etc / "keystone.conf").write_text(config.render(ldap.with_domains(sections, layout)))
    database.write_keys(layout)
    manage = [str(env / "bin/keystone-manage"), "--config-file", str(etc / "keystone.conf")]
    account = ["--bootstrap-username", "operator", "--bootstrap-password", config.SECRET]
    account += ["--bootstrap-project-name", "admin", "--bootstrap-region-id", config.REGION]
    account += ["--bootstrap-public-url", f"{layout.url('keystone')}/v3"]
    for command in (["db_sync"], ["bootstrap", *account]):
        database.run(layout, "keystone", [*manage, *command], env, ldap.environment(layout))
    bootstrap.write_clouds(layout)
    keystone = next(api for api in API_SERVICES if api.name == "keystone")
    return cloud.api_service(layout, env, keystone, rdg(), ())


def test_directory_becomes_a_keystone_domain(customers: Identities) -> None:
    """Its users and groups are the directory's, passwords are checked there, and nothing is written."""
    identity, domain = customers.identity, customers.domain
    assert {user.name for user in identity.users(domain_id=domain.id)} == set(ldap.PEOPLE)
    assert sign_in(customers.layout, "alice", ALICE).status_code == 201
    assert sign_in(customers.layout, "alice", "guessed").status_code == 401
    assert sign_in(customers.layout, "bob", BOB).status_code == 401, "he is in no group of the project"
    with pytest.raises(Exception, match=r"403|501|[Nn]ot implemented|read-only"):
        identity.create_user(name="mallory", domain_id=domain.id, password="x")


def test_policy_can_depend_on_the_users_domain(customers: Identities, tmp_path: Path) -> None:
    """With tokens of the real Keystone; an `admin` in a customer's project isn't an operator."""
    file = tmp_path / "policy.yaml"
    file.write_text(f'"pods:create": "role:member and user_domain_id:{customers.domain.id}"\n')
    sessions, identity = Sessions("operator", [customers.layout.clouds_yaml]), customers.identity
    try:
        keystone, policy = KeystoneIdentity(sessions), Policy(file)
        alice = keystone.check(sign_in(customers.layout, "alice", ALICE).headers["X-Subject-Token"])
        assert (alice.user_domain_id, alice.project_domain_id) == (customers.domain.id, customers.domain.id)
        policy.check("pods:create", alice)
        own = keystone.check(bootstrap.connect(customers.layout).auth_token)
        assert own.user_domain_id == "default"
        with pytest.raises(ForbiddenError):
            policy.check("pods:create", own)
        Policy().check("audit:check", own)
        project = identity.create_project(name="admin", domain_id=customers.domain.id)
        user = next(u for u in identity.users(domain_id=customers.domain.id) if u.name == "bob")
        identity.assign_project_role_to_user(project, user, identity.find_role("admin"))
        bob = keystone.check(sign_in(customers.layout, "bob", BOB, "admin").headers["X-Subject-Token"])
        assert "admin" in bob.roles and bob.project_name == "admin"
        with pytest.raises(ForbiddenError):
            Policy().check("audit:check", bob)
    finally:
        sessions.close()


WRONG = {
    "another user": (f"user = {ldap.BIND_USER}", f"user = cn=unknown,{ldap.SUFFIX}"),
    "another password": (f"password = {ldap.BIND_PASSWORD}", "password = guessed"),
    "another authority": ("tls_cacertfile = ", "tls_cacertfile = /etc/ssl/certs/ca-certificates.crt\n# "),
    "another tree": (f"user_tree_dn = {ldap.USERS}", f"user_tree_dn = {ldap.GROUPS}"),
}


@pytest.mark.nightly(reason="Keystone is started for each line, 27 s; by day the right ones are tried")
def test_wrong_ldap_setting_prevents_customers_from_signing_in(customers: Identities) -> None:
    """Users of the local domain can still sign in."""
    right = customers.file.read_text()
    try:
        for what, (old, new) in WRONG.items():
            assert old in right
            customers.file.write_text(right.replace(old, new))
            customers.restart()
            assert sign_in(customers.layout, "alice", ALICE).status_code >= 400, what
            assert bootstrap.connect(customers.layout).auth_token
    finally:
        customers.file.write_text(right)
        customers.restart()
    assert sign_in(customers.layout, "alice", ALICE).status_code == 201


@pytest.mark.nightly(reason="a dozen runs of the openstack command, twice; files and unit are tested by day")
def test_exported_role_registers_weft_in_keystone(customers: Identities, tmp_path: Path) -> None:
    """User, roles and catalog entry; a second run changes nothing. weft, started as its unit does, accepts a
    customer."""
    layout, identity = customers.layout, customers.identity
    identity.find_project("service") or identity.create_project(name="service", domain_id="default")
    keystone = next(s for s in identity.services() if s.type == "identity")
    kept = {"service_id": keystone.id, "region_id": config.REGION, "url": f"{layout.url('keystone')}/v3"}
    identity.create_endpoint(interface="internal", **kept)  # Kolla Ansible creates this one
    port = free_ports()

    def with_customers(document: Document) -> None:
        domain = {"url": ldap.url(layout), "user": ldap.BIND_USER, "users": ldap.USERS}
        deployment(document).update(tls="none", ldap_domains={"customers": domain})

    url = f"http://127.0.0.1:{port}"
    ansible = Ansible(tmp_path, changed(with_customers), str(validators() / "bin"))
    more: dict[str, Any] = {"weft_keystone": True, "weft_region": config.REGION, "weft_url": url}
    more |= {"weft_auth_url": f"{layout.url('keystone')}/v3", "weft_listen": f"127.0.0.1:{port}"}
    more["weft_interfaces"] = [
        "public",
        "internal",
    ]  # otherwise the catalog lacks the address of this machine
    more["weft_admin"] = {"OS_CLIENT_CONFIG_FILE": str(layout.clouds_yaml), "OS_CLOUD": "operator"}
    for changes in (True, False):
        done = ansible.play(**more)
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("changed=0" not in done.stdout) is changes, done.stdout
    (service,) = [s for s in customers.identity.services() if s.type == "accelerator-pod"]
    endpoints = [(e.interface, e.url) for e in customers.identity.endpoints(service_id=service.id)]
    assert sorted(endpoints) == [("internal", url), ("public", url)]
    environment = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(ansible.host / "etc/clouds.yaml")}
    environment["XDG_RUNTIME_DIR"] = str(ansible.host)
    weft = subprocess.Popen(ansible.command(), env=environment)
    try:
        token = sign_in(layout, "alice", ALICE).headers["X-Subject-Token"]
        wait_for(lambda: _answer(f"{url}/healthz") == 200)
        wait_for(lambda: _answer(f"{url}/v1/pods", token) == 200)
        assert _answer(f"{url}/v1/pods", "guessed") == 401
    finally:
        weft.terminate()
        weft.wait(60)


def _answer(url: str, token: str = "") -> int:
    try:
        return httpx.get(url, headers={"X-Auth-Token": token} if token else {}, timeout=10).status_code
    except httpx.TransportError:
        return 0
