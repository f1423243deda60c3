"""Random bodies, names and parameters: each is accepted or refused with 4xx, never a failure, never half done."""

from __future__ import annotations

import json
from typing import Any

import pytest
from httpx import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers.amounts import examples
from tests.helpers.doors import DoorsHouse

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=50)
    | st.sampled_from(
        ["train", "leaf", "10.0.0.0/24", "2027-01-01T00:00:00Z", "9" * 400, "\0", "\ud800", "-", "1e400"]
    )
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
)
VALID: dict[str, Any] = {
    "name": "train",
    "cloud": "lab",
    "nodes": {"count": 2, "flavor": "gpu8", "image": "tiny"},
    "fabric": {"name": "ib0", "hcas": "dedicated", "hcas_per_node": 1},
    "locality": {"required": "block", "preferred": "leaf"},
    "access": {
        "key_pair": "k",
        "ssh_from": ["10.0.0.0/8"],
        "floating_ip": "first",
        "user_data": "#cloud-config",
    },
    "network": {"rdma": "10.1.0.0/24", "management": "10.2.0.0/24", "router": True},
    "lease": {"end": "2027-01-31T18:00:00Z"},
}
PATHS = [(a,) for a in VALID] + [
    (a, b) for a, section in VALID.items() if isinstance(section, dict) for b in section
]
SLOW = settings(
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(autouse=True)
def key_pair(doors: DoorsHouse) -> None:
    """The key pair that the valid order names."""
    doors.cloud.offers.key_pairs["id-of-alice", "k"] = f"ssh-ed25519 {'A' * 68} alice"


def _send(api: Client, body: bytes) -> None:
    """Plans and orders a body: 4xx or success with a document each; ordered only where the plan was possible."""
    answers = [
        api.post(path, content=body, headers={"Content-Type": "application/json"})
        for path in ("/v1/pods/plan", "/v1/pods")
    ]
    applied = api.put("/v1/pods/train", content=body, headers={"Content-Type": "application/json"})
    for answer in (*answers, applied):
        assert answer.status_code in (200, 202, 400, 409, 413, 422), answer.text
        document = answer.json()
        if answer.status_code >= 400:
            assert (document["status"], bool(document["detail"])) == (answer.status_code, True)
            assert len(answer.content) < 200_000
    if answers[1].status_code == 202:
        assert answers[0].status_code == 200


@SLOW
@given(changes=st.dictionaries(st.sampled_from(PATHS), JSON, min_size=1, max_size=3))
def test_order_with_strange_values_is_accepted_or_400(
    api: Client, changes: dict[tuple[str, ...], object]
) -> None:
    """A valid order with one to three values replaced by any JSON."""
    order = json.loads(json.dumps(VALID))
    for path, value in changes.items():
        section = order
        for key in path[:-1]:
            section = section[key]
            if not isinstance(section, dict):
                break
        else:
            section[path[-1]] = value
    _send(api, json.dumps(order).encode())


@SLOW
@given(document=JSON)
def test_any_json_document_is_accepted_or_400(api: Client, document: object) -> None:
    _send(api, json.dumps(document).encode())


@SLOW
@given(body=st.binary(max_size=200), at=st.integers(0, 200))
def test_truncated_order_with_garbage_is_accepted_or_400(api: Client, body: bytes, at: int) -> None:
    """A valid order cut off anywhere, followed by random bytes."""
    _send(api, json.dumps(VALID).encode()[:at] + body)


@SLOW
@given(
    name=st.text(min_size=1, max_size=60),
    query=st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=3),
)
def test_arbitrary_names_and_parameters_never_fail(api: Client, name: str, query: dict[str, str]) -> None:
    """In paths and query strings."""
    from urllib.parse import quote

    for tail in ("", "/events", "/receipt"):
        path = f"/v1/pods/{quote(name.encode('utf-8', 'surrogatepass'), safe='')}{tail}"
        answer = api.get(path, params={**query, "after": query.get("after", "0")})
        assert answer.status_code in (200, 400, 404, 405), answer.text


def test_valid_order_is_accepted(api: Client) -> None:
    """Otherwise the other tests of this file would show nothing."""
    assert api.post("/v1/pods", json=VALID).status_code == 202
