"""A Keystone with federation: in uwsgi, behind Apache with mod_auth_openidc, and an OpenID provider.

Set up as in Keystone's manual, "Configuring Keystone for Federation"; mod_proxy_uwsgi passes the module's
environment on. Everything listens on loopback only.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.helpers.paths import ROOT
from weftlab.environment import ensure_alone, ensure_environment
from weftlab.layout import default_cache

PINS = ROOT / "tests" / "data" / "web" / "oidc.txt"
PASSWORD = "of-the-administrator"
PROTOCOL = "openid"
_KEYSTONE = """\
[DEFAULT]
log_file = {folder}/keystone.log
debug = true
[database]
connection = sqlite:///{folder}/keystone.db
[token]
provider = fernet
# The doors' clock is ahead of this machine's.
expiration = 94608000
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[identity]
password_hash_rounds = 4
[auth]
methods = password,token,application_credential,mapped,openid
[openid]
remote_id_attribute = HTTP_OIDC_ISS
[federation]
trusted_dashboard = {dashboard}
sso_callback_template = {env}/etc/keystone/sso_callback_template.html
"""
_APACHE = """\
ServerRoot {folder}
ServerName localhost
PidFile {folder}/apache.pid
Listen 127.0.0.1:{port}
ErrorLog {folder}/apache-error.log
LogFormat "%r %s" plain
CustomLog {folder}/apache-access.log plain
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authn_core_module {modules}/mod_authn_core.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule authz_user_module {modules}/mod_authz_user.so
LoadModule proxy_module {modules}/mod_proxy.so
LoadModule proxy_uwsgi_module {modules}/mod_proxy_uwsgi.so
LoadModule auth_openidc_module {modules}/mod_auth_openidc.so
User www-data
Group www-data
OIDCProviderMetadataURL {provider}/.well-known/openid-configuration
OIDCSSLValidateServer Off
OIDCClientID weft-test
OIDCClientSecret secret-of-the-client
OIDCCryptoPassphrase only-for-this-test
OIDCResponseType code
OIDCScope "openid email"
OIDCClaimPrefix "OIDC-"
OIDCPassClaimsAs both
OIDCRedirectURI {keystone}/v3/auth/OS-FEDERATION/websso/openid/redirect
ProxyPass /v3 uwsgi://127.0.0.1:{behind}/v3
<Location /v3/auth/OS-FEDERATION/websso/openid>
  AuthType openid-connect
  Require valid-user
