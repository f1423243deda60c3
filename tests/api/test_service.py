"""The API besides pods: discovery, health, metrics, request ids, errors of every class, invalid bodies."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from fastapi import FastAPI
from httpx import Client
from keystoneauth1 import discover, session
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from tests.helpers.doors import ORDER, DoorsHouse
from tests.helpers.waiting import wait_for
from weft.api.app import create_app
from weft.api.edge import LINES
from weft.model.errors import (
    ConflictError,
    ForbiddenError,
    InputError,
    InputErrors,
    NotFoundError,
    OutsideError,
    PermanentError,
    RefusedError,
    TemporaryError,
    UnauthenticatedError,
    UnknownError,
    WeftError,
)
from weft.model.errortable import from_problem
from weft.model.logtext import SafeFormatter
from weft.ports.cloud import Caller
from weft.testing.callers import by, tokens
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served

ERRORS: list[tuple[WeftError, int]] = [
    (InputError("nodes.count", 0, "1 or more"), 400),
    (InputErrors([InputError("a", 1, "2"), InputError("b", None, "required", "pod.yaml:3")]), 400),
    (UnauthenticatedError("signed out"), 401),
    (ForbiddenError("not yours"), 403),
    (NotFoundError("no such thing"), 404),
    (ConflictError("taken"), 409),
    (RefusedError("no room", {"would_fit": ["2 nodes"], "quotas": [{"resource": "cores", "limit": 1}]}), 422),
    (UnknownError("read tables", "agent sm1", "no answer"), 503),
    (TemporaryError("create port", "neutron", "HTTP 503", delay=7.5), 503),
    (PermanentError("create server", "nova", "no image", "upload the image"), 502),
    (OutsideError("ask", "a service", "something", "look"), 502),
    (WeftError("something else"), 500),
]


def failing(doors: DoorsHouse, error: Exception) -> None:
    """Makes the cloud's next check of an order raise `error`."""

    def fail() -> None:
        raise error

    doors.cloud.meanwhile("facts", fail)


@pytest.mark.parametrize(
    ("error", "status"), ERRORS, ids=lambda e: type(e).__name__ if isinstance(e, Exception) else None
)
def test_each_error_survives_http(api: Client, doors: DoorsHouse, error: WeftError, status: int) -> None:
    """Its class, sentence and fields are the same on both sides of HTTP, where they aren't hidden."""
    failing(doors, error)
    answer = api.post("/v1/pods/plan", json=ORDER, headers=by("operator"))
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["status"], problem["instance"]) == (status, "/v1/pods/plan")
    assert problem["title"]
    back = from_problem(status, problem)
    assert type(back) is type(error)
    assert str(back) == str(error)
    assert getattr(back, "detail", None) == getattr(error, "detail", None)
    if isinstance(error, TemporaryError):
        assert answer.headers["retry-after"] == str(problem["retry_after"])
        assert 0 <= problem["retry_after"] - error.delay < 1


def test_unexpected_error_only_points_to_the_log(
    api: Client, doors: DoorsHouse, caplog: pytest.LogCaptureFixture
) -> None:
    """A defect gives 500 with the request id and no details; the traceback is in the log."""
    failing(doors, RuntimeError("password=hunter2"))
    with caplog.at_level(logging.ERROR, "weft.api"):
        answer = api.post("/v1/pods/plan", json=ORDER)
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    assert answer.json()["request_id"] == answer.headers["x-openstack-request-id"]
    assert "hunter2" in caplog.text


def test_unreachable_keystone_is_503(still_api: Client, identity: FakeIdentity) -> None:
    """Whether the token is valid is unknown: not 401, but "try again"."""
    identity.error = UnknownError("validate a token", "keystone at http://inside.example:5000", "refused")
    answer = still_api.get("/v1/pods")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:weft:problem:unknown")
    assert "inside.example" not in answer.text


class HangingIdentity(FakeIdentity):
    """A Keystone that doesn't answer before `end` is set; tokens checked before are cached."""

    def __init__(self) -> None:
        super().__init__(tokens())
        self.asked = 0
        self.end = threading.Event()

    def remembered(self, token: str) -> Caller | None:
        return self.tokens.get(token)

    def check(self, token: str) -> Caller:
        self.asked += 1
        self.end.wait(30)
        return super().check(token)


