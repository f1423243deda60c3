"""The loop with thousands of pods: all booting at once, and releases among them; also what `bench.live` measures.

On the fakes of `bench.lean` with the embedded PostgreSQL; one process, `THREADS` threads. Claims are measured in a
process of their own, so that its memory doesn't include what other measurements left behind; so are visits to live
pods. In the environment, PODS sets the number of pods, CLAIMED the numbers of existing pods when claims are measured
(separated by commas), LIVE the number of READY pods that are visited.

A release takes time even with nothing else going on, and more of it the larger the fabric is that is read back. So
`alone` is reported twice: for the only pod, and for one of as many READY pods while nothing is built. The goal is 1.2
times the latter: both include the fabric's share, so only what the booting pods add is measured.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from psycopg.rows import TupleRow

from bench.row import row
from bench.threads import apart, threads
from bench.world import Bench, bench, fill, metered
from weft.app.verbs import Request
from weft.engine.watch.bootkeeper import BootKeeper
from weft.model.order import Order
from weft.model.pod import PodState

PODS = int(os.environ.get("PODS", "2000"))
CLAIMED = tuple(map(int, os.environ.get("CLAIMED", "2000,10000").split(",")))
LIVE = int(os.environ.get("LIVE", "10000"))
LOOKED_AT_EVERY, CLAIMS = 60.0, 30
THREADS = 8
BOOT = 30.0
AMONG, ALONE = range(1, 4), range(4, 9)
"""Pods that are released while the others boot, and when nothing else is going on."""
PATIENCE = 1200.0
PROJECTS = 40


def rows() -> list[dict[str, Any]]:
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as folder,
        bench(Path(folder), int(PODS * 1.1) + 20, BOOT) as made,
    ):
        found = [*_booting(made, _alone(made)), *_memory("")]
    return [*found, *(one for pods in CLAIMED for one in apart(claiming, pods))]


def _alone(made: Bench) -> float:
    """Seconds that the release of the only pod takes when nothing else is going on."""
    worker = made.worker(THREADS)
    worker.start()
    try:
        order(made, 0)
        until_ready(made, 1)
        return _release(made, "pod-0")
    finally:
        worker.stop()


def _booting(made: Bench, only: float) -> list[dict[str, Any]]:
    """The cost of booting all pods at once, and of releases among them.

    A release's own cost grows with the fabric that is read back, so it is compared with one on the same fabric, when
    all others are READY and nothing is built.

    Args:
        only: seconds as measured by `_alone`.
    """
    for number in AMONG:
        order(made, number)
    worker = made.worker(THREADS)
    worker.start()
    until_ready(made, len(AMONG))
    worker.stop()
    began, cpu = time.monotonic(), time.process_time()
    with threads(8) as pool:
        list(pool.map(lambda n: order(made, n), range(len(AMONG) + 1, PODS + 1)))
    ordered, claim = time.monotonic() - began, (time.process_time() - cpu) / (PODS - len(AMONG))
    worker, fakes = made.worker(THREADS), metered(made)
    boots = BootKeeper(made.database, made.keeper.world)
    began, cpu = time.monotonic(), time.process_time()
    boots.start()
    worker.start()
    release = statistics.median(_in_turn(made, AMONG, BOOT / 6))
    until_ready(made, PODS - len(AMONG))
    took, spent = time.monotonic() - began, (time.process_time() - cpu) / (PODS - len(AMONG))
    # The first ones may coincide with visits to pods that have just become READY.
    alone = statistics.median(_in_turn(made, ALONE, 1.0))
    worker.stop(60)
    boots.stop()
    goal = 1.5 * BOOT + fakes.seconds
    return [
        row(f"loop: {PODS} orders, claimed in", ordered, "s"),
        row("loop: processor of an order until it is claimed", claim * 1000, "ms"),
        row(
            f"loop: {PODS} pods to READY, boot {BOOT:.0f} s",
            took,
            "s",
            f"≤ {goal:.0f}",
            took <= goal,
            f"1.5 boot times, and {fakes.seconds:.0f} s of CPU in the fakes",
        ),
        row("loop: processor of a pod from claim to READY", spent * 1000, "ms"),
        row(
            "loop: a release while they boot, median of 3",
            release,
            "s",
            f"≤ {alone * 1.2:.2g}",
            release <= alone * 1.2,
            "1.2 times the next row",
        ),
        row("loop: a release alone, among READY pods, median of 5", alone, "s"),
        row("loop: a release alone, of the only pod", only, "s"),
    ]


def _in_turn(made: Bench, numbers: range, pause: float) -> list[float]:
    """Seconds that the release of each of these pods takes; `pause` seconds before each."""
    took: list[float] = []
    for number in numbers:
        time.sleep(pause)
        took.append(_release(made, f"pod-{number}"))
    return took


def looking(pods: int) -> list[dict[str, Any]]:
    """This many pods, ordered and booted, are all due at once: the time until each was visited, and the cost in
    processor time and memory.
    """
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as folder,
        bench(Path(folder), int(pods * 1.05) + 20, many=True) as made,
    ):
        with threads(4) as pool:
            list(pool.map(lambda n: order(made, n), range(pods)))
        worker, boots = made.worker(THREADS), BootKeeper(made.database, made.keeper.world)
        boots.start()
        worker.start()  # only now: pods that come one by one are many changes of a large fabric
        until_ready(made, pods)
        worker.stop(60)
        boots.stop()
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak of the memory
        return [*_visits(made, pods), *_memory(f", visits to {pods:,} READY pods")]


def _visits(made: Bench, pods: int) -> list[dict[str, Any]]:
    with psycopg.connect(made.database.url, autocommit=True) as connection:
        changed = connection.execute(
            "UPDATE pod SET next_at = now(), watched_at = NULL WHERE state = 'READY' RETURNING id"
        )
        assert changed.rowcount == pods
        worker = made.worker(THREADS)
        began, cpu = time.monotonic(), time.process_time()
        worker.start()
        while left := _count(connection, "watched_at IS NULL AND state = 'READY'"):
            if time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"{left} pods were not visited in {PATIENCE:.0f} s")
            time.sleep(0.25)
        took, spent = time.monotonic() - began, time.process_time() - cpu
        worker.stop(60)
    share, every = spent / LOOKED_AT_EVERY * 100, f"each every {LOOKED_AT_EVERY:.0f} s"
    soon = took <= LOOKED_AT_EVERY
    return [
        row("loop: processor of a visit to a READY pod", spent / pods * 1000, "ms"),
        row(f"loop: {pods:,} READY pods visited", took, "s", f"≤ {LOOKED_AT_EVERY:.0f}", soon),
        row(f"loop: {pods:,} READY pods, {every}", share, "% of one core", "< 50", share < 50),
    ]


def _count(connection: psycopg.Connection[TupleRow], which: LiteralString) -> int:
    found = connection.execute(f"SELECT count(*) FROM pod WHERE {which}").fetchone()
    assert found is not None
    return int(found[0])


def claiming(pods: int) -> list[dict[str, Any]]:
    """Orders of one node, one after the other, while this many pods hold a node each; nothing is built meanwhile."""
    with (
        tempfile.TemporaryDirectory(prefix="weft-bench-") as folder,
        bench(Path(folder), pods + 2 * CLAIMS) as made,
    ):
        fill(made, pods)
        began = time.process_time()
        order(made, pods)
        first = time.process_time() - began
        took, spent = list[float](), list[float]()
        for number in range(1, CLAIMS):
            started, began = time.monotonic(), time.process_time()
            order(made, pods + number)
            took.append(time.monotonic() - started)
            spent.append(time.process_time() - began)
    p50, own = statistics.median(took) * 1000, statistics.median(spent) * 1000
    return [
        row(f"claim of an order with {pods:,} pods, p50", p50, "ms", "≤ 20", p50 <= 20),
        row(f"claim of an order with {pods:,} pods, processor, p50", own, "ms", "≤ 20", own <= 20),
        row(f"first claim of a process with {pods:,} pods, processor", first * 1000, "ms"),
        *_memory(f" with {pods:,} pods"),
    ]


def _memory(when: str) -> list[dict[str, Any]]:
    # `getrusage` includes the parent's peak, which survives exec.
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
    return [row(f"loop: memory at most{when}, fakes included", peak, "MiB", "≤ 300", peak <= 300)]


def request(made: Bench, number: int) -> Request:
    """A request by a member of one of several projects."""
    project = f"team-{number % PROJECTS}"
    token = made.cloud.add_user(project, project=project, roles=("member",))
    return Request(made.cloud.check(token), "127.0.0.1", "req-bench")


def order(made: Bench, number: int) -> None:
    """Pod `pod-<number>` of one node."""
    nodes = {"count": 1, "flavor": "gpu8", "image": "ubuntu"}
    document = {"name": f"pod-{number}", "nodes": nodes}
    made.service.pods.create(request(made, number), Order.model_validate(document))


def _release(made: Bench, name: str) -> float:
    pod = made.store.pods.find(name, None)
    began = time.monotonic()
    made.store.release(pod.id, "release requested by the bench")
    while made.store.pods.which(str(pod.id), None).state is not PodState.RELEASED:
        if time.monotonic() - began > PATIENCE:
            raise RuntimeError(f"{name} isn't released: {made.store.pods.find(str(pod.id), None).reason}")
        time.sleep(0.01)
    return time.monotonic() - began


def until_ready(made: Bench, count: int) -> None:
    """Wait until this many pods are READY. It only reads a count, on a connection of its own, so that waiting doesn't
    burden the loop.
    """
    began = time.monotonic()
    with psycopg.connect(made.database.url, autocommit=True) as connection:
        while (found := _count(connection, "state = 'READY'")) < count:
            if time.monotonic() - began > PATIENCE:
                raise RuntimeError(f"after {PATIENCE:.0f} s {found} of {count} pods are READY")
            time.sleep(0.25)
