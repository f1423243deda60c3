"""Changes that wait for each other become one change of the file, and each is fenced when it is made."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.drivers.opensm.rigs import FABRIC, FakeRig, host_ports, partition, scope
from tests.helpers.waiting import wait_for
from weft.drivers import pace
from weft.drivers.reading import SharedReading
from weft.model.agentapi import ChangeResult, PartitionsChange, RepairQuery, RepairResult, Tables
from weft.model.errors import PermanentError
from weft.model.resources import Observed, Outcome, Status
from weft.ports.fences import JointFence
from weft.testing.fabric import FakeFabric
from weft.testing.fabric_manager import FakeManager

LONG, KEY = 60.0, 0x101


class Slow:
    """The master's changes, each of which waits until the test lets it end."""

    def __init__(self, fabric: FakeFabric, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.begun, self.goes_on = threading.Event(), threading.Event()
        change = FakeManager.change

        def slowly(manager: FakeManager, new: PartitionsChange) -> ChangeResult:
            if manager.name == "sm1":
                self.sizes.append(len(new.weft))
                self.begun.set()
                assert self.goes_on.wait(LONG)
            return change(manager, new)

        monkeypatch.setattr(FakeManager, "change", slowly)


class Pods:
    """Pods, each with one partition of two ports of its own and a thread of its own."""

    def __init__(self, fabric: FakeFabric, threads: int) -> None:
        self._fabric, self._pool = fabric, ThreadPoolExecutor(threads)
        self._ports = host_ports(fabric._site)  # pyright: ignore[reportPrivateUsage]

    def create(self, pod: int, fence: Callable[[], None] = lambda: None) -> Future[Outcome]:
        wanted = partition(KEY + pod, self._ports[2 * pod : 2 * pod + 2])
        whose = replace(scope(pod), fence=fence)
        return self._pool.submit(lambda: self._fabric.create(whose, [wanted], {})["partition"])

    def seen(self, pod: int) -> Observed:
        """The pod's partition right after its change."""
        wanted = partition(KEY + pod, self._ports[2 * pod : 2 * pod + 2])
        return self._fabric.find(replace(scope(pod), changed=True), [wanted], {})["partition"]

    def waiting(self) -> int:
        return self._fabric._changer.line.waiting  # pyright: ignore[reportPrivateUsage]


def test_waiting_edits_are_joined_into_one_change(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = FakeFabric(FakeRig().site, FABRIC)
    slow, pods = Slow(fabric, monkeypatch), Pods(fabric, 4)
    first = pods.create(0)
    assert slow.begun.wait(LONG)
    others = [pods.create(pod) for pod in (1, 2, 3)]
    wait_for(lambda: pods.waiting() == 3)
    slow.goes_on.set()
    for made in (first, *others):
        assert made.result(LONG).error is None
    assert slow.sizes == [1, 4]
    reads: list[Tables] = []
    fabric.manager("sm1").eyes = lambda tables: reads.append(tables) or tables
    assert [pods.seen(pod).status for pod in range(4)] == [Status.SETTLED] * 4
    assert len(reads) == 1, "one reading began after all changes"


def test_edit_whose_owner_was_lost_is_dropped_and_the_others_proceed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its fence is checked when the change is made, not only when it was requested."""
    fabric = FakeFabric(FakeRig().site, FABRIC)
    slow, pods = Slow(fabric, monkeypatch), Pods(fabric, 3)
    lost = threading.Event()

    class LostError(Exception):
        pass

    def fence() -> None:
        if lost.is_set():
            raise LostError

    first = pods.create(0)
    assert slow.begun.wait(LONG)
    stale, other = pods.create(1, fence), pods.create(2)
    wait_for(lambda: pods.waiting() == 2)
    lost.set()
    slow.goes_on.set()
    assert first.result(LONG).error is None and other.result(LONG).error is None
    with pytest.raises(LostError):
        stale.result(LONG)
    assert set(fabric.partitions()) >= {KEY, KEY + 2} and KEY + 1 not in fabric.partitions()


def test_fences_of_a_batch_are_checked_together_before_each_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request for all, and then each one's own fence."""
    fabric = FakeFabric(FakeRig().site, FABRIC)
    slow, pods = Slow(fabric, monkeypatch), Pods(fabric, 4)
    asked: list[list[int]] = []

    class Fence(JointFence):
        def __init__(self, pod: int) -> None:
            self.pod = pod

        def __call__(self) -> None:
            asked.append([self.pod])

        def renew(self, fences: Sequence[JointFence]) -> None:
            asked.append(sorted(f.pod for f in fences if isinstance(f, Fence)))

    first = pods.create(0, Fence(0))
    assert slow.begun.wait(LONG)
    others = [pods.create(1, Fence(1)), pods.create(2, Fence(2)), pods.create(3)]
    wait_for(lambda: pods.waiting() == 3)
    slow.goes_on.set()
    for made in (first, *others):
        assert made.result(LONG).error is None
    assert asked[:2] == [[0], [1, 2]] and sorted(asked[2:]) == [[1], [2]]


def test_owner_lost_between_attempts_drops_its_edit() -> None:
    """The file changed meanwhile, so everything is read and edited again; the first attempt may have taken minutes."""
    fabric = FakeFabric(FakeRig().site, FABRIC)
    manager, asked = fabric.manager("sm1"), list[int]()
    change = manager.change

    def conflict(new: PartitionsChange) -> ChangeResult:
        manager.text = (manager.text or "") + "# someone else's line\n"
        return change(new)

    def fence() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise PermanentError("change", "weft", "it isn't mine any more", "nothing")

    manager.change = conflict  # type: ignore[method-assign]
    with pytest.raises(PermanentError, match="mine"):
        Pods(fabric, 1).create(0, fence).result(LONG)
    assert len(asked) == 2 and KEY not in fabric.partitions()


def test_batch_whose_fences_all_refuse_changes_nothing() -> None:
    fabric = FakeFabric(FakeRig().site, FABRIC)

    def fence() -> None:
        raise PermanentError("change", "weft", "it isn't mine any more", "nothing")

    before = fabric.manager("sm1").text
    with pytest.raises(PermanentError):
        Pods(fabric, 1).create(0, fence).result(LONG)
    assert fabric.manager("sm1").text == before
    assert Pods(fabric, 1).create(1).result(LONG).error is None


def test_refused_edit_fails_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The master's agent refuses the file with that edit, though it contains others' edits."""
    fabric = FakeFabric(FakeRig().site, FABRIC)
    slow, pods = Slow(fabric, monkeypatch), Pods(fabric, 4)
    change = FakeManager.change

    def picky(manager: FakeManager, new: PartitionsChange) -> ChangeResult:
        if any(p.pkey == KEY + 2 for p in new.weft):
            raise PermanentError("change partitions", manager.name, "nothing was written", "repair the file")
        return change(manager, new)

    monkeypatch.setattr(FakeManager, "change", picky)
    first = pods.create(0)
    assert slow.begun.wait(LONG)
    others = [pods.create(pod) for pod in (1, 2, 3)]
    wait_for(lambda: pods.waiting() == 3)
    slow.goes_on.set()
    assert all(made.result(LONG).error is None for made in (first, others[0], others[2]))
    with pytest.raises(PermanentError, match="nothing was written"):
        others[1].result(LONG)
    assert {KEY, KEY + 1, KEY + 3} <= set(fabric.partitions()) and KEY + 2 not in fabric.partitions()


def test_removal_is_made_at_once_with_the_changes_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A creation may wait for further ones."""
    fabric = FakeFabric(FakeRig().site, FABRIC)
    pods = Pods(fabric, 2)
    assert pods.create(0).result(LONG).error is None
    monkeypatch.setattr(fabric._changer.line, "_next", time.monotonic() + 600.0)  # pyright: ignore[reportPrivateUsage]
    made = pods.create(1)
    wait_for(lambda: pods.waiting() == 1)
    assert not made.done()
    fabric.delete(scope(0), [partition(KEY, ())], {})
    assert made.result(LONG).error is None
    assert KEY not in fabric.partitions() and KEY + 1 in fabric.partitions()


def test_pause_grows_with_duration_and_batch_size() -> None:
    assert pace.next_at(10.0, 10.001, 8) == pytest.approx(10.011)
    assert pace.next_at(10.0, 12.0, 1) == 12.0 + pace.EACH
    assert pace.next_at(10.0, 12.0, 1000) == 12.0 + pace.LONGEST


def test_many_waiting_readers_delay_the_next_reading() -> None:
    """The clock moves only with readings."""
    now, others = [0.0], 20
    goes_on = threading.Event()

    def read(began: float) -> float:
        goes_on.wait(LONG)
        now[0] += 100.0
        return began

    shared = SharedReading(read, lambda: now[0])
    with ThreadPoolExecutor(1 + others) as pool:
        first = pool.submit(shared.get)
        wait_for(lambda: shared._current is not None)  # pyright: ignore[reportPrivateUsage]
        joined = [pool.submit(shared.get) for _ in range(others)]
        wait_for(lambda: shared._waiting == others)  # pyright: ignore[reportPrivateUsage]
        goes_on.set()
        assert first.result(LONG) == 0.0
        assert all(one.result(LONG) >= 0.0 for one in joined)
    assert shared._next >= 100.0 + pace.EACH * (1 + others)  # pyright: ignore[reportPrivateUsage]


def test_only_patient_callers_delay_a_reading() -> None:
    """The clock stands still, so a patient caller waits until the test moves it."""
    now = [0.0]

    def read(began: float) -> int:
        now[0] += 1.0
        return int(began)

    shared = SharedReading(read, lambda: now[0])
    assert shared.get(patient=True) == 0
    assert shared.get() == 1
    with ThreadPoolExecutor(1) as pool:
        patient = pool.submit(shared.get, 0.0, True)
        threading.Event().wait(0.02)
        assert not patient.done()
        assert shared.get() == 2
        now[0] += 60.0
        assert patient.result(LONG) in (2, 62, 63)


def test_repair_asks_only_for_ports_that_the_change_concerns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports of other pods' new changes still wait for the manager."""
    fabric = FakeFabric(FakeRig().site, FABRIC)
    pods, repaired = Pods(fabric, 1), list[tuple[int, ...]]()
    repair = FakeManager.repair

    def noted(manager: FakeManager, query: RepairQuery) -> RepairResult:
        repaired.append(query.port_guids)
        return repair(manager, query)

    monkeypatch.setattr(FakeManager, "repair", noted)
    monkeypatch.setattr("weft.drivers.wire.repairs.REPAIRED_AT_ONCE", 1)
    assert pods.create(3).result(LONG).error is None
    drifted = host_ports(fabric._site)[7]  # pyright: ignore[reportPrivateUsage]
    fabric.erase_key(drifted, 0x8000 | KEY + 3)
    monkeypatch.setattr(type(fabric.wire), "sweep", lambda _: None)
    for pod in range(3):
        assert pods.create(pod).result(LONG).error is None
    assert pods.create(3).result(LONG).error is None
    assert repaired == [(drifted,)] and pods.seen(3).status is Status.SETTLED


def test_owner_lost_while_a_standby_is_slow_changes_nothing_at_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Standbys are written first; the fence is checked again before the master is asked."""
    fabric = FakeFabric(FakeRig().site, FABRIC)
    pods, lost = Pods(fabric, 2), threading.Event()
    monkeypatch.setattr("weft.drivers.opensm.change.YOUNG_SECONDS", 0.0)
    change = FakeManager.change

    def slow_standby(manager: FakeManager, new: PartitionsChange) -> ChangeResult:
        if manager.name != "sm1":
            lost.set()
        return change(manager, new)

    def fence() -> None:
        if lost.is_set():
            raise PermanentError("change", "weft", "it isn't mine any more", "nothing")

    monkeypatch.setattr(FakeManager, "change", slow_standby)
    before = fabric.manager("sm1").text
    with pytest.raises(PermanentError, match="mine"):
        pods.create(0, fence).result(LONG)
    assert fabric.manager("sm1").text == before
    assert pods.create(1).result(LONG).error is None
    assert KEY + 1 in fabric.partitions()


def test_slow_manager_is_asked_again_once_in_its_time_however_many_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each request starts a sweep, so a hundred pods that repeat theirs would keep it from completing one."""
    fabric = FakeFabric(FakeRig().site, FABRIC)
    pods, files = Pods(fabric, 1), list[int]()
    changer = fabric._changer  # pyright: ignore[reportPrivateUsage]
    change = FakeManager.change

    def noted(manager: FakeManager, new: PartitionsChange) -> ChangeResult:
        if manager.name == "sm1":
            files.append(len(new.weft))
        return change(manager, new)

    monkeypatch.setattr(FakeManager, "change", noted)
    monkeypatch.setattr(type(fabric.wire), "sweep", lambda _: None)
    monkeypatch.setattr(changer, "takes", 600.0)
    for pod in range(3):
        assert pods.create(pod).result(LONG).error is None
    for pod in (0, 1, 2, 0):
        assert pods.create(pod).result(LONG).error is None
    assert files == [1, 2, 3, 3]
    [thing] = [t for t in fabric.marked("lab", []) if t.id == "0x101"]
    fabric.remove_marked([thing])
    assert pods.create(0).result(LONG).error is None and files[4:] == [2, 3]
    stray = replace(thing, id="0x155", owner=None)
    assert pods.create(0).result(LONG).error is None and fabric.remove_marked([stray])["0x155"].error is None
    assert files[6:] == [3], "a removal by the audit isn't delayed"
    assert pods.create(3).result(LONG).error is None
    assert files[7:] == [4], "another pod's change is made at once"
    monkeypatch.setattr(changer, "takes", 0.0)
    assert pods.create(0).result(LONG).error is None
    assert files[8:] == [4], "after that time it is asked again"
