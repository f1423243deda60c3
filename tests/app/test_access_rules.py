"""Access rules of application credentials: what a token may be used for, in addition to its roles."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weft.app.accessrules import check_access, matches
from weft.model.errors import ForbiddenError
from weft.ports.cloud import AccessRule
from weft.testing.callers import caller

MEMBER = caller("mia", "team-a", "member")


def allowed(method: str, path: str, *rules: tuple[str, str, str], prefix: str = "") -> bool:
    given = replace(MEMBER, access_rules=tuple(AccessRule(*rule) for rule in rules))
    try:
        check_access(given, "accelerator-pod", method, path, prefix)
    except ForbiddenError as error:
        assert f"method {method} and path {path}" in str(error)
        return False
    return True


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("/v1/pods", ["/v1/pods"], ["/v1/pods/", "/v1/podsx", "/v1", "/v1/pods/train"]),
        ("/v1/pods/*", ["/v1/pods/train"], ["/v1/pods", "/v1/pods/", "/v1/pods/train/release"]),
        ("/v1/pods/{name}", ["/v1/pods/train"], ["/v1/pods/train/receipt"]),
        ("/v1/pods/{name}/receipt", ["/v1/pods/train/receipt"], ["/v1/pods/receipt", "/v1/pods/a/b/receipt"]),
        ("/v1/**", ["/v1/pods", "/v1/pods/train/release"], ["/v2/pods", "/v1"]),
        ("**", ["/v1/pods", "/"], []),
        ("/v1/p.ds", ["/v1/p.ds"], ["/v1/pods"]),
        ("/v1/{pods", [], ["/v1/{pods", "/v1/pods"]),
        ("", [], ["/v1/pods"]),
    ],
)
def test_pattern_matches_path_segments(pattern: str, yes: list[str], no: list[str]) -> None:
    """As in Keystone's user guide; characters of regular expressions stand for themselves."""
    assert [path for path in (*yes, *no) if matches(path, pattern)] == yes


def test_rule_needs_service_method_and_path() -> None:
    rule = ("accelerator-pod", "GET", "/v1/pods")
    assert allowed("GET", "/v1/pods", rule)
    assert not allowed("POST", "/v1/pods", rule)
    assert not allowed("GET", "/v1/capacity", rule)
    assert not allowed("GET", "/v1/pods", ("compute", "GET", "/v1/pods"))
    assert not allowed("GET", "/v1/pods")


def test_rule_may_include_the_proxys_path() -> None:
    """The catalog has https://cloud.example/weft, so users write rules with that path."""
    assert allowed("GET", "/v1/pods", ("accelerator-pod", "GET", "/weft/v1/pods"), prefix="/weft/")
    assert not allowed("GET", "/v1/pods", ("accelerator-pod", "GET", "/other/v1/pods"), prefix="/weft/")


def test_caller_without_rules_is_not_restricted() -> None:
    check_access(MEMBER, "accelerator-pod", "DELETE", "/v1/anything")
