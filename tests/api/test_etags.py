"""Every document read has a tag of its content: sent back it saves the transfer (304), and is a condition of
changes."""

from __future__ import annotations

import json
from typing import Any

from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from tests.helpers.paths import DOCS
from weft.api import etags
from weft.testing.callers import by

READ = ("/v1/pods", "/v1/pods/train", "/v1/receipt-key", "/v1")
"""Documents that don't contain the time at which they were read."""


def test_tag_follows_the_document_and_saves_its_transfer(api: Client, doors: DoorsHouse) -> None:
    api.post("/v1/pods", json=ORDER)
    for path in READ:
        first = api.get(path)
        tag = first.headers["etag"]
        assert first.status_code == 200 and not tag.startswith("W/"), path
        for given in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            same = api.get(path, headers={"If-None-Match": given})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag), path
        other = api.get(path, headers={"If-None-Match": '"x"'})
        assert (other.status_code, other.content) == (200, first.content)
    before = api.get("/v1/pods/train").headers["etag"]
    doors.finish("train")
    ready = api.get("/v1/pods/train", headers={"If-None-Match": before})
    assert ready.status_code == 200 and ready.json()["state"] == "READY", "the same generation, another state"
    assert ready.headers["etag"].startswith('"1-') and ready.headers["etag"] != before


def test_tag_of_a_document_is_a_condition_of_its_change(api: Client, doors: DoorsHouse) -> None:
    """Only the generation in it counts: a change of state since doesn't matter, another generation does."""
    api.post("/v1/pods", json=ORDER)
    tag = api.get("/v1/pods/train").headers["etag"]
    doors.finish("train")
    more: dict[str, Any] = {**ORDER, "nodes": {**ORDER["nodes"], "count": 3}}
    changed = api.put("/v1/pods/train", json=more, headers={"If-Match": tag})
    assert changed.status_code == 202 and changed.headers["etag"] == '"2"'
    assert api.put("/v1/pods/train", json=ORDER, headers={"If-Match": tag}).status_code == 412
    now = api.get("/v1/pods/train").headers["etag"]
    weak = api.put("/v1/pods/train", json=ORDER, headers={"If-Match": f"W/{now}"})
    assert (weak.status_code, weak.json()["code"]) == (412, "PRECONDITION"), "compared strongly"
    assert "weak tag" in weak.json()["detail"]
    for odd in ('"1-"', '"1-x"', '"-1"', '"1-' + "0" * 31 + '"', '"x"'):
        refused = api.put("/v1/pods/train", json=ORDER, headers={"If-Match": odd})
        assert (refused.status_code, "If-Match" in refused.text) == (400, True), odd


def test_authorization_of_another_scheme_is_refused_beside_a_valid_token(
    api: Client, doors: DoorsHouse
) -> None:
    """Prometheus without `type: Bearer` sends such a header; it must not be ignored."""
    assert api.get("/v1/monitoring/info", headers=by("operator")).status_code == 200
    for given in ("secret", "Basic c2VjcmV0", ""):
        answer = api.get("/v1/monitoring/info", headers={**by("operator"), "Authorization": given})
        assert answer.status_code == 401, given


def test_errors_and_changes_have_no_tag_of_content(api: Client, doors: DoorsHouse) -> None:
    """`If-None-Match` neither turns an error into 304 nor shows another project's document."""
    missing = api.get("/v1/pods/nosuch", headers={"If-None-Match": "*"})
    assert missing.status_code == 404 and "etag" not in missing.headers
    made = api.post("/v1/pods", json=ORDER, headers={"If-None-Match": "*"})
    assert made.status_code == 202 and made.headers["etag"] == '"1"'
    others = api.get("/v1/pods/train", headers={**by("b-member"), "If-None-Match": "*"})
    assert others.status_code == 404


def test_answers_are_not_for_shared_caches(api: Client, doors: DoorsHouse) -> None:
    """Known tags, errors, files and lists alike: `X-Auth-Token` alone doesn't keep a shared cache from storing
    them."""
    api.post("/v1/pods", json=ORDER)
    tag = api.get("/v1/pods/train").headers["etag"]
    for path, given in (
        ("/v1/pods/train", ""),
        ("/v1/pods/train", tag),
        ("/v1/pods", "*"),
        ("/v1/pods/nosuch", ""),
        ("/v1/pods/train/topology", ""),
        ("/v1/pods/train/topology", "*"),
        ("/v1/monitoring/targets?job=weft-bmcs", ""),
        ("/v1/nosuch", ""),
    ):
        headers = api.get(path, headers={**by("operator"), "If-None-Match": given}).headers
        assert headers.get_list("cache-control") == ["private, no-cache"], path
        assert headers.get_list("vary") == ["X-Auth-Token, Authorization"], path


def test_same_list_of_two_projects_has_different_tags(api: Client, doors: DoorsHouse) -> None:
    """So that one project's tag can't be used to ask about another's documents."""
    api.post("/v1/pods", json=ORDER)
    mine, others = (api.get("/v1/pods", headers=by(who)).headers["etag"] for who in ("a-member", "b-member"))
    assert mine != others
    asked = api.get("/v1/pods", headers={**by("b-member"), "If-None-Match": mine})
    assert (asked.status_code, asked.json()["pods"]) == (200, [])


def test_description_of_the_api_declares_304_for_documents_that_are_read() -> None:
    paths = json.loads((DOCS / "schemas/openapi.json").read_text())["paths"]
    described = [p for p, ops in paths.items() if "304" in ops.get("get", {}).get("responses", {})]
    assert {"/v1/pods/{name}", "/v1/site", "/v1/nodes/{name}"} <= set(described) and len(described) > 40
    assert etags.LARGEST > 1 << 20
