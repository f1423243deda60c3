"""Policy rules, and an operator's own file of rules."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from weft.app.policy import Policy
from weft.app.policyrules import list_rules
from weft.model.errors import ForbiddenError, InputError, InputErrors
from weft.testing.callers import caller


def test_missing_project_matches_no_project() -> None:
    """Neither a token nor a target without a project, although both are None."""
    projectless = caller("n", None, "reader", "member")
    assert not Policy().allows("pods:list", projectless, None)
    assert not Policy().allows("pods:create", projectless, None)


def test_admin_of_a_tenants_project_is_not_an_operator() -> None:
    """Role admin counts only in the admin project or with system scope."""
    policy = Policy()
    assert not policy.is_operator(caller("a", "team-a", "admin"))
    assert policy.allows("pods:create", caller("a", "team-a", "admin"), "id-of-team-a")
    assert not policy.allows("pods:show", caller("a", "team-a", "admin"), "id-of-team-b")
    assert policy.is_operator(caller("a", "admin", "admin"))
    assert policy.allows("pods:release", caller("a", None, "admin", system=True), "id-of-team-b")


def test_project_admin_of_another_domain_is_a_tenant() -> None:
    """A domain's administrators choose its projects' names, so the name of the admin project alone isn't enough."""
    policy, mallory = Policy(), caller("mal", "admin", "admin", domain="customer")
    for rule in list_rules():
        assert not policy.allows(rule.name, mallory, "id-of-team-a"), rule.name
    for rule in ("operator", "site:activate", "details:show", "pods:list_all_projects", "audit:repair"):
        assert not policy.allows(rule, mallory), rule
    assert policy.allows("pods:create", mallory, "id-of-admin-in-customer")


def test_unknown_domain_makes_no_operator() -> None:
    """A token without its project's domain isn't taken for one of the domain `default`."""
    nowhere = replace(caller("olga", "admin", "admin"), project_domain_id=None)
    assert not Policy().is_operator(nowhere)


def test_custom_rule_may_use_ids(tmp_path: Path) -> None:
    """By ids of domains and users, as the policy's page describes."""
    file = tmp_path / "policy.yaml"
    file.write_text("operator: role:admin and project_domain_id:ops and user_domain_id:ops\n")
    assert Policy(file).is_operator(caller("o", "any", "admin", domain="ops"))
    assert not Policy(file).is_operator(caller("o", "any", "admin", domain="else"))


def test_refusal_names_the_callers_roles() -> None:
    """With the rule and the project."""
    with pytest.raises(
        ForbiddenError, match="rita may not do pods:create: roles in project team-a are reader"
    ):
        Policy().check("pods:create", caller("rita", "team-a", "reader"), "id-of-team-a")


def test_policy_file_overrides_only_its_rules(tmp_path: Path) -> None:
    """Other rules keep their defaults; a file with only comments changes nothing."""
    file = tmp_path / "policy.yaml"
    file.write_text("operator: role:admin and project_name:ops\n'pods:create': role:orders\n")
    policy = Policy(file)
    assert policy.is_operator(caller("o", "ops", "admin"))
    assert not policy.is_operator(caller("o", "admin", "admin"))
    assert policy.allows("pods:create", caller("x", "team-a", "orders"), "id-of-team-a")
    assert policy.allows("pods:show", caller("x", "team-a", "reader"), "id-of-team-a")
    file.write_text("# nothing\n")
    assert Policy(file).is_operator(caller("o", "admin", "admin"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("pod:create: role:x", "one of the rules"),
        ("operator: '(('", "a check of oslo.policy"),
        ("operator: rule:nix", "known rules"),
        ("operator: rule:operator", "circle"),
        ("operator: 1", "one text"),
        ("- operator", "one mapping"),
        ("{", "YAML"),
    ],
)
def test_invalid_policy_file_is_refused_at_start(tmp_path: Path, text: str, says: str) -> None:
    """Mistakes that would silently mean `never`, or nothing."""
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=says):
        Policy(file)


def test_missing_policy_file_is_refused(tmp_path: Path) -> None:
    """The defaults must not apply in its place."""
    with pytest.raises(InputError, match="policy"):
        Policy(tmp_path / "nix.yaml")


def test_every_rule_is_documented() -> None:
    """The sample file is made from these descriptions."""
    assert all(rule.description for rule in list_rules())


@pytest.mark.parametrize("check", ["role:admin and", "role:a || role:b", "rule:operater"])
def test_refused_check_gives_one_sentence_without_a_traceback(
    tmp_path: Path, check: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """oslo.policy would log what it can't parse with a traceback, to stderr where no log is set up."""
    (tmp_path / "policy.yaml").write_text(f'"pods:list": "{check}"\n')
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    with pytest.raises((InputError, InputErrors)):
        Policy(tmp_path / "policy.yaml")
    said = capsys.readouterr()
    assert said.out + said.err == ""
    assert logging.getLogger("oslo_policy").propagate
