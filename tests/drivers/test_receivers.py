"""Sending to URLs given by tenants: only where the site allows it, and whatever the receiver answers."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.receiver import Receiver, receiver
from weft.drivers import receivers
from weft.drivers.receivers import HttpsReceivers, may_reach, why_not
from weft.model.site import WebhookPolicy
from weft.ports.receivers import UndeliveredError

CLOSED = WebhookPolicy()


@pytest.fixture
def there(tmp_path: Path) -> Generator[Receiver]:
    with receiver(tmp_path) as made:
        yield made


def policy(port: int) -> WebhookPolicy:
    return WebhookPolicy.model_validate({"networks": ["127.0.0.0/8", "::1/128"], "ports": [443, port]})


def post(there: Receiver, path: str = "/", allowed: WebhookPolicy | None = None, seconds: float = 5.0) -> Any:
    """The status, or the code of the reason why nothing was sent."""
    sender = HttpsReceivers(there.context, seconds)
    try:
        return sender.post(there.url(path), {"webhook-id": "x"}, b"{}", allowed or policy(there.port))
    except UndeliveredError as error:
        return error.args[0].code


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.3.4",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.192",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:0:10.0.0.1",
        "64:ff9b::a00:1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::1",
        "2002:a00:1::",
        "2001:0:7f00:1::1",
        "fe80::1",
        "fe80::1%lo",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "2001:db8::1",
    ],
)
def test_address_that_is_not_public_is_refused(address: str) -> None:
    """In every notation of an address in private networks or of this host."""
    assert not may_reach(ipaddress.ip_address(address), CLOSED)
    host = f"[{address}]" if ":" in address else address
    assert why_not(f"https://{host}/", CLOSED)


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07::1", "64:ff9b::5db8:d70e"])
def test_public_address_is_allowed(address: str) -> None:
    assert may_reach(ipaddress.ip_address(address), CLOSED)


def test_network_of_the_site_is_allowed_in_each_form() -> None:
    """And no address outside it."""
    inside = WebhookPolicy.model_validate({"networks": ["10.20.0.0/16", "fd00:20::/32"]})
    for good in ("10.20.3.4", "::ffff:10.20.3.4", "fd00:20::7"):
        assert may_reach(ipaddress.ip_address(good), inside)
    for bad in ("10.21.3.4", "127.0.0.1", "fd00:21::7"):
        assert not may_reach(ipaddress.ip_address(bad), inside)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "https://user:pw@example.org/",
        "https://example.org/#x",
        "https://example.org:22/",
        "https://example.org:0/",
        "https://:443/",
        "https://[::1/",
        "ftp://example.org/",
        "https://example.org:99999/",
    ],
)
def test_url_of_another_kind_is_refused(url: str) -> None:
    assert why_not(url, CLOSED)


@pytest.mark.parametrize("host", ["localhost", "0x7f.1", "2130706433", "0177.0.0.1", "127.1"])
def test_name_of_this_host_is_refused_before_a_connection(there: Receiver, host: str) -> None:
    """Also as a number that only the resolver understands."""
    allowed = WebhookPolicy.model_validate({"ports": [there.port]})
    with pytest.raises(UndeliveredError) as refused:
        HttpsReceivers(there.context).post(there.url(host=host), {}, b"{}", allowed)
    assert refused.value.args[0].code == "RECEIVER_REFUSED"
    assert there.connections == 0


def test_name_that_resolves_to_something_else_the_second_time_reaches_nothing_else(
    there: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: a name is resolved once, and the connection is made to the checked address."""
    answers = ["192.0.2.7", "127.0.0.1"]
    real, connected = socket.getaddrinfo, list[object]()

    def resolve(host: Any, port: Any, *given: Any, **named: Any) -> Any:
        if host != "rebinding.example":
            return real(host, port, *given, **named)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answers.pop(0), port))]

    def connect(address: tuple[str, int], *_: Any, **__: Any) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(socket, "create_connection", connect)
    allowed = WebhookPolicy.model_validate({"networks": ["192.0.2.0/24"], "ports": [there.port]})
    sender = HttpsReceivers(there.context)
    with pytest.raises(UndeliveredError):
        sender.post(f"https://rebinding.example:{there.port}/", {}, b"{}", allowed)
    assert connected == [("192.0.2.7", there.port)], "connected by address, so the name isn't resolved again"
    with pytest.raises(UndeliveredError) as refused:
        sender.post(f"https://rebinding.example:{there.port}/", {}, b"{}", allowed)
    assert refused.value.args[0].code == "RECEIVER_REFUSED" and len(connected) == 1


def test_redirect_is_not_followed(there: Receiver) -> None:
    """It could lead anywhere; its status is the result."""
    there.answers["/"] = "302"
    assert post(there) == 302
    assert there.connections == 1


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("200", 200),
        ("204", 204),
        ("500", 500),
        ("huge", 200),
        ("drop", "RECEIVER_UNREACHABLE"),
        ("noise", "RECEIVER_UNREACHABLE"),
        ("headers", "RECEIVER_UNREACHABLE"),
    ],
)
def test_answer_of_a_bad_receiver_is_a_status_or_a_reason(
    there: Receiver, how: str, expected: object
) -> None:
    """A body of 100 GB isn't read."""
    there.answers["/"] = how
    began = time.monotonic()
    assert post(there) == expected
    assert time.monotonic() - began < 4


@pytest.mark.parametrize("how", ["hang", "trickle"])
def test_attempt_ends_in_time_if_the_receiver_is_late(there: Receiver, how: str) -> None:
    """Even if it sends a byte now and then, which restarts a socket's timeout."""
    there.answers["/"] = how
    began = time.monotonic()
    assert post(there, seconds=0.7) == "RECEIVER_LATE"
    assert time.monotonic() - began < 5


def test_attempt_ends_in_time_if_name_servers_are_late(
    there: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant may run them; while several such lookups are pending, further names aren't resolved."""
    over = threading.Event()

    def resolve(*_: Any, **__: Any) -> Any:
        over.wait(20)
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(receivers, "_lookups", threading.BoundedSemaphore(2))
    began, running = time.monotonic(), threading.active_count()
    try:
        assert [post(there, seconds=0.3) for _ in range(4)] == ["RECEIVER_LATE"] * 4
        assert time.monotonic() - began < 10
        assert threading.active_count() - running <= 2
    finally:
        over.set()
    assert there.connections == 0


def test_certificate_of_another_name_is_refused(tmp_path: Path) -> None:
    """Nothing is sent."""
    with receiver(tmp_path, "other.example") as there:
        assert post(there) == "RECEIVER_UNREACHABLE"
        assert there.got == []


def test_certificate_of_an_unknown_authority_is_refused(there: Receiver) -> None:
    there.context = ssl.create_default_context()
    assert post(there) == "RECEIVER_UNREACHABLE"
    assert there.got == []
