"""A release's limits count the time that any process could work on it; a single failure doesn't end it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.engine.changes.test_change_loop import apply, settle, sized
from tests.engine.house import QUICK, House
from tests.engine.release.test_release_ends import dark, visits
from tests.engine.timehouse import HandClock, look, make, messages
from weft.engine.hold.work import BETWEEN_PROCESSES
from weft.engine.rows.records import PodRecord
from weft.engine.visit.releasing import TRIES
from weft.model.kinds import Kind
from weft.model.pod import PodState
from weft.testing.cloud import Fault


def visit(house: House, pod: PodRecord) -> PodRecord:
    return visits(house, pod, 1)


def releasing(house: House) -> PodRecord:
    """A pod whose release has begun, and whose fabric can't be read."""
    pod = house.ready(make("stuck", 2))
    dark(house)
    house.release(pod)
    assert visit(house, pod).state is PodState.RELEASING
    return pod


def in_cloud(house: House) -> list[str]:
    return sorted(repr((t.id, t.name, t.mark, t.fields, t.gone_at)) for t in house.cloud.things())


def is_clean(house: House, pod: PodRecord) -> bool:
    signed = house.store.records.receipt(pod.id)
    assert signed is not None
    return signed.receipt.clean


# -- which time counts --------------------------------------------------------------------------------------------


def test_limit_holds_across_a_restart(house: House, clock: HandClock) -> None:
    """The first process's work isn't lost, and the second one's isn't counted from its start."""
    pod = releasing(house)
    clock.sleep(0.6 * QUICK.ends)
    assert visit(house, pod).state is PodState.RELEASING
    house.worker = house.new_worker("restarted")
    assert visit(house, pod).state is PodState.RELEASING
    clock.sleep(0.39 * QUICK.ends)
    assert visit(house, pod).state is PodState.RELEASING
    clock.sleep(0.02 * QUICK.ends)
    assert visit(house, pod).state is PodState.RELEASED


def test_time_of_two_workers_on_one_release_is_counted_once(house: House, clock: HandClock) -> None:
    """They take turns with the same release."""
    pod = releasing(house)
    workers = [house.worker, house.new_worker("w2")]
    worked = 0.0
    while worked + 120 < QUICK.ends:
        clock.sleep(120)
        worked += 120
        house.worker = workers[int(worked / 120) % 2]
        assert visit(house, pod).state is PodState.RELEASING
    for _ in range(2):
        clock.sleep(120)
        visit(house, pod)
    assert look(house, pod).state is PodState.RELEASED


def test_time_between_two_processes_counts_to_a_release_only_up_to_a_limit(
    house: House, clock: HandClock
) -> None:
    """Perhaps none ran; endless restarts end a release all the same."""
    pod = releasing(house)
    restarts = 0
    while look(house, pod).state is PodState.RELEASING:
        clock.sleep(10 * QUICK.ends)
        house.worker = house.new_worker(f"restart {restarts}")
        visit(house, pod)
        restarts += 1
    assert restarts == QUICK.ends / BETWEEN_PROCESSES


Opens = Callable[[], object]


def unread(house: House) -> Opens:
    """The gate is closed, as what the cloud remembers can't be read."""
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="witness", times=None)
    house.database.losses += 1
    return planted.lift


@pytest.mark.parametrize("close", [unread, House.behind])
def test_release_behind_a_closed_gate_waits_for_it(
    house: House, clock: HandClock, close: Callable[[House], Opens]
) -> None:
    """Its limit passes: nothing is changed, freed or signed, and its alarm says why; then it continues, and ends in
    time."""
    pod = releasing(house)
    before = in_cloud(house)
    opens = close(house)
    for _ in range(3):
        clock.sleep(QUICK.ends)
        assert visit(house, pod).state is PodState.RELEASING
    assert look(house, pod).abandoned is None and house.store.records.receipt(pod.id) is None
    assert in_cloud(house) == before
    assert set(house.store.capacity().holds) == set(pod.nodes) and not house.store.capacity().quarantines
    assert any("RELEASING for" in said or "--accept" in said for said in messages(house, pod, "alarm"))
    opens()
    house.gate.look()
    assert visit(house, pod).state is PodState.RELEASING
    assert not house.store.capacity().quarantines, "no minute of it was worked on"
    clock.sleep(QUICK.ends)
    assert visits(house, pod).state is PodState.RELEASED