def test_hanging_keystone_does_not_delay_cached_callers(
    server: tuple[FastAPI, str], still_doors: DoorsHouse
) -> None:
    """With more unknown tokens than threads, health, metrics and cached callers are answered."""
    identity = HangingIdentity()
    still_doors.stand_behind(server[0], identity)
    known, strangers = by("a-member"), [by(f"random-{n}") for n in range(60)]
    with (
        Client(base_url=server[1], timeout=60, trust_env=False) as client,
        ThreadPoolExecutor(len(strangers)) as pool,
    ):
        asking = [pool.submit(client.get, "/v1/pods", headers=one) for one in strangers]
        try:
            registry = server[0].state.metrics.registry
            gauge = "weft_api_requests_in_flight"
            wait_for(lambda: registry.get_sample_value(gauge) >= len(strangers))
            for path in ("/readyz", "/metrics", "/v1/pods", "/v1/capacity"):
                assert client.get(path, headers=known, timeout=10).status_code == 200
            assert not any(one.done() for one in asking)
        finally:
            identity.end.set()
        assert {one.result().status_code for one in asking} == {401}


def test_keystoneauth_discovers_the_api(still_api: Client) -> None:
    """OpenStack's own discovery finds version 1 from the root and from the versioned address."""
    base = str(still_api.base_url).rstrip("/")
    plain = session.Session()
    found = discover.Discover(plain, f"{base}/")
    assert found.url_for("1") == f"{base}/v1/"
    assert found.version_data()[0]["status"] == "CURRENT"
    assert discover.get_version_data(plain, f"{base}/v1")[0]["id"] == "v1.0"


