"""The probe agent on real interfaces in a network namespace: floods, lost links, refused tags, missing addresses."""

from __future__ import annotations

import contextlib
import errno
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest

from tests.helpers.spaces import network_space
from tests.helpers.waiting import wait_for
from weft.model.errors import TemporaryError
from weft.model.probeapi import MOST_ENDS, EndResult, RoundEnd, RoundQuery
from weft.probeagent import agent as agents
from weft.probeagent import interface as interfaces
from weft.probeagent.agent import ProbeAgent
from weft.probeagent.config import ProbeConfig
from weft.probeagent.interface import RawInterface, _inside, _raw  # pyright: ignore[reportPrivateUsage]
from weft.probeagent.packets import broadcast

NUMBER = bytes(range(8))
A, B = ("aa" * 8, "bb" * 8)


def ip(space: str, *words: str) -> str:
    argv = ["nsenter", f"--net={space}", "ip", *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, timeout=30).stdout


@pytest.fixture
def space() -> Generator[str]:
    """A namespace with `va` and `vb`, the two ends of a cable."""
    cable = "ip link add va type veth peer name vb && ip link set va up && ip link set vb up"
    with network_space(cable, 120) as made:
        # The kernel logs new links at most once a second, so a link may come up late.
        wait_for(lambda: ip(made, "-o", "link").count("state UP") == 2)
        yield made


def agent(space: str, **more: Any) -> ProbeAgent:
    tls = {"ca": "c", "certificate": "c", "key": "k"}
    adapters = {f"n/{i}": {"interface": i, "namespace": space} for i in ("va", "vb")}
    listen = {"host": "127.0.0.1", "port": 1}
    return ProbeAgent(
        ProbeConfig.model_validate({"name": "a", "listen": listen, "tls": tls, "adapters": adapters, **more})
    )


def asked(*ends: RoundEnd, seconds: float = 0.6) -> RoundQuery:
    return RoundQuery(number=NUMBER.hex(), seconds=seconds, ends=ends)


def end(name: str, mark: str, **more: Any) -> RoundEnd:
    return RoundEnd.model_validate({"adapter": f"n/{name}", "mark": mark, "tags": ((),), **more})


def on(space: str, name: str) -> socket.socket:
    return _inside(space, lambda: _raw(name))


def meanwhile(do: Callable[[], object], query: RoundQuery, one: ProbeAgent, after: float = 0.2) -> EndResult:
    """Result of a round with one end, during which `do` is called."""
    timer = threading.Timer(after, do)
    timer.start()
    [result] = one.round(query).ends
    timer.join()
    return result


def test_both_ends_hear_each_other_with_every_tag(space: str) -> None:
    tags = ((), (257,), (0, 257))
    va, vb = agent(space).round(asked(end("va", A, tags=tags), end("vb", B, tags=tags))).ends
    assert (va.sent, va.heard, va.unknown) == (True, (B,), "")
    assert (vb.sent, vb.heard, vb.unknown) == (True, (A,), "")
    assert va.mac != vb.mac and len(va.mac) == 17


def test_round_without_a_link_is_unknown(space: str) -> None:
    """The link is down from the beginning, or during the round: frames were sent to nowhere."""
    ip(space, "link", "set", "vb", "down")
    [result] = agent(space).round(asked(end("va", A))).ends
    assert result.unknown == "its interface had no link"
    ip(space, "link", "set", "vb", "up")

    def out() -> None:
        ip(space, "link", "set", "vb", "down")

    result = meanwhile(out, asked(end("va", A), seconds=2.0), agent(space))
    assert result.unknown == "its interface had no link"


def test_frames_heard_before_a_lost_link_are_reported(space: str) -> None:
    other = on(space, "vb")

    def leak() -> None:
        other.send(broadcast(bytes(6), NUMBER, bytes.fromhex(B), ()))
        ip(space, "link", "set", "va", "down")

    result = meanwhile(leak, asked(end("va", A)), agent(space))
    other.close()
    assert result.unknown and result.heard == (B,), result


