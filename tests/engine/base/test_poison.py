"""Unreadable rows, unexpected errors in threads, a database that refuses: one must not stop the others."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from uuid import UUID

import psycopg
import pytest

import weft.engine.watch.worker as worker_module
from tests.engine.hold.test_ownerclaims import sql
from tests.engine.house import ORDER, House
from tests.engine.timehouse import HandClock, look, make, messages, queue
from tests.helpers.statements import on_statements
from tests.helpers.waiting import wait_for
from weft.app.metrics import StoreCollector
from weft.engine.base.listener import Listener
from weft.engine.base.postgres import LAST
from weft.engine.base.pulse import Pulse
from weft.engine.base.unreadable import NewerRowError, UnreadableError, unreadable
from weft.engine.hold.held import Held
from weft.engine.hold.ownerclaims import UnreadableOwner, claim_ready
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.rows.records import PodRecord
from weft.engine.store.store import Store
from weft.model.errors import PermanentError, TemporaryError
from weft.model.pod import PodState
from weft.ports.occupants import OnHost


def spoil(house: House, pod: PodRecord, change: str) -> None:
    """Change a row as no weft would; `change` is a SET clause."""
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        for name in ("pod_lease_end", "pod_not_before", "pod_expected_start"):
            connection.execute(f"ALTER TABLE pod DROP CONSTRAINT IF EXISTS {name}")  # type: ignore[arg-type]
        connection.execute(f"UPDATE pod SET {change}, next_at = now() WHERE id = %s", [pod.id])  # type: ignore[arg-type]


POISON = [
    "plan = jsonb_set(plan, '{allotment,vlan}', '\"none\"')",
    "ordered = jsonb_set(ordered, '{lease,end}', '\"9999-12-31T23:59:59-12:00\"')",
    "plan = '{}'",
    "plan = plan || '{\"version\": 99}'",
    'ordered = ordered || \'{"version": "new"}\'',
    'conditions = \'[{"type": "Dancing"}]\'',
]


@pytest.mark.parametrize("change", POISON)
def test_unreadable_row_is_parked(house: House, change: str) -> None:
    """It gets a reason and an alarm; other pods are listed, visited, audited and released, and new ones created."""
    poison = house.ready(ORDER.model_copy(update={"name": "poison"}))
    fine = house.ready(ORDER.model_copy(update={"name": "fine"}))
    before = {t.id for t in house.cloud.things()}
    spoil(house, poison, change)
    house.store.wake(fine.id)
    while house.worker.run_once():
        pass
    listed = {p.name: p for p in house.service.pods.list(house.request())}
    assert "can't read its row" in listed["poison"].reason and listed["fine"].state is PodState.READY
    assert any("can't read its row" in m for m in messages(house, poison, "alarm"))
    assert "weft_pods_unreadable 1" in metrics(house)
    with pytest.raises(UnreadableError, match="read pod poison"):
        house.service.pods.show(house.request(), "poison")
    report = house.service.audits.run(house.operator)
    assert not [f for f in report.findings if f.category == "orphan"], "what can't be read owns what it owned"
    assert [f.category for f in report.findings if str(poison.id) in f.what] == ["unknown"]
    house.service.audits.run(house.operator, repair=True)
    assert {t.id for t in house.cloud.things()} == before
    house.release(fine)
    house.run(fine, PodState.RELEASED)
    assert house.ready(ORDER).nodes
    house.store.activate_site(house.site, "test")
    assert set(poison.nodes) <= house.store.capacity().holds.keys(), "its nodes stay its own"


def metrics(house: House) -> str:
    families = {m.name: m for m in StoreCollector(house.store).collect()}
    return "\n".join(f"{s.name} {s.value}" for m in families.values() for s in m.samples)


def test_corrected_row_continues(house: House) -> None:
    """The next visit continues as before."""
    pod = house.ready()
    spoil(house, pod, "plan = jsonb_set(plan, '{cloud}', '7')")
    assert not house.worker.run_once()
    spoil(house, pod, "plan = jsonb_set(plan, '{cloud}', '\"lab\"')")
    assert house.worker.run_once()
    assert house.service.pods.list(house.request())[0].reason == ""
    assert "weft_pods_unreadable 0" in metrics(house)


def test_unreadable_resource_parks_its_pod(house: House) -> None:
    """The pod isn't judged by the rest: it doesn't FAIL, and nothing of it is created or removed."""
    pod, fine = house.ready(), house.ready(ORDER.model_copy(update={"name": "fine"}))
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE resource SET state = 'odd' WHERE owner_id = %s AND kind = 'server'", [pod.id]
        )
    before = {t.id for t in house.cloud.things()}
    house.store.wake(pod.id)
    house.store.wake(fine.id)
    while house.worker.run_once():
        pass
    assert {p.name: p.state for p in house.service.pods.list(house.request())}["train"] is PodState.READY
    assert any("can't read" in m for m in messages(house, pod, "alarm"))
    report = house.service.audits.run(house.operator, repair=True)
    assert [(f.category, f.kind, f.pod_id) for f in report.findings] == [("unknown", "pod", str(pod.id))]
    assert {t.id for t in house.cloud.things()} == before


def test_unreadable_order_does_not_block_the_queue(house: House) -> None:
    """The others in the queue start; it stays, with the reason."""
    first = house.ready(make("first", 16))
    poison, fine = queue(house, "poison", 2), queue(house, "fine", 2)
    spoil(house, poison, "ordered = jsonb_set(ordered, '{lease,duration}', '\"9999999d\"')")
    house.release(first)
    house.run(first, PodState.RELEASED)
    house.worker.tend_queue()
    assert look(house, fine).state is PodState.PLACED
    reasons = {p.name: p.reason for p in house.service.pods.list(house.request())}
    assert "can't read its row" in reasons["poison"]


def test_date_out_of_range_is_read_as_the_last(house: House, clock: HandClock) -> None:
    """A row from before the bounds: other reads don't fail, and its lease isn't over."""
    poison, fine = house.ready(ORDER.model_copy(update={"name": "poison"})), house.ready()
    spoil(house, poison, "lease_end = '10000-01-01 11:59:59+00', expected_start = 'infinity'")
    assert {p.name for p in house.service.pods.list(house.request())} == {"poison", "train"}
    house.service.capacity.show(house.request())
    assert house.store.end_leases() == []
    assert house.store.pods.find("poison", "team-a").lease_end == LAST
    house.worker.run_once()
    house.release(fine)
    house.run(fine, PodState.RELEASED)


# -- threads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [RuntimeError("unexpected"), KeyError("name"), TemporaryError("talk", "pg", "away")]
)
def test_exceptions_end_no_thread(house: House, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loop, queue and heartbeat meet an error turn after turn, health reports it, and all go on when it is gone."""
    monkeypatch.setattr(worker_module, "PAUSE_AFTER_ERROR", 0.2)
    now, met, is_well = [0.0], threading.Semaphore(0), threading.Event()
    pulse = Pulse(lambda: now[0])

    def before(*_: object) -> None:
        if not is_well.is_set():
            met.release()
            raise error

    with on_statements(house.database) as faulty:
        # Before the first turn: after one that succeeds the loop sleeps as long as nothing is due.
        faulty.before = before
        worker = house.new_worker("w9", database=faulty, pulse=pulse)
        worker.start()
        try:
            for _ in range(6):
                assert met.acquire(timeout=60.0)
            now[0] += 10_000.0
            wait_for(lambda: type(error).__name__ in pulse.checks()["worker"])  # each thread in its own time
            wait_for(lambda: {n for n, said in pulse.checks().items() if said != "ok"} >= {"worker", "queue"})
            is_well.set()
            pod = house.order()
            wait_for(lambda: look(house, pod).state is PodState.READY)
            wait_for(lambda: pulse.checks()["worker"] == pulse.checks()["queue"] == "ok")
        finally:
            worker.stop()


