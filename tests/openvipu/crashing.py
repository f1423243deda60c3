"""Controllers that kill themselves with SIGKILL at a planted point; the crash tests run it as a program.

Each line of stdin is a state file, the name of a point, and how many times to pass the point before it kills.
A forked child runs the controller and prints what was acknowledged, as a client would have seen it; then comes
the line ``end`` with the signal that killed it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from openvipu.controller.core import Tuning
from openvipu.controller.waiting import WaitLimit
from openvipu.model.errors import NotFound
from openvipu.model.partition import Operation, Requirements
from openvipu.server import Config, ControllerServer

PATIENCE = WaitLimit("crash", 60)


def main() -> None:
    for line in sys.stdin:
        state, point, passes = line.split()
        # gRPC has not been used in this process yet, so it may fork
        child = os.fork()
        if child == 0:
            live(Path(state), point, int(passes))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(f"end {os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0}", flush=True)


def live(state: Path, point: str, passes: int) -> None:
    """Create a partition, reset it, remove it; or die at the point."""
    seen = 0

    def step(name: str) -> None:
        nonlocal seen
        if armed and name == point:
            if seen == passes:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

    armed = False
    config = Config(
        state, "127.0.0.1:0", "127.0.0.1:0", metrics_port=None, tuning=Tuning(poll=0, backoff=0.01)
    )
    server = ControllerServer(config, step=step)
    armed = True
    server.partitions.create(Requirements("p", size=8), lambda: None, PATIENCE)
    print("created", flush=True)
    _settle(server)
    server.partitions.reset("p", False, lambda: None, PATIENCE)
    _settle(server)
    print("reset", flush=True)
    server.partitions.remove("p", False, lambda: None, PATIENCE)
    print("removing", flush=True)
    _settle(server)
    print("removed", flush=True)


def _settle(server: ControllerServer) -> None:
    while True:
        try:
            if server.partitions.get("p", None).operation is Operation.IDLE:
                return
        except NotFound:
            return
        time.sleep(0.002)


if __name__ == "__main__":
    main()
