"""Who may do what: oslo.policy rules, as every OpenStack operator knows them.

An operator has the role `admin` with system scope, Keystone's concept for this; or the role `admin` in the project
`admin` of the domain with the id `default`; `keystone-manage bootstrap` creates both. A project named
`admin` in any other domain is an ordinary project: the domain's administrators name its projects. The role
`admin` in any other project applies to that project only. To change this, override the rule
`operator` in a policy file (`--policy`), for example with `role:admin and system_scope:all`, or with
`role:admin and project_id:<id>`. Checks may use roles, user_id, user_domain_id, project_id, project_name,
project_domain_id and system_scope. The file is read once, at startup.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import yaml
from oslo_config import cfg
from oslo_policy import policy as oslo

from weft.app.policyrules import list_rules
from weft.model.errors import ForbiddenError, InputError, InputErrors
from weft.model.errortable import Shown
from weft.ports.cloud import Caller

_KIND = re.compile(r"([A-Za-z_]\w*):")
_OWN = frozenset(
    {"rule", "role", "user_id", "user_domain_id", "project_id", "project_name", "project_domain_id"}
) | {"system_scope"}
"""Kinds of checks that depend on nothing but the rules, the caller and the target."""
_TEXT, _NULL = "tag:yaml.org,2002:str", "tag:yaml.org,2002:null"
_DECIDED = 10_000
"""Decisions that are kept at most."""


class Policy:
    """The effective rules. Decisions are cached: they depend only on the rules and the caller, which don't change.

    Raises `InputErrors` if the operator's file can't be read, is not a mapping of rules, names an unknown
    rule or one twice, or has a check that can't be parsed or refers to an unknown rule.
    """

    def __init__(self, file: Path | None = None) -> None:
        rules = {rule.name: rule.check for rule in list_rules()}
        own = _read(file) if file else {}
        faults = list[InputError]()
        for name, (check, where) in own.items():
            try:
                if name not in rules:
                    raise InputError(name, check, f"one of the rules {', '.join(sorted(rules))}", where)
                with _silent():
                    rules[name] = _parse(name, check, where)
            except InputError as fault:
                faults.append(fault)
        if faults:
            raise InputErrors(faults)
        # Checks of other kinds may ask an external service, whose answer may change: they aren't cached.
        self._pure = all(set(_KIND.findall(str(check))) <= _OWN for check in rules.values())
        self._of_users = not self._pure or any("user_id" in str(check) for check in rules.values())
        self._decided: dict[tuple[object, ...], bool] = {}
        conf = cfg.ConfigOpts()
        conf([], project="weft", default_config_files=[], default_config_dirs=[])
        self._enforcer = oslo.Enforcer(conf, rules=rules, use_conf=False)
        try:
            with _silent():
                self._enforcer.check_rules(raise_on_violation=True)
        except oslo.InvalidDefinitionError:
            raise InputError(
                "rules", sorted(own), "rules that refer to known rules only, and never in a circle", str(file)
            ) from None

    def allows(self, rule: str, caller: Caller, target_project: str | None = None) -> bool:
        """Whether the caller may do `rule` in `target_project`; None: in no project (site, nodes, audit)."""
        known = self.remembers(rule, caller, target_project)
        if known is None:
            known = self._decide(rule, caller, target_project)
            if self._pure:
                if len(self._decided) >= _DECIDED:
                    self._decided.clear()
                self._decided[_asked(rule, caller, target_project)] = known
        return known

    def remembers(self, rule: str, caller: Caller, target_project: str | None = None) -> bool | None:
        """Cached decision of `allows`; None: not decided yet, and `allows` may ask an external service."""
        return self._decided.get(_asked(rule, caller, target_project))

    def _decide(self, rule: str, caller: Caller, target_project: str | None) -> bool:
        # A key that is None must be left out: oslo.policy compares texts, and "None" equals "None".
        given: dict[str, object] = {
            "roles": sorted(caller.roles),
            "user_id": caller.user_id,
            "user_domain_id": caller.user_domain_id,
            "project_id": caller.project_id,
            "project_name": caller.project_name,
            "project_domain_id": caller.project_domain_id,
            "system_scope": "all" if caller.system else None,
        }
        credentials = {name: value for name, value in given.items() if value}
        target = {"project_id": target_project} if target_project else {}
        return bool(self._enforcer.enforce(rule, target, credentials))

    def rights(self, caller: Caller) -> tuple[object, ...]:
        """All that decisions about a caller depend on: callers with equal values may do and see the same."""
        user = caller.user_id if self._of_users else None
        return _who(caller, user), _where(caller)

    def check(self, rule: str, caller: Caller, target_project: str | None = None) -> None:
        """Raise `ForbiddenError` unless `allows`."""
        if not self.allows(rule, caller, target_project):
            roles = ", ".join(sorted(caller.roles)) or "none"
            scope = (
                "the system"
                if caller.system
                else f"project {caller.project_name or caller.project_id or '-'}"
            )
            raise ForbiddenError(
                f"{caller.user_name} may not do {rule}: roles in {scope} are {roles}; "
                f"ask an operator for the required role, or use another project"
            )

    def is_operator(self, caller: Caller) -> bool:
        """Whether the caller sees the operator's details (rule `details:show`)."""
        return self.allows("details:show", caller)


def _asked(rule: str, caller: Caller, target_project: str | None) -> tuple[object, ...]:
    """Cache key of a decision: all that it depends on."""
    return (rule, _who(caller, caller.user_id), (*_where(caller), target_project))


def _who(caller: Caller, user: str | None) -> tuple[object, ...]:
    return user, caller.user_domain_id, caller.roles, caller.system


def _where(caller: Caller) -> tuple[str | None, ...]:
    return caller.project_id, caller.project_name, caller.project_domain_id


def _read(file: Path) -> dict[str, tuple[str, str]]:
    """Name -> check, and its place: file and line. Raises `InputErrors`."""
    try:
        root = yaml.compose(file.read_text(), Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError("policy", str(file), f"a file that can be read ({error.strerror})") from None
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InputError("policy", str(file), f"a YAML file of rules ({reason})") from None
    if root is None:  # a file of comments, such as the sample
        return {}
    if not isinstance(root, yaml.MappingNode):
        raise InputError("policy", str(file), "a YAML file with one mapping of rule names to checks")
    found, faults = dict[str, tuple[str, str]](), list[InputError]()
    for key, value in cast(list[tuple[yaml.Node, yaml.Node]], root.value):
        name, where = str(key.value), f"{file}:{key.start_mark.line + 1}"
        if name in found:
            faults.append(InputError(name, Shown("a second check"), "each rule once", where))
        elif value.tag != _TEXT:
            shown = Shown("null" if value.tag == _NULL else str(value.value)[:80])
            faults.append(InputError(name, shown, "a check as one text, such as 'role:member'", where))
        else:
            found[name] = str(value.value), where
    if faults:
        raise InputErrors(faults)
    return found


@contextmanager
def _silent() -> Generator[None]:
    """oslo.policy logs what it can't parse, with a traceback; the `InputError` says it with file and line."""
    log, nothing = logging.getLogger("oslo_policy"), logging.NullHandler()
    before = log.propagate
    log.addHandler(nothing)
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = before
        log.removeHandler(nothing)


def _parse(name: str, check: str, where: str) -> Any:
    parsed = oslo.RuleDefault(name, check).check
    if check.strip() != "!" and str(parsed) == "!":  # oslo.policy takes what it can't parse for "never"
        raise InputError(
            name, check, "a check of oslo.policy, such as 'role:member and rule:operator'", where
        )
    return parsed
