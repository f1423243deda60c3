"""The liar in front of a tiny service: each lie, the requests that it applies to, and the record of calls."""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from tests.helpers.waiting import wait_for
from weftlab import liarcli
from weftlab.layout import free_ports
from weftlab.liar import LIES, Liar, LiarError, Route, running

ROWS = [{"id": "1", "name": "mine"}, {"id": "2", "name": "sentinel"}]

HTTP = httpx.Client(timeout=60, trust_env=False, verify=False)


class Service(ThreadingHTTPServer):
    """Rows under /things, a document with its own URL at /, and a log of requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.arrived: list[tuple[str, str]] = []
        self.rows: list[dict[str, str]] = list(ROWS)


class _Handler(BaseHTTPRequestHandler):
    server: Service  # pyright: ignore[reportIncompatibleVariableOverride]

    def _any(self) -> None:
        server = self.server
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.arrived.append((self.command, self.path))
        if self.command == "DELETE":
            server.rows = [r for r in server.rows if not self.path.endswith(r["id"])]
            return self._say(204, None)
        if self.path.startswith("/things/"):
            found = [r for r in server.rows if self.path.endswith(r["id"])]
            return self._say(200 if found else 404, {"thing": found[0]} if found else {"error": "no thing"})
        if self.path.startswith("/things"):
            links = [{"rel": "next", "href": f"{server.url}/things?marker=2"}]
            return self._say(200, {"things": server.rows, "things_links": links})
        if self.path == "/allocations":
            return self._say(200, {"allocations": {"a": 1}})
        return self._say(200, {"links": [{"href": server.url + "/v2"}], "host": self.headers["Host"]})

    def do_GET(self) -> None:
        self._any()

    def do_POST(self) -> None:
        self._any()

    def do_DELETE(self) -> None:
        self._any()

    def _say(self, status: int, value: object) -> None:
        body = b"" if value is None else json.dumps(value).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("x-openstack-request-id", "req-1")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    server = Service()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def liar(service: Service) -> Iterator[Liar]:
    with running([Route("nova", 0, service.url)]) as (liar, routes):
        liar.nova = routes[0].url  # pyright: ignore[reportAttributeAccessIssue]
        yield liar


def ask(liar: Any, path: str = "/things", method: str = "GET") -> httpx.Response:
    return HTTP.request(method, liar.nova + path)


def test_liar_without_a_rule_forwards_answers_with_its_own_address(service: Service, liar: Any) -> None:
    """Rows, status and request id are the service's; URLs in documents are rewritten to the liar's."""
    answer = ask(liar)
    assert answer.json()["things"] == ROWS and answer.headers["x-openstack-request-id"] == "req-1"
    assert answer.json()["things_links"][0]["href"] == f"{liar.nova}/things?marker=2"
    assert ask(liar, "/").json() == {
        "links": [{"href": f"{liar.nova}/v2"}],
        "host": liar.nova.removeprefix("http://"),
    }
    assert ask(liar, "/things/9").status_code == 404
    assert ask(liar, "/things/1", "DELETE").status_code == 204
    assert [c["lie"] for c in liar.calls()] == [""] * 4
    assert service.arrived == [
        ("GET", "/things"),
        ("GET", "/"),
        ("GET", "/things/9"),
        ("DELETE", "/things/1"),
    ]


@pytest.mark.parametrize(
    ("lie", "status", "body"),
    [
        ("html200", 200, "be back soon"),
        ("empty_object200", 200, "{}"),
        ("empty_array200", 200, "[]"),
        ("null200", 200, "null"),
        ("nothing200", 200, ""),
        ("broken200", 200, '{"servers"'),
        ("empty_list200", 200, '{"things": []}'),
        ("null_list200", 200, '{"things": null}'),
        ("object_list200", 200, '{"things": {}}'),
        ("text_list200", 200, '{"things": ["x"]}'),
        ("wrong_list200", 200, '{"thingss": [{'),
        ("no_content204", 204, ""),
        ("choices300", 300, '{"versions"'),
        ("elsewhere302", 302, "Moved"),
        ("circle302", 302, "Moved"),
        ("unauthorized401", 401, '"code": 401'),
        ("forbidden403", 403, '"code": 403'),
        ("forbidden403_html", 403, "<html>"),
        ("notfound404_html", 404, "<html>"),
        ("notfound404_empty", 404, ""),
        ("notfound404_json", 404, "no Route matched"),
        ("notfound404_forged", 404, '"code": 404'),
        ("gone410", 410, "<html>"),
        ("busy429", 429, "<html>"),
        ("error500", 500, '"code": 500'),
        ("gateway502", 502, "<html>"),
        ("away503_day", 503, "<html>"),
        ("away503_inf", 503, "<html>"),
        ("away503_nan", 503, "<html>"),
    ],
)
def test_lie_has_its_status_and_body(service: Service, liar: Any, lie: str, status: int, body: str) -> None:
    """The service gets the request only if the table says so, and no lie has the service's request id."""
    with liar.lying(lie, "nova") as rule:
        answer = ask(liar)
        assert answer.status_code == status and body in answer.text
        assert liar.lies_sent(rule) == 1
    assert bool(service.arrived) == LIES[lie].forwards
    assert ("x-openstack-request-id" in answer.headers) == LIES[lie].forwards
    assert ask(liar).json()["things"] == ROWS, "the rule was removed"


