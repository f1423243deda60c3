"""Parts of a hold, each by itself."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.engine.house import House
from weft.engine.base.database import Database
from weft.engine.hold.fence import Fence
from weft.engine.hold.heldnotes import HeldNotes
from weft.engine.hold.holdings import Holdings
from weft.engine.hold.status import News, OwnerStatus
from weft.engine.hold.work import BETWEEN_PROCESSES, COUNTED_EVERY, Work
from weft.engine.rows.records import PodRecord
from weft.model.pod import Aspect, Cause, Phase, PodState, find

WIRED = News(Aspect.WIRED, "true", Cause.DONE)
READY = News(Aspect.READY, "true", Cause.DONE)


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


@pytest.fixture
def pod(house: House) -> PodRecord:
    """A pod that a worker holds."""
    house.order()
    with house.database.transaction() as tx:
        row = tx.row("claim_work", worker="w1", hold=30.0, late=0.0, most=1, releases=1)
    assert row is not None
    return PodRecord.of(row)


def test_status_keeps_what_is_not_new(pod: PodRecord) -> None:
    status, later = OwnerStatus(pod), pod.since + timedelta(seconds=5)
    assert status.differs([WIRED], status.phase, ())
    assert status.become([WIRED], Phase.BUILDING, (), later) is PodState.PLACED
    assert status.state is not PodState.PLACED and status.since == later
    assert not status.differs([WIRED], status.phase, ())
    assert status.differs([WIRED], Phase.SERVING, ()) and status.differs([], status.phase, (Aspect.WIRED,))
    status.written(later)
    condition = find(status.conditions, Aspect.WIRED)
    assert condition is not None and condition.since == later


def test_status_of_a_ready_pod_without_progress_is_unknown(pod: PodRecord) -> None:
    status = OwnerStatus(pod)
    status.become([WIRED, News(Aspect.BOOTED, "true", Cause.DONE), READY], Phase.SERVING, (), pod.since)
    assert status.state is PodState.READY
    assert status.explained("it hangs", Cause.TRIED_AGAIN)[:2] == (Aspect.READY, "unknown")


def test_holdings_are_read_again_after_a_write(house: House, pod: PodRecord) -> None:
    fence = Fence(house.database, pod)
    notes, holdings = HeldNotes(fence, OwnerStatus(pod)), Holdings(fence)
    before = holdings.numbers()
    assert set(holdings.nodes()) == set(pod.nodes) and before
    space, number = min(before)
    with house.database.transaction() as tx:
        tx.run("give_back_number", space=space, number=number, owner_id=pod.id)
    assert holdings.numbers() == before
    with notes.write():
        pass
    assert holdings.numbers() == before - {(space, number)}


def test_pause_between_two_processes_counts_as_work_for_a_limited_time(house: House, pod: PodRecord) -> None:
    changed = replace(pod, changed_at=pod.since)
    fence = Fence(house.database, changed)
    notes = HeldNotes(fence, OwnerStatus(changed))
    work = Work(fence, notes)
    work.count("one", on=True)
    assert notes.unwritten.worked is not None and work.seconds == 0.0
    fence.at += timedelta(seconds=COUNTED_EVERY - 1)
    written = fence.owner
    work.count("one", on=True)
    assert fence.owner is written and work.seconds == COUNTED_EVERY - 1
    fence.at += timedelta(hours=1)
    work.count("two", on=True)
    assert work.seconds == BETWEEN_PROCESSES
    fence.at += timedelta(hours=1)
    work.count("two", on=False)
    fence.at += timedelta(hours=1)
    assert work.seconds == BETWEEN_PROCESSES and fence.owner.worked_at is None
