"""The state file: complete after SIGKILL at any point, and a clear sentence when it is damaged."""

from __future__ import annotations

import hashlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvipu.model.codec import encode
from openvipu.model.errors import StateError
from openvipu.model.partition import Operation, ReadyState, RemovedPartition
from openvipu.model.site import User
from openvipu.model.state import Settings, State
from openvipu.sim.pod import PodConfig, SimulatedPod
from openvipu.store import Store
from tests.helpers.amounts import examples, seeded
from tests.openvipu.test_rules import MESH16, admit, site, whole
from tests.openvipu.vipuhouse import POD16, Controller, controlling, new_config, until

PASSES = min(6, examples(6))
"""How many of a controller's six transactions are tried."""
POINTS = [
    *(("before-transaction", passes) for passes in range(PASSES)),
    *(("in-transaction", passes) for passes in range(PASSES)),
    *(("after-transaction", passes) for passes in range(PASSES)),
    ("admitted", 0),
    ("configuring", 0),
    ("configured", 0),
    ("trained", 0),
    ("begun", 0),
    ("configuring", 1),
    ("configured", 1),
    ("trained", 1),
    ("begun", 1),
    ("cleared", 0),
]


def full_state() -> State:
    state, _ = admit(site(MESH16, whole(MESH16)), id="p", size=8, gcds=2)
    return state.with_user(User("alice", "00", "11", ("all",)))


def written(path: Path, state: State) -> Store:
    Store.create(path, state.settings)
    store = Store.open(path)
    store.save(state)
    return store


def test_sigkill_at_any_planted_point_loses_nothing(tmp_path: Path) -> None:
    """After the restart what was acknowledged is there, and work under way is completed."""
    command = [sys.executable, str(Path(__file__).with_name("crashing.py"))]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as crashing,
        SimulatedPod(PodConfig(POD16, port=0)) as pod,
    ):
        config = new_config(tmp_path)
        with controlling(pod, config) as controller:
            controller.add_agents()
            controller.add_cluster("c")
        for point, passes in POINTS:
            acknowledged = _live_and_die(crashing, f"{config.state} {point} {passes}")
            assert acknowledged.pop() == str(int(signal.SIGKILL)), (point, passes)
            connection = sqlite3.connect(config.state)
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            connection.close()
            with controlling(pod, config) as controller:
                _check_recovered(controller, acknowledged, (point, passes))


def _live_and_die(crashing: subprocess.Popen[str], line: str) -> list[str]:
    """What the controller acknowledged, and then the signal that ended it."""
    assert crashing.stdin is not None
    assert crashing.stdout is not None
    print(line, file=crashing.stdin, flush=True)
    words: list[str] = []
    while not words or words[-2:-1] != ["end"]:
        said = crashing.stdout.readline().split()
        assert said, "the program that forks the controllers has ended"
        words += said
    return [*words[:-2], words[-1]]


def _check_recovered(controller: Controller, acknowledged: list[str], where: tuple[str, int]) -> None:
    def settled() -> bool:
        return all(entry.operation is Operation.IDLE for entry in controller.state.partitions.values())

    until(settled, lambda: f"{where}: {controller.state.partitions}")
    partition = controller.state.partitions.get("p")
    if "removing" in acknowledged:
        assert partition is None, where
    elif "created" in acknowledged:
        # an unacknowledged removal may have been accepted or not
        assert partition is None or partition.ready is ReadyState.ACTIVE, where
        assert partition is not None or "reset" in acknowledged, where
    on_hardware = {
        (agent.machine.name, setting.partition_id)
        for agent in controller.pod.agents.values()
        for setting in agent.machine.status().settings
    }
    wanted = {
        (agent, entry.id) for entry in controller.state.partitions.values() for agent in entry.agent_ids
    }
    assert on_hardware == wanted, where
    for id_ in list(controller.state.partitions):
        controller.remove_whole(id_)


def test_full_state_reads_back(tmp_path: Path) -> None:
    """Agents, clusters, allocations, users and partitions are the same values after a restart."""
    state = full_state()
    written(tmp_path / "s", state).close()
    store = Store.open(tmp_path / "s")
    assert store.state == state
    store.save(store.state.without_partition("p"))
    store.close()
    assert not Store.open(tmp_path / "s").state.partitions


def test_state_file_is_private_and_exclusive(tmp_path: Path) -> None:
    """Other users can't read it, and a second controller on the same file is refused in one sentence."""
    store = written(tmp_path / "s", full_state())
    assert (tmp_path / "s").stat().st_mode & 0o077 == 0
    with pytest.raises(StateError, match="can't be used: database is locked"):
        Store.open(tmp_path / "s")
    store.close()
    with pytest.raises(StateError, match="exists already"):
        Store.create(tmp_path / "s", Settings("c", "k"))
    with pytest.raises(StateError, match="doesn't exist; make it with --init"):
        Store.open(tmp_path / "other")


