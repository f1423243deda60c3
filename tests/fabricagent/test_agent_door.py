"""The fabric agent's server under load and attack: silent, slow and endless clients cost little and exclude no
others."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest

from tests.fabricagent.test_agent import client, write_config
from tests.helpers.stamps import rewrite
from tests.helpers.waiting import wait_for
from weft.drivers.opensm.agents import FabricAgents
from weft.drivers.wire import agents
from weft.drivers.wire.agents import HttpAgent
from weft.fabricagent.agent import Agent
from weft.fabricagent.config import AgentConfig, Listen, Tls, read_config
from weft.fabricagent.server import ConnectionLimits, Server
from weft.fabricagent.tls import make_certificates
from weft.model.agentapi import (
    NONCE_HEADER,
    OLDEST_PROTOCOL,
    PROTOCOL,
    PROTOCOL_HEADER,
    READ_AT_HEADER,
    other_protocol,
)
from weft.model.errors import UnknownError
from weft.model.site import FabricAgent, FabricManager

LIMITS = ConnectionLimits(connections=16, handshake=1.0, idle=2.0, headers=1.0, body=1.0, send=1.0)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[AgentConfig]:
    """An agent with short time limits."""
    config = read_config(write_config(tmp_path))
    agent = Agent(config)
    server = Server(config, agent, LIMITS)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield config
    server.shutdown()
    server.server_close()
    agent.close()


def _plain(config: AgentConfig) -> socket.socket:
    return socket.create_connection(("127.0.0.1", config.listen.port), timeout=60)


def _secure(config: AgentConfig) -> ssl.SSLSocket:
    """A TLS connection with weft's certificate."""
    folder = config.tls.ca.parent
    context = ssl.create_default_context(cafile=str(config.tls.ca))
    context.load_cert_chain(folder / "weft.pem", folder / "weft.key")
    return context.wrap_socket(_plain(config), server_hostname="127.0.0.1")


def _closed(connection: socket.socket) -> bool:
    """Whether the other end closes the connection within a long timeout."""
    try:
        while connection.recv(4096):
            pass
    except OSError as error:
        return not isinstance(error, TimeoutError)
    return True


def _agent_threads() -> int:
    return sum("process_request_thread" in t.name for t in threading.enumerate())


def test_silent_connections_use_few_threads_and_are_closed(served: AgentConfig) -> None:
    """Of sixty, no more threads than places are used, a real client is served, and soon all are closed."""
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(_plain(served))) for _ in range(60)]
        with client(served) as asking:
            assert asking.get("partitions").status_code == 200
        # A thread ends a moment after it has given its place to the next one.
        wait_for(lambda: _agent_threads() <= LIMITS.connections)
        assert all(_closed(s) for s in silent)


def test_trickling_headers_are_cut_off(served: AgentConfig) -> None:
    """A byte now and then doesn't extend the time for the headers."""
    with closing(_secure(served)) as slow, pytest.raises(OSError):
        for octet in b"GET /v1/partitions HTTP/1.1\r\n" + b"x" * 200:
            slow.send(bytes([octet]))
            time.sleep(0.05)


def test_missing_body_is_cut_off(served: AgentConfig) -> None:
    """The announced body isn't sent: the connection ends, and the file doesn't change."""
    before = served.opensm.partitions_file.read_bytes()
    with closing(_secure(served)) as slow:
        slow.sendall(b"PUT /v1/partitions HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{")
        assert _closed(slow)
    assert served.opensm.partitions_file.read_bytes() == before


