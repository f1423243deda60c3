"""Changes of a fabric, and the looks that update standbys' files, take turns in the order of arrival."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest

from tests.drivers.opensm.rigs import FABRIC, FakeRig, host_ports, scope
from tests.helpers.amounts import examples
from tests.helpers.waiting import wait_for
from weft.drivers.joined import Submission
from weft.drivers.opensm.agents import Files
from weft.drivers.opensm.change import Edit
from weft.drivers.opensm.section import Base, Section
from weft.model.agentapi import WeftPartitionDocument
from weft.model.errors import UnknownError
from weft.testing.fabric import FakeFabric

LONG, KEY = 60.0, 0x101


class Line:
    """A fabric whose files are read by a reader that the test lets continue.

    Attributes:
        took: who had its turn, in order.
        together: the most that had a turn at the same time.
    """

    def __init__(self, held: bool = True) -> None:
        site = FakeRig().site
        self.fabric, self._ports = FakeFabric(site, FABRIC), host_ports(site)
        self.took: list[str] = []
        self.silent: set[str] = set()
        self.together = self._now = 0
        self._goes_on, self._lock, self._who = threading.Event(), threading.Lock(), threading.local()
        self._names: dict[object, str] = {}
        if not held:
            self._goes_on.set()
        self._pool = ThreadPoolExecutor(32)
        self._changer = self.fabric._changer  # pyright: ignore[reportPrivateUsage]
        agents = self._changer._agents  # pyright: ignore[reportPrivateUsage]
        self._read = agents.files
        agents.files = self._files  # type: ignore[method-assign]
        apply = self._changer._apply  # pyright: ignore[reportPrivateUsage]

        def named(parts: Sequence[Submission[Edit]]) -> None:
            self._who.name = self._names[parts[0].edit]
            apply(parts)  # type: ignore[arg-type]

        self._changer._apply = named  # type: ignore[method-assign]  # pyright: ignore[reportPrivateUsage]

    def _files(self) -> Files:
        name: str = self._who.name
        with self._lock:
            self.took.append(name)
            self._now += 1
            self.together = max(self.together, self._now)
        try:
            assert self._goes_on.wait(LONG)
            if name in self.silent:
                raise UnknownError("read the files", "the fabric agents", "no answer")
            return self._read()
        finally:
            with self._lock:
                self._now -= 1

    def go_on(self) -> None:
        self._goes_on.set()

    def close(self) -> None:
        self.go_on()
        self._pool.shutdown()
        self.fabric.close()

    def change(self, name: str, pod: int) -> Future[object]:
        """Create a partition of two ports of its own."""
        mark, members = scope(pod).mark("partition").text(), tuple(self._ports[2 * pod : 2 * pod + 2])

        def edit(section: Section, base: Base) -> None:
            section[KEY + pod] = WeftPartitionDocument(pkey=KEY + pod, mark=mark, members=members)

        self._names[edit] = name
        return self._pool.submit(lambda: self._changer.change(edit, [KEY + pod], lambda: None))

    def level(self, name: str) -> Future[object]:
        level = self._changer._level  # pyright: ignore[reportPrivateUsage]

        def named() -> object:
            self._who.name = name
            return level()

        return self._pool.submit(lambda: self._changer.line.alone(named))

    def partitions(self) -> set[int]:
        self._who.name = "the test"
        return set(self.fabric.partitions())

    def length(self) -> int:
        return self._changer.line.waiting


@pytest.fixture
def line() -> Generator[Line]:
    line = Line()
    yield line
    line.close()


def in_line(line: Line, *names: str) -> list[Future[object]]:
    """Start these one after the other, each waiting behind the last; changes are called `c…`, all others are looks."""
    waiting: list[Future[object]] = []
    for number, name in enumerate(names, 1):
        waiting.append(line.change(name, number) if name.startswith("c") else line.level(name))
        wait_for(lambda number=number: line.length() == number)
    return waiting


def test_first_waiter_gets_the_first_turn(line: Line) -> None:
    """A look between two changes has its turn between them."""
    first = line.change("first", 0)
    wait_for(lambda: line.took == ["first"])
    waiting = in_line(line, "look", "change", "second look", "third look")
    line.go_on()
    wait([first, *waiting], LONG)
    assert line.took == ["first", "look", "change", "second look", "third look"]
    assert line.together == 1 and line.length() == 0


def test_waiter_whose_change_was_batched_leaves_the_line(line: Line) -> None:
    """It needs no turn of its own, and the waiter behind it is next."""
    first = line.change("first", 0)
    wait_for(lambda: line.took == ["first"])
    waiting = in_line(line, "change", "change too", "look", "change as well")
    line.go_on()
    done = wait([first, *waiting], LONG)
    assert not done.not_done and line.took == ["first", "change", "look"]
    assert {KEY + n for n in (0, 1, 2, 4)} <= line.partitions()


def test_failed_change_passes_its_turn_on(line: Line) -> None:
    line.silent = {"look", "change"}
    first = line.change("first", 0)
    wait_for(lambda: line.took == ["first"])
    waiting = in_line(line, "look", "change", "second look")
    line.go_on()
    wait([first, *waiting], LONG)
    assert line.took == ["first", "look", "change", "second look"]
    for failed in waiting[:2]:
        with pytest.raises(UnknownError, match="no answer"):
            failed.result()
    waiting[2].result()
    line.change("later", 5).result(LONG)


def test_empty_line_delays_no_change(line: Line) -> None:
    line.go_on()
    for number in range(3):
        line.change(f"c{number}", number).result(LONG)
        line.level(f"look{number}").result(LONG)
    assert line.took == ["c0", "look0", "c1", "look1", "c2", "look2"]


def test_concurrent_changes_all_end_and_never_overlap() -> None:
    """Thirty threads in any order: none is forgotten, whichever change included theirs."""
    for _ in range(examples(12)):
        line = Line(held=False)
        made = [line.change(f"change {n}", n % 6) for n in range(24)]
        looks = [line.level(f"look {n}") for n in range(8)]
        ended = wait([*made, *looks], LONG)
        line.close()
        assert not ended.not_done and line.together == 1 and line.length() == 0
        assert all(one.exception() is None for one in ended.done)
        assert sum(name.startswith("look") for name in line.took) == 8