def test_interrupted_init_can_be_repeated(tmp_path: Path) -> None:
    """A file left by an --init that was killed doesn't stop the next one."""
    (tmp_path / "s.new").write_text("half")
    Store.create(tmp_path / "s", Settings("c", "k"))
    store = Store.open(tmp_path / "s")
    assert store.state.settings == Settings("c", "k")
    store.close()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE meta SET body = '3' WHERE key = 'version'", "layout 3 is not the 2"),
        ("UPDATE meta SET body = '-1' WHERE key = 'generation'", "generation must be a whole number"),
        ("UPDATE meta SET body = 'null' WHERE key = 'settings'", "settings: expected an object, found null"),
        ("UPDATE thing SET body = '{' WHERE kind = 'users'", "users 'alice': the text is not JSON"),
        ("UPDATE thing SET body = '{}' WHERE kind = 'users'", "field 'id' is missing"),
        ("UPDATE thing SET kind = 'pets' WHERE kind = 'users'", "unknown kind 'pets'"),
        ("UPDATE thing SET id = 'bob' WHERE kind = 'users'", "users 'bob' has another id inside"),
        ("DELETE FROM thing WHERE kind = 'clusters'", "names 'c', which doesn't exist"),
        ("DELETE FROM thing WHERE id = 'a3'", "names 'a3', which doesn't exist"),
        ("DELETE FROM thing WHERE kind = 'allocations'", "names 'all', which doesn't exist"),
        ("DROP TABLE thing", "its tables are not those of layout 2"),
        ("CREATE TABLE more (a)", "its tables are not those of layout 2"),
    ],
)
def test_invalid_state_is_refused_with_its_place(tmp_path: Path, statement: str, words: str) -> None:
    """One sentence names the place, though all digests fit."""
    written(tmp_path / "s", full_state()).close()
    connection = sqlite3.connect(tmp_path / "s")
    with connection:
        connection.execute(statement)
        if "TABLE" not in statement:
            _sign(connection)
    connection.close()
    with pytest.raises(StateError, match=words):
        Store.open(tmp_path / "s")


def _sign(connection: sqlite3.Connection) -> None:
    """Give every row the digest of its present content, and the file their sum."""
    total = 0
    rows = list(connection.execute("SELECT 'meta', key, body FROM meta WHERE key <> 'sum'"))
    for kind, id_, body in [*rows, *connection.execute("SELECT kind, id, body FROM thing")]:
        digest = hashlib.sha256(json.dumps((kind, id_, body)).encode()).hexdigest()
        total += int(digest, 16)
        connection.execute("UPDATE meta SET digest = ? WHERE key = ? AND ? = 'meta'", (digest, id_, kind))
        connection.execute("UPDATE thing SET digest = ? WHERE kind = ? AND id = ?", (digest, kind, id_))
    body = json.dumps(f"{total % (1 << 256):064x}")
    digest = hashlib.sha256(json.dumps(("meta", "sum", body)).encode()).hexdigest()
    connection.execute("UPDATE meta SET body = ?, digest = ? WHERE key = 'sum'", (body, digest))


