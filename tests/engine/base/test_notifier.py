"""Followers of an owner are notified of its events after they were written, and no write waits for that."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from typing import Any

import psycopg
import pytest

from tests.engine.hold.test_ownerclaims import ONE, say, sql, work
from tests.engine.house import ORDER, House
from tests.helpers.statements import on_statements
from tests.helpers.waiting import wait_for
from weft.engine.base.database import Database
from weft.engine.base.listener import joined
from weft.engine.base.notifier import Notifier
from weft.engine.hold.held import Held
from weft.engine.hold.ownerclaims import claim_work
from weft.model.errors import TemporaryError

LONG = 60.0


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def heard(connection: psycopg.Connection[Any]) -> set[str]:
    """Owners whose followers were notified so far."""
    connection.execute("SELECT pg_notify('weft_event', 'the last')")
    notified: set[str] = set()
    for notice in connection.notifies():
        if notice.payload == "the last":
            return notified
        notified.update(notice.payload.split(","))
    raise AssertionError("it was not heard")


def test_write_ends_before_its_notification(house: House) -> None:
    """PostgreSQL commits transactions that notify one after the other, however long the disk takes for each."""
    pods = [house.order(ORDER.model_copy(update={"name": n, "nodes": ONE})) for n in ("a", "b", "c")]
    sql(house, "UPDATE pod SET next_at = now()")
    begun, goes_on, sent = threading.Event(), threading.Event(), list[Any]()

    def before(name: str, values: Mapping[str, Any]) -> None:
        if name == "send_notifications":
            sent.append(values["notifications"].obj)
            begun.set()
            assert goes_on.wait(LONG)

    house.database.wait_until_notified()
    with (
        psycopg.connect(house.database.url, autocommit=True) as listening,
        on_statements(house.database) as mine,
    ):
        mine.before = before
        listening.execute("LISTEN weft_event")
        held = claim_work(mine, "w", 0.0, 9, 0, threading.Event()).readable
        for one in held:
            say(one, "it goes on")
            assert begun.wait(LONG)
        said = "SELECT count(*) FROM event WHERE message = '\"it goes on\"'"
        assert sql(house, said) == [(3,)] and not heard(listening)
        goes_on.set()
        mine.wait_until_notified()
        assert heard(listening) == {str(p.id) for p in pods}
        both = ",".join(sorted(str(p.id) for p in pods if str(p.id) not in str(sent[0])))
        assert sent[1:] == [[("weft_event", both)]], "those that came meanwhile are one statement"


def test_many_owners_share_few_notifications() -> None:
    said = [("events", f"{n:036}") for n in range(450)] + [("work", "")]
    notified = joined(said)
    assert [(c, len(p.split(","))) for c, p in notified] == [("events", 200)] * 2 + [
        ("events", 50),
        ("work", 1),
    ]
    assert [(c, one) for c, p in notified for one in p.split(",")] == said
    assert max(len(p) for _, p in notified) < 8000


def test_write_without_an_event_does_not_notify(house: House) -> None:
    house.order(ORDER.model_copy(update={"name": "a", "nodes": ONE}))
    sql(house, "UPDATE pod SET next_at = now()")
    house.database.wait_until_notified()
    (held,) = work(house)
    with psycopg.connect(house.database.url, autocommit=True) as listening:
        listening.execute("LISTEN weft_event")
        _note_a_look(held)
        house.database.wait_until_notified()
        assert not heard(listening)


def _note_a_look(held: Held) -> None:
    held.note(())
    held.notes.unwritten.watch({}, None, "")
    held.notes.flush()


def test_event_of_a_transaction_is_notified_after_it(house: House) -> None:
    """An alarm, for example; not if the transaction is rolled back."""
    pod = house.order(ORDER.model_copy(update={"name": "a", "nodes": ONE}))
    sql(house, "UPDATE pod SET next_at = now()")
    (held,) = work(house)
    house.database.wait_until_notified()
    with psycopg.connect(house.database.url, autocommit=True) as listening:
        listening.execute("LISTEN weft_event")
        with pytest.raises(KeyError), held.notes.write() as tx:
            held.fence.insert_events(tx, [("alarm", "it lasts", None)])
            raise KeyError
        with held.notes.write():
            pass
        house.database.wait_until_notified()
        assert not heard(listening)
        with held.notes.write() as tx:
            held.fence.insert_events(tx, [("alarm", "it lasts", None)])
            house.database.wait_until_notified()
            assert not heard(listening)
        house.database.wait_until_notified()
        assert heard(listening) == {str(pod.id)}


def test_order_is_notified_after_its_confirmation(house: House) -> None:
    """While its nodes are claimed others wait for the lock, and notifying transactions wait for each other's disk."""
    begun, goes_on = threading.Event(), threading.Event()

    def before(name: str, values: Mapping[str, Any]) -> None:
        if name == "send_notifications":
            begun.set()
            assert goes_on.wait(LONG)

    with (
        psycopg.connect(house.database.url, autocommit=True) as listening,
        on_statements(house.database) as mine,
    ):
        mine.before = before
        listening.execute("LISTEN weft_event")
        listening.execute("LISTEN weft_work")
        view = house.new_service(mine).pods.create(house.request(), ORDER)
        assert begun.wait(LONG) and not heard(listening)
        assert sql(house, "SELECT next_at <= now() FROM pod") == [(True,)]
        goes_on.set()
        mine.wait_until_notified()
        assert heard(listening) == {view.id, ""}


def test_making_an_unclaimed_order_due_notifies_workers(house: House) -> None:
    """For example by requesting its release before it was confirmed."""
    pod = house.order()
    sql(house, "UPDATE pod SET next_at = now() + interval '1 hour'")
    house.database.wait_until_notified()
    with psycopg.connect(house.database.url, autocommit=True) as listening:
        listening.execute("LISTEN weft_event")
        listening.execute("LISTEN weft_work")
        house.release(pod)
        assert heard(listening) == {str(pod.id), ""}


def test_failed_notification_is_repeated() -> None:
    """After a lost connection, as followers have missed it; not after a defect."""
    notified: list[list[Any]] = []

    def send(said: Any) -> None:
        notified.append([payload for _, payload in said])
        if len(notified) <= 2:
            raise TemporaryError("run a statement", "pg", "away")
        if "b" in notified[-1]:
            raise RuntimeError("unexpected")

    notifier = Notifier(send, again=0.0)
    notifier.notify(("events", "a"))
    wait_for(lambda: len(notified) == 3)
    for name in ("b", "c"):
        notifier.notify(("events", name))
        notifier.wait()
    notifier.close()
    notifier.notify(("events", "after the end"))
    assert notified == [["a"], ["a"], ["a"], ["b"], ["c"]]


def test_closing_does_not_wait_for_failing_notifications() -> None:
    notified: list[Any] = []

    def send(said: Any) -> None:
        notified.append(said)
        raise TemporaryError("run a statement", "pg", "away")

    notifier = Notifier(send, again=LONG)
    notifier.notify(("events", "a"))
    wait_for(lambda: bool(notified))
    notifier.close()
    assert 1 <= len(notified) <= 2


def test_notification_without_a_thread_is_sent_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The write before it is over: it isn't undone, and later notifications are still sent."""
    notified: list[Any] = []
    notifier = Notifier(lambda said: notified.extend(payload for _, payload in said))

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        notifier.notify(("events", "a"))
    notifier.notify(("events", "b"))
    wait_for(lambda: sorted(notified) == ["a", "b"])
    notifier.wait()
    notifier.notify(("events", "c"))
    notifier.close()
    assert sorted(notified) == ["a", "b", "c"]
