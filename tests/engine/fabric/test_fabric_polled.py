"""A change of a fabric is asked for once, and then about: what is on its way isn't asked for again."""

from __future__ import annotations

from uuid import UUID

import pytest

from tests.engine.house import House
from tests.engine.timehouse import HandClock
from weft.model.agentapi import ChangeResult, PartitionsChange, Tables, TablesQuery
from weft.model.ids import parse_guid
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.fabric_manager import FakeManager

LATER = 600.0


@pytest.fixture
def changes(house: House, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of partitions in each file that the master was given."""
    found: list[int] = []
    change = FakeManager.change

    def counted(manager: FakeManager, new: PartitionsChange) -> ChangeResult:
        if manager is house.fabric.managers[0]:
            found.append(len(new.weft))
        return change(manager, new)

    monkeypatch.setattr(FakeManager, "change", counted)
    return found


def _takes(house: House, seconds: float) -> None:
    house.fabric._takes = seconds  # pyright: ignore[reportPrivateUsage]


def _segment(house: House, pod_id: UUID) -> str:
    [row] = [r for r in house.store.pods.resources(pod_id) if r.kind is Kind.SEGMENT]
    return f"{row.state} {len(row.differences)}"


def test_slow_change_is_asked_for_once(house: House, changes: list[int]) -> None:
    """The manager has it in its file, and sweeps some readings later; visits come and go meanwhile."""
    _takes(house, LATER)
    house.fabric.plant("slow")
    pod = house.order()
    for _ in range(2):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert _segment(house, pod.id) == "pending 0"
    pod = house.run(pod, PodState.READY)
    assert changes == [1]


def test_change_that_does_not_show_in_time_is_asked_for_again(
    house: House, clock: HandClock, changes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _takes(house, 5.0)
    monkeypatch.setattr(type(house.fabric.wire), "sweep", lambda _: None)
    pod = house.order()
    for seconds, asked in ((0.0, 1), (4.0, 1), (1.0, 2)):
        clock.forward(seconds=seconds)
        house.store.wake(pod.id)
        house.worker.run_once()
        assert len(changes) == asked
    monkeypatch.undo()
    house.run(pod, PodState.READY)


def test_only_its_own_ports_are_read_while_a_change_is_on_its_way(
    house: House, changes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once they show it, the whole fabric is read; and at once if as many readings as are allowed are under way."""
    _takes(house, LATER)
    monkeypatch.setattr(type(house.fabric.wire), "sweep", lambda _: None)
    read: list[int | None] = []
    tables = house.fabric.managers[0].tables

    def counted(query: TablesQuery) -> Tables:
        read.append(None if query.port_guids is None else len(query.port_guids))
        return tables(query)

    monkeypatch.setattr(house.fabric.managers[0], "tables", counted)
    pod = house.order()
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    members = len(next(iter(_members(house))))
    assert changes == [1] and len(read) >= 3 and set(read[1:]) == {members}
    read.clear()
    for _ in range(house.fabric.glances):
        assert house.fabric._glances.acquire(blocking=False)  # pyright: ignore[reportPrivateUsage]
    house.store.wake(pod.id)
    house.worker.run_once()
    assert set(read) == {None}


def _members(house: House) -> list[tuple[object, ...]]:
    """Members of each segment in the master's file."""
    return [p.members for p in house.fabric.managers[0].partitions().weft]


def test_another_worker_does_not_repeat_a_change_on_its_way(house: House, changes: list[int]) -> None:
    """What the first worker knew is lost: the manager's file shows the change."""
    _takes(house, LATER)
    house.fabric.plant("slow")
    pod = house.order()
    house.store.wake(pod.id)
    house.worker.run_once()
    assert changes == [1]
    house.restart()
    house.run(pod, PodState.READY)
    assert changes == [1]


def test_drift_of_a_pod_is_repaired_at_once(house: House, changes: list[int]) -> None:
    """Nothing was asked for lately that it could be the rest of."""
    _takes(house, LATER)
    pod = house.ready()
    key = 0x8000 | _number(house)
    members = house.fabric.snapshot().ports_in[_number(house)]
    guid = min(parse_guid(m) for m in members)
    house.fabric.erase_key(guid, key)
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert key in house.fabric.tables([guid])[guid].keys
    assert changes == [1, 1] and house.store.pods.find(str(pod.id), None).state is PodState.READY


def test_slow_removal_is_asked_for_once_and_again_when_overdue(
    house: House, clock: HandClock, changes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _takes(house, LATER)
    pod = house.ready()
    monkeypatch.setattr(type(house.fabric.wire), "sweep", lambda _: None)
    house.release(pod)
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert changes == [1, 0] and _segment(house, pod.id).startswith("deleting")
    _takes(house, 1.0)
    clock.forward(seconds=0.8)
    house.store.wake(pod.id)
    house.worker.run_once()
    assert changes == [1, 0]
    clock.forward(seconds=0.2)
    house.store.wake(pod.id)
    house.worker.run_once()
    assert set(changes[2:]) == {0}, "asked for again"
    monkeypatch.undo()
    house.run(pod, PodState.RELEASED)


def test_segment_is_removed_only_once_its_change_can_no_longer_reach_a_port(
    house: House, clock: HandClock, changes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manager has read the file with it, and writes to the ports later: until then none of them shows it."""
    _takes(house, 5.0)
    wire, sweep = house.fabric.wire, type(house.fabric.wire).sweep
    monkeypatch.setattr(type(wire), "sweep", lambda _: None)
    pod = house.order()
    house.store.wake(pod.id)
    house.worker.run_once()
    assert changes == [1]
    house.release(pod)
    for _ in range(6):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is not PodState.RELEASED and changes == [1]
    sweep(wire)
    house.store.wake(pod.id)
    house.worker.run_once()
    assert changes == [1, 0], "it has shown, so it is removed"
    monkeypatch.undo()
    house.fabric.manager(house.fabric.managers[0].name).sweep()
    house.run(pod, PodState.RELEASED)


def test_segment_that_never_shows_is_removed_after_its_time(
    house: House, clock: HandClock, changes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _takes(house, 5.0)
    monkeypatch.setattr(type(house.fabric.wire), "sweep", lambda _: None)
    pod = house.order()
    house.store.wake(pod.id)
    house.worker.run_once()
    house.release(pod)
    house.store.wake(pod.id)
    house.worker.run_once()
    assert changes == [1]
    clock.forward(seconds=5.0)
    house.run(pod, PodState.RELEASED)
    assert changes[:2] == [1, 0]


def _number(house: House) -> int:
    return min(n for n in house.fabric.snapshot().segments if n in house.site.fabrics["ib0"].segments)
