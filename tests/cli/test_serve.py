"""`weft serve` as a process: its worker, certificate and address."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.helpers.folders import folder_in_memory
from weft.cli.main import main
from weft.testing.callers import caller
from weft.testing.keystone import FakeIdentity, FakeKeystone
from weft.testing.serving import served

pytestmark = pytest.mark.landing


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own folder: PostgreSQL runs as another user, who must be able to enter it.
    with folder_in_memory("weft-served-") as path:
        path.chmod(0o755)
        yield path
        _stop_databases(path)


def _stop_databases(folder: Path) -> None:
    """Stops databases in `folder`: a killed server leaves its PostgreSQL running."""
    for file in folder.rglob("postmaster.pid"):
        process = int(file.read_text().split()[0])
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGINT)
            for _ in range(600):
                os.kill(process, 0)
                time.sleep(0.05)
            raise AssertionError(f"PostgreSQL {process} in {folder} doesn't stop")


@pytest.fixture
def clouds(folder: Path) -> Iterator[Path]:
    keystone = FakeKeystone(FakeIdentity(), {"weft": ("x", caller("weft", "service", "service"))})
    with served(keystone.app()) as url:
        keystone.url = url
        auth = {"auth_url": f"{url}/v3", "username": "weft", "password": "x", "project_name": "service"}
        auth |= {"user_domain_id": "default", "project_domain_id": "default"}
        file = folder / "clouds.yaml"
        file.write_text(json.dumps({"clouds": {"weft": {"auth": auth, "region_name": "lab"}}}))
        yield file


class Served:
    """A `weft serve` process and its log."""

    def __init__(self, folder: Path, clouds: Path, *words: str) -> None:
        self._file = folder / "log"
        known = {k: v for k, v in os.environ.items() if not k.startswith(("OS_", "WEFT_"))}
        command = [sys.executable, "-m", "weft.cli.main", "serve", "--listen", "127.0.0.1:0"]
        with self._file.open("wb") as log:
            self.process = subprocess.Popen(
                [*command, "--state", str(folder / "state"), "--cloud-profile", "weft", *words],
                env={**known, "OS_CLIENT_CONFIG_FILE": str(clouds)},
                stderr=log,
            )
        self.url = self.wait(lambda: self.found(r'weft listens on ([^\s"]+)'))[0]

    def found(self, pattern: str) -> list[str]:
        return re.findall(pattern, self._file.read_text())

    def wait(self, ready: Callable[[], list[str]]) -> list[str]:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if answer := ready():
                return answer
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(self._file.read_text()[-3000:])

    def workers(self) -> list[int]:
        """Pids of the worker processes that it started and that are alive."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(pid) for file in tasks for pid in file.read_text().split() if _works(int(pid))]

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(60)


def _works(pid: int) -> bool:
    with suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def _gone(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    return True


def test_worker_is_a_separate_process(folder: Path, clouds: Path) -> None:
    """It is restarted if it ends, ends with the server, and isn't left behind even after kill -9."""
    served = Served(folder, clouds)
    try:
        served.wait(lambda: served.found(r"worker (\S+): 8 pods at once"))
        (first,) = served.workers()
        assert httpx.get(f"{served.url}/healthz", trust_env=False).text == "ok\n"
        os.kill(first, signal.SIGKILL)
        served.wait(lambda: served.found(r"the worker process ended"))
        served.wait(lambda: served.found(r"worker (\S+): 8 pods at once")[1:])
        (second,) = served.workers()
        assert second != first
        served.process.kill()
        served.process.wait(30)
        deadline = time.monotonic() + 60
        while not _gone(second) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert _gone(second)
    finally:
        served.end()


def test_api_serves_tls(folder: Path, clouds: Path, database_url: str) -> None:
    """Plain HTTP is refused then. The log is JSON, uvicorn's lines too."""
    certificate, key = _certificate(folder)
    tls = ("--tls-certificate", str(certificate), "--tls-key", str(key))
    words = ("--no-worker", "--database", database_url, "--log-format", "json", *tls)
    served = Served(folder, clouds, *words)
    try:
        assert served.url.startswith("https://127.0.0.1:")
        context = ssl.create_default_context(cafile=str(certificate))
        assert httpx.get(f"{served.url}/healthz", verify=context, trust_env=False).text == "ok\n"
        with pytest.raises(httpx.HTTPError):
            httpx.get(served.url.replace("https", "http") + "/healthz", trust_env=False).raise_for_status()
        assert served.workers() == []
        port = int(served.url.rpartition(":")[2])
        with (
            socket.create_connection(("127.0.0.1", port), 10) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as garbled,
        ):
            garbled.sendall(b"\0\r\n\r\n")
            garbled.recv(100)
        served.process.terminate()
        assert served.process.wait(60) == 0
        lines = [json.loads(line) for line in served.found(r"(.+)")]
        assert {"weft", "uvicorn.error"} <= {line["logger"] for line in lines}
    finally:
        served.end()


def test_invalid_setup_is_reported_before_anything_is_done(
    folder: Path, clouds: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A used address, a certificate without its key or with another's: exit code 2, and no database is made."""
    monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
    certificate, _ = _certificate(folder)
    (folder / "other").mkdir()
    _, other = _certificate(folder / "other")
    state = ("--state", str(folder / "state"), "--cloud-profile", "weft")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for words, says in (
            (("--listen", f"127.0.0.1:{port}"), "a free address"),
            (("--tls-certificate", str(certificate)), "required with --tls-certificate"),
            (("--tls-certificate", str(certificate), "--tls-key", str(other)), "certificate and of its key"),
        ):
            before = signal.getsignal(signal.SIGTERM)
            try:
                assert main(["serve", *state, *words]) == 2
            finally:
                signal.signal(signal.SIGTERM, before)
            assert says in capsys.readouterr().err
    assert not (folder / "state").exists()


def _certificate(folder: Path) -> tuple[Path, Path]:
    """A self-signed certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "tls.crt", folder / "tls.key"
    chain.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return chain, secret
