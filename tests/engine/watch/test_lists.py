"""Lists of pods: pages that stay complete while pods come and go, filters; and targeted notifications."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from tests.engine.house import ORDER, House
from tests.engine.timehouse import make, queue
from tests.helpers.turns import EMPTYING
from weft.engine.base.listener import Listener
from weft.model.errors import ForbiddenError, InputError
from weft.model.pod import PodState
from weft.model.views import PodSearch


def names(house: House, search: PodSearch, role: str = "member") -> list[str]:
    request = house.operator if role == "admin" else house.request()
    return [p.name for p in house.service.pods.list(request, search)]


def pages(house: House, limit: int, between: list[object] | None = None) -> list[str]:
    """All pages; each of `between` is called between two of them."""
    found: list[str] = []
    marker = None
    works = iter(between or [])
    while True:
        page = house.service.pods.list(house.request(), PodSearch(limit=limit, marker=marker))
        found += [p.name for p in page]
        if len(page) < limit:
            return found
        marker = page[-1].marker
        if work := next(works, None):
            work()  # type: ignore[operator]


def test_pages_contain_everything_once(house: House) -> None:
    """Whatever the size of a page; a released pod of the same name differs by its id."""
    for name in ("e", "c", "a", "d", "b"):
        house.order(make(name, 1))
    gone = house.ready(make("cc", 1))
    house.release(gone)
    house.run(gone, PodState.RELEASED)
    house.order(make("cc", 1))
    for limit in (1, 2, 3, 7, 1000):
        assert pages(house, limit) == ["a", "b", "c", "cc", "cc", "d", "e"]


def test_pages_are_stable_while_pods_come_and_go(house: House) -> None:
    """A pod that was there all the time is listed once; one that comes behind the marker is listed too."""
    made = {name: house.order(make(name, 1)) for name in ("b", "d", "f", "h")}

    def more() -> None:
        house.order(make("a", 1))
        house.order(make("g", 1))

    def fewer() -> None:
        house.run(made["d"], PodState.READY)
        with psycopg.connect(house.database.url) as connection:
            connection.execute("DELETE FROM pod WHERE name = 'd'")

    assert pages(house, 2, [more, fewer]) == ["b", "d", "f", "g", "h"]


def test_lists_can_be_filtered(house: House) -> None:
    """State, node, name; of another project for operators alone."""
    ready = house.ready(make("ready", 2))
    house.order(make("placed", 1))
    queue(house, "waiting", 16)
    assert names(house, PodSearch(state=PodState.READY)) == ["ready"]
    assert names(house, PodSearch(state=PodState.PENDING)) == ["waiting"]
    assert names(house, PodSearch(node=ready.nodes[1])) == ["ready"]
    assert names(house, PodSearch(node="gpu99")) == []
    assert names(house, PodSearch(server="ready-1")) == ["ready"]
    assert names(house, PodSearch(server="ready-2")) == []
    assert names(house, PodSearch(name="placed")) == ["placed"]
    assert names(house, PodSearch(name="placed", state=PodState.READY)) == []
    assert names(house, PodSearch(alarmed=True)) == []
    with psycopg.connect(house.database.url) as connection:
        connection.execute(
            "UPDATE pod SET since = since - interval '1 day' WHERE name IN ('placed', 'ready')"
        )
    assert names(house, PodSearch(alarmed=True)) == ["placed"], "READY has no limit"
    assert names(house, PodSearch(alarmed=True, state=PodState.READY)) == []
    everybody = PodSearch(all_projects=True)
    assert names(house, everybody, "admin") == ["placed", "ready", "waiting"]
    assert names(house, everybody.model_copy(update={"project": "team-b"}), "admin") == []
    assert names(house, everybody.model_copy(update={"project": "team-a"}), "admin")[0] == "placed"
    with pytest.raises(ForbiddenError):
        names(house, everybody)
    others = PodSearch(project="team-b")
    with pytest.raises(InputError, match="project: 'team-b' is not allowed: must be omitted"):
        names(house, others)
    assert names(house, PodSearch(project="team-a")) == ["placed", "ready", "waiting"], "it is one's own"
    assert house.service.pods.list(house.request("team-b"), others) == []


def test_invented_marker_is_refused(house: House) -> None:
    """The error names the field."""
    for marker in ("x", "a:b", ":", "a:00000000-0000-0000-0000-00000000000"):
        with pytest.raises(InputError, match="marker"):
            names(house, PodSearch(marker=marker))


def test_lists_do_not_scan_released_pods(house: House) -> None:
    """Ten thousand pods that were released long ago cost a list, a lookup and a count nothing."""
    pod = house.ready()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO pod (id, project_id, name, created_by, created_at, ordered, units, plan, state, since,"
            " next_at, released_at, placed_at) SELECT gen_random_uuid(), project_id, 'old-' || n, created_by,"
            " created_at, ordered, units, plan, 'RELEASED', since, next_at, '2020-01-01', placed_at"
            " FROM pod, generate_series(1, 10000) n WHERE id = %s",
            [pod.id],
        )
        connection.execute("ANALYZE pod")
        connection.execute("SELECT pg_stat_reset()")
        assert names(house, PodSearch()) == [ORDER.name]
        house.store.pods.find(ORDER.name, "team-a")
        house.store.pods.find(ORDER.name, None)
        house.store.counts()
        house.close()
        house.database.close()
        _wait_until_alone(connection)  # PostgreSQL counts what a connection has read once it ends
        read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'pod'"
        assert 0 < connection.execute(read).fetchone()[0] < 1_000  # type: ignore[index]


def _wait_until_alone(connection: psycopg.Connection) -> None:
    others = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND application_name <> %s"
    )
    end = time.monotonic() + 60
    while connection.execute(others, [EMPTYING]).fetchone() != (0,):
        assert time.monotonic() < end
        time.sleep(0.01)


class _Ear:
    """Receives the sign that all threads have caught up."""

    def __init__(self) -> None:
        self.heard = threading.Event()

    def came(self, pod_id: str) -> None:
        if pod_id == "caught up":
            self.heard.set()

    def may_have_missed(self) -> None: ...

    def stop(self) -> None: ...


def _caught_up(listener: Listener, connection: psycopg.Connection) -> None:
    """Wait until the listener has received everything that was notified before: notifications arrive in their order.

    All threads are woken when the connection is made, perhaps just now; at the second event that is over.
    """
    ear = _Ear()
    listener.add_follower(ear)
    for _ in range(2):
        ear.heard.clear()
        connection.execute("SELECT pg_notify('weft_event', 'caught up')")
        assert ear.heard.wait(60.0)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE pod SET woken = woken + 1",
        "UPDATE pod SET next_at = next_at - interval '1 hour'",
        "UPDATE queue SET next_at = next_at - interval '1 hour'",
    ],
)
def test_workers_are_woken_only_by_work_due_sooner(house: House, change: str) -> None:
    """Not by a pod that is handed back for later, nor by its events."""
    pod = house.ready()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        _caught_up(house.listener, connection)
        mark = house.listener.mark()
        connection.execute("UPDATE pod SET next_at = next_at + interval '2 hours'")
        connection.execute("UPDATE queue SET next_at = next_at + interval '2 hours'")
        connection.execute("UPDATE pod SET reason = '\"x\"', state = state")
        connection.execute("SELECT pg_notify('weft_event', %s)", [str(pod.id)])
        _caught_up(house.listener, connection)
        assert not house.listener.wait(mark, 0.0)
        connection.execute(change.encode())
    assert house.listener.wait(mark, 60.0)
