"""Pods whose servers have booted are visited at once, and no others; without a hint, each at its own time."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

import pytest

from tests.engine.hold.test_ownerclaims import sql
from tests.engine.house import ORDER, QUICK, House
from tests.helpers.explained import scanned
from tests.helpers.waiting import wait_for
from weft.engine.base import asking
from weft.engine.base.database import Database
from weft.engine.base.pulse import Pulse
from weft.engine.hold.settings import LoopSettings
from weft.engine.rows.records import Change, PodRecord, RowState
from weft.engine.visit import moves, verifier
from weft.engine.watch import bootkeeper
from weft.engine.watch.bootkeeper import BootKeeper
from weft.model.errors import NotYetError
from weft.model.pod import PodState
from weft.model.resources import Kind, Observed, Outcome, Resource
from weft.ports.resources import Scope
from weft.testing.cloud import FakeCloud, Fault

Awaited = Callable[[], Collection[str]]
SLOW = replace(QUICK, first_poll_servers=600.0, last_poll_servers=600.0, patience_servers=3600.0)
"""Looks at what boots are ten minutes apart."""


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url, loop=SLOW)
    yield house
    house.close()


def booting(house: House, name: str = "train") -> PodRecord:
    """A pod whose servers stay in BUILD; nothing is due."""
    house.cloud.plant(Fault.STUCK, kind=Kind.SERVER, times=None)
    pod = house.order(ORDER.model_copy(update={"name": name}))
    work(house)
    house.cloud.faults.clear()
    pod = house.store.pods.find(str(pod.id), None)
    assert pod.state is PodState.BOOTING
    return pod


def work(house: House) -> None:
    """Visit whatever is due."""
    for _ in range(40):
        if not house.worker.run_once():
            return
    raise AssertionError("something is due again and again")


def boot(house: House, *pods: PodRecord) -> None:
    for pod in pods:
        for thing in house.cloud.servers:
            if thing.mark is not None and thing.mark.owner.id == str(pod.id):
                thing.stuck = ""


def state(house: House, pod: PodRecord) -> PodState:
    return house.store.pods.find(str(pod.id), None).state


def keeper(house: House, every: float = 0.0, together: float = 0.0) -> BootKeeper:
    """A process's keeper. `every`: seconds between queries, whichever worker asks."""
    return BootKeeper(house.database, lambda: house.world, every=every, together=together)


def test_booted_pod_is_ready_before_its_turn(house: House) -> None:
    pod, other = booting(house), booting(house, "other")
    boots = keeper(house)
    boots.look()
    assert not house.worker.run_once(), "nothing has booted"
    boot(house, pod)
    assert not house.worker.run_once(), "the control: no keeper has looked"
    boots.look()
    work(house)
    assert (state(house, pod), state(house, other)) == (PodState.READY, PodState.BOOTING)


