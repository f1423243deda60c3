"""What a worker claims first, what it claims together, and what an observation leaves unchanged."""

from __future__ import annotations

import threading
from collections.abc import Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest

from tests.engine.house import ORDER, House
from weft.engine.base.database import Database
from weft.engine.hold import lane as lane_module
from weft.engine.hold.fence import LostError
from weft.engine.hold.held import Held
from weft.engine.hold.ownerclaims import UnchangedOwners, claim_ready, claim_work
from weft.engine.rows.records import PodRecord
from weft.engine.watch import worker as worker_module
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.ports.occupants import OnHost
from weft.testing.cloud import Fault

ONE = ORDER.nodes.model_copy(update={"count": 1})


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def ready(house: House, *names: str) -> list[PodRecord]:
    return [house.ready(ORDER.model_copy(update={"name": name, "nodes": ONE})) for name in names]


def sql(house: House, statement: str, *values: object) -> list[tuple[object, ...]]:
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        cursor = connection.execute(statement, values)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


def say(held: Held, text: str) -> None:
    """Write an event."""
    held.note((), [("step", text, None)])
    held.notes.flush()


def looks(house: House, most: int = 9) -> list[Held]:
    return list(claim_ready(house.database, "w", 0.0, most, threading.Event()).readable)


def work(house: House, most: int = 9, releases: int = 9) -> list[Held]:
    return list(claim_work(house.database, "w", 0.0, most, releases, threading.Event()).readable)


def test_work_comes_before_observations(house: House) -> None:
    """Even before longer waits: releases, repairs and changes are no observations; each is in one of the two only."""
    pods = ready(house, "a", "b", "c", "d")
    sql(house, "UPDATE pod SET next_at = now() - interval '1 hour'")
    house.release(pods[1])
    house.store.request_repair(pods[2].id)
    sql(house, "UPDATE pod SET changed_at = now() WHERE id = %s", pods[3].id)
    assert {h.owner.name for h in work(house)} == {"b", "c", "d"}
    assert [h.owner.name for h in looks(house)] == ["a"]


def test_releases_have_places_of_their_own(house: House) -> None:
    """However long other visits have waited, they take no place of a release."""
    pods = [house.order(ORDER.model_copy(update={"name": n, "nodes": ONE})) for n in ("a", "b", "c")]
    sql(house, "UPDATE pod SET next_at = now() - interval '1 hour'")
    house.release(pods[1])
    assert [h.owner.name for h in work(house, 0, 1)] == ["b"]
    assert work(house, 0) == []
    house.release(pods[2])
    assert [h.owner.name for h in work(house)] == ["c", "a"]


def test_many_owners_are_claimed_with_one_statement(house: House) -> None:
    """The one that has waited longest first, each under its own token, and none twice."""
    pods = ready(house, "a", "b", "c")
    for minutes, pod in enumerate(pods):
        sql(
            house,
            "UPDATE pod SET next_at = now() - %s * interval '1 minute' WHERE id = %s",
            minutes + 1,
            pod.id,
        )
    first, second = looks(house, 2), looks(house)
    assert [h.owner.name for h in first] == ["c", "b"]
    assert [h.owner.name for h in second] == ["a"]
    for held in (*first, *second):
        assert [r.key for r in held.resources()] == [r.key for r in house.store.pods.resources(held.owner.id)]
        say(held, "it is this worker's")


def test_observation_without_news_writes_no_resource(house: House) -> None:
    """Facts come back from the database in another shape (a tuple as a list), which is no news."""
    (pod,) = ready(house, "a")
    rows = "SELECT key, xmin::text FROM resource WHERE owner_id = %s ORDER BY key"
    before, events = sql(house, rows, pod.id), house.store.records.events(pod.id, 0)
    house.store.wake(pod.id)
    assert house.worker.run_once()
    assert sql(house, rows, pod.id) == before
    assert house.store.records.events(pod.id, 0) == events
    seen = house.store.pods.find("a", None)
    assert seen.watched_at and pod.watched_at and seen.watched_at > pod.watched_at
    assert sql(house, "SELECT worker, held_until, next_at > now() FROM pod") == [(None, None, True)]


