"""The server's certificate is replaced while it runs, and SIGHUP ends nothing."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from tests.helpers.stamps import rewrite
from tests.helpers.waiting import wait_for
from weft.api import server as server_module
from weft.api.connections import configured
from weft.api.server import HangUpSignal, _Server, listening  # pyright: ignore[reportPrivateUsage]
from weft.api.waiting import WaitingRoom
from weft.ending import outlive_hang_up
from weft.fabricagent.tls import make_certificates


@pytest.fixture
def pairs(tmp_path: Path) -> list[tuple[Path, Path]]:
    """Two certificates of one authority, each with its key."""
    make_certificates(tmp_path, {name: ["127.0.0.1"] for name in ("one", "two")})
    return [(tmp_path / f"agent-{n}.pem", tmp_path / f"agent-{n}.key") for n in ("one", "two")]


@pytest.fixture
def used(tmp_path: Path, pairs: list[tuple[Path, Path]]) -> tuple[Path, Path]:
    """The files that the server was started with: a copy of the first pair."""
    files = tmp_path / "used.pem", tmp_path / "used.key"
    for source, file in zip(pairs[0], files, strict=True):
        shutil.copy(source, file)
    return files


@pytest.fixture
def port(used: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Port of a server of the API as `weft serve` runs it."""
    monkeypatch.setattr(server_module, "LOOK_SECONDS", 0.0)
    before = signal.getsignal(signal.SIGHUP)
    with listening("127.0.0.1", 0) as listener:
        server = _Server(configured(FastAPI(), certificate=used), WaitingRoom(), used)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        wait_for(lambda: server.started)
        yield listener.getsockname()[1]
        server.should_exit = True
        thread.join(60)
    signal.signal(signal.SIGHUP, before)


def shown(port: int) -> str:
    """The certificate that a new connection gets, as PEM."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=60)


def leaf(file: Path) -> str:
    """The first certificate of a file, as PEM: the server's own, without its chain."""
    first = file.read_text().partition(ssl.PEM_FOOTER)[0] + ssl.PEM_FOOTER
    return ssl.DER_cert_to_PEM_cert(ssl.PEM_cert_to_DER_cert(first))


def test_replaced_certificate_is_served_without_restart(
    port: int, used: tuple[Path, Path], pairs: list[tuple[Path, Path]], caplog: pytest.LogCaptureFixture
) -> None:
    """A new certificate without its new key can't be used: that is logged, and the old pair stays in use."""
    caplog.set_level(logging.INFO, "weft")
    assert shown(port) == leaf(pairs[0][0])
    shutil.copy(pairs[1][0], used[0])
    wait_for(lambda: "those from before stay in use: --tls-certificate" in caplog.text)
    assert shown(port) == leaf(pairs[0][0])
    shutil.copy(pairs[1][1], used[1])
    wait_for(lambda: "was loaded again" in caplog.text)
    assert shown(port) == leaf(pairs[1][0])


def test_certificate_repaired_in_place_is_served(
    port: int, used: tuple[Path, Path], pairs: list[tuple[Path, Path]], caplog: pytest.LogCaptureFixture
) -> None:
    """The broken key's size and name stay the same, so the pair is tried at each look; the failure is logged once."""
    caplog.set_level(logging.INFO, "weft")
    key = pairs[1][1].read_bytes()
    used[1].write_bytes(b"x" * len(key))
    shutil.copy(pairs[1][0], used[0])
    wait_for(lambda: "those from before stay in use: --tls-certificate" in caplog.text)
    assert shown(port) == leaf(pairs[0][0])
    rewrite(used[1], key)
    wait_for(lambda: "was loaded again" in caplog.text)
    assert shown(port) == leaf(pairs[1][0])


def test_sighup_is_logged_and_ends_nothing(port: int, caplog: pytest.LogCaptureFixture) -> None:
    """The default action would end the process."""
    caplog.set_level(logging.INFO, "weft")
    os.kill(os.getpid(), signal.SIGHUP)
    wait_for(lambda: "SIGHUP: settings are read at the start alone" in caplog.text)
    wait_for(lambda: "was loaded again" in caplog.text)
    assert shown(port)


@pytest.fixture
def own_signals() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("own_signals")
def test_sighup_before_the_server_is_made_is_remembered(caplog: pytest.LogCaptureFixture) -> None:
    """A signal while the database starts, before there is a server, neither ends the process nor is lost."""
    caplog.set_level(logging.INFO, "weft")
    outlive_hang_up()
    os.kill(os.getpid(), signal.SIGHUP)
    hang_up = HangUpSignal()
    os.kill(os.getpid(), signal.SIGHUP)
    with listening("127.0.0.1", 0) as listener:
        server = _Server(configured(FastAPI()), WaitingRoom(), hang_up=hang_up)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        wait_for(lambda: "SIGHUP: settings are read at the start alone" in caplog.text)
        server.should_exit = True
        thread.join(60)
