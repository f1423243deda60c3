"""The services' policy rules for weft: exported to each tool, valid for the services, and strict."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from oslo_policy.policy import Rules

from tests.helpers.rdg import changed, rdg, with_shares
from weft.planning.export.formats import export
from weft.planning.export.policies import PLACE, USER, WHAT, policy, rules
from weftlab.environment import ensure_environment
from weftlab.layout import default_cache
from weftlab.storage.jobs import ensure as ensure_storage

SERVICES = ("neutron", "nova", "manila")
MOVES = ("os_compute_api:servers:resize", "os_compute_api:os-shelve:shelve")


def exported(form: str, folder: str) -> dict[str, dict[str, str]]:
    """The rules of each service, of a site with Manila."""
    files = export(changed(with_shares), form)
    return {name: yaml.safe_load(files[f"{folder}/{name}/policy.yaml"]) for name in SERVICES}


def test_every_format_has_all_rules() -> None:
    """Each refers to a variable for the id of weft's user, and its README names the variable."""
    wanted = {name: rules(policy(name)) for name in SERVICES}
    moves = rules(policy("nova_moves"))
    assert set(moves) == set(MOVES) and not moves.keys() & wanted["nova"].keys()

    def with_moves(user: str) -> dict[str, dict[str, str]]:
        mine = {name: check.replace(PLACE, user) for name, check in moves.items()}
        return {**wanted, "nova": {**wanted["nova"], **mine}}

    assert exported("kolla", "config") == with_moves(f"{{{{ {USER} }}}}")
    assert exported("kayobe", "kolla/config") == with_moves(f"{{{{ '{{{{ {USER} }}}}' }}}}")
    environment = export(changed(with_shares), "tripleo")["templates/environment.yaml"]
    parameters = yaml.safe_load(environment)["parameter_defaults"]
    heats = {
        name: {one["key"]: one["value"] for one in parameters[f"{name.capitalize()}ApiPolicies"].values()}
        for name in ("neutron", "nova")
    }
    assert heats == {name: with_moves("$WEFT_USER_ID")[name] for name in heats}
    assert "ManilaApiPolicies" not in parameters, "Wallaby's templates have no such parameter"
    for form in ("kolla", "kayobe"):
        assert f"`{USER}` ({WHAT})" in export(rdg(), form)["README.md"]
    readme = export(changed(with_shares), "tripleo")["README.md"]
    assert "`WEFT_USER_ID`" in readme and "Manila's rules for weft, by hand" in readme


def test_cloud_without_manila_has_no_manila_rules() -> None:
    assert "config/manila/policy.yaml" not in export(rdg(), "kolla")
    assert "Manila" not in export(rdg(), "tripleo")["README.md"]


@pytest.mark.parametrize("known", ["0123abcd", "nobody"])
def test_only_administrators_move_pod_servers(known: str) -> None:
    """A member moves its own server unless weft made it; an administrator moves any. Until weft's id is known, the
    rules change nothing.
    """
    roles = {"rule:context_is_admin": "role:admin", "rule:project_member_api": "role:member"}
    text = policy("nova_moves", known)
    for rule, check in roles.items():
        text = text.replace(rule, check)
    checks = Rules.load(text)
    for name in MOVES:

        def may(role: str, maker: str, name: str = name) -> bool:
            creds: Mapping[str, Any] = {"roles": [role], "user_id": "other"}
            return bool(checks[name]({"user_id": maker}, creds, _Enforcer(checks)))

        assert may("member", "other") and may("admin", "0123abcd")
        assert may("member", "0123abcd") is (known == "nobody")


class _Enforcer:
    """The enforcer that oslo.policy's checks use."""

    def __init__(self, checks: Rules) -> None:
        self.rules = checks


@pytest.mark.cloud
@pytest.mark.parametrize("name", SERVICES)
def test_services_validators_accept_the_rules_and_reject_mistakes(tmp_path: Path, name: str) -> None:
    """An unknown rule and an unreadable one."""
    cache = default_cache()
    env = ensure_storage(cache, print) if name == "manila" else ensure_environment(cache, print)
    text = export(changed(with_shares), "kolla")[f"config/{name}/policy.yaml"]
    file, conf = tmp_path / "policy.yaml", tmp_path / f".{name}" / f"{name}.conf"
    conf.parent.mkdir()  # Nova reads configuration only from certain folders, and this is one
    conf.write_text(f"[oslo_policy]\npolicy_file = {file}\n")
    command = [env / "bin/oslopolicy-validator", "--namespace", name, "--config-file", conf]

    def validated(text: str) -> subprocess.CompletedProcess[str]:
        file.write_text(text.replace(f"{{{{ {USER} }}}}", "0123abcd"))
        quiet = {"PYTHONWARNINGS": "ignore", "HOME": str(tmp_path)}
        return subprocess.run(command, env=quiet, capture_output=True, text=True, timeout=120, check=False)

    done = validated(text)
    assert done.returncode == 0, done.stdout + done.stderr
    first = next(iter(rules(text)))
    for wrong in (f'"{first}x": "role:weft"\n', f'"{first}": "role:weft nor"\n'):
        assert validated(wrong).returncode == 1, wrong
