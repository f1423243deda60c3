"""Capacity is counted once and updated by changes, and always matches a plain reading of the tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg.rows import DictRow, dict_row

from tests.engine.house import ORDER, House
from tests.engine.plainly import Found, counted, plainly
from tests.helpers.amounts import examples, seeded
from weft.engine.base.database import Database
from weft.engine.book import capacity as module
from weft.engine.book.capacity import Capacity, read_capacity
from weft.model.errors import WeftError
from weft.planning.fabric.subnets import SubnetSet
from weft.planning.place.sharing import Terms

Connection = psycopg.Connection[DictRow]
PODS = [str(UUID(int=n + 1)) for n in range(6)]
NODES = [f"gpu{n}" for n in range(6)]
STEPS = 150


def test_counted_capacity_equals_the_tables(database_url: str, database: Database) -> None:
    """Random concurrent writes in transactions that overlap, end in any order, or are rolled back; two processes."""
    for seed in range(examples(8)):
        another = Database(database_url)
        try:
            _Writers(seeded(seed), database_url, [database, another]).run()
        finally:
            another.close()


class _Writers:
    """Three connections that write at random, and two processes that read."""

    def __init__(self, chance: random.Random, url: str, readers: list[Database]) -> None:
        self.chance, self.readers, self.url = chance, readers, url

    def run(self) -> None:
        with _connected(self.url) as plain, _connected(self.url) as one, _connected(self.url) as two:
            writers = [one, two]
            for writer in (plain, *writers):
                writer.execute("SET lock_timeout = 1")
            for _ in range(STEPS):
                self.write(self.chance.choice(writers))
                if not self.chance.randrange(3):
                    self.look(self.chance.choice(self.readers), plain)
            for writer in writers:
                writer.rollback()
            for reader in self.readers:
                self.look(reader, plain)

    def write(self, writer: Connection) -> None:
        """A change, the end of a transaction, or one that is begun and taken back."""
        match self.chance.randrange(6):
            case 0:
                writer.commit()
            case 1:
                writer.rollback()
            case 2:
                self.change(writer, spoiled=True)
            case _:
                self.change(writer)

    def change(self, writer: Connection, spoiled: bool = False) -> None:
        statement, values = self.chance.choice(CHANGES)(self.chance)
        try:
            with writer.transaction(force_rollback=spoiled):
                writer.execute(statement.encode(), values)
        except (psycopg.IntegrityError, psycopg.errors.LockNotAvailable):
            pass  # another one has it

    def look(self, reader: Database, plain: Connection) -> None:
        with reader.transaction() as tx:
            found = read_capacity(tx, lock=bool(self.chance.randrange(2)))
        plain.rollback()
        _same(found, plainly(plain))


def _same(found: Capacity, expected: Found) -> None:
    assert counted(found) == expected
    assert found.leases is not None
    made = Capacity(found.holds, {}, found.used, (), (), found.places, found.shared, found.parts).book()
    assert list(found.leases) == list(made.leases)
    assert found.leases.busy == made.leases.busy
    assert found.leases.asking == made.leases.asking and found.leases.in_parts == made.leases.in_parts
    for plane in (found.used.rdma_cidrs, found.used.management_cidrs):
        for subnets in plane.values():
            assert isinstance(subnets, SubnetSet) and (subnets.keys == SubnetSet(subnets).keys).all()


Change = tuple[str, dict[str, Any]]


def _change(statement: str, **values: list[Any]) -> Callable[[random.Random], Change]:
    """A statement with values chosen among these."""
    return lambda chance: (statement, {name: chance.choice(among) for name, among in values.items()})


_NOTES = ["", "its server isn't there"]
_TIMES = ["2030-01-01T00:00:00Z", "2031-02-03T04:05:06.789Z", None]
_INSERT_POD = """
    INSERT INTO pod (id, project_id, name, created_by, created_at, ordered, units, state, since, lease_end,
        placed_at, next_at)
    VALUES (%(pod)s::uuid, %(project)s, %(pod)s::text, 'x', now(), %(ordered)s, 1, 'PLACED', now(), %(end)s, %(end)s,
        now())"""
_ORDERED = [
    "{}",
    '{"locality": {"exclusive": true}}',
    '{"locality": {"apart_from": ["b"]}}',
    '{"fabric": {"bisection_gbps": 100}}',
]
CHANGES: list[Callable[[random.Random], Change]] = [
    *([_change(_INSERT_POD, pod=PODS, project=["a", "b"], ordered=_ORDERED, end=_TIMES)] * 3),
    _change("DELETE FROM pod WHERE id = %(pod)s", pod=PODS),
    _change("UPDATE pod SET lease_end = %(end)s WHERE id = %(pod)s", pod=PODS, end=_TIMES),
    _change("UPDATE pod SET placed_at = %(end)s WHERE id = %(pod)s", pod=PODS, end=_TIMES),
    _change("UPDATE pod SET ordered = %(ordered)s WHERE id = %(pod)s", pod=PODS, ordered=_ORDERED),
    _change("UPDATE owner SET wanted = 'absent', project_id = 'c' WHERE id = %(pod)s", pod=PODS),
    _change("UPDATE owner SET name = 'other' WHERE id = %(pod)s", pod=PODS),
    *(
        [
            _change(
                "INSERT INTO node_hold (node, pod_id, since, spare, whole)"
                " VALUES (%(node)s, %(pod)s, now(), %(spare)s, %(whole)s)",
                node=NODES,
                pod=PODS,
                spare=[True, False],
                whole=[True, False],
            )
        ]
        * 6
    ),
    _change("UPDATE node_hold SET withheld = %(why)s WHERE node = %(node)s", node=NODES, why=_NOTES),
    _change(
        "UPDATE node_hold SET leaving = 2 WHERE node = %(node)s AND pod_id = %(pod)s", node=NODES, pod=PODS
    ),
    _change("DELETE FROM node_hold WHERE node = %(node)s", node=NODES),
    _change("DELETE FROM node_hold WHERE pod_id = %(pod)s", pod=PODS),
    *(
        [
            _change(
                "INSERT INTO part_hold (node, pod_id, server, devices, cores, memory_mib)"
                " VALUES (%(node)s, %(pod)s, %(server)s, ARRAY[%(device)s], 4, 1024)",
                node=NODES,
                pod=PODS,
                server=[0, 1],
                device=["0000:01:00.0", "0000:02:00.0"],
            )
        ]
        * 6
    ),
    _change("DELETE FROM part_hold WHERE node = %(node)s", node=NODES),
    *(
        [
            _change(
                "INSERT INTO function_hold (node, function, pod_id, server)"
                " VALUES (%(node)s, %(vf)s, %(pod)s, %(server)s)",
                node=NODES,
                pod=PODS,
                server=[0, 1],
                vf=["mlx5_0/0", "mlx5_0/1"],
            )
        ]
        * 6
    ),
    _change("UPDATE function_hold SET slot = '0000:0' || server WHERE node = %(node)s", node=NODES),
    *(
        [
            _change(
                "INSERT INTO number_hold (space, number, owner_id) VALUES (%(space)s, %(number)s, %(pod)s)",
                space=["segment/ib0", "vlan/lab", "data/ipu", "host/poplar1"],
                number=[1, 2, 3],
                pod=PODS,
            )
        ]
        * 3
    ),
    _change("UPDATE number_hold SET owner_id = %(pod)s WHERE number = %(number)s", pod=PODS, number=[1, 2]),
    _change("DELETE FROM number_hold WHERE owner_id = %(pod)s", pod=PODS),
    *(
        [
            _change(
                "INSERT INTO stale_number (fabric, manager, number, owner_id, reason, since)"
                " VALUES ('ib0', %(manager)s, %(number)s, %(pod)s, '', now())"
                " ON CONFLICT (fabric, manager, number) DO UPDATE SET owner_id = excluded.owner_id",
                manager=["a", "b"],
                number=[1, 2],
                pod=PODS,
            )
        ]
        * 3
    ),
    _change("DELETE FROM stale_number WHERE number = %(number)s", number=[1, 2]),
    *(
        [
            _change(
                "INSERT INTO subnet_hold (cloud, plane, cidr, owner_id) VALUES ('lab', %(plane)s, %(cidr)s, %(pod)s)",
                plane=["rdma", "management"],
                cidr=["10.0.0.0/24", "10.0.1.0/25", "10.0.1.128/25", "10.0.2.0/23"],
                pod=PODS,
            )
        ]
        * 3
    ),
    _change("DELETE FROM subnet_hold WHERE owner_id = %(pod)s", pod=PODS),
    _change(
        "INSERT INTO booking (pod_id, nodes, start_at, end_at, open)"
        " VALUES (%(pod)s, ARRAY[%(node)s], now(), %(end)s, %(open)s) ON CONFLICT (pod_id)"
        " DO UPDATE SET nodes = excluded.nodes, end_at = excluded.end_at",
        pod=PODS,
        node=NODES,
        end=_TIMES,
        open=[True, False],
    ),
    _change("DELETE FROM booking WHERE pod_id = %(pod)s", pod=PODS),
    _change(
        "INSERT INTO quarantine (node, reason, since, pod_id) VALUES (%(node)s, %(why)s, now(), %(pod)s)"
        " ON CONFLICT (node) DO UPDATE SET reason = excluded.reason",
        node=NODES,
        why=_NOTES,
        pod=[*PODS, None],
    ),
    _change("DELETE FROM quarantine WHERE node = %(node)s", node=NODES),
    _change(
        "INSERT INTO acceptance (node, what, since, held_by) VALUES (%(node)s, %(why)s, now(), 'x')"
        " ON CONFLICT (node, what) DO UPDATE SET since = excluded.since",
        node=NODES,
        why=_NOTES,
    ),
    _change("DELETE FROM acceptance WHERE node = %(node)s", node=NODES),
    _change(
        "INSERT INTO drain (node, since, drained_by, until_at, reason, public)"
        " VALUES (%(node)s, now(), 'x', %(end)s, %(why)s, '')"
        " ON CONFLICT (node) DO UPDATE SET until_at = excluded.until_at",
        node=NODES,
        end=_TIMES,
        why=_NOTES,
    ),
    _change("DELETE FROM drain WHERE node = %(node)s", node=NODES),
    _change(
        "INSERT INTO reservation (name, project_id, nodes, start_at, end_at, created_by, created_at)"
        " VALUES (%(name)s, 'a', ARRAY[%(node)s], now(), %(end)s, 'x', now())",
        name=["x", "y"],
        node=NODES,
        end=_TIMES,
    ),
    _change("DELETE FROM reservation WHERE name = %(name)s", name=["x", "y"]),
    # The log is cut: at the mark, which moves on.
    _change("UPDATE capacity_log SET below = mark, mark = pg_snapshot_xmin(pg_current_snapshot())"),
    _change("DELETE FROM capacity_change WHERE xact < (SELECT below FROM capacity_log)"),
]


def test_uncommitted_writes_count_only_in_their_transaction(house: House) -> None:
    """It may never be committed: no other transaction counts with it, nor does the process after the transaction."""
    pod = house.order()
    house.store.capacity()
    with house.database.transaction() as tx:
        tx.run("give_back_nodes", pod_id=pod.id)
        assert not read_capacity(tx).holds
        assert set(house.store.capacity().holds) == set(pod.nodes)
    assert not house.store.capacity().holds


def test_rollback_leaves_no_trace(house: House) -> None:
    pod = house.order()
    before = counted(house.store.capacity())
    with pytest.raises(KeyError), house.database.transaction() as tx:
        tx.run("give_back_nodes", pod_id=pod.id)
        assert not read_capacity(tx).holds
        raise KeyError
    assert counted(house.store.capacity()) == before


def test_only_changes_are_read_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    first = house.order()
    house.store.capacity()
    read: list[UUID] = []
    of = module.Holding.of
    monkeypatch.setattr(
        module.Holding, "of", lambda owner, document: read.append(owner) or of(owner, document)
    )
    house.store.capacity()
    assert not read
    second = house.order(ORDER.model_copy(update={"name": "second"}))
    house.store.capacity()
    assert set(read) == {second.id} and first.id != second.id


def test_write_without_the_lock_is_noticed(house: House, database_url: str) -> None:
    house.store.capacity()
    with _connected(database_url) as connection:
        connection.execute("INSERT INTO number_hold VALUES ('segment/ib0', 7, %s)", [PODS[0]])
        assert not house.store.capacity().used.segments
        connection.commit()
    assert house.store.capacity().used.segments == {"ib0": {7}}


def test_truncated_table_is_noticed(house: House, database_url: str) -> None:
    house.order()
    house.store.capacity()
    with _connected(database_url) as connection:
        connection.execute("TRUNCATE node_hold CASCADE")
        connection.commit()
    assert not house.store.capacity().holds


def test_outdated_count_admits_no_second_claim_of_a_node(house: House) -> None:
    """The tables refuse it, and the process counts again from the tables."""
    pod = house.order()
    capacity = house.store.capacity()
    kept = next(iter(house.database._kept.values()))
    house.database._kept[type(kept)] = module._CountedState(module.Counted(), kept.since, kept.server)
    assert capacity.holds and not house.store.capacity().holds, "it counts wrongly"
    with pytest.raises(WeftError):
        house.order(ORDER.model_copy(update={"name": "second"}))
    assert set(house.store.capacity().holds) == set(pod.nodes)
    second = house.order(ORDER.model_copy(update={"name": "second"}))
    assert not set(second.nodes) & set(pod.nodes)


@pytest.mark.parametrize("was", [{"server": "another"}, {"since": "9000000000:9000000000:"}])
def test_failover_makes_the_count_start_over(house: House, was: dict[str, str]) -> None:
    """Transactions after a failover or a restore may have numbers that others had before."""
    pod = house.order()
    house.store.capacity()
    kept = next(iter(house.database._kept.values()))
    known = {"counted": module.Counted(), "since": kept.since, "server": kept.server, **was}
    house.database._kept[type(kept)] = module._CountedState(**known)
    assert set(house.store.capacity().holds) == set(pod.nodes)


def test_broken_connection_discards_the_count(house: House) -> None:
    house.order()
    house.store.capacity()
    with pytest.raises(WeftError), house.database.transaction() as tx:
        tx._connection.close()
        read_capacity(tx)
    assert not house.database._kept


def test_later_count_leaves_an_earlier_one_unchanged(house: House) -> None:
    house.order()
    before = house.store.capacity()
    assert before.leases is not None
    seen, leases = counted(before), list(before.leases)
    house.order(ORDER.model_copy(update={"name": "second"}))
    house.store.capacity()
    assert counted(before) == seen and list(before.leases) == leases, (
        "a later count leaves an earlier one as it was"
    )


def test_old_changes_are_pruned(house: House, database_url: str) -> None:
    """Not before every process that reads regularly has seen them; a process that hasn't for long reads everything."""
    late = Database(database_url)
    try:
        with late.transaction() as tx:
            read_capacity(tx)
        pod = house.order()
        with _connected(database_url) as connection:
            for _ in range(2):
                connection.execute("UPDATE capacity_log SET marked_at = now() - interval '31 minutes'")
                connection.commit()
                with house.database.transaction() as tx:
                    tx.run("mark_capacity_changes")
                    tx.run("prune_capacity_changes", limit=1000)
            (left,) = connection.execute("SELECT count(*) AS n FROM capacity_change").fetchall()
            assert left["n"] == 0
        with late.transaction() as tx:
            assert set(read_capacity(tx).holds) == set(pod.nodes)
    finally:
        late.close()


def test_irrelevant_neighbours_are_left_out(house: House) -> None:
    """An order that excludes no one gets only the neighbours that exclude it; the plan is the same."""
    exclusive = ORDER.model_copy(
        update={"name": "alone", "locality": ORDER.locality.model_copy(update={"exclusive": True})}
    )
    house.order(exclusive)
    house.order()
    capacity, site = house.store.capacity(), house.site
    book, now = capacity.book(), house.clock.now().timestamp()
    health = capacity.health(site, {})
    every = book.occupancy(health, "team-z", now, now, now + 60)
    some = book.occupancy(health, "team-z", now, now, now + 60, terms=Terms("team-z"))
    assert len(every.neighbours) == 2 and [n.pod for n in some.neighbours] == ["alone"]
    assert every.busy == some.busy


@contextmanager
def _connected(url: str) -> Generator[Connection]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        yield connection