def test_lies_change_headers(liar: Any) -> None:
    """A redirect's target, Retry-After, and a true answer without its request id."""
    with liar.lying("elsewhere302"):
        landed = HTTP.get(f"{liar.nova}/things", follow_redirects=True)
    assert landed.status_code == 200 and "Sign in" in landed.text
    with liar.lying("circle302"):
        assert ask(liar, "/things?a=b").headers["Location"] == f"{liar.nova}/things?a=b"
    for lie, after in (("away503_day", "86400"), ("away503_inf", "inf"), ("away503_nan", "nan")):
        with liar.lying(lie):
            assert ask(liar).headers["Retry-After"] == after
    with liar.lying("nowhere"):
        assert ask(liar, "/").json()["links"] == [{"href": "http://127.0.0.1:9/v2"}]
    with liar.lying("no_request_id"):
        assert "x-openstack-request-id" not in ask(liar, "/things/9").headers


def test_liar_cuts_or_delays_a_true_answer(liar: Any) -> None:
    """Truncated, with a wrong length, late, or byte by byte."""
    for lie in ("cut", "longer"):
        with liar.lying(lie), pytest.raises(httpx.RemoteProtocolError):
            ask(liar)
    with liar.lying("shorter"), pytest.raises(ValueError):
        ask(liar).json()
    for lie in ("late", "slow"):
        began = time.monotonic()
        with liar.lying(lie, seconds=0.3):
            assert ask(liar).json()["things"] == ROWS
        assert time.monotonic() - began >= 0.3


@pytest.mark.parametrize(
    ("lie", "deliveries", "left"),
    [
        ("reset", 0, 2),
        ("hang", 0, 2),
        ("lost", 1, 1),
        ("lost504", 1, 1),
        ("twice", 2, 1),
        ("accepted202", 0, 2),
    ],
)
def test_lie_reaches_the_service_as_declared(
    service: Service, liar: Any, lie: str, deliveries: int, left: int
) -> None:
    """A deletion that is never delivered, delivered without an answer, or delivered twice."""
    with liar.lying(lie, "nova", method="DELETE", seconds=0.1):
        try:
            status = ask(liar, "/things/1", "DELETE").status_code
        except httpx.TransportError as error:
            status = 0
            assert isinstance(error, httpx.ReadError | httpx.RemoteProtocolError)
    assert status == {"lost504": 504, "twice": 204, "accepted202": 202}.get(lie, 0)
    assert len(service.arrived) == deliveries and len(service.rows) == left


def test_stale_answer_and_hidden_rows_are_served(service: Service, liar: Any) -> None:
    """The answer from before a change is repeated for the same request only; a listing lacks chosen rows."""
    ask(liar)
    ask(liar, "/things/1", "DELETE")
    with liar.lying("stale") as rule:
        assert ask(liar).json()["things"] == ROWS
        assert ask(liar, "/things/1").status_code == 404, "the first request is answered truthfully"
        assert liar.lies_sent(rule) == 1
    service.rows = list(ROWS)
    with liar.lying("hidden_rows", rows='"mine"'):
        assert ask(liar).json() == {"things": ROWS[1:]}
        assert ask(liar, "/things/1").status_code == 200
    with liar.lying("empty_list200") as rule:
        assert ask(liar, "/allocations").json() == {"allocations": {}}
        assert ask(liar, "/things/1").json() == {"thing": ROWS[0]}, "a single resource isn't hidden"
        assert liar.lies_sent(rule) == 1