def test_unchanged_owners_are_handed_back_together(house: House) -> None:
    """Not those that another worker has by now, and those that were woken, or changed, meanwhile are due at once."""
    fine, woken, changed, lost = ready(house, "fine", "woken", "changed", "lost")
    sql(house, "UPDATE pod SET next_at = now()")
    seen = UnchangedOwners(house.database)
    for held in looks(house):
        held.notes.unwritten.watch({}, None, "")
        seen.add(held, 3600.0)
    house.store.wake(woken.id)
    sql(house, "UPDATE pod SET generation = generation + 1 WHERE id = %s", changed.id)
    sql(house, "UPDATE pod SET token = token + 1, worker = 'other' WHERE id = %s", lost.id)
    assert len(seen.hand_back()) == 4
    assert seen.hand_back() == []
    rows = sql(house, "SELECT id, worker, next_at > now() + interval '1 minute' FROM pod")
    assert {row[0]: row[1:] for row in rows} == {
        fine.id: (None, True),
        woken.id: (None, False),
        changed.id: (None, False),
        lost.id: ("other", False),
    }


def test_notes_are_written_with_the_next_statement_or_not_at_all(house: House) -> None:
    """A worker that lost the owner between note and write writes nothing of it, and hands nothing back."""
    (pod,) = ready(house, "a")
    sql(house, "UPDATE pod SET next_at = now()")
    (held,) = looks(house)
    held.note((), [("step", "never to be read", None)])
    sql(house, "UPDATE pod SET token = token + 1")
    with pytest.raises(LostError):
        held.hand_back(0.0)
    assert "never to be read" not in [e.message for e in house.store.records.events(pod.id, 0)]
    assert house.store.pods.find("a", None).state is PodState.READY
    assert sql(house, "SELECT held_until > now() FROM pod") == [(True,)]


def test_visit_without_requests_writes_once(house: House) -> None:
    """What it sees of booting servers, and that all is as wanted, is written when it hands the pod back."""
    pod = house.order(ORDER.model_copy(update={"name": "a", "nodes": ONE}))
    house.cloud.plant(Fault.STUCK, kind=Kind.SERVER)
    house.run(pod, PodState.BOOTING)
    for server in house.cloud.things(Kind.SERVER):
        server.stuck = ""
    written = "SELECT owner.xmin::text, (SELECT max(sequence) FROM event) FROM owner"
    seen: list[object] = []
    master = house.fabric.manager("sm1")
    master.eyes = lambda tables: seen.append(sql(house, written)) or tables
    house.cloud.meanwhile("find", lambda: seen.append(sql(house, written)))
    house.store.wake(pod.id)
    assert house.worker.run_once()
    assert house.store.pods.find("a", None).state is PodState.READY
    assert len(seen) > 1 and all(one == seen[0] for one in seen) and sql(house, written) != seen[0]


@contextmanager
def silent_hosts(monkeypatch: pytest.MonkeyPatch, house: House, pod: str) -> Generator[threading.Event]:
    """Meanwhile the cloud doesn't answer which servers are on the pod's hosts. The event: it was asked."""
    begun, goes_on, answer = threading.Event(), threading.Event(), house.cloud.on_hosts
    silent = set(house.store.pods.find(pod, None).held)

    def asked(hosts: Collection[str]) -> Mapping[str, OnHost]:
        if silent.intersection(hosts):
            begun.set()
            assert goes_on.wait(60)
        return answer(hosts)

    monkeypatch.setattr(house.cloud, "on_hosts", asked)
    try:
        yield begun
    finally:
        goes_on.set()


