"""The API and a worker over the fakes of `bench.lean`, for `bench.endtoend`.

`python -m bench.endtoend_server FOLDER NODES THREADS` writes its address when it is ready and serves until its stdin
ends, without a worker if THREADS is 0; then it writes the CPU seconds that it has used.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from bench.world import bench
from weft.api.app import create_app
from weft.app.policy import Policy
from weft.testing.callers import caller
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served

PROJECTS = 24


def main(folder: Path, nodes: int, threads: int) -> int:
    with bench(folder, nodes) as made:
        policy = Policy()
        tokens = {f"t{n}": caller(f"user-{n}", f"team-{n}", "member") for n in range(PROJECTS)}
        app = create_app(made.service, FakeIdentity(tokens), policy)
        worker = made.worker(threads) if threads else None
        if worker:
            worker.start()
        with served(app) as url:
            print(url, flush=True)
            began = time.process_time()
            sys.stdin.read()
            print(time.process_time() - began, flush=True)
        if worker:
            worker.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
