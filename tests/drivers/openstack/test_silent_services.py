"""Services that accept requests and don't answer: what waits for them, and how long."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.drivers.openstack.test_storage_driver import PORT, RULE, SCOPE, SHARE, VOLUME
from tests.drivers.openstack.tinycloud import PROJECT, Reply, tiny_cloud
from tests.drivers.openstack.tinystorage import TinyStorage
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.drivers.openstack.lookups import Lookups
from weft.drivers.openstack.silence import (
    SILENT_SECONDS,
    UNANSWERED_SECONDS,
    RequestInProgress,
    Silences,
    SilentError,
    service_of,
)
from weft.model.errors import UnknownError
from weft.model.mark import outside_name
from weft.model.owner import Owner
from weft.model.resources import Resource
from weft.model.site import Storage
from weft.model.specs import NetworkSpec, SecurityGroupSpec
from weft.ports.patience import waiting_at_most
from weft.ports.resources import Scope

LONG = 60.0
OTHER = Scope("lab", Owner.pod("00000000-1111-2222-3333-555555555555"), "plain", PROJECT)
PLAIN = [
    Resource(key=key, name=outside_name(OTHER.owner.id, key), where="lab", spec=spec)
    for key, spec in (
        ("network/rdma", NetworkSpec(physical_network="rdma", segment=100, port_security=False)),
        ("security_group", SecurityGroupSpec(ssh_from=())),
    )
]
IDS = {"share/data": "share-1", PORT: "port-1"}


@dataclass(slots=True)
class Hanging(TinyStorage):
    """Requests to paths with one of these beginnings get no answer until `over`."""

    hangs: tuple[str, ...] = ()
    over: threading.Event = field(default_factory=threading.Event)
    held: list[str] = field(default_factory=list[str])

    def answer(self, method: str, path: str, query: dict[str, list[str]], seer: str, body: Any) -> Reply:
        if path.startswith(self.hangs or ("nothing",)):
            self.held.append(path)
            self.over.wait(LONG)
        return TinyStorage.answer(self, method, path, query, seer, body)


@contextmanager
def driven(tmp_path: Path, name: str) -> Generator[tuple[Hanging, Sessions, OpenStackDriver]]:
    with tiny_cloud(Hanging) as (cloud, text), ExitStack() as stack:
        assert isinstance(cloud, Hanging)
        file = tmp_path / f"{name}.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        stack.callback(sessions.close)
        driver = OpenStackDriver(name, sessions, storage=Storage(shares=True, volumes=True))
        stack.callback(driver.close)
        stack.callback(cloud.over.set)
        yield cloud, sessions, driver


@pytest.mark.parametrize("service", ["/share/", "/volume/"])
def test_silent_storage_delays_no_pod_without_storage(tmp_path: Path, service: str) -> None:
    """With more visits to pods with storage than there are threads for one service."""
    with driven(tmp_path, "lab") as (cloud, _, driver), ThreadPoolExecutor(12) as visits:
        cloud.hangs = (service,)
        waiting: list[Future[Any]] = [
            visits.submit(driver.find, SCOPE, [SHARE, RULE, VOLUME], IDS) for _ in range(10)
        ]
        while not cloud.held:
            time.sleep(0.01)
        read = visits.submit(driver.find, OTHER, PLAIN, {}).result(LONG)
        assert set(read) == {resource.key for resource in PLAIN}
        assert not any(one.done() for one in waiting)
        cloud.over.set()


def test_silent_service_is_not_asked_again_at_once(tmp_path: Path) -> None:
    """By no part of the process and no other session. Other services, and another cloud's, are."""
    with driven(tmp_path, "lab") as (cloud, sessions, driver), driven(tmp_path, "two") as (_, _, second):
        driver.find(OTHER, PLAIN, {})
        cloud.hangs = ("/share/",)
        with waiting_at_most(0.3), pytest.raises(UnknownError, match="timed out"):
            driver.find(SCOPE, [SHARE], IDS)
        asked = len(cloud.held)
        another = OpenStackDriver("lab", sessions, storage=Storage(shares=True, volumes=True))
        for one in (driver, another):
            with pytest.raises(UnknownError, match="has given no answer for"):
                one.find(SCOPE, [SHARE], IDS)
        another.close()
        assert len(cloud.held) == asked
        assert set(driver.find(OTHER, PLAIN, {})) == set(second.find(OTHER, PLAIN, {}))
        assert not second.find(SCOPE, [VOLUME], {})[VOLUME.key].id


URL = "https://cloud.example/share/v2/shares"


