"""Locked rows: a statement that writes many goes on with the others, and there are no deadlocks."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.engine.hold.test_ownerclaims import ONE, looks, ready, say, sql
from tests.engine.house import ORDER, House
from tests.engine.timehouse import messages
from tests.helpers.waiting import wait_for
from weft.engine.base.database import Database
from weft.engine.hold.heldpod import HeldPod
from weft.engine.hold.ownerclaims import UnchangedOwners, extend_holds
from weft.engine.rows.records import StaleNumber
from weft.model.resources import Kind

_NETWORKS = """
    INSERT INTO tenant_network (owner_id, cloud, fabric, network_id, document, read_at)
    SELECT id, 'lab', 'ib0', name, '{}', now() - interval '1 day' FROM pod
"""
_WAITS = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def waits_for_a_lock(house: House) -> bool:
    """Whether a connection waits for a lock in this database."""
    return sql(house, _WAITS) != [(0,)]


@contextmanager
def locked(house: House, statement: str, *values: object) -> Generator[psycopg.Connection]:
    """Meanwhile another process is in a transaction that has written these rows."""
    with psycopg.connect(house.database.url) as connection:
        connection.execute(statement, values)  # type: ignore[arg-type]
        yield connection


def locked_pod(house: House, pod_id: object) -> Any:
    return locked(house, "SELECT FROM owner WHERE id = %s FOR UPDATE", pod_id)


def test_leases_end_beside_a_locked_row(house: House) -> None:
    """The locked pod's lease ends with the next look."""
    one, other = ready(house, "one", "other")
    sql(house, "UPDATE pod SET lease_end = now() - interval '1 s'")
    with locked_pod(house, other.id):
        assert house.store.end_leases() == [one.id]
        assert house.store.due().leases
    assert house.store.end_leases() == [other.id]
    assert [messages(house, pod, "release") for pod in (one, other)] == [["lease ended"]] * 2
    assert sql(house, "SELECT wanted FROM pod") == [("absent",)] * 2


def test_leases_are_announced_beside_a_locked_row(house: House) -> None:
    one, other = ready(house, "one", "other")
    sql(house, "UPDATE pod SET lease_end = now() + interval '1 min', placed_at = now() - interval '1 day'")
    with locked_pod(house, other.id):
        assert house.store.end_leases() == []
        assert [len(messages(house, pod, "lease")) for pod in (one, other)] == [1, 0]
    for _ in range(2):
        assert house.store.end_leases() == []
        assert [len(messages(house, pod, "lease")) for pod in (one, other)] == [1, 1]
    assert "the lease ends at 20" in messages(house, one, "lease")[0]


@pytest.mark.parametrize("statement", ["wake_busy", "wake_built"])
def test_pods_are_woken_beside_a_locked_row(house: House, statement: str) -> None:
    """The locked pod is woken by the next look, which runs the statement again."""
    one, other = ready(house, "one", "other")
    sql(house, "UPDATE resource SET state = 'pending' WHERE kind = 'server'")
    if statement == "wake_built":
        sql(house, "UPDATE pod SET state = 'BOOTING', next_at = now() + interval '1 hour'")
    servers = [str(row[0]) for row in sql(house, "SELECT outside_id FROM resource WHERE kind = 'server'")]
    values = {
        "nodes": [*one.nodes, *other.nodes],
        "kinds": [str(Kind.SERVER)],
        "servers": servers,
        "together": 5,
        "before": datetime.now(UTC),
    }
    due = "SELECT name FROM pod WHERE next_at <= now() ORDER BY name"
    with locked_pod(house, other.id), house.database.statement() as tx:
        tx.rows(statement, **values)
        assert sql(house, due) == [("one",)]
        tx.rows(statement, **values)
    with house.database.statement() as tx:
        tx.rows(statement, **values)
    assert sql(house, due) == [("one",), ("other",)]


def test_unchanged_owners_are_handed_back_beside_a_locked_row(house: House) -> None:
    """The worker keeps the locked one until it can be handed back as well."""
    one, other = ready(house, "one", "other")
    sql(house, "UPDATE pod SET next_at = now()")
    seen = UnchangedOwners(house.database)
    for held in looks(house):
        held.notes.unwritten.watch({}, None, "")
        seen.add(held, 3600.0)
    later = "SELECT name FROM pod WHERE held_until IS NULL AND next_at > now() + interval '1 minute'"
    with locked_pod(house, other.id):
        assert [held.owner.id for held in seen.hand_back()] == [one.id]
        assert sql(house, later) == [("one",)] and seen.age is not None
    assert [held.owner.id for held in seen.hand_back()] == [other.id]
    assert len(sql(house, later)) == 2 and seen.age is None


def test_heartbeats_are_sent_beside_a_locked_row(house: House) -> None:
    """A long lock costs no other owner its hold, and the locked one is tried again and again."""
    one, other, lost = ready(house, "one", "other", "lost")
    sql(house, "UPDATE pod SET next_at = now()")
    held = {h.owner.id: h for h in looks(house)}
    sql(house, "UPDATE pod SET held_until = now() + interval '2 s'")
    sql(house, "UPDATE pod SET token = token + 1, wanted = 'absent' WHERE id = %s", lost.id)
    sql(house, "UPDATE pod SET wanted = 'absent' WHERE id = %s", one.id)
    long = "SELECT name FROM pod WHERE held_until > now() + interval '20 s' ORDER BY name"
    with locked_pod(house, other.id):
        assert [h.owner.id for h in extend_holds(house.database, list(held.values()))] == [other.id]
        assert sql(house, long) == [("one",)]
    assert [p for p, h in held.items() if h.fence.lost.is_set()] == [lost.id]
    assert [held[pod.id].wanted for pod in (one, other)] == ["absent", "present"]
    assert extend_holds(house.database, [held[other.id]]) == []
    assert sql(house, long) == [("one",), ("other",)]
    assert extend_holds(house.database, []) == []