@pytest.mark.parametrize("length", ["-1", "99999999999", "١", "1e3"])
def test_invalid_content_length_is_refused(served: AgentConfig, length: str) -> None:
    """Negative, too large, or not an ASCII number: 400, and the connection ends."""
    with closing(_secure(served)) as odd:
        odd.sendall(f"PUT /v1/partitions HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 400 " in odd.recv(200)


def test_active_client_keeps_its_connection_under_load(served: AgentConfig) -> None:
    """New silent connections replace one another, not the one that sends requests."""
    with client(served) as asking, ExitStack() as stack:
        assert asking.get("partitions").status_code == 200
        for _ in range(40):
            stack.enter_context(closing(_plain(served)))
        assert asking.get("partitions").status_code == 200


def test_answer_repeats_the_nonce_of_its_request(served: AgentConfig) -> None:
    """With the time of the reading; invalid nonces aren't repeated."""
    with client(served) as asking:
        answer = asking.get("partitions", headers={NONCE_HEADER: "abc123"})
        assert answer.headers[NONCE_HEADER] == "abc123" and answer.headers[READ_AT_HEADER]
        assert NONCE_HEADER not in asking.get("partitions", headers={NONCE_HEADER: "a b"}).headers


@pytest.mark.parametrize(("said", "upgrade"), [("0", "weft"), ("999", "the agent"), ("one", "weft")])
def test_request_of_another_protocol_version_changes_nothing(
    served: AgentConfig, said: str, upgrade: str
) -> None:
    """The answer says which side to upgrade, and other requests are served."""
    with client(served) as asking:
        before = asking.get("partitions").json()["digest"]
        answer = asking.put("partitions", content=b"{}", headers={PROTOCOL_HEADER: said})
        assert answer.status_code == 426 and answer.headers[PROTOCOL_HEADER] == str(PROTOCOL)
        assert answer.json()["detail"].endswith(f"upgrade {upgrade}")
        assert asking.get("partitions").json()["digest"] == before


def test_request_without_a_version_has_version_1() -> None:
    """Agents and wefts before the header was introduced sent none."""
    assert (other_protocol(None, "weft", "the agent") is None) == (
        other_protocol("1", "weft", "the agent") is None
    )
    assert other_protocol(str(PROTOCOL), "weft", "the agent") is None


class Replaying(threading.Thread):
    """A proxy that answers each request with the recorded answer to an earlier one."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(daemon=True)
        folder = config.tls.ca.parent
        make_certificates(folder, {"kept": ["127.0.0.1"]})
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "agent-kept.pem", folder / "agent-kept.key")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        with client(config) as asking:
            answer = asking.get("partitions", headers={NONCE_HEADER: "first"})
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer.content)}\r\n{NONCE_HEADER}: first\r\n\r\n"
        self._kept = head.encode() + answer.content

    def run(self) -> None:
        plain, _ = self._listening.accept()
        with self._context.wrap_socket(plain, server_side=True) as connection:
            connection.recv(4096)
            connection.sendall(self._kept)

    def close(self) -> None:
        self._listening.close()


def test_replayed_answer_is_unknown(served: AgentConfig) -> None:
    """A recorded 200 says nothing about the file as it is now."""
    manager = _manager(served)
    real = HttpAgent(FabricAgent(name="sm1", url=f"https://127.0.0.1:{served.listen.port}"), manager)
    assert real.partitions().digest
    with closing(Replaying(served)) as replaying:
        replaying.start()
        liar = HttpAgent(FabricAgent(name="sm1", url=f"https://127.0.0.1:{replaying.port}"), manager)
        with pytest.raises(UnknownError, match="a different request"):
            liar.partitions()
    real.close()
    liar.close()


def test_replaced_certificates_are_used_without_restart(served: AgentConfig) -> None:
    """Neither the agent nor weft is restarted."""
    tls = served.tls.ca.parent
    with client(served) as asking:
        assert asking.get("partitions").status_code == 200
    before = _serial(served)
    make_certificates(tls, {"sm1": ["127.0.0.1", "localhost"]}, renew=True)
    with client(served) as asking:
        assert asking.get("partitions").status_code == 200
    assert _serial(served) != before
    served.tls.certificate.write_text("no certificate")
    with client(served) as asking:  # an invalid certificate is ignored, and the old pair stays in use
        assert asking.get("partitions").status_code == 200


def test_certificates_repaired_in_place_are_used(
    served: AgentConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """The broken key's size and name stay the same, so the pair is tried with each connection; the failure is
    logged once."""
    before = _serial(served)
    make_certificates(served.tls.ca.parent, {"sm1": ["127.0.0.1", "localhost"]}, renew=True)
    key = served.tls.key.read_bytes()
    rewrite(served.tls.key, b"x" * len(key))
    assert _serial(served) == before and _serial(served) == before
    rewrite(served.tls.key, key)
    assert _serial(served) != before
    assert caplog.text.count("can't be used") == 1


def _serial(config: AgentConfig) -> object:
    with closing(_secure(config)) as connection:
        certificate = connection.getpeercert()
        assert certificate is not None
        return certificate["serialNumber"]


def _manager(config: AgentConfig) -> FabricManager:
    tls = config.tls.ca.parent
    return FabricManager(
        driver="opensm", ca=str(config.tls.ca), certificate=str(tls / "weft.pem"), key=str(tls / "weft.key")
    )


def test_hanging_agent_is_waited_for_once(served: AgentConfig) -> None:
    """It accepts the connection and doesn't answer: unknown in bounded time, and immediately if asked again soon."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        port = hanging.getsockname()[1]
        agent = HttpAgent(FabricAgent(name="sm2", url=f"https://127.0.0.1:{port}"), _manager(served), 0.5)
        with pytest.raises(UnknownError):
            agent.partitions()
        with pytest.raises(UnknownError, match="a moment ago"):
            agent.status()
        agent.close()


class Saying(threading.Thread):
    """A server at the agent's address that answers each request with the same bytes, and the request's nonce."""

    def __init__(self, config: AgentConfig, status: str, body: bytes, more: str = "") -> None:
        super().__init__(daemon=True)
        folder = config.tls.ca.parent
        make_certificates(folder, {"kept": ["127.0.0.1"]})
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(folder / "agent-kept.pem", folder / "agent-kept.key")
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._status, self._body, self._more = status, body, more

    def run(self) -> None:
        plain, _ = self._listening.accept()
        with self._context.wrap_socket(plain, server_side=True) as connection:
            asked = connection.recv(4096).decode()
            nonce = next(line for line in asked.splitlines() if line.lower().startswith(NONCE_HEADER.lower()))
            head = (
                f"HTTP/1.1 {self._status}\r\n{nonce}\r\n{self._more}Content-Length: {len(self._body)}\r\n\r\n"
            )
            connection.sendall(head.encode() + self._body)

    def close(self) -> None:
        self._listening.close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        ("200 OK", b"<html>maintenance</html>"),
        ("200 OK", b"{}"),
        ("200 OK", b"[]"),
        ("200 OK", b""),
        ("204 No Content", b""),
        ("302 Found", b""),
        ("403 Forbidden", b"<html>no</html>"),
        ("404 Not Found", b"<html>no such page</html>"),
        ("409 Conflict", b"{}"),
        ("500 Internal Server Error", b"oops"),
        # No partitions, not even the default one that OpenSM always has.
        ("200 OK", b'{"state":"master","digest":"d","foreign_digest":"f","weft":[],"configured":[]}'),
    ],
)
def test_malformed_answer_is_unknown(served: AgentConfig, status: str, body: bytes) -> None:
    """Neither an empty file, nor absent, nor an error that needs a person."""
    with closing(Saying(served, status, body)) as saying:
        saying.start()
        agent = HttpAgent(FabricAgent(name="sm1", url=f"https://127.0.0.1:{saying.port}"), _manager(served))
        files = FabricAgents("ib0", [agent]).files()
        assert files.read == {} and type(files.unread["sm1"]) is UnknownError
        agent.close()