def test_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    """Text, and a database that was cut off in the middle."""
    (tmp_path / "s").write_text("hello " * 1000)
    with pytest.raises(StateError, match="is damaged: file is not a database"):
        Store.open(tmp_path / "s")
    written(tmp_path / "t", full_state()).close()
    whole_file = (tmp_path / "t").read_bytes()
    (tmp_path / "t").write_bytes(whole_file[: len(whole_file) // 2])
    with pytest.raises(StateError, match=r"is damaged|can't be used"):
        Store.open(tmp_path / "t")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=examples(120))
@given(st.data())
def test_arbitrary_field_value_is_refused_or_read(data: st.DataObject) -> None:
    """One value of a stored partition is replaced: a StateError with a sentence, or a consistent state."""
    from openvipu.model.codec import decode, encode
    from openvipu.model.partition import Partition
    from openvipu.store import check_consistency

    state = full_state()
    body = json.loads(json.dumps(encode(state.partitions["p"])))
    place = body
    path = data.draw(st.sampled_from([(), ("shape",), ("ipus", 0), ("ipus",)]))
    for key in path:
        place = place[key]
    key = data.draw(
        st.sampled_from(sorted(place)) if isinstance(place, dict) else st.integers(0, len(place) - 1)
    )
    place[key] = data.draw(json_values)
    try:
        partition = decode(Partition, body, "p")
        check_consistency(replace(state, partitions={"p": partition}), "state")
    except StateError as error:
        assert str(error)


def _damaged(whole: bytes, dice: random.Random) -> bytes:
    """The file, damaged in one of the ways in which disks and people do it."""
    spoilt = bytearray(whole)
    place = dice.randrange(len(spoilt))
    match dice.randrange(7):
        case 0:  # a bit
            spoilt[place] ^= 1 << dice.randrange(8)
        case 1:  # a digit or letter turns into another: the text stays JSON
            texts = [at for at, byte in enumerate(spoilt) if chr(byte).isalnum()]
            spoilt[dice.choice(texts)] = ord(dice.choice("0123456789abcxyz"))
        case 2:  # some bytes
            for at in range(place, min(place + dice.randrange(2, 64), len(spoilt))):
                spoilt[at] = dice.randrange(256)
        case 3:  # a sector of zeros
            start = place - place % 512
            spoilt[start : start + 512] = bytes(512)
        case 4:  # a page in the place of another
            other = dice.randrange(len(spoilt) // 4096) * 4096
            start = place - place % 4096
            spoilt[start : start + 4096] = whole[other : other + 4096]
        case 5:  # cut off
            del spoilt[place:]
        case _:  # two words change places
            other = dice.randrange(len(spoilt) - 8)
            near = min(place, len(spoilt) - 8)
            spoilt[near : near + 8], spoilt[other : other + 8] = (
                spoilt[other : other + 8],
                spoilt[near : near + 8],
            )
    return bytes(spoilt)


def test_damaged_file_is_never_read_as_another_state(tmp_path: Path) -> None:
    """Random damage is refused in a sentence, or the state is exactly the one that was written."""
    state = full_state().with_removed(RemovedPartition("gone", "all"))
    path = tmp_path / "s"
    written(path, state).close()
    whole_file = path.read_bytes()
    dice = seeded(20261122)
    refused, tries = 0, examples(1000)
    for number in range(tries):
        path.write_bytes(_damaged(whole_file, dice))
        try:
            store = Store.open(path)
        except StateError as error:
            refused += 1
            assert len(str(error)) < 1000, number
            continue
        assert store.state == state, number
        store.close()
    # many bytes of the file are unused, so some damage has no effect
    assert refused > 0.4 * tries


def test_missing_or_older_rows_are_refused(tmp_path: Path) -> None:
    """A missing row, or an older row with a valid digest, doesn't fit the sum."""
    state = full_state()
    path = tmp_path / "s"
    written(path, state).close()
    with sqlite3.connect(path) as connection:
        old = connection.execute("SELECT * FROM thing WHERE kind = 'partitions'").fetchone()
    connection.close()
    store = Store.open(path)
    store.save(replace(state.with_partition(replace(state.partitions["p"], retries=2)), generation=7))
    store.close()
    saved = path.read_bytes()
    for statement, values in (
        ("INSERT OR REPLACE INTO thing VALUES (?, ?, ?, ?)", old),
        ("DELETE FROM thing WHERE kind = 'users'", ()),
    ):
        path.write_bytes(saved)
        with sqlite3.connect(path) as connection:
            connection.execute(statement, values)
        connection.close()
        with pytest.raises(StateError, match="rows are missing, or are of another time"):
            Store.open(path)


def test_file_of_the_first_layout_is_read_and_gets_digests(tmp_path: Path) -> None:
    """A file by an openvipu without digests is read as it is, once; from then on damage is refused."""
    state = full_state()
    path = tmp_path / "s"
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("CREATE TABLE meta (key TEXT PRIMARY KEY, body TEXT NOT NULL)")
        connection.execute(
            "CREATE TABLE thing (kind TEXT, id TEXT, body TEXT NOT NULL, PRIMARY KEY (kind, id))"
        )
        meta = {"version": 1, "settings": encode(state.settings), "generation": state.generation}
        for key, body in meta.items():
            connection.execute("INSERT INTO meta VALUES (?, ?)", (key, json.dumps(body)))
        for kind in ("agents", "clusters", "allocations", "users", "partitions"):
            for id_, value in getattr(state, kind).items():
                connection.execute(
                    "INSERT INTO thing VALUES (?, ?, ?)", (kind, id_, json.dumps(encode(value)))
                )
    connection.close()
    for _ in range(2):
        store = Store.open(path)
        assert store.state == state
        store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE thing SET body = replace(body, '\"00\"', '\"01\"') WHERE kind = 'users'")
    connection.close()
    with pytest.raises(StateError, match="users 'alice' doesn't fit its digest"):
        Store.open(path)