def test_unsent_tags_are_not_reported_as_sent(space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = RawInterface.send

    def send(self: RawInterface, frame: bytes) -> None:
        if frame[12:14] == b"\x81\0":
            raise OSError(errno.ENOBUFS, "no")
        real(self, frame)

    monkeypatch.setattr(RawInterface, "send", send)
    [result] = agent(space).round(asked(end("va", A, tags=((257,), ())))).ends
    assert not result.sent
    [result] = agent(space).round(asked(end("va", A))).ends
    assert result.sent


@pytest.mark.parametrize("outer", [0x8100, 0x88A8, 0x9100])
def test_frame_with_a_provider_tag_is_heard(space: str, outer: int) -> None:
    other = on(space, "vb")
    plain = broadcast(bytes(6), NUMBER, bytes.fromhex(B), (257,))
    frame = plain[:12] + outer.to_bytes(2) + (100).to_bytes(2) + plain[12:]
    result = meanwhile(lambda: other.send(frame), asked(end("va", A)), agent(space))
    other.close()
    assert (result.heard, result.unknown) == ((B,), "")


def test_flood_hides_no_frame(space: str) -> None:
    """A tenant's other frames are filtered in the kernel; one leaked frame among them is heard."""
    other, stop = on(space, "vb"), threading.Event()
    junk = b"\xff" * 6 + bytes(6) + b"\x08\0" + bytes(1400)

    def flood() -> None:
        while not stop.is_set():
            for _ in range(200):
                with contextlib.suppress(OSError):
                    other.send(junk)

    threads = [threading.Thread(target=flood) for _ in range(2)]
    for one in threads:
        one.start()

    def leak() -> None:
        for _ in range(5):
            other.send(broadcast(bytes(6), NUMBER, bytes.fromhex(B), ()))
            time.sleep(0.05)

    result = meanwhile(leak, asked(end("va", A), seconds=1.5), agent(space))
    stop.set()
    for one in threads:
        one.join()
    other.close()
    assert result.heard == (B,)


def test_lost_frames_make_silence_unknown(space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RawInterface, "lost", lambda self: 2)
    [result] = agent(space).round(asked(end("va", A))).ends
    assert not result.unknown, "frames are sent every 0.1 s, so with two lost some were read"
    monkeypatch.setattr(RawInterface, "lost", lambda self: 20)
    [result] = agent(space).round(asked(end("va", A))).ends
    assert result.unknown == "it got more frames than it could read (20 were lost)"


def test_full_socket_counts_lost_frames(space: str) -> None:
    """The kernel counts them, while the socket isn't read."""
    opened = RawInterface("va", space, agents.program(NUMBER, answers=False))
    other = on(space, "vb")
    frame = broadcast(bytes(6), NUMBER, bytes.fromhex(B), ())
    for _ in range(30_000):
        try:
            other.send(frame)
        except BlockingIOError:
            time.sleep(0.001)
    time.sleep(0.2)
    lost = opened.lost()
    opened.close()
    other.close()
    assert lost > 1000


def test_many_foreign_marks_end_the_round(space: str) -> None:
    """A host that knows the round's number can invent marks; memory and answer stay bounded."""
    other = on(space, "vb")

    def strange() -> None:
        for n in range(4 * MOST_ENDS):
            other.send(broadcast(bytes(6), NUMBER, n.to_bytes(8), ()))

    result = meanwhile(strange, asked(end("va", A)), agent(space))
    other.close()
    assert result.unknown == "someone else sends broadcasts of this round"
    assert MOST_ENDS < len(result.heard) < MOST_ENDS + 10


def test_interface_without_address_sends_no_arp(space: str) -> None:
    """A host that probes whether an address is free (RFC 5227) gives it up at a request without sender address."""
    other = _inside(space, lambda: _raw("vb", _everything()))
    [result] = agent(space).round(asked(end("va", A, asked=("10.0.0.9",)))).ends
    seen = list(_received(other))
    other.close()
    assert result.asked == () and not [f for f in seen if f[12:14] == b"\x08\x06"]
    ip(space, "address", "add", "10.0.0.8/24", "dev", "va")
    ip(space, "address", "add", "10.0.0.9/24", "dev", "vb")
    [result] = agent(space).round(asked(end("va", A, asked=("10.0.0.9",)))).ends
    assert result.asked == ("10.0.0.9",)


def _everything() -> bytes:
    """A filter program that accepts every frame."""
    return b"\x06\0\0\0\xff\xff\xff\xff"


def _received(opened: socket.socket) -> Generator[bytes]:
    while True:
        try:
            yield opened.recv(65535)
        except BlockingIOError:
            return


def test_concurrent_round_beyond_the_limit_is_refused_at_once(space: str) -> None:
    """Otherwise it would begin after its time."""
    one = agent(space)
    busy = [
        threading.Thread(target=one.round, args=(asked(end("va", A), seconds=1.5),))
        for _ in range(agents.MOST_ROUNDS)
    ]
    for thread in busy:
        thread.start()
    time.sleep(0.5)
    begun = time.monotonic()
    with pytest.raises(TemporaryError, match="holds 8 already"):
        one.round(asked(end("vb", B)))
    assert time.monotonic() - begun < 0.5
    for thread in busy:
        thread.join()
    assert one.round(asked(end("vb", B))).ends[0].sent, "places are free again"


def test_adapter_of_another_host_is_left_alone(space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts of one model have the same PCI addresses; MAC addresses, or the agent's list of nodes, tell them
    apart."""
    ip(space, "link", "set", "va", "down")
    monkeypatch.setattr(agents, "by_pci", lambda pci: "va")
    monkeypatch.setattr(interfaces, "_inside", lambda _, call: _inside(space, call))
    wanted = end("mlx5_0", A, pci="0000:c1:00.0", mac="02:00:00:00:00:99")
    [result] = agent(space).round(asked(wanted)).ends
    assert "interface va has the MAC address" in result.unknown
    assert "the site says 02:00:00:00:00:99" in result.unknown
    assert "UP" not in ip(space, "link", "show", "va").split(">")[0]
    [result] = agent(space, nodes=["gpu07"]).round(asked(end("va", A))).ends
    assert result.unknown == "n/va is of none of the agent's nodes (gpu07)"


def test_interface_brought_up_by_a_round_gets_no_ipv6_address(space: str) -> None:
    ip(space, "link", "set", "va", "down")
    agent(space).round(asked(end("va", A)))
    assert "UP" in ip(space, "link", "show", "va").split(">")[0]
    time.sleep(0.3)
    assert "fe80" not in ip(space, "-6", "address", "show", "va")