class Clock:
    """A clock that moves only when a test moves it."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


def ask(silences: Silences, read: bool = True) -> RequestInProgress:
    return silences.ask(URL, read)


def test_two_unanswered_reads_make_a_service_silent_and_one_does_not(clock: Clock) -> None:
    """A single one may be a long listing of a service that answers everything else."""
    silences = Silences(clock)
    ask(silences)
    clock.time = 2 * UNANSWERED_SECONDS
    ask(silences)
    clock.time = 3 * UNANSWERED_SECONDS
    assert ask(silences).tries
    with pytest.raises(SilentError, match="for 30 s"):
        ask(silences)
    assert not silences.ask("https://cloud.example/volume/v3/x", True).tries
    assert not silences.ask("https://second.example/share/v2/shares", True).tries


def test_waiting_reads_among_answered_ones_make_no_service_silent(clock: Clock) -> None:
    silences = Silences(clock)
    long = [ask(silences), ask(silences)]
    for _ in range(10):
        clock.time += UNANSWERED_SECONDS / 2
        ask(silences).answered()
    for one in long:
        one.failed(in_time=False)
    assert not ask(silences).tries


def test_silent_service_is_tried_by_one_read_at_a_time(clock: Clock) -> None:
    """And by no change, which could be left half done; an answer ends the silence."""
    silences = Silences(clock)
    ask(silences).failed(in_time=False)
    with pytest.raises(SilentError):
        ask(silences)
    clock.time += SILENT_SECONDS
    with pytest.raises(SilentError):
        ask(silences, read=False)
    first = ask(silences)
    assert first.tries
    with pytest.raises(SilentError):
        ask(silences)
    clock.time += SILENT_SECONDS
    first.failed(in_time=False)
    with pytest.raises(SilentError):
        ask(silences)
    clock.time += SILENT_SECONDS
    ask(silences).answered()
    assert not ask(silences, read=False).tries


def test_slow_requests_of_one_caller_make_no_service_silent(clock: Clock) -> None:
    """A member's own requests may be slow in themselves; each of weft's reads counts as a caller of its own."""
    silences = Silences(clock)
    for _ in range(3):
        slow = [silences.ask(URL, True, "member") for _ in range(8)]
        clock.time += 2 * UNANSWERED_SECONDS
        assert not silences.ask(URL, True, "member").tries
        for one in slow:
            one.failed(in_time=False)
    ask(silences).answered()
    silences.ask(URL, True, "other").failed(in_time=False)
    assert not ask(silences).tries
    silences.ask(URL, True, "member").failed(in_time=False)
    with pytest.raises(SilentError):
        ask(silences)


def test_waiting_reads_of_two_callers_make_a_service_silent(clock: Clock) -> None:
    silences = Silences(clock)
    for who in ("member", "other"):
        silences.ask(URL, True, who)
    clock.time = UNANSWERED_SECONDS
    assert ask(silences).tries


def test_short_time_limit_of_a_caller_makes_no_service_silent(tmp_path: Path) -> None:
    """The loop, which waits longer, may still get the share that Manila takes long to show."""
    with driven(tmp_path, "lab") as (cloud, _, driver):
        driver.find(OTHER, PLAIN, {})
        cloud.hangs = ("/share/",)
        for _ in range(2):
            with waiting_at_most(0.2, "member"), pytest.raises(UnknownError, match="timed out"):
                driver.find(SCOPE, [SHARE], IDS)
        cloud.hangs = ()
        assert not driver.find(SCOPE, [VOLUME], {})[VOLUME.key].id
        driver.find(SCOPE, [SHARE], {})


def test_refused_connection_is_an_answer(clock: Clock) -> None:
    silences = Silences(clock)
    ask(silences).failed(in_time=True)
    assert not ask(silences).tries


def test_services_are_distinguished_by_address_and_first_path_segment() -> None:
    """Without a password in the key."""
    assert service_of("https://weft:secret@one:8786/v2/x?y") == "https://one:8786/v2"
    assert service_of("https://one/share/v2/x") != service_of("https://one/volume/v3/x")
    assert service_of("https://one") == "https://one/"


def test_failed_name_lookup_is_not_cached(tmp_path: Path) -> None:
    """A member's plan may name anything, so nothing of it is kept (guarantee 5)."""
    with driven(tmp_path, "lab") as (cloud, sessions, _):
        cloud.things["images"] = []
        lookups = Lookups()
        for n in range(20):
            assert lookups.image(sessions.own(), f"image-{n}") is None
        assert not lookups._asking  # pyright: ignore[reportPrivateUsage]
