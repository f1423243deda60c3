"""Every wait for the database has a bound, and a request that waited too long is answered with when to retry."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager

import psycopg
import pytest

from tests.engine.house import ORDER, House
from weft.api.app import create_app
from weft.app.policy import Policy
from weft.engine.base.database import Database
from weft.engine.base.postgres import SESSION, connecting
from weft.model.errors import TemporaryError
from weft.testing.serving import served


@contextmanager
def hurried(url: str, **settings: str) -> Generator[Database]:
    """A database with shorter waits than weft's own, set by the operator's URL."""
    options = "%20".join(f"-c%20{name}%3D{value}" for name, value in settings.items())
    database = Database(f"{url}{'&' if '?' in url else '?'}options={options}")
    try:
        yield database
    finally:
        database.close()


def test_every_connection_has_timeouts(database: Database) -> None:
    """For locks, statements, idle transactions, and a peer that is silently gone."""
    with psycopg.connect(database.url, **connecting(database.url)) as connection:
        for name, value in {**SESSION, "lock_timeout": "10s"}.items():
            row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
            assert row is not None and row[0] in (value, {"60s": "1min", "120s": "2min"}.get(value))
        parameters = connection.info.get_parameters()
    assert {"keepalives_idle", "tcp_user_timeout", "connect_timeout"} <= parameters.keys()
    with database.transaction() as tx:
        assert tx.now() is not None


def test_long_wait_for_the_capacity_lock_is_answered_503(house: House, database_url: str) -> None:
    """A hanging claim blocks no request forever: HTTP 503 with Retry-After, and nothing was changed."""
    with hurried(database_url, lock_timeout="200ms") as database:
        second = House(database, database_url)
        token = second.cloud.add_user("alice", project="team-a")
        app = create_app(second.service, second.cloud, Policy())
        with served(app) as url, psycopg.connect(database_url) as stuck:
            stuck.execute("SELECT pg_advisory_xact_lock(hashtext('weft.capacity'))")
            import httpx

            answer = httpx.post(
                f"{url}/v1/pods",
                json=ORDER.model_dump(mode="json"),
                headers={"X-Auth-Token": token},
                trust_env=False,
                timeout=60.0,
            )
        assert answer.status_code == 503, answer.text
        assert answer.headers["Retry-After"] == "2"
        detail = answer.json()["detail"]
        assert detail == "run a statement (the database): blocked by others for too long; will be retried"
        assert second.service.pods.list(second.request()) == []
        second.close()


def test_stalled_transaction_is_aborted(house: House, database_url: str) -> None:
    """A claim in a hanging process gives the lock back by itself; its own next step is a temporary error."""
    pause = threading.Event()
    with hurried(database_url, idle_in_transaction_session_timeout="100ms") as database:
        with pytest.raises(TemporaryError), database.transaction() as tx:
            tx.row("lock_capacity")
            with house.database.transaction() as other:
                other.row("lock_capacity")  # the holder lost it after 100 ms
            pause.wait(0.1)
            tx.row("lock_capacity")
        with database.transaction() as tx:
            tx.row("lock_capacity")


def test_slow_statement_is_aborted(database_url: str) -> None:
    """It is a temporary error."""
    with (
        hurried(database_url, statement_timeout="50ms") as database,
        psycopg.connect(database_url) as other,
    ):
        other.execute("LOCK TABLE queue")
        with pytest.raises(TemporaryError, match="blocked by others"), database.transaction() as tx:
            tx.run("touch_queue", at=tx.now())