def test_readiness_depends_on_the_threads(house: House) -> None:
    """A thread without a turn for too long makes the service not ready, by name."""
    now = [0.0]
    house.pulse = Pulse(lambda: now[0])
    service = house.new_service()
    house.pulse.turn("worker", 60.0)
    house.pulse.turn("queue", 900.0)
    assert service.health().ready
    now[0] = 61.0
    health = service.health()
    assert not health.ready
    assert health.checks["thread worker"] == "no turn for 61 s, more than 60 s"
    assert health.checks["thread queue"] == "ok"


def test_listener_survives_a_lost_connection(database_url: str) -> None:
    """Its connection is killed: it opens another, and wakes as before."""
    pulse = Pulse()
    listener = Listener(database_url, pulse)
    try:
        assert listener.wait(0, 10.0), "it wakes once it listens, which may have been before this line"
        with psycopg.connect(database_url, autocommit=True) as connection:
            mark = listener.mark()
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = 'LISTEN weft_event' "
                "AND datname = current_database()"
            )
            assert listener.wait(mark, 10.0), "a new connection wakes once"
            mark = listener.mark()
            connection.execute("SELECT pg_notify('weft_work', 'x')")
            assert listener.wait(mark, 10.0)
        assert pulse.checks()["listener"] == "ok"
    finally:
        listener.close()