@pytest.mark.parametrize("status", ["200 OK", "426 Upgrade Required"])
def test_agent_of_an_unknown_protocol_version_is_unknown_with_advice_to_upgrade(
    served: AgentConfig, status: str
) -> None:
    """Its answer isn't read."""
    with client(served) as asking:
        body = asking.get("partitions").content
    if status.startswith("426"):
        body = (
            b'{"detail": "weft speaks version \'1\' of the agents\' protocol, the agent 999: upgrade weft"}'
        )
    with closing(Saying(served, status, body, f"{PROTOCOL_HEADER}: 999\r\n")) as saying:
        saying.start()
        agent = HttpAgent(FabricAgent(name="sm1", url=f"https://127.0.0.1:{saying.port}"), _manager(served))
        with pytest.raises(UnknownError, match=r"999.*upgrade weft"):
            agent.partitions()
        agent.close()


def test_agent_answers_in_the_version_of_an_older_weft(served: AgentConfig) -> None:
    """So that agents can be upgraded before weft, one after another."""
    with client(served) as asking:
        for version in range(OLDEST_PROTOCOL, PROTOCOL + 1):
            answer = asking.get("partitions", headers={PROTOCOL_HEADER: str(version)})
            assert answer.status_code == 200 and answer.headers[PROTOCOL_HEADER] == str(version)


