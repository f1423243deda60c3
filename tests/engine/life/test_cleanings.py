"""Cleanings of machines: watched by any worker that looks, and stored for drivers to read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest

from tests.engine.house import House
from tests.engine.metalhouse import house as house
from weft.engine.nodes.cleanings import CleaningsOf
from weft.engine.nodes.machinekeeper import BRIEFLY, EVERY, SOONEST, WATCHING, MachineKeeper
from weft.planning.watching import GAP
from weft.ports.cleanings import LastClaim, WatchedCleaning
from weft.ports.occupants import SeenMachine
from weft.testing.cloud import Fault

ERASE = ("deploy.erase_devices",)
ENDED = "2026-11-22T21:30:00+00:00"


class Cleaned:
    """A machine, and a worker that looks at it."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.node = next(n for n in house.site.nodes if n.machine)
        self.machine = str(self.node.machine)
        self.keeper = self.worker()

    def worker(self) -> MachineKeeper:
        return MachineKeeper(
            self.house.database, lambda: self.house.world, lambda: self.house.site, every=0.0
        )

    def look(self, state: str, plan: tuple[str, ...] | None = None, agent: str = "a1") -> None:
        seen = SeenMachine(state=state, automated=state != "available", plan=plan, agent=agent, changed=ENDED)
        self.house.cloud.offers.machines[self.machine] = seen
        self.keeper.look()

    def know(self) -> WatchedCleaning | None:
        return CleaningsOf(self.house.database, str(self.node.cloud)).watched(self.machine)

    def wait(self, gap: timedelta) -> None:
        """Make everything that was written older by `gap`."""
        with self.house.database.statement() as tx:
            tx._connection.execute("UPDATE machine_cleaning SET looked = looked - %s", (gap,))


@pytest.fixture
def one(house: House) -> Cleaned:
    return Cleaned(house)


def run(one: Cleaned, plan: tuple[str, ...] = ERASE) -> None:
    one.look("cleaning", agent="")
    one.look("clean wait", agent="")
    one.look("cleaning", plan)
    one.look("clean wait", plan)
    one.look("cleaning")


def test_cleaning_without_a_pod_is_watched_to_its_end(one: Cleaned) -> None:
    """An enrolled machine has no pod, and the first pod that gets it must know how it was cleaned."""
    run(one)
    known = one.know()
    assert known is not None and known.ended == ""
    one.look("available")
    done = one.know()
    assert done is not None and (done.plan, done.agent, done.ended) == (ERASE, "a1", ENDED)
    assert done.since == known.since and done.looked > known.looked
    one.look("available")
    assert one.know() == done
    assert CleaningsOf(one.house.database, "elsewhere").watched(one.machine) is None


def test_machines_are_listed_more_often_during_a_cleaning(one: Cleaned) -> None:
    """The agent's steps may be short, and are shown for the five seconds between two of its heartbeats."""
    one.keeper = MachineKeeper(one.house.database, lambda: one.house.world, lambda: one.house.site)

    def listed_after() -> float:
        """For all workers: seconds from the next look until the next listing."""
        with one.house.database.statement() as tx:
            row = tx._connection.execute("SELECT list_at - until AS later FROM machine_look").fetchone()
            tx._connection.execute("UPDATE machine_look SET until = now(), list_at = now()")
        assert row is not None
        return row["later"].total_seconds()

    one.look("available")
    assert listed_after() == pytest.approx((EVERY - BRIEFLY) * SOONEST)
    one.look("clean wait", agent="")
    assert listed_after() == pytest.approx((WATCHING - BRIEFLY) * SOONEST)


def test_another_worker_continues_watching(one: Cleaned) -> None:
    run(one)
    one.keeper = one.worker()
    one.look("available")
    assert (known := one.know()) is not None and known.ended == ENDED


