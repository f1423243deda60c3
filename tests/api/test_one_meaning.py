"""Input that could be read in two ways is refused in one sentence: nothing is ignored or guessed."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from httpx import Client

from tests.helpers.doors import ORDER, DoorsHouse
from tests.helpers.paths import DOCS
from weft.api.asking import LISTS
from weft.testing.callers import by

JSON = {"Content-Type": "application/json"}
BODY = json.dumps(ORDER).encode()


@pytest.mark.parametrize("value", [True, False])
def test_boolean_in_place_of_a_number_is_refused(still_api: Client, value: bool) -> None:
    order = {**ORDER, "nodes": {**ORDER["nodes"], "count": 2, "spare": value}}
    answer = still_api.post("/v1/pods/plan", json=order)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "nodes.spare"), answer.text
    assert f"nodes.spare: {value} is not allowed: a number" in answer.json()["detail"]


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip"])
def test_encoded_body_is_415(still_api: Client, encoding: str) -> None:
    for body in (BODY, gzip.compress(BODY)):
        headers = {**JSON, "Content-Encoding": encoding}
        answer = still_api.post("/v1/pods/plan", content=body, headers=headers)
        assert (answer.status_code, "Content-Encoding" in answer.json()["detail"]) == (415, True)
    plain = {**JSON, "Content-Encoding": "identity"}
    assert still_api.post("/v1/pods/plan", content=BODY, headers=plain).status_code == 200


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_body_in_another_encoding_than_utf8_is_400(still_api: Client, encoding: str) -> None:
    body = json.dumps({**ORDER, "name": "träin"}, ensure_ascii=False).encode(encoding)
    answer = still_api.post("/v1/pods/plan", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "body")
    marked = still_api.post("/v1/pods/plan", content=b"\xef\xbb\xbf" + BODY, headers=JSON)
    assert marked.status_code == 200


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1/pods?limit=1&limit=2", "limit"),
        ("/v1/pods?state=READY&state=FAILED", "state"),
        ("/v1/events?after=1&after=2", "after"),
        ("/v1/pods/train/events?after=0&after=0", "after"),
    ],
)
def test_parameter_given_twice_is_400(still_api: Client, path: str, name: str) -> None:
    answer = still_api.get(path)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, name), answer.text
    assert answer.json()["errors"][0]["allowed"] == "one value"


@pytest.mark.parametrize(
    ("path", "name", "known"),
    [
        ("/v1/pods/train/events?afer=1", "afer", "after, gather, newest, wait"),
        ("/v1/pods/train?name=other", "name", "until, wait"),
        ("/v1/pods?If-Match=3", "If-Match", "limit"),
    ],
)
def test_unknown_parameter_is_400(api: Client, path: str, name: str, known: str) -> None:
    if "/train" in path:
        assert (
            api.get(path).status_code == 404
        )  # the pod comes first: without one, the parameter isn't looked at
        api.post("/v1/pods", json=ORDER)
    answer = api.get(path)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, name), answer.text
    assert "unknown parameter; known here: " in answer.json()["detail"] and known in answer.json()["detail"]


@pytest.mark.parametrize("end", [1_900_000_000, "1900000000", 1.9e12, True])
def test_number_is_not_a_time(still_api: Client, end: object) -> None:
    """A number could be seconds or milliseconds."""
    answer = still_api.post("/v1/pods/plan", json={**ORDER, "lease": {"end": end}})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "lease.end"), answer.text
    assert "such as 2027-01-31T18:00:00Z" in answer.json()["detail"]


def test_unknown_field_without_a_value_is_called_unknown(still_api: Client) -> None:
    answer = still_api.post("/v1/pods/plan", json={**ORDER, "spare": None})
    assert answer.status_code == 400 and "'null' is not allowed: unknown field" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            b'{"name": "a", "nodes": {"count": 1e30}}',
            "nodes.count: 1e+30 is not allowed: a whole number with",
        ),
        (b'{"name": "a", "nodes": {"count": 1e999}}', "a finite number"),
        (b'{"name": "a\\ud800"}', "half of a surrogate pair"),
    ],
)
def test_messages_of_the_parser_are_not_sent(still_api: Client, body: bytes, says: str) -> None:
    detail = still_api.post("/v1/pods/plan", content=body, headers=JSON).json()["detail"]
    assert says in detail and "input" not in detail


@pytest.mark.parametrize("tag", ['"1', '1"', 'W/"1'])
def test_tag_with_one_quote_is_400(api: Client, tag: str) -> None:
    assert api.post("/v1/pods", json=ORDER).status_code == 202
    answer = api.put("/v1/pods/train", json=ORDER, headers={"If-Match": tag})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "If-Match"), answer.text


def test_only_list_parameters_may_be_repeated() -> None:
    document: Any = json.loads((DOCS / "schemas" / "openapi.json").read_text())
    verbs = [verb for path in document["paths"].values() for verb in path.values() if isinstance(verb, dict)]
    given = [p for verb in verbs for p in verb.get("parameters", ()) if p["in"] == "query"]
    assert {p["name"] for p in given if "array" in json.dumps(p["schema"])} == LISTS


def test_two_conditions_of_a_change_are_400(api: Client, doors: DoorsHouse) -> None:
    """The second condition might be the one that doesn't hold."""
    assert api.post("/v1/pods", json=ORDER).status_code == 202
    for first, second in (("1", "7"), ("7", "1"), ("1", "1")):
        headers = [*by("a-member").items(), *JSON.items(), ("If-Match", first), ("If-Match", second)]
        answer = api.put("/v1/pods/train", content=BODY, headers=headers)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "If-Match")