def test_defect_in_one_order_does_not_block_others(house: House) -> None:
    """The unexpected error becomes its own reason; the next order starts."""
    first = house.ready(make("first", 16))
    odd, fine = queue(house, "odd", 2), queue(house, "fine", 2)
    house.release(first)
    house.run(first, PodState.RELEASED)

    on_hosts, asked = house.cloud.on_hosts, list[Collection[str]]()

    def odd_at_first(hosts: Collection[str]) -> Mapping[str, OnHost]:
        asked.append(hosts)
        if len(asked) == 1:
            raise ZeroDivisionError("odd")
        return on_hosts(hosts)

    house.cloud.on_hosts = odd_at_first  # type: ignore[method-assign]
    Dispatcher(house.store, house.keeper.world).run()
    assert look(house, fine).state is PodState.PLACED
    assert "defect in weft (ZeroDivisionError)" in look(house, odd).reason


# -- what the database refuses --------------------------------------------------------------------------------------


def test_read_only_database_is_a_temporary_error(house: House) -> None:
    """After a failover the old primary refuses writes: weft says so, and goes on once it may write again."""
    fail_over(house, read_only="on")
    with pytest.raises(TemporaryError, match="read-only") as caught:
        house.store.quarantine("gpu01", "test")
    assert "primary" in caught.value.then
    assert not house.store.capacity().quarantines, "it may still be read"
    fail_over(house, read_only="off")
    house.ready()


def fail_over(house: House, read_only: str) -> None:
    """Every connection is cut, and new ones lead to a database of the other kind."""
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        row = connection.execute("SELECT current_database()").fetchone()
        assert row
        connection.execute(f"ALTER DATABASE {row[0]} SET default_transaction_read_only = {read_only}")  # type: ignore[arg-type]
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    for _ in range(20):  # each connection of the pool finds out once
        with suppress(TemporaryError):
            house.store.ping()


def test_refused_values_are_a_permanent_error(house: House) -> None:
    """No traceback of psycopg's reaches users."""
    with pytest.raises(PermanentError, match="write to the database"), house.database.transaction() as tx:
        tx.run("hold_node", node=None, pod_id=UUID(int=1), at=tx.now(), spare=False, whole=True)


def test_statement_on_a_changed_schema_is_a_temporary_error(house: House, database_url: str) -> None:
    """An upgrade that changes the schema will end."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("ALTER TABLE queue RENAME TO queue_elsewhere")
    with pytest.raises(TemporaryError, match="run a statement"):
        Store(house.database).quarantine("gpu01", "test")


def test_requests_before_an_unreadable_row_are_searched_for(house: House) -> None:
    """The visit ends in the middle, with things outside that no row mentions: the next one looks for everything."""
    pod = house.order(make("half", 1))
    with on_statements(house.database) as database:
        asked = list[str]()

        def spoilt(name: str, values: object) -> None:
            asked.append(name)
            if name == "write_held_watched" and name in asked[:-1]:
                raise UnreadableError("read a row", "the database", "spoilt", "correct it")

        database.before = spoilt
        house.new_worker("w2", database=database).run_once()
    found = house.store.pods.find(str(pod.id), None)
    assert found.late_until is not None and house.cloud.things()
    assert "spoilt" in house.store.records.events(pod.id, 0)[-1].message


def unreadable_visit(house: House, pod: PodRecord, meanwhile: Callable[[], object]) -> None:
    """A worker that can't read a resource of the pod, where something else happens before it reports that."""
    sql(house, "UPDATE resource SET document = '{}' WHERE owner_id = %s", pod.id)
    with on_statements(house.database) as database:
        database.once("park_held", meanwhile)
        assert house.new_worker("w2", database=database).run_once()


