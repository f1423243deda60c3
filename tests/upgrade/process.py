"""Processes of one version of weft on a fake cloud that those of several versions share: `python -m
tests.upgrade.process URL FOLDER` imports it, and forks a process for each line of its input (`{"do": …, "file": …}`),
whose id it answers.

`server` and `worker` write `FILE.ready` (the server its address) and work until SIGTERM, signed on as `weft serve` and
`weft worker` are; `site` activates one and ends; `weft` runs a command line (`words`) and writes `FILE.code`. Their
output is in FILE.

The cloud's state is in a file, which each call reads and writes under a lock, so that all see the same; its values are
plain, so that versions of weft read each other's.
"""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

from weft.api.app import create_app
from weft.app.desk import Desk
from weft.app.metrics import StoreCollector
from weft.app.policy import Policy
from weft.app.service import Service
from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.clock import DatabaseClock
from weft.engine.base.database import Database
from weft.engine.base.gate import Gate, GateKeeper
from weft.engine.base.listener import Listener
from weft.engine.base.pulse import Pulse
from weft.engine.base.world import World
from weft.engine.hold.settings import LoopSettings
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.store.signing import Signer
from weft.engine.store.store import Store
from weft.engine.visit.reconciler import Reconciler
from weft.engine.watch.versionkeeper import VersionKeeper
from weft.engine.watch.worker import Worker
from weft.model.site import Site
from weft.program import main as program
from weft.testing.callers import tokens
from weft.testing.cloud import FakeCloud
from weft.testing.keystone import FakeIdentity
from weft.testing.serving import served
from weftlab.layout import Layout
from weftlab.site import make_site, settings

SHARED = ("_things", "trunks", "_endings", "witnesses", "_sequence")
"""What of a `FakeCloud` is its state."""
QUICK = LoopSettings(
    observe_every=1.0,
    first_poll=0.05,
    watch_every=0.0,
    last_poll=0.05,
    first_poll_servers=0.05,
    last_poll_servers=0.05,
    patience=2.0,
    patience_servers=2.0,
    verify_patience=0.1,
    first_delay=0.05,
    last_delay=0.2,
    late=0.0,
    fabric_age=0.0,
)


class SharedCloud(FakeCloud):
    """A `FakeCloud` whose state is in a folder's file; each call is alone there."""

    def __init__(self, folder: Path) -> None:
        self._file, self._turn = folder / "cloud", folder / "turn"
        self._alone_here, self._calls_here = threading.RLock(), 0
        super().__init__(seed=os.getpid(), name="lab", latency=0.0)
        self.offers.images.add("tiny")

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name.startswith("_") or not inspect.ismethod(value):
            return value
        return super().__getattribute__("_alone")(value)

    def _alone(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def run(*given: Any, **named: Any) -> Any:
            with self._alone_here:
                self._calls_here += 1
                try:
                    if self._calls_here > 1:
                        return call(*given, **named)
                    with self._turn.open("w") as turn:
                        fcntl.flock(turn, fcntl.LOCK_EX)
                        if self._file.exists():
                            vars(self).update(pickle.loads(self._file.read_bytes()))
                        try:
                            return call(*given, **named)
                        finally:
                            new = self._file.with_suffix(f".{os.getpid()}")
                            new.write_bytes(pickle.dumps({n: vars(self)[n] for n in SHARED}))
                            new.rename(self._file)
                finally:
                    self._calls_here -= 1

        return run


def site_of(fields: dict[str, str]) -> Site:
    """The lab's default site, with fields that this version may have alone."""
    chosen = settings(nodes=16)
    site = make_site(chosen, Layout(Path("/nowhere"), Path("/nowhere"), chosen.ports))
    return Site.model_validate({**site.model_dump(), **fields})


def activate(url: str, fields: dict[str, str]) -> None:
    database = Database(url)
    Store(database).activate_site(site_of(fields), "test")
    database.close()


def run(role: str, url: str, folder: Path, ready: Callable[[str], None]) -> None:
    """Work as a server or a worker until SIGTERM."""
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    database, pulse = Database(url), Pulse()
    listener, store = Listener(url, pulse), Store(database)
    cloud = SharedCloud(folder)
    world = World(resources={"lab": cloud}, fabrics={}, clouds={"lab": cloud})
    keeper = WorldKeeper(store, lambda _: world)
    gate = GateKeeper(Gate(database, lambda: (keeper.site().name, world.clouds)), pulse)
    gate.start()
    versions = VersionKeeper(database, role, pulse)
    versions.start()
    clock = DatabaseClock(database)
    if role == "worker":
        reconciler = Reconciler(keeper.world, keeper.site, Signer(store), clock, QUICK, {})
        worker = Worker(database, listener, reconciler, QUICK, Dispatcher(store, keeper.world), pulse=pulse)
        worker.start()
        ready("worker")
        over.wait()
        worker.stop()
    else:
        policy = Policy()
        service = Service(Desk(store, keeper, policy, clock, listener, pulse))
        with served(
            create_app(service, FakeIdentity(tokens()), policy, collectors=[StoreCollector(store)])
        ) as address:
            ready(address)
            over.wait()
    versions.stop()
    gate.stop()
    listener.close()
    database.close()


def child(given: dict[str, Any], url: str, folder: Path) -> None:
    """What a forked process does; it doesn't return."""
    code = 1
    try:
        file = Path(given["file"])
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (1, 2):
            os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
        if given["do"] == "weft":
            code = command(given["words"])
            file.with_suffix(".code").write_text(str(code))
        elif given["do"] == "site":
            activate(url, json.loads(given["words"][0]))
            code = 0
        else:
            run(given["do"], url, folder, lambda text: _publish(file.with_suffix(".ready"), text))
            code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def command(words: Sequence[str]) -> int:
    code = program([*words])
    sys.stdout.flush()
    return code


def _publish(file: Path, text: str) -> None:
    file.with_suffix(".new").write_text(text)
    file.with_suffix(".new").rename(file)


def main(url: str, folder: Path) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps them
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            child(json.loads(line), url, folder)
        print(pid, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
