"""A process of weft on a fake cloud that processes of several versions share: `python -m tests.upgrade.process
server|worker URL FOLDER`.

The cloud's state is in a file, which each call reads and writes under a lock, so that all see the same; its values are
plain, so that versions of weft read each other's. A server prints its address, a worker `ready`; both work until their
stdin ends, and sign on as `weft serve` and `weft worker` do.
"""

from __future__ import annotations

import fcntl
import inspect
import os
import pickle
import sys
import threading
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from weft.api.app import create_app
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
from weft.model.errors import NotFoundError
from weft.model.site import Site
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


def site_of() -> Site:
    """The lab's default site."""
    chosen = settings(nodes=16)
    return make_site(chosen, Layout(Path("/nowhere"), Path("/nowhere"), chosen.ports))


def main(role: str, url: str, folder: Path) -> None:
    database, pulse = Database(url), Pulse()
    listener, store = Listener(url, pulse), Store(database)
    cloud = SharedCloud(folder)
    world = World(resources={"lab": cloud}, fabrics={}, clouds={"lab": cloud})
    keeper = WorldKeeper(store, lambda _: world)
    try:
        store.site()
    except NotFoundError:
        store.activate_site(site_of(), "test")
    gate = GateKeeper(Gate(database, lambda: (keeper.site().name, world.clouds)), pulse)
    gate.start()
    versions = VersionKeeper(database, role, pulse)
    versions.start()
    clock = DatabaseClock(database)
    if role == "worker":
        reconciler = Reconciler(keeper.world, keeper.site, Signer(store), clock, QUICK, {})
        worker = Worker(database, listener, reconciler, QUICK, Dispatcher(store, keeper.world), pulse=pulse)
        worker.start()
        print("ready", flush=True)
        sys.stdin.read()
        worker.stop()
    else:
        policy = Policy()
        service = Service(store, keeper, policy, clock, listener, pulse)
        with served(create_app(service, FakeIdentity(tokens()), policy)) as address:
            print(address, flush=True)
            sys.stdin.read()
    versions.stop()
    gate.stop()
    listener.close()
    database.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