LOST: dict[str, Callable[[Cleaned], None]] = {
    "all workers were away": lambda one: one.wait(GAP + timedelta(seconds=1)),
    "it was aborted": lambda one: one.look("clean failed"),
    "it was aborted between two looks, and the next one boots": lambda one: one.look("clean wait"),
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST.keys())
def test_end_of_an_unwatched_cleaning_is_unknown(one: Cleaned, lost: Callable[[Cleaned], None]) -> None:
    run(one)
    lost(one)
    one.look("cleaning")
    one.look("available")
    assert one.know() is None
    run(one)
    one.look("available")
    assert one.know() is not None, "the next one is watched"


def test_brief_silence_of_a_cloud_loses_nothing(one: Cleaned) -> None:
    run(one)
    one.house.cloud.plant(Fault.UNREACHABLE, verb="occupants", times=1)
    one.look("available")
    assert (known := one.know()) is not None and known.ended == ""
    one.wait(GAP - timedelta(seconds=20))
    one.look("available")
    assert (known := one.know()) is not None and known.ended == ENDED


def test_changed_cleaning_plan_replaces_the_earlier_one(one: Cleaned) -> None:
    run(one)
    one.look("cleaning", ("deploy.erase_devices_metadata",), "a2")
    one.look("available", agent="a2")
    assert (known := one.know()) is not None and known.plan == ("deploy.erase_devices_metadata",)


def test_late_answer_after_another_look_changes_nothing(
    one: Cleaned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes from an Ironic that hung: it is outdated, and the machine is being cleaned again by now."""
    cloud, asked, answered = one.house.cloud, threading.Event(), threading.Event()
    monkeypatch.setattr("weft.engine.nodes.machinekeeper.ANSWER", 0.0)
    monkeypatch.setattr("weft.engine.base.asking.PATIENCE", 0.05)
    fresh = cloud.seen_machines
    old = {one.machine: SeenMachine(state="cleaning", automated=True, plan=ERASE, agent="a1")}

    def slow() -> dict[str, SeenMachine]:
        asked.set()
        answered.wait(60)
        return old

    monkeypatch.setattr(cloud, "seen_machines", slow)
    one.keeper.look()
    assert asked.wait(60)
    monkeypatch.setattr(cloud, "seen_machines", fresh)
    late, one.keeper = one.keeper, one.worker()
    one.look("clean wait")
    answered.set()
    for thread in late._asking._threads.values():
        thread.join(60)
    assert one.know() is None


def test_machine_counts_as_used_once_seen_in_use_after_its_assignment(one: Cleaned) -> None:
    """A restored Ironic's answer is older than the assignment."""
    known, other = (CleaningsOf(one.house.database, c) for c in (str(one.node.cloud), "elsewhere"))
    first = datetime(2026, 11, 22, 21, 30, tzinfo=UTC)
    assert known.taken(one.machine) is None
    one.look("active")
    known.take(one.machine, first)
    assert known.taken(one.machine) == LastClaim(first, used=False)
    one.look("available")
    assert known.taken(one.machine) == LastClaim(first, used=False)
    one.look("deploying")
    assert known.taken(one.machine) == LastClaim(first, used=True)
    for ended in (first, first - timedelta(hours=1)):
        known.take(one.machine, ended)
        assert known.taken(one.machine) == LastClaim(first, used=True), (
            "a late worker's, or a restored Ironic's"
        )
    known.take(one.machine, first + timedelta(hours=1))
    assert known.taken(one.machine) == LastClaim(first + timedelta(hours=1), used=False)
    assert other.taken(one.machine) is None


def test_look_begun_before_an_assignment_says_nothing_of_use(
    one: Cleaned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine was being cleaned then."""
    known, ended = CleaningsOf(one.house.database, str(one.node.cloud)), datetime(2026, 11, 22, tzinfo=UTC)
    fresh = one.house.cloud.seen_machines

    def slow() -> Mapping[str, SeenMachine]:
        seen = fresh()
        known.take(one.machine, ended)
        return seen

    monkeypatch.setattr(one.house.cloud, "seen_machines", slow)
    one.look("cleaning")
    assert known.taken(one.machine) == LastClaim(ended, used=False)
    one.look("cleaning")
    assert known.taken(one.machine) == LastClaim(ended, used=True)
