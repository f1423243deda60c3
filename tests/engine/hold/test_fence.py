"""Concurrent workers: claiming pods, losing them, and the fence around every write."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator

import psycopg
import pytest

from tests.engine.house import ORDER, House
from weft.engine.base.database import Database
from weft.engine.base.listener import Listener
from weft.engine.base.postgres import SESSION
from weft.engine.hold.fence import FRESH_SECONDS, ChangedError, LostError
from weft.engine.hold.held import Held
from weft.engine.hold.heldpod import HeldPod
from weft.engine.hold.status import News
from weft.engine.rows.records import PodRecord
from weft.engine.store.store import Store
from weft.model.errors import OutdatedError, OutsideError, PermanentError
from weft.model.pod import Aspect, Cause, PodState
from weft.ports.fences import renew

WIRING = News(Aspect.WIRED, "false", Cause.UNDER_WAY)


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def take(house: House, worker: str = "w1") -> HeldPod | None:
    with house.database.transaction() as tx:
        row = tx.row("claim_work", worker=worker, hold=30.0, late=0.0, most=1, releases=1)
    return HeldPod(house.database, PodRecord.of(row)) if row else None


def become(held: HeldPod, news: News) -> None:
    held.become(news)
    held.notes.flush()


def run_out(house: House, held: Held) -> None:
    """Let the hold run out, as if the holder had sent no heartbeat for too long."""
    with psycopg.connect(house.database.url, autocommit=True, options="-c lock_timeout=5s") as connection:
        connection.execute(
            "UPDATE pod SET held_until = now() - interval '1 s' WHERE id = %s", [held.owner.id]
        )


def test_pod_is_held_by_one_worker_at_a_time(house: House) -> None:
    house.order()
    assert take(house, "w1") is not None
    assert take(house, "w2") is None


def test_pod_of_a_dead_worker_is_taken_over(house: House) -> None:
    """When the hold runs out the next worker takes the pod over, with a greater token."""
    house.order()
    first = take(house, "w1")
    assert first
    run_out(house, first)
    second = take(house, "w2")
    assert second and second.pod.token > first.pod.token


def test_suspended_worker_cannot_write(house: House) -> None:
    """A lease is not a fence: the old holder's write is refused by its token."""
    house.order()
    first = take(house, "w1")
    assert first
    run_out(house, first)
    second = take(house, "w2")
    assert second
    with pytest.raises(LostError):
        become(first, WIRING)
    assert house.store.pods.find(str(first.pod.id), None).state is PodState.PLACED
    become(second, WIRING)
    first.hand_back_unwritten(0.0)
    assert take(house, "w3") is None, "the old holder handed back the new holder's pod"


def test_worker_stopped_at_its_commit_writes_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL ends its transaction after a while. Only then can another worker claim the pod, and what the first one
    commits when it goes on is refused."""
    pod = house.order()
    monkeypatch.setitem(SESSION, "idle_in_transaction_session_timeout", "1s")
    database = Database(house.database.url)
    try:
        first, second = Store(database).claim_owner(pod.id, "w1"), None
        assert first
        with pytest.raises(OutsideError), first.fence.transaction() as tx:
            first.fence.insert_events(tx, [("state", "too late", None)])
            assert take(house, "w2") is None, "its row is locked"
            time.sleep(1.3)
            run_out(house, first)
            second = take(house, "w2")
        assert second, "its row stayed locked"
        assert [e for e in house.store.records.events(pod.id, 0) if e.message == "too late"] == []
        with pytest.raises(LostError):
            first.fence.check()
    finally:
        database.close()


def test_worker_with_an_expired_hold_cannot_write(house: House) -> None:
    """Even if no worker has taken the pod over yet."""
    house.order()
    held = take(house)
    assert held
    run_out(house, held)
    with pytest.raises(LostError):
        become(held, WIRING)


def test_proofs_of_several_owners_are_renewed_together(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one query, which counts as long as each one's own; only a worker that lost its owner gets an error."""
    now = [1000.0]
    monkeypatch.setattr(house.database, "monotonic", lambda: now[0])
    helds: list[HeldPod] = []
    for name in ("kept", "lost", "newer"):
        house.order(ORDER.model_copy(update={"name": name}))
        held = take(house)
        assert held
        helds.append(held)
    kept, lost, newer = (held.fence for held in helds)
    run_out(house, helds[1])
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE pod SET retries = retries + 1 WHERE id = %s", [helds[2].pod.id])
    renew([kept, lost, newer, lambda: None])
    run_out(house, helds[0])
    kept()
    with pytest.raises(LostError):
        lost()
    with pytest.raises(ChangedError):
        newer()
    now[0] += FRESH_SECONDS
    with pytest.raises(LostError):
        kept()


def test_wake_up_during_a_visit_is_not_lost(house: House) -> None:
    """A release requested while a worker holds the pod makes it due at once when it is handed back."""
    pod = house.order()
    held = take(house)
    assert held
    house.release(pod)
    held.hand_back_unwritten(3600.0)
    again = take(house)
    assert again and again.wanted == "absent"


def test_concurrent_orders_get_different_nodes(house: House) -> None:
    """Eight orders of two nodes in eight threads share sixteen nodes."""
    request = house.request()
    errors: list[Exception] = []

    def order(n: int) -> None:
        try:
            house.service.pods.create(request, ORDER.model_copy(update={"name": f"p{n}"}))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=order, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    nodes = [node for pod in house.store.pods.live() for node in pod.nodes]
    assert len(nodes) == len(set(nodes)) == 16


def test_several_workers_share_the_work(house: House) -> None:
    """Three workers make six pods READY, each visited by one at a time."""
    request = house.request()
    for n in range(6):
        house.service.pods.create(request, ORDER.model_copy(update={"name": f"p{n}"}))
    workers = [house.new_worker(f"w{n}") for n in range(3)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(600):
            if all(p.state is PodState.READY for p in house.store.pods.live()):
                break
            house.clock.sleep(0.05)
        assert [p.state for p in house.store.pods.live()] == [PodState.READY] * 6
    finally:
        for worker in workers:
            worker.stop()


def test_pod_is_released_when_its_lease_ends(house: House) -> None:
    pod = house.ready()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE pod SET lease_end = now() - interval '1 s' WHERE id = %s", [pod.id])
    assert house.store.end_leases() == [pod.id]
    assert house.store.end_leases() == []
    house.run(pod, PodState.RELEASED)


def test_listener_wakes_waiting_threads(database_url: str) -> None:
    """A NOTIFY of any process wakes the waiting threads; without one the wait ends by itself."""
    listener = Listener(database_url)
    try:
        assert listener.wait(0, 10.0), "the first connection wakes once"
        mark = listener.mark()
        assert not listener.wait(mark, 0.05)
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("SELECT pg_notify('weft_work', 'x')")
        assert listener.wait(mark, 10.0)
    finally:
        listener.close()


def test_missing_database_gives_one_sentence() -> None:
    """A wrong --database says what was asked, of whom, and what to do; no password in it."""
    with pytest.raises(PermanentError, match="connect to the database") as caught:
        Database("postgresql://weft:secret@127.0.0.1:1/weft")
    assert "secret" not in str(caught.value)


def test_database_of_a_newer_weft_is_left_alone(database_url: str) -> None:
    """An old program doesn't touch a schema that it doesn't know."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO migration (name) VALUES ('9999_future.after.sql')")
    with pytest.raises(OutdatedError, match="newer weft"):
        Database(database_url)
