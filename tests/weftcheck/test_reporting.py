"""`weft-check --report`, to the real API and to servers that aren't weft."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.certificates import own_certificate
from tests.helpers.doors import DoorsHouse, doors
from tests.weftcheck.machines import Rig
from weft.model.site import ChecksPolicy
from weft.testing.callers import tokens
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import free_port, served
from weftcheck import cli, service

__all__ = ["doors"]

TOKEN = "wct_0123456789abcdef_" + "x" * 43


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file with a well-formed token that no weft made."""
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    file.chmod(0o600)
    return file


def _main(rig: Rig, *arguments: str | Path, pauses: list[float] | None = None) -> int:
    sleep: Callable[[float], None] = (pauses if pauses is not None else []).append
    return cli.main([str(one) for one in arguments], rig.root, rig.run, sleep)


def _url(base: str, node: str = "gpu01") -> str:
    return f"{base}/v1/nodes/{node}/checks"


class Script(BaseHTTPRequestHandler):
    """Gives the listed answers in order, and keeps the requests."""

    answers: list[tuple[int, dict[str, str], bytes]]
    came: list[tuple[str, dict[str, str], bytes]]

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.came.append((self.path, dict(self.headers), body))
        status, headers, answer = self.answers.pop(0)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(answer)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


@contextmanager
def scripted(*answers: tuple[int, dict[str, str], bytes]) -> Iterator[tuple[str, list[Any]]]:
    """URL of a server that gives these answers, and the requests that it got: path, headers, body."""
    made = type("Made", (Script,), {"answers": list(answers), "came": []})
    server = HTTPServer(("127.0.0.1", 0), made)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield _url(f"http://127.0.0.1:{server.server_port}"), made.came  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def test_result_is_reported_over_verified_tls(
    rig: Rig, doors: DoorsHouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """weft keeps the document, the exit code is the result's; if the certificate isn't trusted nothing is sent."""
    made = doors.service.checks.make_token(doors.operator, "gpu01")
    secret = tmp_path / "secret"
    secret.write_text(made.token)
    secret.chmod(0o600)
    certificate = own_certificate(tmp_path)
    with served(doors.served(FakeIdentity(tokens())), certificate) as base:
        given = ("--report", _url(base), "--token-file", secret)
        pauses: list[float] = []
        assert _main(rig, *given, pauses=pauses) == 4
        assert "CERTIFICATE_VERIFY_FAILED" in capsys.readouterr().err and len(pauses) == 3
        assert doors.service.checks.show(doors.operator, "gpu01").state == "never"
        assert _main(rig, *given, "--cacert", certificate[0], "--json") == 0
        out, error = capsys.readouterr()
        assert json.loads(out)["status"] == "ok" and error == "weft-check: reported: node gpu01 is ok\n"
        (rig.port(0) / "state").write_text("1: DOWN")
        doors.door_clock.go_on(11)
        assert _main(rig, *given, "--cacert", certificate[0]) == 1
        found = doors.service.checks.show(doors.operator, "gpu01")
        assert found.state == "failed" and [p.code for p in found.problems] == ["PORT_STATE"]
        other = (*given[:1], _url(base, "gpu02"), *given[2:], "--cacert", certificate[0])
        assert _main(rig, *other) == 4
        assert "says 403: this token isn't for node 'gpu02'" in capsys.readouterr().err


def test_expected_values_are_read_from_weft(
    rig: Rig, doors: DoorsHouse, secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Values of the machine type. A result against other values is old and ends no failure; without values nothing is
    checked.
    """
    made = doors.service.checks.make_token(doors.operator, "gpu01")
    secret.write_text(made.token)
    site = doors.store.site().site
    kind = site.node_by_name["gpu01"].machine_type
    values = {kind: {"gpus": 3, "iommu": "translated"}}
    changed = site.model_copy(update={"checks": ChecksPolicy.model_validate({"expected": values})})
    doors.store.activate_site(changed, "test")
    with served(doors.served(FakeIdentity(tokens()))) as base:
        report = ("--report", _url(base), "--token-file", secret)
        assert _main(rig, *report, "--expect-from", _url(base)) == 1
        out, error = capsys.readouterr()
        assert "GPU_COUNT         host: 2, expected 3" in out and "compared" not in error
        found = doors.service.checks.show(doors.operator, "gpu01")
        assert {p.code for p in found.problems} == {"GPU_COUNT", "IOMMU"}
        doors.door_clock.go_on(11)
        assert _main(rig, *report) == 0
        assert "is failed, but was compared with other values" in capsys.readouterr().err
        doors.service.checks.forget(doors.operator, "gpu01")
        assert _main(rig, *report) == 0
        assert doors.service.checks.show(doors.operator, "gpu01").state == "old"
        rig.asked.clear()
        capsys.readouterr()
        for given in (
            ("--expect-from", _url(base, "gpu02")),
            ("--expect-from", _url(base), "--expect", secret),
        ):
            assert _main(rig, "--token-file", secret, *given) in (2, 4)
            assert capsys.readouterr().out == "" and rig.asked == []
    with scripted((200, {}, b'{"version": 1, "gpu": 8}')) as (url, _):
        assert _main(rig, "--expect-from", url, "--token-file", secret) == 4
    assert "nothing is checked: expected values from weft: 'gpu' isn't a member" in capsys.readouterr().err


def test_failed_report_has_an_exit_code_of_its_own(
    rig: Rig, secret: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result is still printed, and the token goes to no other address: refused, redirected, not weft, no server."""
    answers: list[tuple[int, dict[str, str], bytes, str]] = [
        (401, {}, b'{"detail": "no such token\\u001b[2J"}', "says 401: no such token [2J"),
        (302, {"Location": "http://127.0.0.1:1/"}, b"", "says 302: nothing that weft says"),
        (200, {}, b"<h1>welcome</h1>", "what answered isn't weft"),
        (200, {}, b"[1]", "what answered isn't weft"),
    ]
    for status, headers, body, sentence in answers:
        with scripted((status, headers, body)) as (url, came):
            assert _main(rig, "--report", url, "--token-file", secret) == 4
        out, error = capsys.readouterr()
        assert " 0 failed," in out and len(came) == 1
        assert error.startswith("weft-check: the result isn't reported: ") and sentence in error, error
        assert error.count("\n") == 1 and TOKEN not in out + error
    long = _url(f"https://{'a' * 70}.example")
    assert _main(rig, "--report", long, "--token-file", secret) == 4
    assert capsys.readouterr().err.count("\n") == 1
    nowhere = _url(f"http://127.0.0.1:{free_port()}")
    assert _main(rig, "--report", nowhere, "--token-file", secret) == 4
    assert "ConnectionRefusedError" in capsys.readouterr().err


def test_busy_weft_is_asked_up_to_four_times(rig: Rig, secret: Path) -> None:
    """After the time that it names, or after longer and longer pauses."""
    fine = (200, {}, b'{"node": "gpu01", "state": "ok"}')
    pauses: list[float] = []
    with scripted((503, {"Retry-After": "7"}, b""), (502, {}, b""), fine) as (url, came):
        assert _main(rig, "--report", url, "--token-file", secret, pauses=pauses) == 0
    assert pauses == [7.0, 8.0] and len({body for _, _, body in came}) == 1
    assert came[0][1]["Authorization"] == f"Bearer {TOKEN}"
    pauses.clear()
    with scripted(*[(503, {"Retry-After": "99999"}, b"")] * 4) as (url, came):
        assert _main(rig, "--report", url, "--token-file", secret, pauses=pauses) == 4
    assert (pauses, len(came)) == ([60.0] * 3, 4)


def test_attempt_ends_though_the_server_never_completes_its_answer(
    rig: Rig, secret: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server sends one byte at a time without end."""
    monkeypatch.setattr(service, "TIMEOUT", 0.2)
    ended = threading.Event()

    def trickle(listener: socket.socket) -> None:
        while not ended.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while not ended.wait(0.05):
                    try:
                        connection.sendall(b"H")
                    except OSError:
                        break

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=trickle, args=(listener,), daemon=True)
        thread.start()
        port = listener.getsockname()[1]
        assert _main(rig, "--report", _url(f"http://127.0.0.1:{port}"), "--token-file", secret) == 4
        ended.set()
    assert "within 0.2 s" in capsys.readouterr().err


def test_invalid_arguments_of_a_report_are_refused_before_any_check(
    rig: Rig, secret: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plain HTTP to another machine, invalid addresses, readable or invalid token files, parts of a result: exit code
    2.
    """
    good = _url("https://weft.example")
    opened = tmp_path / "open"
    opened.write_text(TOKEN)
    opened.chmod(0o640)
    short = tmp_path / "short"
    short.write_text("x y")
    short.chmod(0o600)
    wrong: list[tuple[tuple[str | Path, ...], str]] = [
        (("--report", good), "--report and --expect-from need --token-file"),
        (("--token-file", secret), "are for --report and --expect-from"),
        (("--report", _url("http://weft.example"), "--token-file", secret), "isn't sent by plain HTTP"),
        (("--report", good, "--token-file", opened), "others may read it"),
        (("--report", good, "--token-file", short), "isn't a token"),
        (("--report", good, "--token-file", tmp_path / "none"), "can't be read"),
        (("--report", good, "--token-file", secret, "--cacert", secret), "no certificates"),
        (("--report", good, "--token-file", secret, "--check", "CLOCK"), "whole results"),
    ]
    others = (
        "weft.example", "ftp://weft.example/v1/nodes/a/checks", "https://weft.example/", f"{good}?x=1",
        "https://u:p@weft.example/v1/nodes/a/checks", "https://weft.example:x/v1/nodes/a/checks", f"{good}\n",
        _url("https://weft.example", "ü"), _url("https://wéft.example"),
    )  # fmt: skip
    wrong += [(("--report", one, "--token-file", secret), "allowed is https://") for one in others]
    for arguments, sentence in wrong:
        assert _main(rig, *arguments) == 2
        out, error = capsys.readouterr()
        assert sentence in error and (out, error.count("\n"), rig.asked) == ("", 1, []), (arguments, error)
