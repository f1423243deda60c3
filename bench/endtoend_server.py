"""The API over the fakes of `bench.lean`, and a worker in a process of its own, as with `weft serve`.

`python -m bench.endtoend_server FOLDER NODES THREADS` writes its address when it is ready and serves until its stdin
ends, without a worker if THREADS is 0; then it writes the CPU seconds that both have used. Each process has its own
fakes: only weft creates anything there, and what the API would ask the cloud about weft's servers is in the database.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from bench.world import bench
from weft.api.app import create_app
from weft.app.policy import Policy
from weft.testing.callers import caller
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served
from weftlab.processes import interrupt_on_sigterm

PROJECTS = 24


def main(folder: Path, nodes: int, threads: int) -> None:
    with bench(folder, nodes) as made:
        policy = Policy()
        tokens = {f"t{n}": caller(f"user-{n}", f"team-{n}", "member") for n in range(PROJECTS)}
        app = create_app(made.service, FakeIdentity(tokens), policy)
        with served(app) as url, _beside(folder, nodes, threads) as worker:
            print(url, flush=True)
            _until_over(worker)


def work(folder: Path, nodes: int, threads: int) -> None:
    with bench(folder, nodes, apply=False) as made:
        worker = made.worker(threads)
        worker.start()
        print("ready", flush=True)
        _until_over()
        worker.stop()


def _until_over(worker: subprocess.Popen[str] | None = None) -> None:
    """Wait for the end of stdin, then print the processor time in seconds that this process and its worker have used
    since.
    """
    began = time.process_time()
    sys.stdin.read()
    seconds = time.process_time() - began
    if worker:
        seconds += float(worker.communicate(timeout=60)[0])
    print(seconds, flush=True)


@contextmanager
def _beside(folder: Path, nodes: int, threads: int) -> Generator[subprocess.Popen[str] | None]:
    """The worker's process, once it is ready; None if there are no threads."""
    if not threads:
        yield None
        return
    words = [sys.executable, "-W", "ignore", "-m", "bench.endtoend_server", str(folder), str(nodes)]
    worker = subprocess.Popen(
        [*words, str(threads), "work"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdin is not None and worker.stdout is not None
    try:
        if worker.stdout.readline().strip() != "ready":
            raise RuntimeError("the worker of the benchmark did not start")
        yield worker
    finally:
        worker.stdin.close()
        worker.wait(60)


if __name__ == "__main__":
    interrupt_on_sigterm()
    (work if sys.argv[4:] else main)(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