def test_visit_waiting_behind_a_slow_one_is_handed_back(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release of it needn't wait for the other's visit, whose cloud hangs."""
    monkeypatch.setattr(lane_module, "AHEAD", 3600.0)
    monkeypatch.setattr(lane_module, "SLOW", 3600.0)
    monkeypatch.setattr(worker_module, "LONGEST_SLEEP", 0.05)  # nothing else is due, and nothing wakes it
    slow = house.new_worker("slow", replace(house.loop, pods_at_once=1))
    slow._work.begin(lambda: slow._work.ended() and None)
    house.order(ORDER.model_copy(update={"name": "hangs", "nodes": ONE}))
    with silent_hosts(monkeypatch, house, "hangs") as hangs:
        slow._turn()  # pyright: ignore[reportPrivateUsage]
        assert hangs.wait(60)
        waits = house.order(ORDER.model_copy(update={"name": "waits", "nodes": ONE}))
        slow._turn()  # pyright: ignore[reportPrivateUsage]
        assert slow.busy() == 2 and work(house) == []
        house.service.pods.release(house.request(), str(waits.id))
        monkeypatch.setattr(lane_module, "SLOW", 0.0)
        for _ in range(100):
            slow._turn()  # pyright: ignore[reportPrivateUsage]
            if house.store.pods.find(str(waits.id), None).state is PodState.RELEASED:
                break
        else:
            raise AssertionError("its release stands behind the other's visit")
    slow.stop()
    assert slow.busy() == 0


def test_hanging_observation_does_not_delay_others(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of pods with shares while Manila takes requests and doesn't answer."""
    monkeypatch.setattr(lane_module, "HANGING", 0.0)
    monkeypatch.setattr(worker_module, "LONGEST_SLEEP", 0.05)
    ready(house, "hangs", "waits")
    sql(house, "UPDATE pod SET next_at = now() - interval '1 minute' * (2 - (name = 'waits')::int)")
    seen = "SELECT next_at > now() FROM pod WHERE name = 'waits'"
    worker = house.new_worker("looks", replace(house.loop, looks_at_once=1))
    with silent_hosts(monkeypatch, house, "hangs") as hangs:
        for _ in range(200):
            worker._turn()  # pyright: ignore[reportPrivateUsage]
            if hangs.is_set() and sql(house, seen) == [(True,)]:
                break
        else:
            raise AssertionError("the look at it stands behind the other one")
        assert worker.busy()
    worker.stop()


def test_returned_pod_keeps_queue_position_and_failure_count(house: House) -> None:
    """Otherwise it would go behind everything that became due meanwhile, and a failing pod would be tried too often."""
    house.order(ORDER.model_copy(update={"name": "a", "nodes": ONE}))
    sql(house, "UPDATE pod SET failures = 3, next_at = now() - interval '1 minute'")
    asked = "SELECT next_at, failures, held_until IS NULL FROM pod"
    before = sql(house, asked)
    (held,) = claim_work(house.database, "w", 30.0, 1, 0, threading.Event()).readable
    held.hand_back_unvisited()
    assert sql(house, asked) == before
    (held,) = claim_work(house.database, "w", 30.0, 1, 0, threading.Event()).readable
    house.store.wake(held.owner.id)
    held.hand_back_unvisited()
    assert sql(house, "SELECT next_at > now() - interval '50 seconds', failures FROM pod") == [(True, 3)]


def test_error_is_written_again_only_after_another_event(house: House) -> None:
    """Also if both are written together, as a visit's notes are."""
    (pod,) = ready(house, "train")
    held = house.store.claim_owner(pod.id, "w1")
    assert held is not None
    newest = "SELECT type FROM event WHERE owner_id = %s AND sequence > %s ORDER BY sequence"
    ((last,),) = sql(house, "SELECT max(sequence) FROM event")

    def written(*types: str) -> list[str]:
        """Write events of these types; returns what is in the stream since the last one."""
        held.note((), [(one, "no" if one == "error" else "goes on", None) for one in types])
        held.notes.flush()
        return [str(one) for (one,) in sql(house, newest, pod.id, last)]

    assert written("error") == ["error"]
    assert written("error") == ["error"]
    assert written("error", "step") == ["error", "step"]
    assert written("error") == ["error", "step", "error"]
    assert written("step", "error") == ["error", "step", "error", "step", "error"]