@pytest.mark.parametrize("close", [unread, House.behind])
def test_automatic_abandonment_waits_for_the_gate(
    house: House, clock: HandClock, close: Callable[[House], Opens]
) -> None:
    """A late request keeps it from ending in the same visit; meanwhile the gate is closed."""
    pod = releasing(house)
    with house.database.transaction() as tx:
        values = {"by": "weft", "why": "its release has lasted longer than 1 h", "own": True}
        assert tx.row("abandon_owner", id=pod.id, at=tx.now(), **values) is not None
    before = in_cloud(house)
    opens = close(house)
    for _ in range(TRIES):
        clock.sleep(QUICK.ends)
        assert visit(house, pod).state is PodState.RELEASING
    assert in_cloud(house) == before and house.store.records.receipt(pod.id) is None
    opens()
    house.gate.look()
    assert visits(house, pod).state is PodState.RELEASED


def test_leaving_node_is_kept_if_the_database_is_found_behind(house: House) -> None:
    """It is found out while the node is read back: the reading is true, but whose the node is by now is unknown."""
    pod = house.ready()
    apply(house, sized(1))
    opens: list[Opens] = []
    house.cloud.meanwhile("endings", lambda: opens.append(house.behind()))
    for _ in range(5):
        visit(house, pod)
    assert opens and set(house.store.capacity().holds) == set(pod.nodes)
    opens[0]()
    house.gate.look()
    settle(house, pod)
    assert len(house.store.capacity().holds) == 1


@pytest.mark.parametrize("close", [unread, House.behind])
def test_leaving_node_is_quarantined_only_after_its_limit_of_work(
    house: House, clock: HandClock, close: Callable[[House], Opens]
) -> None:
    """The gate was closed for hours meanwhile, which doesn't count."""
    pod = house.ready()
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SERVER, times=None)
    apply(house, sized(1))
    visit(house, pod)
    opens = close(house)
    for _ in range(3):
        clock.sleep(QUICK.ends)
        visit(house, pod)
    opens()
    house.gate.look()
    visit(house, pod)
    assert not house.store.capacity().quarantines and len(house.store.capacity().holds) == 2
    clock.sleep(QUICK.limits[PodState.RELEASING])
    visits(house, pod)
    assert len(house.store.capacity().quarantines) == 1


def test_operator_may_abandon_what_weft_has_begun_to_abandon(house: House) -> None:
    """A cloud that is gone closes the gate for weft, but not for what an operator requested."""
    pod = releasing(house)
    with house.database.transaction() as tx:
        tx.row("abandon_owner", id=pod.id, at=tx.now(), by="weft", why="its limit", own=True)
    unread(house)
    assert visits(house, pod, TRIES).state is PodState.RELEASING
    house.service.pods.abandon(house.operator, str(pod.id), "the cloud is scrapped")
    after = visits(house, pod, TRIES)
    assert after.state is PodState.RELEASED and "abandoned by admin-admin" in after.reason
    assert set(house.store.capacity().quarantines) == set(pod.nodes)


# -- what fails once ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["delete", "find"])
def test_transient_error_does_not_end_an_abandoned_release(house: House, verb: str) -> None:
    """Neither one of a removal, nor one of a reading."""
    pod = house.ready(make("pod", 2))
    stuck = house.cloud.plant(Fault.UNREACHABLE, verb="delete", times=None)
    house.release(pod)
    visits(house, pod, 2 * TRIES)
    stuck.lift()
    house.service.pods.abandon(house.operator, str(pod.id), "it takes too long")
    house.cloud.plant(Fault.ERROR_500, verb=verb, times=1)
    house.run(pod, PodState.RELEASED, TRIES + 5)
    assert is_clean(house, pod) and not house.store.capacity().quarantines


def test_lasting_error_ends_an_abandoned_release_after_few_visits(house: House) -> None:
    """However little time has passed."""
    pod = house.ready(make("pod", 2))
    house.cloud.plant(Fault.UNREACHABLE, kind=Kind.SERVER, times=None)
    house.release(pod)
    visits(house, pod, 2 * TRIES)
    house.service.pods.abandon(house.operator, str(pod.id), "it takes too long")
    assert visits(house, pod, TRIES - 1).state is PodState.RELEASING
    assert visit(house, pod).state is PodState.RELEASED
    assert not is_clean(house, pod) and set(house.store.capacity().quarantines) == set(pod.nodes)