def test_refused_request_is_soon_repeated(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service is briefly busy: the boot query wouldn't show when it no longer is."""
    create, left = house.cloud.create, [1]

    def recorded(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Outcome]:
        if wanted[0].kind is Kind.SERVER and left:
            left.pop()
            busy = NotYetError("create a server", "Ironic", "a conductor works on its machine")
            return {r.key: Outcome(error=busy) for r in wanted}
        return create(scope, wanted, ids)

    monkeypatch.setattr(house.cloud, "create", recorded)
    pod = house.order()
    wait_for(lambda: not house.worker.run_once() and len(house.cloud.servers) == 2, seconds=10)
    assert not left and not [e for e in house.store.records.events(pod.id, 0) if e.type == "error"]


def test_pod_is_woken_once_for_a_new_state(house: House) -> None:
    """Two keepers look, and what one of the servers became is written: there is nothing left to report."""
    pod = booting(house)
    first = next(thing for thing in house.cloud.servers)
    first.stuck = ""
    for boots in (keeper(house), keeper(house)):
        boots.look()
    assert house.worker.run_once() and not house.worker.run_once()
    keeper(house).look()
    assert not house.worker.run_once() and state(house, pod) is PodState.BOOTING


def test_pod_is_visited_soon_for_some_of_its_servers_and_at_once_for_the_last(house: House) -> None:
    """All of them are read at each visit."""
    pod, boots = booting(house), keeper(house, together=3600.0)
    first, last = house.cloud.servers
    sql(house, "UPDATE pod SET next_at = now() + interval '2 hours'")
    first.stuck = ""
    boots.look()
    asked = "SELECT next_at BETWEEN now() + interval '50 minutes' AND now() + interval '70 minutes' FROM pod"
    assert not house.worker.run_once() and sql(house, asked) == [(True,)]
    last.stuck = ""
    boots.look()
    work(house)
    assert state(house, pod) is PodState.READY


def test_failed_server_wakes_its_pod(house: House) -> None:
    pod, boots = booting(house), keeper(house)
    next(thing for thing in house.cloud.servers).broken = "No valid host was found."
    boots.look()
    assert house.worker.run_once()
    assert any("No valid host" in e.message for e in house.store.records.events(pod.id, 0))


def test_clouds_without_booting_servers_are_not_asked(house: House) -> None:
    house.order()
    work(house)
    before = house.cloud.calls[f"built {Kind.SERVER}"]
    keeper(house).look()
    assert house.cloud.calls[f"built {Kind.SERVER}"] == before


def test_unreachable_cloud_does_not_delay_others(house: House) -> None:
    """Nor is weft unhealthy because of it: each visit says what is unknown of its pod."""
    pod, pulse = booting(house), Pulse()
    house.cloud.plant(Fault.UNREACHABLE, verb="built")
    boots = BootKeeper(house.database, lambda: house.world, pulse, every=0.0)
    boot(house, pod)
    boots.look()
    assert not house.worker.run_once() and not [s for s in pulse.checks().values() if s != "ok"]
    boots.look()
    work(house)
    assert state(house, pod) is PodState.READY


def test_hanging_cloud_does_not_delay_others(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked once, and not again before it has answered."""
    pod, boots, goes_on, asked = booting(house), keeper(house), threading.Event(), list[datetime]()
    boot(house, pod)
    answer = house.cloud.built

    def hanging(since: datetime, awaited: Awaited) -> Collection[str]:
        asked.append(since)
        assert goes_on.wait(60)
        return answer(since, awaited)

    monkeypatch.setattr(asking, "PATIENCE", 0.05)
    monkeypatch.setattr(house.cloud, "built", hanging)
    for _ in range(3):
        boots.look()
    assert len(asked) == 1 and not house.worker.run_once()
    goes_on.set()
    wait_for(house.worker.run_once)
    work(house)
    assert state(house, pod) is PodState.READY


def asked(house: House) -> int:
    return house.cloud.calls[f"built {Kind.SERVER}"]


def test_only_one_worker_asks_about_booting_servers(house: House) -> None:
    """The first whose turn it is; no other asks before its time, and one answer is enough for all."""
    pod, before = booting(house), asked(house)
    workers = [keeper(house, every=3600.0) for _ in range(4)]
    with ThreadPoolExecutor(len(workers)) as pool:
        for look in [pool.submit(worker.look) for worker in workers]:
            look.result()
    assert asked(house) == before + 1
    boot(house, pod)
    over(house)
    for worker in workers:
        worker.look()
    work(house)
    assert asked(house) == before + 2 and state(house, pod) is PodState.READY


def over(house: House) -> None:
    """End the time of the last query."""
    with house.database.transaction() as tx:
        tx._connection.execute("UPDATE boot_look SET until = now()")  # pyright: ignore[reportPrivateUsage]


def test_next_worker_continues_from_the_last_answer(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for changes since then; what was not answered is asked again."""
    booting(house)
    answer, since = house.cloud.built, list[datetime]()
    monkeypatch.setattr(house.cloud, "built", lambda at, awaited: since.append(at) or answer(at, awaited))
    keeper(house).look()
    house.cloud.plant(Fault.UNREACHABLE, verb="built")
    for _ in range(3):
        keeper(house).look()
    first, unanswered, again, last = since
    assert first == unanswered == again < last


def test_another_worker_asks_if_the_first_dies(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    pod, goes_on, answer = booting(house), threading.Event(), house.cloud.built
    boot(house, pod)
    monkeypatch.setattr(asking, "PATIENCE", 0.05)
    monkeypatch.setattr(house.cloud, "built", lambda at, awaited: goes_on.wait(60) and answer(at, awaited))
    keeper(house).look()
    monkeypatch.setattr(house.cloud, "built", answer)
    other = keeper(house)
    other.look()
    assert not house.worker.run_once(), "the first one may be answered yet"
    over(house)
    other.look()
    work(house)
    assert state(house, pod) is PodState.READY
    goes_on.set()


def test_pods_are_polled_without_any_answer(house: House) -> None:
    """A cloud that doesn't list changes still shows each server: after 30 s, then once a minute."""
    assert [LoopSettings().poll(age, boots=True) for age in (0.0, 45.0, 600.0)] == [30.0, 45.0, 60.0]
    pod = booting(house)
    house.cloud.plant(Fault.UNREACHABLE, verb="built", times=None)
    boot(house, pod)
    keeper(house).look()
    assert not house.worker.run_once()
    house.store.wake(pod.id)
    work(house)
    assert state(house, pod) is PodState.READY


def test_server_that_never_boots_is_not_asked_about_forever(house: House) -> None:
    booting(house)
    with house.database.transaction() as tx:
        tx._connection.execute("UPDATE resource SET since = now() - interval '1 hour'")  # pyright: ignore[reportPrivateUsage]
    before = house.cloud.calls[f"built {Kind.SERVER}"]
    keeper(house).look()
    assert house.cloud.calls[f"built {Kind.SERVER}"] == before


def test_cloud_removed_from_the_site_is_not_asked(house: House) -> None:
    booting(house)
    world = replace(house.world, clouds={"other": FakeCloud(seed=2, name="other", latency=0.0)})
    BootKeeper(house.database, lambda: world, every=0.0).look()
    assert not house.worker.run_once()


def test_failing_pod_keeps_its_back_off(house: House) -> None:
    """Each answer names its server for half a minute: that must not shorten the pauses, for example while Neutron is
    overloaded."""
    boot(house, booting(house))
    house.cloud.plant(Fault.UNREACHABLE, verb="find", times=None)
    boots, worker = (
        keeper(house),
        house.new_worker("w2", replace(house.loop, first_delay=60.0, last_delay=60.0)),
    )
    visits = 0
    for _ in range(10):
        boots.look()
        visits += worker.run_once()
    assert visits == 1 and house.store.pods.find("train", None).failures == 1


def test_late_answer_does_not_end_another_workers_turn(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloud that is slow already isn't asked by all workers at once."""
    booting(house)
    answer, goes_on, asked = house.cloud.built, threading.Event(), list[datetime]()

    def slow(since: datetime, awaited: Awaited) -> Collection[str]:
        asked.append(since)
        assert goes_on.wait(60)
        return answer(since, awaited)

    monkeypatch.setattr(asking, "PATIENCE", 0.05)
    monkeypatch.setattr(house.cloud, "built", slow)
    keeper(house).look()
    over(house)
    until = "SELECT until FROM boot_look"
    with house.database.statement() as tx:  # another one asks, and has no answer yet
        tx.rows("take_boot_looks", clouds=["lab"], kinds=[str(Kind.SERVER)], answer=60.0, longest=900.0)
    turn = sql(house, until)
    goes_on.set()
    wait_for(lambda: sql(house, "SELECT answered FROM boot_look") != [(None,)])
    assert sql(house, until) == turn
    keeper(house).look()
    assert len(asked) == 1


def test_workers_out_of_turn_do_not_read_booting_pods(house: House) -> None:
    """Each worker process asks every second for its turn: that must not cost as much as a look at all pods."""
    booting(house)
    values = {"clouds": ["lab"], "kinds": [str(Kind.SERVER)], "answer": 60.0, "longest": 900.0}
    assert scanned(house.database, "take_boot_looks", **values)["resource"] > 0
    assert scanned(house.database, "take_boot_looks", **values) == {"boot_look": 1}


def finds(house: House) -> int:
    return house.cloud.calls[f"find {Kind.SERVER}"]


@pytest.mark.parametrize(("seconds", "times"), [(verifier.SIGHT, 1), (-1.0, 2)])
def test_verifying_reuses_the_visits_own_reading_of_servers(
    house: House, monkeypatch: pytest.MonkeyPatch, seconds: float, times: int
) -> None:
    """The same fact isn't read twice within seconds, without a change in between; later it is."""
    monkeypatch.setattr(verifier, "SIGHT", seconds)
    pod, boots = booting(house), keeper(house)
    boot(house, pod)
    before = finds(house)
    boots.look()
    work(house)
    assert state(house, pod) is PodState.READY and finds(house) == before + times


def test_change_of_a_visit_makes_it_read_its_servers_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was seen before a request says nothing of after it: one of them broke and is created again."""
    pod, boots, read, find = booting(house), keeper(house), list[set[str]](), house.cloud.find

    def noted(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Observed]:
        read.append({r.key for r in wanted if r.kind is Kind.SERVER})
        return find(scope, wanted, ids)

    monkeypatch.setattr(house.cloud, "find", noted)
    boot(house, pod)
    house.cloud.servers[0].broken = "No valid host was found."
    boots.look()
    work(house)
    servers = {r.key for r in house.store.pods.resources(pod.id) if r.kind is Kind.SERVER}
    assert state(house, pod) is PodState.READY and read[-1] == servers


@pytest.mark.parametrize("order", ["during", "around"])
def test_reading_of_servers_from_before_the_end_of_a_change_does_not_count(house: House, order: str) -> None:
    """Batches of a visit go in parallel: servers are read while something else of the pod is changed."""
    pod = booting(house)
    boot(house, pod)
    held = house.store.claim_owner(pod.id, "w1")
    assert held is not None
    work_on = moves.Moves(held, house.world, SLOW)
    servers = [r for r in held.resources() if r.kind is Kind.SERVER]
    port = next(r for r in held.resources() if r.kind is Kind.PORT)
    held.note([Change(port.key, RowState.WANTED)])
    looking, changing = work_on.advance(servers), work_on.advance(work_on.fresh([port]))
    if order == "during":
        look, change = next(looking), next(changing)
    else:
        change, look = next(changing), next(looking)
    seen = look()
    with pytest.raises(StopIteration):
        looking.send(seen)
    with pytest.raises(StopIteration):
        changing.send(change())
    assert all(r.state is RowState.SETTLED for r in work_on.fresh(servers))
    assert verifier.just_seen(held) == {}
    with pytest.raises(StopIteration):
        (again := work_on.advance(work_on.fresh(servers))).send(next(again)())
    assert verifier.just_seen(held).keys() == {r.key for r in servers}


def test_many_servers_are_not_observed_right_after_their_creation(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have only begun to boot; the keeper sees those that have booted, and those that failed."""
    monkeypatch.setattr(moves, "MANY", 2)
    pod = booting(house)
    assert finds(house) == 0
    servers = [r for r in house.store.pods.resources(pod.id) if r.kind is Kind.SERVER]
    assert all(r.outside_id and "creating" in r.reason for r in servers)
    boot(house, pod)
    keeper(house).look()
    work(house)
    assert state(house, pod) is PodState.READY


def test_nodes_are_looked_at_while_servers_boot_and_before_the_pod_is_ready(house: House) -> None:
    """A check of the nodes that is due comes before what the visit requests; the verdict has its own, after it."""
    pod, boots = booting(house), keeper(house)

    def looks(*booted: PodRecord) -> int:
        before = house.cloud.calls["occupants"]
        boot(house, *booted)
        house.store.wake(pod.id)
        boots.look()
        work(house)
        return house.cloud.calls["occupants"] - before

    assert looks() == 1 and state(house, pod) is PodState.BOOTING
    assert looks(pod) == 2 and state(house, pod) is PodState.READY


def aged(house: House, age: float, ago: float, earliest: float | None = None) -> None:
    """Servers were requested `age` seconds ago, and the cloud was asked `ago` seconds ago; with what was learned."""
    with house.database.transaction() as tx:
        run = tx._connection.execute  # pyright: ignore[reportPrivateUsage]
        run("UPDATE resource SET since = now() - %s * interval '1 second' WHERE kind = 'server'", [age])
        known = "{}" if earliest is None else json.dumps({ORDER.nodes.flavor: earliest})
        run(
            "INSERT INTO boot_look (cloud, until, answered, earliest)"
            " VALUES ('lab', now(), now() - %s * interval '1 second', %s)"
            " ON CONFLICT (cloud) DO UPDATE"
            " SET until = now(), answered = excluded.answered, earliest = excluded.earliest",
            [ago, known],
        )


@pytest.mark.parametrize(
    ("age", "ago", "earliest", "due"),
    [
        (1.0, 20.0, 60.0, False),
        (4.0, 20.0, 60.0, True),  # it may have failed at once
        (5.0, 1.5, 60.0, False),
        (24.0, 20.0, 60.0, False),
        (26.0, 22.0, 60.0, True),  # its pod's visit would read it first, and nothing be learned
        (28.0, 2.0, 60.0, False),
        (59.0, 30.0, 60.0, False),
        (61.0, 50.0, 60.0, True),
        (61.0, 1.5, 60.0, False),
        (61.0, 2.5, 60.0, True),
        (600.0, 8.0, 60.0, False),
        (600.0, 9.5, 60.0, True),
        (1.0, 1.5, None, True),
        (1.0, 1.5, 5.0, True),  # nothing is saved by waiting
    ],
)
def test_cloud_is_asked_when_a_server_of_the_flavor_can_have_booted(
    house: House, age: float, ago: float, earliest: float | None, due: bool
) -> None:
    """And before, soon after it was requested, and before its pod's visit; the longer a boot takes, the less often."""
    booting(house)
    aged(house, age, ago, earliest)
    before = asked(house)
    keeper(house, every=1.0).look()
    assert asked(house) - before == due


def test_boot_of_a_minute_takes_few_queries(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sooner, and those from when it can have booted; without what was learned, one each second."""
    booting(house)
    monkeypatch.setattr(bootkeeper, "GROWTH", 1e6)
    numbers = []
    for earliest in (None, 55.0):
        before, ago = asked(house), 1.0
        for age in range(1, 59):
            aged(house, age, ago, earliest)
            was = asked(house)
            keeper(house, every=1.0).look()
            ago = 1.0 if asked(house) > was else ago + 1.0
        numbers.append(asked(house) - before)
    assert numbers == [58, 6]


@pytest.mark.parametrize(
    ("known", "unbooted", "then"),
    [
        (None, 20.0, 20.0),
        (None, -5.0, 0.0),
        (20.0, 21.0, 21.0),
        (20.0, 90.0, 25.0),  # one image that was fetched first
        (20.0, -1.0, 10.0),  # one that failed at once
        (0.0, 30.0, 1.0),
    ],
)
def test_age_of_a_pod_that_has_booted_is_learned_for_its_flavor(
    house: House, known: float | None, unbooted: float, then: float
) -> None:
    """How old its servers were at the query before, which didn't show them."""
    pod = booting(house)
    age = max(unbooted, 30.0) + 2.0
    aged(house, age, age - unbooted, known)
    boot(house, pod)
    keeper(house).look()
    ((found,),) = sql(house, "SELECT earliest FROM boot_look")
    assert found == {ORDER.nodes.flavor: pytest.approx(then, abs=0.5)}


def test_age_is_learned_of_servers_that_boot_before_their_pods_visit(house: House) -> None:
    """Else servers that boot faster than before would be READY with the visit, each time."""
    pod = booting(house)
    aged(house, 26.0, 22.0, 40.0)
    boot(house, pod)
    keeper(house).look()
    ((found,),) = sql(house, "SELECT earliest FROM boot_look")
    assert found == {ORDER.nodes.flavor: pytest.approx(20.0, abs=0.5)}
