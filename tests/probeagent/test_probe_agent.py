"""The probe agent as a process: authentication, settings, and a round over the loopback interface."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Generator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
import yaml

from weft.drivers.probes.client import HttpProbeAgent
from weft.fabricagent.tls import make_certificates
from weft.model.errors import OutsideError, PermanentError, UnknownError
from weft.model.probeapi import RoundEnd, RoundQuery, RoundResult
from weft.model.site import ProbeAgent, Traffic
from weft.probeagent import interface
from weft.probeagent.packets import HeardFrame, broadcast, ping, read, who_has
from weft.testing.serving import free_port

NUMBER = "00112233445566ff"
MARKS = ("aaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbb")


def settings(folder: Path, **more: Any) -> Path:
    make_certificates(folder, {"a": ["127.0.0.1"]})
    document = {
        "name": "a",
        "listen": {"host": "127.0.0.1", "port": free_port()},
        "tls": {"ca": "ca.pem", "certificate": "agent-a.pem", "key": "agent-a.key"},
        "adapters": {"gpu01/x": {"interface": "lo"}, "gpu01/y": {"interface": "lo"}},
        **more,
    }
    file = folder / "probe.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


@pytest.fixture
def served(tmp_path: Path) -> Generator[HttpProbeAgent]:
    """weft's client of a running agent."""
    file = settings(tmp_path)
    process = subprocess.Popen([sys.executable, "-m", "weft.probeagent", "--config", str(file)])
    client = of(tmp_path, yaml.safe_load(file.read_text())["listen"]["port"])
    try:
        for _ in range(400):
            try:
                client.status()
                break
            except UnknownError:
                time.sleep(0.05)
        yield client
    finally:
        client.close()
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(20) == 0


def of(folder: Path, port: int, name: str = "a") -> HttpProbeAgent:
    site = ProbeAgent(name=name, url=f"https://127.0.0.1:{port}", nodes=("gpu01",))
    files = {
        n: str(folder / f) for n, f in (("ca", "ca.pem"), ("certificate", "weft.pem"), ("key", "weft.key"))
    }
    return HttpProbeAgent(site, Traffic.model_validate({"agents": (site,), **files}))


def query(*ends: RoundEnd) -> RoundQuery:
    return RoundQuery(number=NUMBER, seconds=0.5, ends=ends)


def end(adapter: str, mark: str, **more: Any) -> RoundEnd:
    return RoundEnd.model_validate({"adapter": adapter, "mark": mark, "tags": ((),), **more})


def test_round_works_over_https(served: HttpProbeAgent) -> None:
    """Both ends hear each other and not themselves; an interface that doesn't exist is unknown and doesn't stop
    the others."""
    ends = (
        end("gpu01/x", MARKS[0]),
        end("gpu01/y", MARKS[1]),
        end("gpu01/z", "cccccccccccccccc", pci="0000:ff:1f.7"),
        end("gpu01/w", "dddddddddddddddd", pci="../../../etc"),
        end("gpu01/v", "eeeeeeeeeeeeeeee"),
    )
    x, y, *others = served.round(query(*ends)).ends
    assert (x.sent, x.heard, y.sent, y.heard) == (True, (MARKS[1],), True, (MARKS[0],))
    assert [o.unknown.partition(" ")[2] for o in others] == [
        "device 0000:ff:1f.7 has no network interface on this host",
        "isn't a PCI address",
        "isn't among the agent's adapters, and has no PCI address",
    ]


def test_client_other_than_weft_is_refused(served: HttpProbeAgent, tmp_path: Path) -> None:
    """A certificate of the same authority with another name; the client refuses an agent with another name, too."""
    port = int(served._agent.url.rpartition(":")[2])  # pyright: ignore[reportPrivateUsage]
    make_certificates(tmp_path, {"a": ["127.0.0.1"]}, client="mallory")
    site = ProbeAgent(name="a", url=f"https://127.0.0.1:{port}", nodes=("gpu01",))
    files = {"ca": str(tmp_path / "ca.pem"), "certificate": str(tmp_path / "mallory.pem")}
    stranger = HttpProbeAgent(
        site, Traffic.model_validate({"agents": (site,), "key": str(tmp_path / "mallory.key"), **files})
    )
    with pytest.raises(OutsideError, match="mallory"):
        stranger.round(query(end("gpu01/x", MARKS[0])))
    with pytest.raises(PermanentError, match="it is agent 'a'"):
        of(tmp_path, port, name="b").status()


