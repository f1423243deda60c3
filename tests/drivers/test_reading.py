"""One reading is shared by all callers that ask at the same time, and never began before the question."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.drivers.opensm.rigs import FABRIC, FakeRig
from tests.helpers.waiting import wait_for
from weft.drivers.reading import SharedReading
from weft.model.agentapi import Tables
from weft.model.errors import UnknownError
from weft.testing.fabric import FakeFabric


def asking(shared: SharedReading[Any]) -> int:
    """How many wait for a reading."""
    return shared._waiting  # pyright: ignore[reportPrivateUsage]


def test_fifty_concurrent_calls_share_two_readings_at_most() -> None:
    """Fifty visits at the same moment read the fabric's tables at most twice."""
    fabric = FakeFabric(FakeRig().site, FABRIC)
    reads: list[Tables] = []

    def slow(tables: Tables) -> Tables:
        reads.append(tables)
        if len(reads) == 1:
            wait_for(lambda: asking(fabric._reading) == 49)  # pyright: ignore[reportPrivateUsage]
        return tables

    fabric.manager("sm1").eyes = slow
    start = threading.Barrier(50)

    def visit() -> float:
        start.wait()
        return fabric.snapshot().began

    with ThreadPoolExecutor(50) as pool:
        began = [f.result() for f in [pool.submit(visit) for _ in range(50)]]
    assert len(reads) <= 2 and len(set(began)) == len(reads)


def test_caller_during_a_reading_gets_the_next_one() -> None:
    """The current one may have passed what just changed."""
    release, begun = threading.Event(), threading.Event()
    values = iter(range(10))

    def read(began: float) -> int:
        begun.set()
        release.wait(60)
        return next(values)

    shared = SharedReading(read)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(shared.get)
        begun.wait(60)
        second = pool.submit(shared.get)
        wait_for(lambda: asking(shared) == 1)
        release.set()
        assert (first.result(), second.result()) == (0, 1)


def test_callers_of_a_batched_change_share_the_next_reading() -> None:
    """Including the last caller, since the change was before it. After the next change or an error another one is
    needed.
    """
    calls: list[float] = []

    def read(began: float) -> int:
        calls.append(began)
        if len(calls) == 3:
            raise UnknownError("read", "the fabric", "no answer")
        return len(calls)

    shared = SharedReading(read)
    assert shared.since_change() == shared.since_change() == 1
    shared.changed()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: shared.since_change(), range(8))) == {2}
    assert shared.since_change() == 2
    shared.changed()
    with pytest.raises(UnknownError):
        shared.since_change()
    assert shared.since_change() == 4


def test_failed_reading_is_unknown_for_all_waiting_callers() -> None:
    """Whatever age they accept; a later caller tries again."""
    calls: list[float] = []

    def read(began: float) -> str:
        calls.append(began)
        if len(calls) == 2:
            wait_for(lambda: asking(shared) == 7)
            raise UnknownError("read", "the fabric", "no answer")
        return f"reading {len(calls)}"

    shared = SharedReading(read)
    assert shared.get() == "reading 1"
    start = threading.Barrier(8)

    def ask() -> str:
        start.wait()
        return shared.get()

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(ask) for _ in range(8)]
        errors = [f.exception() for f in asked]
    failed = [e for e in errors if isinstance(e, UnknownError)]
    assert len(failed) == 1 and len(calls) == 3  # callers that came after it began share the next one
    with pytest.raises(UnknownError):
        SharedReading(lambda began: (_ for _ in ()).throw(UnknownError("a", "b", "c"))).get()
    assert shared.get() == f"reading {len(calls)}"


def test_age_of_a_reading_counts_from_its_start_and_ends_with_a_change() -> None:
    """With an age of up to 5 s one of 6 s isn't used; after a change no older one is."""
    now = [100.0]
    calls: list[float] = []

    def read(began: float) -> float:
        calls.append(began)
        now[0] += 2.0
        return began

    shared = SharedReading(read, lambda: now[0])
    assert shared.get() == 100.0
    now[0] = 105.0
    assert shared.get(5.0) == 100.0
    now[0] = 106.0
    assert shared.get(5.0) == 106.0
    shared.changed()
    assert shared.get(60.0) == 108.0 and len(calls) == 3


class _Asked:
    """An object of some size that a caller holds."""


def test_failed_reading_keeps_nothing_of_its_callers() -> None:
    """The error is kept until the next reading, with its cause and without tracebacks that hold callers' objects."""

    def fails(began: float) -> str:
        try:
            raise TimeoutError("no answer")
        except TimeoutError as error:
            raise UnknownError("read", "the fabric", "no answer") from error

    shared = SharedReading(fails)

    def ask() -> weakref.ref[_Asked]:
        mine = _Asked()
        with pytest.raises(UnknownError, match="no answer"):
            shared.get()
        return weakref.ref(mine)

    gc.disable()
    try:
        assert ask()() is None
    finally:
        gc.enable()
