"""The stream of all pods' events: one order in which nothing appears later, whatever writes at the same time."""

from __future__ import annotations

import random
import threading
from uuid import uuid4

import psycopg
import pytest

from tests.engine.house import ORDER, House
from tests.engine.tenanthouse import TenantHouse
from tests.helpers.waiting import wait_for
from weft.engine.base.database import Database
from weft.engine.base.listener import Listener
from weft.engine.watch.eventlookout import EventLookout, Watch
from weft.engine.watch.eventstream import EventStream, Position
from weft.model.errors import ConflictError, InputError
from weft.model.pod import PodState

TEAM = "team-a"
_WRITE = "INSERT INTO event (owner_id, at, type, message) VALUES (%s, now(), 'step', to_jsonb(%s::text))"


def read_all(stream: EventStream, project: str | None = TEAM, limit: int = 7) -> list[str]:
    """Messages of all events, page by page."""
    found: list[str] = []
    page = stream.page(project, None, limit)
    while True:
        found += [str(event.message) for event in page.events]
        if not page.more:
            return found
        page = stream.page(project, Position.read(page.position), limit)


@pytest.fixture
def pods(database: Database, database_url: str) -> dict[str, str]:
    """A pod of each of two projects, without their events."""
    house = House(database, database_url)
    order = ORDER.model_copy(update={"name": "train", "nodes": ORDER.nodes.model_copy(update={"count": 1})})
    made = {
        project: house.service.pods.create(house.request(project), order).id
        for project in ("team-a", "team-b")
    }
    house.close()
    with psycopg.connect(database.url) as connection:
        connection.execute("DELETE FROM event")
    return made


def test_event_of_a_long_transaction_is_delivered_once_it_commits(
    database: Database, pods: dict[str, str]
) -> None:
    """Its number is lower than that of an event that committed before: a reader by numbers would miss it."""
    stream = EventStream(database)
    with psycopg.connect(database.url) as slow, psycopg.connect(database.url, autocommit=True) as quick:
        slow.execute(_WRITE, [pods["team-a"], "slow"])
        quick.execute(_WRITE, [pods["team-a"], "quick"])
        before = stream.page(TEAM, None, 10)
        assert before.events == () and not before.more, "what is below it may still come"
        slow.commit()
    found = stream.page(TEAM, Position.read(before.position), 10)
    assert [str(e.message) for e in found.events] == ["slow", "quick"]
    assert stream.page(TEAM, Position.read(found.position), 10).events == ()


def test_reader_among_concurrent_writers_misses_nothing(database: Database, pods: dict[str, str]) -> None:
    """Eight writers, whose transactions commit in any order and some of which fail; a reader that follows."""
    stream, written, lock = EventStream(database), set[str](), threading.Lock()

    def write(number: int) -> None:
        chance = random.Random(number)
        with psycopg.connect(database.url) as connection:
            for turn in range(40):
                texts = [f"{number}/{turn}/{n}" for n in range(chance.randint(1, 3))]
                for text in texts:
                    connection.execute(_WRITE, [pods["team-a"], text])
                    connection.execute("SELECT pg_sleep(%s)", [chance.random() * 0.004])
                if chance.random() < 0.15:
                    connection.rollback()
                    continue
                connection.commit()
                with lock:
                    written.update(texts)

    writers = [threading.Thread(target=write, args=[number]) for number in range(8)]
    for writer in writers:
        writer.start()
    seen: list[str] = []
    position: Position | None = None
    while True:
        over = not any(writer.is_alive() for writer in writers)
        page = stream.page(TEAM, position, 50)
        seen += [str(e.message) for e in page.events]
        position = Position.read(page.position)
        if over and not page.more:
            break
    assert len(seen) == len(set(seen)), "each once"
    assert set(seen) == written
    assert seen == read_all(stream), "the order is the same for a later reader"


