"""An upgrade that rolls: processes of this version and of a next one, which is made of it, work on one database; back
again, and to its end, after which this version is refused."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.helpers.turns import new_database
from tests.upgrade.versions import (
    DOCUMENTS,
    NODES,
    PLANTED_AFTER,
    PLANTED_BEFORE,
    Program,
    Tree,
    Version,
    next_tree,
    this_tree,
)
from tests.upgrade.versions import again as repeated

pytestmark = pytest.mark.landing

Begin = Callable[[Tree], Version]


@pytest.fixture
def url(postgres: str) -> Generator[str]:
    with new_database(postgres) as url:
        yield url


@pytest.fixture
def begin(url: str, tmp_path: Path) -> Generator[Begin]:
    """Versions, all of whose processes end with the test."""
    begun: list[Version] = []

    def run(tree: Tree) -> Version:
        begun.append(Version(tree, url, tmp_path))
        return begun[-1]

    yield run
    for one in begun:
        one.close()


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query.encode()).fetchall()


def listed(server: Program) -> dict[str, dict[str, Any]]:
    return {pod["name"]: pod for pod in server.ask("GET", "/v1/pods").json()["pods"]}


def metrics(server: Program) -> set[str]:
    return set(server.ask("GET", "/metrics").text.splitlines())


def version_of(url: str, pod: str) -> str:
    return rows(
        url, f"SELECT ordered ->> 'version' FROM pod WHERE name = '{pod}' ORDER BY created_at DESC LIMIT 1"
    )[0][0]


def test_two_versions_work_beside_each_other_back_and_to_the_upgrades_end(
    url: str, begin: Begin, tmp_path: Path
) -> None:
    old, new = begin(this_tree()), begin(next_tree(tmp_path))
    old.activate()
    old_server, old_worker = old.start("server"), old.start("worker")
    old_server.started(), old_worker.started()
    old_server.order("before")
    # The next version arrives, while this one builds, and migrates.
    new_server, new_worker = new.start("server"), new.start("worker")
    new_server.started(), new_worker.started()
    old_server.is_in("before", "READY")
    assert rows(url, f"SELECT name FROM migration WHERE name = '{PLANTED_BEFORE}'")
    assert not rows(url, f"SELECT name FROM migration WHERE name = '{PLANTED_AFTER}'")
    # Pods are ordered by either, read, changed and released by the other one.
    new_server.order("of-new")
    old_server.order("of-old")
    assert old_server.is_in("of-new", "READY") and new_server.is_in("of-old", "READY")
    for server, pod in ((old_server, "of-new"), (new_server, "of-old")):
        body = {"name": pod, "nodes": {**NODES, "count": 2}, "fabric": "none"}
        answer = repeated(lambda s=server, p=pod, b=body: s.ask("PUT", f"/v1/pods/{p}", b))
        assert answer.status_code in (200, 202), answer.text
        wait(lambda s=server, p=pod: s.ask("GET", f"/v1/pods/{p}").json()["nodes"] == 2)
    assert version_of(url, "of-new") == version_of(url, "of-old") == "5"
    # What only the next one can read is left to it, in its place; this one says so.
    new_server.order("newer", planted="a value")
    new_server.is_in("newer", "READY")
    wait(lambda: old_server.ask("GET", "/v1/pods/newer").status_code == 503)
    answer = old_server.ask("GET", "/v1/pods/newer").json()
    assert "newer weft" in answer["detail"] and answer["params"]["answer"]["code"] == "NEEDS_NEWER"
    assert listed(old_server).keys() >= {"newer", "of-new"}
    refused = old_server.ask("POST", "/v1/pods", {"name": "x", "nodes": NODES, "planted": "a value"})
    assert refused.status_code == 400
    # A worker is killed while it builds; the other version's goes on.
    new_server.order("orphan")
    new_worker.dies(url)
    old_server.is_in("orphan", "READY")
    # Back: this version alone. Everything that it can read goes on.
    new_server.stop()
    for pod in ("before", "of-new", "of-old", "orphan"):
        old_server.release(pod)
        old_server.is_in(pod, "RELEASED")
    old_server.order("again")
    old_server.is_in("again", "READY")
    wait(lambda: "newer weft" in listed(old_server)["newer"]["reason"])
    assert listed(old_server)["newer"]["state"] == "READY"
    assert rows(url, "SELECT failures, alarmed, parked FROM pod WHERE name = 'newer'") == [(0, False, None)]
    wait(lambda: {"weft_pods_left_to_newer 1.0", "weft_upgrade_unfinished 0.0"} <= metrics(old_server))
    rows(
        url,
        "UPDATE process_seen SET seen_at = seen_at - interval '2 minutes' WHERE halves > 0 RETURNING name",
    )
    wait(lambda: "weft_pods_unreadable 1.0" in metrics(old_server))
    # Forward, and to the end: not while this version is at work.
    new_server, new_worker = new.start("server"), new.start("worker")
    new_server.started(), new_worker.started()
    # A site that only the next one can read: this one leaves everything to it, and harms nothing.
    new.activate(planted="a value")
    wait(lambda: old_server.ask("GET", "/readyz").json()["checks"]["site"] == "not ok")
    refused = old_server.ask("POST", "/v1/pods", {"name": "x", "nodes": NODES, "fabric": "none"})
    assert refused.status_code == 503 and refused.json()["params"]["answer"]["code"] == "NEEDS_NEWER"
    new_server.order("on-newer-site")
    new_server.is_in("on-newer-site", "READY")
    assert rows(url, "SELECT FROM owner WHERE failures > 0 OR alarmed OR parked IS NOT NULL") == []
    new.activate()  # as both can read it: nothing is left over from that
    wait(lambda: old_server.ask("GET", "/readyz").status_code == 200)
    wait(lambda: "weft_pods_left_to_newer 1.0" in metrics(old_server))
    old_server.release("on-newer-site")
    old_server.is_in("on-newer-site", "RELEASED")
    shown = json.loads(new.weft("upgrade", "--database", url, "--json")[1])
    assert shown["unfinished"] == [PLANTED_AFTER, DOCUMENTS] and len(shown["older"]) == 2
    said = new.weft("upgrade", "--database", url)[1]
    assert (
        f"made by weft upgrade --finish: {PLANTED_AFTER}, {DOCUMENTS}" in said
        and said.count(", older\n") == 2
    )
    assert "beside which this one works" in old.weft("upgrade", "--database", url)[1]
    code, said = new.weft("upgrade", "--finish", "--database", url)
    assert code == 2 and "older weft" in said and not rows(url, "SELECT FROM finishing")
    # A worker that sleeps through it, whose last heartbeat is old, is ended by the database.
    old_worker.signal(signal.SIGSTOP)
    old_server.stop()
    rows(
        url,
        "UPDATE process_seen SET seen_at = seen_at - interval '2 minutes' WHERE halves = 0 RETURNING name",
    )
    code, said = new.weft("upgrade", "--finish", "--database", url)
    assert code == 0, said
    old_worker.signal(signal.SIGCONT)
    wait(lambda: "this version can't work with it" in old_worker.log.read_text())
    wait(lambda: writes(new_server, url) == "6")
    for pod in ("newer", "again"):
        new_server.is_in(pod, "READY")
        new_server.release(pod)
        new_server.is_in(pod, "RELEASED")
    late = old.start("server")
    assert "a newer weft was finished" in late.wait()
    assert new.weft("upgrade", "--finish", "--database", url) == (0, "nothing was left to make\n")
    assert {row[0] for row in rows(url, "SELECT name FROM migration WHERE name LIKE '%.after%'")} == {
        PLANTED_AFTER,
        DOCUMENTS,
    }


def writes(server: Program, url: str) -> str:
    """Order a pod; returns the version in which its documents are written."""
    server.order("probe")
    version = version_of(url, "probe")
    server.release("probe")
    server.is_in("probe", "RELEASED")
    return str(version)


def wait(there: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < until, "it doesn't come to be"
        time.sleep(0.1)