def test_heartbeat_of_a_locked_row_is_soon_repeated(house: House) -> None:
    (pod,) = ready(house, "one")
    sql(house, "UPDATE pod SET next_at = now()")
    worker = house.worker
    taken = worker._claim_ready(1)  # pyright: ignore[reportPrivateUsage]
    with locked_pod(house, pod.id):
        assert worker._signs_of_life() == 1.0  # pyright: ignore[reportPrivateUsage]
    assert worker._signs_of_life() == 10.0 and not taken[0].fence.lost.is_set()  # pyright: ignore[reportPrivateUsage]
    sql(house, "UPDATE pod SET token = token + 1")
    assert worker._signs_of_life() == 10.0 and taken[0].fence.lost.is_set()  # pyright: ignore[reportPrivateUsage]


def test_quarantining_and_freeing_a_node_do_not_deadlock(house: House) -> None:
    """Both make the queue due, and then wait for no other lock."""
    node = house.site.nodes[-1].name
    house.store.quarantine(node, "fan")
    sql(house, "UPDATE queue SET next_at = now() + interval '1 hour'")
    with (
        ThreadPoolExecutor(1) as pool,
        locked(house, "UPDATE quarantine SET reason = 'fan; DIMM' WHERE node = %s", node) as other,
    ):
        cleared = pool.submit(house.store.clear_quarantine, node)
        wait_for(lambda: waits_for_a_lock(house))
        other.execute("UPDATE queue SET next_at = now()")
        other.commit()
        assert cleared.result()
    assert not house.store.capacity().quarantines


def test_concurrent_quarantines_lock_nodes_in_one_order(house: House) -> None:
    """Pods that share them, which end at the same time."""
    (pod,) = ready(house, "one")
    held = house.store.claim_owner(pod.id, "w")
    assert isinstance(held, HeldPod)
    nodes = sorted(n.name for n in house.site.nodes)[:2]
    for node in nodes:
        house.store.quarantine(node, "fan")
    lock = "SELECT FROM quarantine WHERE node = %s FOR UPDATE"
    with ThreadPoolExecutor(1) as pool, locked(house, lock, nodes[0]) as other:
        done = pool.submit(held.quarantine.add, dict.fromkeys(reversed(nodes), "not seen clean"))
        wait_for(lambda: waits_for_a_lock(house))
        other.execute(lock, [nodes[1]])
        other.commit()
        done.result()
    assert sql(house, "SELECT DISTINCT pod_id FROM quarantine") == [(pod.id,)]


def test_stale_numbers_are_held_in_the_order_in_which_they_are_freed(house: House) -> None:
    (pod,) = ready(house, "one")
    held = house.store.claim_owner(pod.id, "w")
    assert held is not None
    stale = [StaleNumber("ib0", manager, 7, "away", "0x7") for manager in ("sm1", "sm2")]
    held.numbers.keep_stale(stale)
    lock = "DELETE FROM stale_number WHERE manager = %s"
    with ThreadPoolExecutor(1) as pool, locked(house, lock, "sm1") as other:
        done = pool.submit(held.numbers.keep_stale, reversed(stale))
        wait_for(lambda: waits_for_a_lock(house))
        other.execute(lock, ["sm2"])
        other.commit()
        done.result()
    assert sql(house, "SELECT manager FROM stale_number ORDER BY 1") == [("sm1",), ("sm2",)]


def test_tenants_networks_are_read_beside_a_locked_one(house: House) -> None:
    """Another worker has just read it, too."""
    for n in ("one", "other"):
        house.order(ORDER.model_copy(update={"name": n, "nodes": ONE}))
    sql(house, _NETWORKS)
    read = "SELECT count(*) FROM tenant_network WHERE read_at > now() - interval '1 hour'"
    with house.database.statement() as tx:
        owners, at = [row[0] for row in sql(house, "SELECT owner_id FROM tenant_network")], tx.now()
        with locked(house, "SELECT FROM tenant_network WHERE network_id = 'one' FOR UPDATE"):
            assert tx.run("read_tenant_networks", owners=owners, at=at) == 1
        assert sql(house, read) == [(1,)]
        assert tx.run("read_tenant_networks", owners=owners, at=at) == 2
    assert sql(house, read) == [(2,)]


# -- locks that a writer takes first --------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", ["insert_event", "insert_segment_event"])
def test_no_event_of_an_owner_appears_before_one_already_delivered(house: House, statement: str) -> None:
    """A follower asks for events after the last one that it has: none may appear before that one later."""
    (pod,) = ready(house, "one")
    held = house.store.claim_owner(pod.id, "w")
    assert held is not None
    last = house.store.records.events(pod.id, 0)[-1].sequence
    with ThreadPoolExecutor(1) as pool:
        with house.database.transaction() as tx:
            tx.run(statement, owner_id=pod.id, message=Jsonb("first"), at=tx.now(), type="action", key=None)
            second = pool.submit(say, held, "second")
            wait_for(lambda: second.done() or waits_for_a_lock(house))
            seen = house.store.records.events(pod.id, last)
        second.result()
    seen += house.store.records.events(pod.id, seen[-1].sequence if seen else last)
    assert [e.message for e in seen] == ["first", "second"]