def test_answer_about_other_adapters_is_unknown(
    served: HttpProbeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "_ask", lambda *_: RoundResult(name="a", ends=()))
    with pytest.raises(UnknownError, match="other adapters"):
        served.round(query(end("gpu01/x", MARKS[0])))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"adapters": {"gpu01/x": {"interface": ""}}}, "adapters.gpu01/x.interface"),
        ({"listen": {"host": "127.0.0.1", "port": 70000}}, "listen.port: 70000"),
        ({"nodes": []}, "nodes"),
    ],
)
def test_invalid_settings_are_reported_in_one_sentence(
    tmp_path: Path, wrong: dict[str, Any], said: str
) -> None:
    file = settings(tmp_path, **wrong)
    argv = [sys.executable, "-m", "weft.probeagent", "--config", str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and done.stderr.startswith("weft probe-agent: ") and said in done.stderr
    assert "Traceback" not in done.stderr and len(done.stderr.splitlines()) == 1


# -- frames


OWN, PEER = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")
ADDRESS, ASKED = IPv4Address("10.128.0.1"), IPv4Address("10.128.0.2")


@pytest.mark.parametrize("tags", [(), (257,), (0, 257)])
def test_broadcast_is_parsed_after_any_tags(tags: tuple[int, ...]) -> None:
    number, mark = bytes.fromhex(NUMBER), bytes.fromhex(MARKS[0])
    sent = broadcast(OWN, number, mark, tags)
    assert len(sent) >= 60 and sent[:6] == b"\xff" * 6 and sent[6:12] == OWN
    assert read(sent, number, 7) == HeardFrame(mark=mark)
    assert read(sent, bytes(8), 7) is None, "a broadcast of another round isn't read"


def test_ping_has_the_requested_size() -> None:
    sent = ping(OWN, PEER, ADDRESS, ASKED, 7, 9000, ())
    assert len(sent) == 14 + 9000 and sent[16:18] == struct.pack("!H", 9000)
    assert sent[20:22] == b"\x40\0", "it must not be fragmented"
    for part in (sent[14:34], sent[34:]):
        total = sum(struct.unpack(f"!{len(part) // 2}H", part))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        assert total == 0xFFFF, "RFC 1071: with its checksum the sum has all bits"
    assert read(sent, bytes(8), 7) is None, "a question is no answer"
    answer = bytearray(ping(PEER, OWN, ASKED, ADDRESS, 7, 84, ()))
    answer[34] = 0
    assert read(bytes(answer), bytes(8), 7) == HeardFrame(pong=ASKED)
    assert read(bytes(answer), bytes(8), 8) is None, "an answer to another round isn't read"


def test_arp_request_and_reply_are_encoded_and_parsed() -> None:
    sent = who_has(OWN, ADDRESS, ASKED, ())
    assert read(sent, bytes(8), 7) is None
    answer = bytearray(who_has(PEER, ASKED, ADDRESS, ()))
    answer[21] = 2
    assert read(bytes(answer), bytes(8), 7) == HeardFrame(has=ASKED, mac=PEER)


@pytest.mark.parametrize("junk", [b"", b"\0" * 13, b"\xff" * 60, b"\0" * 12 + b"\x08\0" + b"\x4f" * 30])
def test_junk_frame_is_ignored(junk: bytes) -> None:
    assert read(junk, bytes.fromhex(NUMBER), 7) is None


def test_adapters_interface_is_not_taken_for_one_of_its_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In switchdev mode, interfaces for its virtual functions are in the same directory of sysfs."""
    for name, port in (("eth0", "pf0vf0"), ("eth1", "c1pf0sf3"), ("ens1f0np0", "p0"), ("eth9", "")):
        folder = tmp_path / "0000:c1:00.0" / "net" / name
        folder.mkdir(parents=True)
        if port:
            (folder / "phys_port_name").write_text(port + "\n")
    monkeypatch.setattr(interface, "PCI", tmp_path)
    assert interface.by_pci("0000:c1:00.0") == "ens1f0np0"