</Location>
"""
_MODULES = "/usr/lib/apache2/modules"


@dataclass(frozen=True, slots=True)
class Federation:
    """A running Keystone with federation. Attributes: url: of Keystone, behind Apache. provider: URL of the OpenID
    provider, which is also its issuer."""

    url: str
    provider: str
    folder: Path
    projects: dict[str, str]

    @property
    def websso(self) -> str:
        return f"{self.url}/v3/auth/OS-FEDERATION/websso/{PROTOCOL}"

    @property
    def clouds_yaml(self) -> Path:
        return self.folder / "clouds.yaml"

    def logs(self) -> str:
        """The logs of Keystone and Apache."""
        files = [one for one in self.folder.glob("*.log") if one.name != "provider.log"]
        return "\n".join(one.read_text(errors="replace") for one in files)


@contextmanager
def federation(folder: Path, dashboard: str) -> Generator[Federation]:
    """Runs it for the block. Args: folder: for its files. dashboard: the origin that Keystone trusts."""
    command = [
        ROOT / "tools/packages.sh",
        "apache2",
        "libapache2-mod-auth-openidc",
        "libapache2-mod-proxy-uwsgi",
    ]
    subprocess.run(command, check=True, timeout=900)
    env = ensure_environment(default_cache(), print)
    mock = ensure_alone(default_cache(), "oidc", PINS, ("oidc-provider-mock",), print)
    ports = _free_ports(3)
    behind, port, at = ports
    url, provider = f"http://localhost:{port}", f"http://127.0.0.1:{at}"
    folder.chmod(0o755)  # Apache reads as www-data
    given = {"folder": folder, "env": env, "dashboard": dashboard}
    (folder / "keystone.conf").write_text(_KEYSTONE.format(**given))
    apache = {"folder": folder, "port": port, "behind": behind, "keystone": url, "provider": provider}
    (folder / "apache.conf").write_text(_APACHE.format(modules=_MODULES, **apache))
    quiet = {"PATH": "/usr/bin:/bin", "PYTHONWARNINGS": "ignore", "HOME": str(folder), "LC_ALL": "C.UTF-8"}
    known = {**quiet, "OS_KEYSTONE_CONFIG_DIR": str(folder), "OS_KEYSTONE_CONFIG_FILES": "keystone.conf"}
    _prepare(env, folder, known, url)
    with ExitStack() as stack:
        uwsgi = [env / "bin/uwsgi", "--socket", f"127.0.0.1:{behind}", "--home", env]
        uwsgi += ["--module", "keystone.wsgi.api:application", "--need-app", "--die-on-term"]
        uwsgi += ["--enable-threads", "--threads", "4", "--buffer-size", "65535"]
        _start(stack, [*map(str, uwsgi)], known, folder / "uwsgi.log")
        _start(
            stack, [str(mock / "bin/oidc-provider-mock"), "--port", str(at)], quiet, folder / "provider.log"
        )
        _answers(f"{provider}/.well-known/openid-configuration", folder / "provider.log")
        start = ["/usr/sbin/apache2", "-f", str(folder / "apache.conf"), "-DFOREGROUND"]
        _start(stack, start, quiet, folder / "apache-out.log")
        _answers(f"{url}/v3", folder / "uwsgi.log")
        projects = _federate(url, provider)
        profile = {
            "auth": {
                "auth_url": f"{url}/v3",
                "username": "admin",
                "password": PASSWORD,
                "project_name": "admin",
                "user_domain_name": "Default",
                "project_domain_name": "Default",
            },
            "region_name": "lab",
        }
        (folder / "clouds.yaml").write_text(yaml.safe_dump({"clouds": {"weft": profile}}))
        yield Federation(url, provider, folder, projects)


def _prepare(env: Path, folder: Path, known: dict[str, str], url: str) -> None:
    manage = str(env / "bin/keystone-manage")
    where = ["--bootstrap-region-id", "lab", "--bootstrap-public-url", f"{url}/v3"]
    me = ["--keystone-user", "root", "--keystone-group", "root"]
    for words in (
        ["db_sync"],
        ["fernet_setup", *me],
        ["credential_setup", *me],
        ["bootstrap", "--bootstrap-password", PASSWORD, *where],
    ):
        command = [manage, "--config-file", str(folder / "keystone.conf"), *words]
        done = subprocess.run(command, env=known, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def _federate(url: str, provider: str) -> dict[str, str]:
    """Creates the identity provider, its mapping, and a group with roles in two projects; ids of the projects by
    name."""
    auth = {
        "identity": {
            "methods": ["password"],
            "password": {"user": {"name": "admin", "domain": {"id": "default"}, "password": PASSWORD}},
        },
        "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
    }
    with httpx.Client(base_url=f"{url}/v3", trust_env=False, timeout=60) as keystone:
        answer = keystone.post("/auth/tokens", json={"auth": auth})
        assert answer.status_code == 201, answer.text
        keystone.headers["X-Auth-Token"] = answer.headers["X-Subject-Token"]

        def put(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
            done = keystone.request(method, path, json=body)
            assert done.status_code in (200, 201, 204), f"{path}: {done.status_code} {done.text}"
            return done.json() if done.content else {}

        group = put("POST", "/groups", {"group": {"name": "federated", "domain_id": "default"}})["group"][
            "id"
        ]
        roles = {one["name"]: one["id"] for one in put("GET", "/roles")["roles"]}
        admin, project = (answer.json()["token"][of]["id"] for of in ("user", "project"))
        put(
            "PUT", f"/projects/{project}/users/{admin}/roles/{roles['service']}"
        )  # this user validates tokens
        projects: dict[str, str] = {}
        for name in ("team-a", "team-b"):
            made = put("POST", "/projects", {"project": {"name": name, "domain_id": "default"}})["project"]
            projects[name] = made["id"]
            put("PUT", f"/projects/{made['id']}/groups/{group}/roles/{roles['member']}")
        rules = [
            {
                "local": [{"user": {"name": "{0}"}, "group": {"id": group}}],
                "remote": [{"type": "HTTP_OIDC_SUB"}, {"type": "HTTP_OIDC_ISS", "any_one_of": [provider]}],
            }
        ]
        put("PUT", "/OS-FEDERATION/mappings/oidc", {"mapping": {"rules": rules}})
        idp = {"enabled": True, "remote_ids": [provider]}
        put("PUT", "/OS-FEDERATION/identity_providers/idp", {"identity_provider": idp})
        protocol = {"protocol": {"mapping_id": "oidc"}}
        put("PUT", f"/OS-FEDERATION/identity_providers/idp/protocols/{PROTOCOL}", protocol)
    return projects


def _start(stack: ExitStack, command: list[str], env: dict[str, str], log: Path) -> None:
    out = stack.enter_context(log.open("wb"))
    process = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)

    def end() -> None:
        os.killpg(process.pid, 15)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait(10)

    stack.callback(end)


def _answers(url: str, log: Path, seconds: float = 120.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if httpx.get(url, trust_env=False, timeout=5).status_code in (200, 300):
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.3)
    raise AssertionError(f"{url} doesn't answer: {log.read_text(errors='replace')[-3000:]}")


def _free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in found]