def test_worker_that_lost_an_owner_does_not_park_it(house: House) -> None:
    """Another worker, for example of a newer weft, can read it, and holds it by now."""
    pod = house.order(make("train", 1))

    def loses() -> None:
        sql(house, "UPDATE pod SET held_until = now() - interval '1 s'")
        assert house.store.claim_owner(pod.id, "newer") is not None

    unreadable_visit(house, pod, loses)
    assert sql(house, "SELECT worker, held_until > now(), parked, alarmed FROM pod") == [
        ("newer", True, None, False)
    ]
    assert not messages(house, pod, "alarm")


def test_unreadable_row_is_left_to_its_holder(house: House) -> None:
    pod = house.ready(make("train", 1))
    spoil(house, pod, "plan = '{}'")
    taken = claim_ready(house.database, "older", 0.0, 9, threading.Event())
    sql(house, "UPDATE pod SET token = token + 1, worker = 'newer'")
    house.worker._register(taken)  # pyright: ignore[reportPrivateUsage]
    assert sql(house, "SELECT worker, held_until > now(), parked FROM pod") == [("newer", True, None)]


def test_unreadable_row_woken_meanwhile_is_retried_at_once(house: House) -> None:
    """Its release was requested, or it was corrected."""
    pod = house.order(make("train", 1))
    unreadable_visit(house, pod, lambda: house.store.wake(pod.id))
    assert sql(house, "SELECT parked IS NULL, next_at <= now(), held_until FROM pod") == [(False, True, None)]
    unreadable_visit(house, pod, lambda: None)
    assert sql(house, "SELECT next_at > now() + interval '50 minutes' FROM pod") == [(True,)]
    assert len(messages(house, pod, "alarm")) == 1


def test_started_order_is_not_parked(house: House) -> None:
    """It was corrected, and another worker started it, after this one had read it."""
    first = house.ready(make("first", 16))
    pod = queue(house, "late", 2)
    house.release(first)
    house.run(first, PodState.RELEASED)
    spoil(house, pod, "ordered = ordered || '{\"was\": 1}'")

    def starts() -> None:
        sql(house, "UPDATE pod SET ordered = ordered - 'was' WHERE id = %s", pod.id)
        Dispatcher(house.store, house.keeper.world).run()

    with on_statements(house.database) as database:
        database.once("park_waiting", starts)
        Dispatcher(Store(database), house.keeper.world).run()
    assert look(house, pod).state is PodState.PLACED
    assert sql(house, "SELECT parked, alarmed FROM pod WHERE name = 'late'") == [(None, False)]


def test_owner_that_turns_unreadable_in_a_visit_is_left_to_the_newer_weft(house: House) -> None:
    """The newer one came after this visit began: nothing counts against the pod; another site lets it be read again."""
    house.ready()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE pod SET next_at = now() - interval '1 s'")
        connection.execute("INSERT INTO version_seen (reader, version) VALUES ('later', '9')")

        def claimed() -> list[Held]:
            found = claim_ready(house.database, "worker", 0.0, 1, threading.Event())
            return list(found.readable)

        (held,) = claimed()
        error = unreadable("a resource", ValueError("planted"))
        assert not isinstance(error, NewerRowError), "this process hasn't noticed the newer one yet"
        house.store.park(UnreadableOwner(held.owner.id, held.owner.token, held.owner.woken, error, 0.0))
        row = connection.execute(
            "SELECT failures, alarmed, parked, held_until, left_by IS NOT NULL FROM pod"
        ).fetchone()
        assert row == (0, False, None, None, True) and claimed() == []
        house.store.activate_site(house.store.site().site, "test")
        assert len(claimed()) == 1
