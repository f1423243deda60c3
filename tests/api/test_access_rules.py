"""Tokens of application credentials with access rules, at the API's door."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from weft.ports.cloud import AccessRule
from weft.testing.callers import by
from weft.testing.keystone import FakeIdentity


@pytest.fixture
def rules(identity: FakeIdentity) -> None:
    """The token `limited` may list pods and show single ones, and nothing else."""
    known = (AccessRule("accelerator-pod", "GET", path) for path in ("/v1/pods", "/v1/pods/*"))
    identity.tokens["limited"] = replace(identity.tokens["a-member"], access_rules=tuple(known))


def test_requests_without_a_rule_are_refused(
    rules: None, identity: FakeIdentity, still_api: httpx.Client
) -> None:
    """403 names the missing rule before anything is looked up; an encoded slash doesn't hide a longer path."""
    still_api.headers.update(by("limited"))
    assert still_api.get("/v1/pods").status_code == 200
    assert still_api.get("/v1/pods/nosuch").status_code == 404
    for method, path in (
        ("POST", "/v1/pods"),
        ("GET", "/v1/capacity"),
        ("GET", "/v1/pods/nosuch/receipt"),
        ("GET", "/v1/pods/nosuch%2Freceipt"),
        ("POST", "/v1/pods/nosuch/release"),
    ):
        answer = still_api.request(method, path)
        assert answer.status_code == 403, (method, path, answer.text)
        assert f"method {method} and path {path.replace('%2F', '/')} is missing" in answer.json()["detail"]


def test_caller_without_access_rules_is_not_restricted(rules: None, still_api: httpx.Client) -> None:
    assert still_api.get("/v1/pods/nosuch/receipt").status_code == 404
