"""weft over fakes that cost next to nothing: what `bench.loop` and `bench.endtoend` measure."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.lean import LeanCloud
from bench.sites import regular_site
from weft.app.policy import Policy
from weft.app.service import Service
from weft.app.worldkeeper import WorldKeeper
from weft.engine.clock import DatabaseClock
from weft.engine.database import Database, embedded
from weft.engine.dispatcher import Dispatcher
from weft.engine.ledger import FabricLedger
from weft.engine.listener import Listener
from weft.engine.reconciler import Reconciler
from weft.engine.settings import LoopSettings
from weft.engine.signing import Signer
from weft.engine.store import Store
from weft.engine.worker import Worker
from weft.engine.world import World
from weft.testing.fabric import FakeFabric

CLOUD, FABRIC = "main", "ib0"


@dataclass
class Bench:
    """The parts, and the worker that is started by whoever measures."""

    database: Database
    store: Store
    cloud: LeanCloud
    keeper: WorldKeeper
    listener: Listener
    clock: DatabaseClock
    service: Service

    def worker(self, threads: int, name: str = "bench") -> Worker:
        loop = LoopSettings(pods_at_once=threads)
        reconciler = Reconciler(self.keeper.world, self.keeper.site, Signer(self.store), self.clock, loop)
        dispatcher = Dispatcher(self.store, self.keeper.world, self.keeper.site)
        return Worker(self.database, self.listener, reconciler, loop, dispatcher, name)


@contextmanager
def bench(folder: Path, nodes: int, boot: float = 0.0) -> Generator[Bench]:
    """weft with a site of so many nodes on an embedded PostgreSQL that waits for its disk as in production."""
    with embedded(folder) as url:
        database = Database(url, connections=32)
        listener = Listener(url)
        try:
            store, site = Store(database), regular_site(nodes, managed=True)
            cloud = LeanCloud(CLOUD, boot)
            cloud.offers.images.add("ubuntu")
            cloud.offers.hosts.clear()
            cloud.offers.hosts.update({n.nova_host: "up" for n in site.nodes})
            fabric = FakeFabric(
                site, FABRIC, ledger=FabricLedger(database, FABRIC, site.fabrics[FABRIC].words)
            )
            world = World({CLOUD: cloud, FABRIC: fabric}, {FABRIC: fabric}, {CLOUD: cloud})
            keeper = WorldKeeper(store, lambda _: world)
            clock = DatabaseClock(database)
            service = Service(store, keeper, Policy(), clock, listener)
            store.apply_site(site, "bench")
            yield Bench(database, store, cloud, keeper, listener, clock, service)
        finally:
            listener.close()
            database.close()