def test_request_ids_are_new_each_time_and_logged(
    still_api: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Each answer has an id of its own; the log has the client's id beside it."""
    given = "req-12345678-1234-1234-1234-123456789abc"
    with caplog.at_level(logging.INFO, "weft.api"):
        caplog.handler.setFormatter(SafeFormatter(LINES))
        ids = [
            still_api.get("/v1/pods", headers={"X-OpenStack-Request-ID": given}).headers[
                "x-openstack-request-id"
            ]
            for _ in "12"
        ]
    assert all(re.fullmatch(r"req-[0-9a-f-]{36}", i) for i in ids)
    assert len({*ids, given}) == 3
    lines = [r for r in caplog.records if r.name == "weft.api"]
    assert [getattr(r, "request_id", "") for r in lines] == ids
    assert all(
        f"global={given}" in r.getMessage() and "project=id-of-team-a" in r.getMessage() for r in lines
    )


def test_answered_requests_are_logged_at_info(still_api: Client, caplog: pytest.LogCaptureFixture) -> None:
    """Refused waits too, a balancer's health checks not. Answered waits: `test_pods.py`."""
    with caplog.at_level(logging.DEBUG, "weft.api"):
        for path in ("/v1/pods", "/v1/pods/none?until=READY&wait=1", "/healthz"):
            still_api.get(path)
    lines = [(r.levelname, r.getMessage().split(" ")[1:3]) for r in caplog.records if r.name == "weft.api"]
    assert lines == [
        ("INFO", ["/v1/pods", "200"]),
        ("INFO", ["/v1/pods/none", "404"]),
        ("DEBUG", ["/healthz", "200"]),
    ]


def test_invalid_request_id_does_not_reach_the_log(
    still_api: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Only req-<uuid> is accepted, so that a client can't write lines into the log."""
    with caplog.at_level(logging.INFO, "weft.api"):
        still_api.get("/v1/pods", headers={"X-OpenStack-Request-ID": "req-x user=root"})
    assert "/v1/pods" in caplog.text and "user=root" not in caplog.text


def test_health_needs_no_token(api: Client, doors: DoorsHouse) -> None:
    """/healthz is about the process, /readyz about what it depends on."""
    anonymous = by("")
    assert api.get("/healthz", headers=anonymous).text == "ok\n"
    assert api.get("/readyz", headers=anonymous).status_code == 200
    doors.database.close()
    answer = api.get("/readyz", headers=anonymous)
    assert (answer.status_code, answer.json()["checks"]) == (503, {"database": "not ok"})


def test_metrics_count_by_route_and_status(doors: DoorsHouse, identity: FakeIdentity) -> None:
    """By the route's template, unknown addresses together, so that names don't become label values."""
    with served(create_app(doors.service, identity, collectors=[_Pods()])) as url:
        for path in ("/v1/pods/a", "/v1/pods/b", "/nowhere", "/elsewhere"):
            httpx.get(url + path, headers=by("a-member"), trust_env=False)
        text = httpx.get(url + "/metrics", trust_env=False).text
    assert "weft_test_pods 3.0" in text
    counted = {
        (s.labels["route"], s.labels["status"]): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if s.name == "weft_api_requests_total"
    }
    assert counted == {("/v1/pods/{name}", "404"): 2.0, ("(none)", "404"): 2.0}


class _Pods(Collector):
    """A collector that the application brings."""

    def collect(self) -> Iterable[Metric]:
        yield GaugeMetricFamily("weft_test_pods", "Pods.", 3)


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"", 400, "JSON"),
        (b"{", 400, "line 1"),
        (b"[]", 400, "a JSON object"),
        (b"null", 400, "a JSON object"),
        (b'"\xff"', 400, "UTF-8"),
        (b'{"name": "a", "name": "b"}', 400, "twice"),
        (b'{"name": NaN}', 400, "NaN"),
        (b"[" * 4_900, 400, "nesting"),
        (b"[" * 100_000, 413, "5000 values"),
        (b'{"a": "\\"' + b"," * 6_000 + b'\\\\", "b": 1}', 400, "name"),
        (b'{"a": "\\"", ' + b"[" * 6_000, 413, "5000 values"),
        (b"{" + b",".join(b'"f%d":1' % n for n in range(6_000)) + b"}", 413, "5000 values"),
        (b'{"name": ' + b"9" * 10_000 + b"}", 400, "JSON"),
        (b'{"name": "tr\\u0000ain"}', 400, "NUL"),
        (b'{"nodes": {"tr\\u0000ain": 1}}', 400, "NUL"),
        (b'{"name": "\\ud800"}', 400, "name"),
        (
            b'{"name": "x", "nodes": {"count": 2, "flavor": "f", "image": "i"}, "colour": "red"}',
            400,
            "colour",
        ),
        (b'{"name": "x", "nodes": {"count": 0, "flavor": "f", "image": "i"}}', 400, "nodes.count"),
        (b'"' + b"x" * (1 << 18) + b'"', 413, "256 KiB"),
    ],
)
def test_invalid_bodies_are_reported(still_api: Client, body: bytes, status: int, says: str) -> None:
    """With a problem document each; no pod is created."""
    answer = still_api.post("/v1/pods", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert says in answer.json()["detail"]
    assert still_api.get("/v1/pods").json() == {"pods": []}


def test_body_without_length_is_limited_too(still_api: Client) -> None:
    """A chunked body is refused as soon as it is over the limit."""
    chunks = (b" " * 65536 for _ in range(40))
    assert (
        still_api.post("/v1/pods", content=chunks, headers={"Content-Type": "application/json"}).status_code
        == 413
    )


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_another_content_type_is_refused(still_api: Client, kind: str) -> None:
    """415 with the content type that is accepted."""
    answer = still_api.post("/v1/pods", content=json.dumps(ORDER), headers={"Content-Type": kind})
    assert answer.status_code == 415
    assert "application/json" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("DELETE", "/v1/pods", 405), ("GET", "/v2", 404), ("GET", "/v1/pods/", 404)],
)
def test_wrong_methods_and_paths_get_problem_documents(
    still_api: Client, method: str, path: str, status: int
) -> None:
    """405 and 404 of the router have the form of all other errors."""
    answer = still_api.request(method, path)
    assert answer.status_code == status
    problem = answer.json()
    assert (problem["status"], problem["instance"]) == (status, path)
    assert problem["request_id"] == answer.headers["x-openstack-request-id"]
    if status == 405:
        assert answer.headers["allow"]


def test_schema_has_every_route_and_resolves_every_reference(still_api: Client) -> None:
    """Fields have descriptions, and operations their methods."""
    schema = still_api.get("/openapi.json").json()
    text = json.dumps(schema)
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert names <= set(schema["components"]["schemas"])
    assert {"Order", "SiteDocument", "Plan", "PodView", "Problem"} <= names
    assert schema["components"]["schemas"]["NodesOrder"]["properties"]["count"]["description"]
    assert "post" in schema["paths"]["/v1/pods/{name}/release"]