def test_rules_select_requests(liar: Any) -> None:
    """By service, method, path, count and chance; of several matching rules the oldest; a seed makes chance
    repeatable."""
    liar.tell("error500", "nova", path="^/things$", skip=1, times=1)
    liar.tell("gateway502", "nova", method="DELETE")
    liar.tell("gateway502", "glance")
    assert [ask(liar).status_code for _ in range(3)] == [200, 500, 200]
    assert ask(liar, "/things/1").status_code == 200
    assert ask(liar, "/things/1", "DELETE").status_code == 502
    assert [(r["seen"], r["sent"]) for r in liar.rules()] == [(3, 1), (1, 1), (0, 0)]
    drawn: list[list[int]] = []
    for seed in (7, 7, 8):
        liar.lift()
        rule = liar.tell("error500", chance=0.5, seed=seed)
        drawn.append([ask(liar).status_code for _ in range(40)])
        assert 0 < liar.lies_sent(rule) < 40
    assert drawn[0] == drawn[1] != drawn[2]
    liar.lift()
    assert liar.rules() == []


def test_calls_are_recorded(liar: Any) -> None:
    """With request, answer and lie; from a number on."""
    ask(liar, "/things?a=1")
    with liar.lying("error500"):
        ask(liar)
    first, second = liar.calls()
    assert first == {
        "number": 1,
        "service": "nova",
        "method": "GET",
        "path": "/things?a=1",
        "status": 200,
        "lie": "",
    }
    assert (second["status"], second["lie"]) == (500, "error500")
    assert liar.calls(after=1) == [second]


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({"lie": "fib"}, "lie: 'fib' is not allowed: one of html200, "),
        ({"lie": "cut", "path": "("}, "path: '(' is not allowed: not a regular expression"),
        ({"lie": "cut", "chance": 2}, "chance: 2 is not allowed: Input should be less than or equal to 1"),
        ({"lie": "cut", "colour": "red"}, "colour: 'red' is not allowed"),
    ],
)
def test_invalid_rule_gives_one_sentence(liar: Liar, rule: dict[str, Any], sentence: str) -> None:
    """Field, value and what is allowed; no rule is added."""
    with pytest.raises(LiarError) as error:
        liar.tell(**rule)
    assert sentence in str(error.value)
    assert liar.rules() == []


def test_unreachable_service_is_answered_502(service: Service, liar: Any) -> None:
    """The answer names the service; an unreachable liar is one sentence, too."""
    service.shutdown()
    service.server_close()
    answer = ask(liar)
    assert answer.status_code == 502 and f"no answer from nova at {service.url}" in answer.text
    with pytest.raises(LiarError, match=r"no answer from the liar at http://127.0.0.1:1"):
        Liar("http://127.0.0.1:1").rules()


def test_liar_runs_as_a_program(service: Service) -> None:
    """As in a lab: with a port for each service and one for control."""
    base = free_ports()
    words = ("--control", str(base), "--service", "nova", str(base + 1), service.url)
    with subprocess.Popen([sys.executable, "-m", "weftlab.liar", *words]) as process:
        try:
            liar = Liar(f"http://127.0.0.1:{base}")
            wait_for(lambda: _answers(liar), "the liar answers")
            liar.tell("error500")
            connection = http.client.HTTPConnection("127.0.0.1", base + 1, timeout=60)
            connection.request("GET", "/things")
            assert connection.getresponse().status == 500
            connection.close()
        finally:
            process.terminate()
        assert process.wait(60) == 0


def test_lie_commands_work_as_typed(liar: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`weft lab lie`, `lies` and `truth`: active lies, how often each was used, and none afterwards."""
    parser = argparse.ArgumentParser()
    for each, run in liarcli.add_commands(parser.add_subparsers(), lambda _: liar):
        each.set_defaults(run=run)

    def typed(*words: str) -> str:
        args = parser.parse_args(words)
        assert args.run(args) == 0
        return capsys.readouterr().out

    assert typed("lies") == "no active lies\n"
    assert typed("lie", "error500", "--service", "nova", "--times", "2") == "rule 1: 500 as from a service\n"
    ask(liar)
    assert " ".join(typed("lies").split()) == "1 error500 --service nova --times 2: used 1 of 1 times"
    assert all(name in typed("lies", "--names") for name in ("html200", "lost"))
    assert typed("truth") == "all lies removed\n"
    assert ask(liar).status_code == 200


def _answers(liar: Liar) -> bool:
    try:
        return liar.rules() == []
    except LiarError:
        return False
