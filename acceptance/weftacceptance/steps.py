"""The registry of steps, and what their functions share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weftacceptance.cloud import POD_SERVICE, Caller, Cloud, Collection, Json, LostError, SkipError
from weftacceptance.inside import Inside
from weftacceptance.logins import Logins

PREFIX = "wacc-"
"""Prefix of the names of all that steps create; anything with it is removed before and after a run."""


@dataclass
class Run:
    """What the steps of one suite share.

    Attributes:
        suite: its name.
        logins: None if servers aren't booted.
        inside: None if only the cloud's APIs are read.
        kept: what a step leaves to later ones, by name.
    """

    cloud: Cloud
    suite: str = ""
    logins: Logins | None = None
    inside: Inside | None = None
    kept: Json = field(default_factory=dict[str, Any])

    @property
    def tenant(self) -> Caller:
        """A member of a project."""
        return self.cloud.caller("team-a")

    @property
    def reader(self) -> Caller:
        """A reader of the tenant's project."""
        return self.cloud.caller("team-a-reader")

    @property
    def other(self) -> Caller:
        """A member of another project."""
        return self.cloud.caller("team-b")

    @property
    def operator(self) -> Caller:
        """An administrator, only where a suite requires one."""
        return self.cloud.caller("operator")

    @property
    def lab(self) -> Inside:
        """The inside of the lab. Raises `SkipError` without a lab."""
        if self.inside is None:
            raise SkipError("is read from inside of a lab, and none is given")
        return self.inside

    def need(self, name: str) -> Any:
        """What an earlier step kept. Raises `SkipError` if it didn't get that far."""
        if name not in self.kept:
            raise SkipError(f"an earlier step left no {name}")
        return self.kept[name]


class Tests(dict[str, Json]):
    """The parts of a step by name; each must pass."""

    def add(self, name: str, passed: bool, message: str = "", **more: Any) -> bool:
        """Notes a part with its result and further values; whether it passed."""
        self[name] = {"passed": bool(passed), "message": message, **more}
        if not passed:
            self[name]["error"] = message or "not as it should be"
        return bool(passed)

    @property
    def all_passed(self) -> bool:
        """Whether there are parts, and none failed."""
        return bool(self) and all(one["passed"] for one in self.values())


Step = Callable[[Run], Json]
STEPS: dict[tuple[str, str], Step] = {}
"""(suite, step's name) -> function; the suite "" stands for all."""
SKIPPED: dict[tuple[str, str], str] = {}
"""Steps that are always skipped, and why."""


def step(name: str, *suites: str) -> Callable[[Step], Step]:
    """Registers a function for the step of this name, in these suites or all."""

    def keep(function: Step) -> Step:
        for suite in suites or ("",):
            assert (suite, name) not in STEPS, name
            STEPS[suite, name] = function
        return function

    return keep


def skip(reason: str, *names: str, suite: str = "") -> None:
    """Registers steps that this provider can't do, for one reason."""
    SKIPPED.update(((suite, name), reason) for name in names)


def take(run: Run, name: str) -> Json:
    """Runs a step; the JSON object that the suite reads. What isn't known is an error, never a success."""
    function = STEPS.get((run.suite, name)) or STEPS.get(("", name))
    try:
        if function is None:
            raise SkipError(
                SKIPPED.get((run.suite, name)) or SKIPPED.get(("", name)) or "not made for weft yet"
            )
        found = function(run)
    except SkipError as why:
        return {"success": True, "platform": "weft", "skipped": True, "skip_reason": str(why)}
    except LostError as error:
        return {"success": False, "platform": "weft", "error": str(error), "error_type": "unknown"}
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        said = f"an answer of another shape: {type(error).__name__}: {error}"
        return {"success": False, "platform": "weft", "error": said, "error_type": "unknown"}
    tests = found.get("tests")
    done = tests.all_passed if isinstance(tests, Tests) else True
    answer = {"success": done, "platform": "weft", **found}
    if not answer["success"] and "error" not in answer and isinstance(tests, Tests):
        answer["error"] = "; ".join(f"{n}: {t['error']}" for n, t in tests.items() if not t["passed"])
    return answer


def weft(caller: Caller, path: str) -> Any:
    """weft's answer to a GET. Raises `LostError` unless it is an object."""
    got = caller.ask(POD_SERVICE, "GET", path)
    if not got.is_done or not isinstance(got.body, dict):
        raise LostError(f"GET {path}: {got.status}")
    return got.body


def networks(caller: Caller) -> Collection:
    """Neutron's networks, as the caller sees them."""
    return Collection(caller, "network", "/v2.0/networks", "network", "networks")


def subnets(caller: Caller) -> Collection:
    """Neutron's subnets, as the caller sees them."""
    return Collection(caller, "network", "/v2.0/subnets", "subnet", "subnets")


def ports(caller: Caller) -> Collection:
    """Neutron's ports, as the caller sees them."""
    return Collection(caller, "network", "/v2.0/ports", "port", "ports")


def routers(caller: Caller) -> Collection:
    """Neutron's routers, as the caller sees them."""
    return Collection(caller, "network", "/v2.0/routers", "router", "routers")


def groups(caller: Caller) -> Collection:
    """Neutron's security groups, as the caller sees them."""
    return Collection(caller, "network", "/v2.0/security-groups", "security_group", "security_groups")


def rules(caller: Caller) -> Collection:
    """Rules of Neutron's security groups, as the caller sees them."""
    path = "/v2.0/security-group-rules"
    return Collection(caller, "network", path, "security_group_rule", "security_group_rules")


def users(caller: Caller) -> Collection:
    """Keystone's users, for administrators."""
    return Collection(caller, "identity", "/users", "user", "users")


def projects(caller: Caller) -> Collection:
    """Keystone's projects, for administrators."""
    return Collection(caller, "identity", "/projects", "project", "projects")