def test_older_agent_is_asked_in_its_version(served: AgentConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that weft can be upgraded first. Later it is asked in the newest version again."""
    monkeypatch.setattr(agents, "PROTOCOL", PROTOCOL + 1)  # weft speaks one version more than the agent
    agent = HttpAgent(
        FabricAgent(name="sm1", url=f"https://127.0.0.1:{served.listen.port}"), _manager(served)
    )
    assert agent.partitions() and agent._version() == PROTOCOL  # pyright: ignore[reportPrivateUsage]
    assert agent.partitions()
    agent._speaks = PROTOCOL, float("-inf")  # pyright: ignore[reportPrivateUsage]
    assert agent._version() == PROTOCOL + 1  # pyright: ignore[reportPrivateUsage]
    assert agent.partitions()
    agent.close()


def test_agent_listens_on_ipv6(tmp_path: Path) -> None:
    """For such addresses `certs` makes certificates, too."""
    make_certificates(tmp_path, {"osm1": ["::1"]})
    pair = {"certificate": tmp_path / "agent-osm1.pem", "key": tmp_path / "agent-osm1.key"}

    class Config:
        listen = Listen.model_construct(host="::1", port=0)
        tls = Tls(ca=tmp_path / "ca.pem", **pair)

    server = Server(Config(), None)
    assert server.socket.getsockname()[0] == "::1"
    server.server_close()


def test_agent_with_a_host_name_listens_on_its_ipv4_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resolvers put IPv6 first, but clients connect to the node's IPv4 address."""
    make_certificates(tmp_path, {"osm1": ["127.0.0.1"]})
    pair = {"certificate": tmp_path / "agent-osm1.pem", "key": tmp_path / "agent-osm1.key"}
    both = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)

    class Config:
        listen = Listen.model_construct(host="localhost", port=0)
        tls = Tls(ca=tmp_path / "ca.pem", **pair)

    server = Server(Config(), None)
    assert server.socket.family is socket.AF_INET and server.socket.getsockname()[0] == "127.0.0.1"
    server.server_close()


def test_scraper_reads_metrics_and_nothing_else(tmp_path: Path) -> None:
    """Its certificate is of the same authority but can't change partitions; clients in neither list read nothing."""
    make_certificates(tmp_path / "tls", {"sm1": ["127.0.0.1"]}, "prometheus")
    make_certificates(tmp_path / "tls", {"sm1": ["127.0.0.1"]}, "stranger")
    config = read_config(write_config(tmp_path))
    agent = Agent(config)
    server = Server(config, agent, LIMITS, scrapers=("prometheus",))
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    before = config.opensm.partitions_file.read_text()

    def asked(name: str, method: str, path: str) -> int:
        context = ssl.create_default_context(cafile=str(config.tls.ca))
        context.load_cert_chain(tmp_path / "tls" / f"{name}.pem", tmp_path / "tls" / f"{name}.key")
        url = f"https://127.0.0.1:{config.listen.port}"
        with httpx.Client(base_url=url, verify=context, trust_env=False, timeout=30) as asking:
            return asking.request(method, path, json={} if method != "GET" else None).status_code

    try:
        assert asked("prometheus", "GET", "/metrics") == 503, "allowed: there is no fabric"
        refused = [
            ("GET", "/v1/status"),
            ("PUT", "/v1/partitions"),
            ("POST", "/metrics"),
            ("GET", "/metrics/"),
        ]
        assert {asked("prometheus", *one) for one in refused} == {403}
        assert asked("stranger", "GET", "/metrics") == 403
        assert asked("weft", "GET", "/metrics") == 503
        assert config.opensm.partitions_file.read_text() == before
    finally:
        server.shutdown()
        server.server_close()
        agent.close()