def test_stream_has_events_of_its_project_alone(database: Database, pods: dict[str, str]) -> None:
    """All projects' stream has both; what isn't a pod's (a network, the site) is in none."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        for project, pod in pods.items():
            connection.execute(_WRITE, [pod, project])
        connection.execute(_WRITE, [uuid4(), "of another owner"])
    stream = EventStream(database)
    assert read_all(stream) == ["team-a"]
    assert read_all(stream, "team-b") == ["team-b"]
    assert read_all(stream, None) == ["team-a", "team-b"]
    newest = stream.newest(None, 1)
    assert [(str(e.message), e.pod) for e in newest.events] == [("team-b", "train")]
    assert stream.page(None, Position.read(newest.position), 5).events == ()
    assert stream.newest("team-d", 5).position == stream.newest("team-c", 5).position


def test_event_has_its_project_and_life_whatever_wrote_it(database: Database, database_url: str) -> None:
    """Claim and visits give both, and the trigger looks them up for all others; only a pod has a project."""
    house = TenantHouse(database, database_url)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute("UPDATE event_life SET number = 7")
        record = House.ready(house)
        House.release(house, record)
        house.run(record, PodState.RELEASED)
        network, pod = house.network(), str(record.id)
        house.ready(network)
        connection.execute(_WRITE, [pod, "by the trigger"])
        found = connection.execute("SELECT owner_id::text, project_id, life, type FROM event").fetchall()
    house.close()
    owner = str(house.owner(network).id)
    assert {(f[0], f[1], f[2]) for f in found} == {(pod, TEAM, 7), (owner, None, 7)}
    assert {f[3] for f in found if f[0] == pod} >= {"state", "step", "release", "receipt"}


def test_position_from_before_a_restore_is_refused(database: Database, pods: dict[str, str]) -> None:
    """As after a restore: the database is elsewhere, and its rows have numbers of another server's transactions."""
    stream = EventStream(database)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(_WRITE, [pods["team-a"], "before"])
        position = Position.read(stream.newest(TEAM, 1).position)
        connection.execute("UPDATE event_life SET place = 'another server'")
        connection.execute("UPDATE event SET xact = '9000000000000'")
        with pytest.raises(ConflictError, match="restored") as refused:
            stream.page(TEAM, position, 10)
        assert refused.value.args[0].code == "EVENTS_RESET"
        connection.execute(_WRITE, [pods["team-a"], "after"])
    assert read_all(stream) == ["before", "after"], "what a dump brought stands first, whatever its numbers"
    assert Position.read(stream.newest(TEAM, 1).position).life == position.life + 1


def test_reader_learns_that_events_were_removed_unread(database: Database, pods: dict[str, str]) -> None:
    """Events of its own project alone, by a position before them, once; a reader that was there, or begins, doesn't."""
    stream = EventStream(database)
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(_WRITE, [pods["team-a"], "read"])
        away, other = (Position.read(stream.newest(p, 1).position) for p in (TEAM, "team-b"))
        connection.execute(_WRITE, [pods["team-a"], "missed"])
        there = Position.read(stream.newest(TEAM, 1).position)
        connection.execute(
            "UPDATE owner SET state = 'RELEASED', released_at = now() - interval '9 days' WHERE id = %s",
            [pods["team-a"]],
        )
        connection.execute("UPDATE event SET at = at - interval '9 days'")
        with database.statement() as tx:
            assert tx.run("prune_events", before=tx.now(), limit=100) == 2, (
                "the number of events that it removed"
            )
        page = stream.page(TEAM, away, 10)
        assert (page.removed, page.events) == (True, ())
        assert not stream.page(TEAM, Position.read(page.position), 10).removed
        assert stream.page(None, away, 10).removed
        for project, position in ((TEAM, there), (TEAM, None), ("team-b", other)):
            assert not stream.page(project, position, 10).removed, (project, position)


@pytest.mark.parametrize(
    "text", ["17", "", "zzzzzzzz-1-1-1", "3f9ac01e-1-9999999999999999999-1", "٣f9ac01e-1-1-1"]
)
def test_malformed_position_is_refused_with_its_field(text: str) -> None:
    with pytest.raises(InputError, match="after"):
        Position.read(text)


def test_lookout_wakes_a_stream_after_the_transaction_in_its_way(
    database: Database, pods: dict[str, str]
) -> None:
    """Nothing notifies of the end of that transaction, which is another's."""
    listener = Listener(database.url)
    lookout = EventLookout(database, listener)
    stream = EventStream(database)
    calls: list[int] = []
    try:
        start = Position.read(stream.newest(TEAM, 1).position)
        with (
            lookout.watching(Watch(TEAM, start, lambda: calls.append(1))),
            lookout.watching(Watch("team-b", start, lambda: calls.append(2))),
            lookout.watching(Watch(None, start, lambda: calls.append(3))),
            psycopg.connect(database.url) as slow,
            psycopg.connect(database.url, autocommit=True) as quick,
        ):
            slow.execute("SELECT pg_current_xact_id()")
            quick.execute(_WRITE, [pods["team-a"], "quick"])
            quick.execute("SELECT pg_notify('weft_event', %s)", [pods["team-a"]])
            threading.Event().wait(0.5)
            assert calls == []
            slow.rollback()
            wait_for(lambda: {1, 3} <= set(calls))
        assert 2 not in calls
    finally:
        listener.close()


@pytest.mark.parametrize(
    "query", ["stream_of_project", "stream_of_all", "newest_of_project", "newest_of_all"]
)
def test_stream_is_read_by_an_index(database: Database, pods: dict[str, str], query: str) -> None:
    """However many events other projects have."""
    from weft.engine.base.sql import queries

    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO event (owner_id, at, type, message) SELECT %s, now(), 'step', '\"x\"'"
            " FROM generate_series(1, 3000)",
            [pods["team-b"]],
        )
        connection.execute("ANALYZE event")
        values = {"project": TEAM, "life": 0, "xact": "0", "sequence": 0, "limit": 100}
        plan = connection.execute(f"EXPLAIN {queries()[query]}".encode(), values).fetchall()
    text = "\n".join(row[0] for row in plan)
    assert f"using event_{'project' if query.endswith('project') else 'stream'} on" in text, text
    assert "Seq Scan on event " not in text, text
