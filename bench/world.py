"""weft on fakes that cost next to nothing: what `bench.loop` and `bench.endtoend` measure."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from bench.lean import LeanCloud, Meter
from bench.sites import regular_site
from weft.app.desk import Desk
from weft.app.policy import Policy
from weft.app.service import Service
from weft.app.worldkeeper import WorldKeeper
from weft.engine.base.clock import DatabaseClock
from weft.engine.base.database import Database
from weft.engine.base.embedded import embedded
from weft.engine.base.listener import Listener
from weft.engine.base.world import World
from weft.engine.book.claimrows import insert_pod
from weft.engine.hold.settings import LoopSettings
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.rows.ledger import FabricLedger
from weft.engine.store.signing import Signer
from weft.engine.store.store import Store
from weft.engine.visit.reconciler import Reconciler
from weft.engine.watch.worker import Worker
from weft.model.order import Order
from weft.model.placement import Occupancy, Refusal
from weft.model.plan import Plan, UsedNumbers
from weft.planning.shapes.plan import NOT_ORDERED, make_plan
from weft.testing.fabric import FakeFabric

CLOUD, FABRIC = "main", "ib0"


@dataclass
class Bench:
    """The parts, and a worker that the measurement starts."""

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
        dispatcher = Dispatcher(self.store, self.keeper.world)
        return Worker(self.database, self.listener, reconciler, loop, dispatcher, name)


def fill(made: Bench, pods: int) -> None:
    """Add pods of one node, as orders claim them, on the first nodes. The cloud lists a server on each; nothing else of
    them exists outside.
    """
    site, order = made.keeper.site(), Order.model_validate({"name": "full-0", "nodes": {**_ONE}})
    can = {name: fabric.capabilities for name, fabric in made.keeper.world().fabrics.items()}
    plan = make_plan(NOT_ORDERED, "full", order, site, Occupancy(), UsedNumbers(), can)
    if isinstance(plan, Refusal):
        raise RuntimeError(plan.reason)
    for number in range(pods):
        with made.database.transaction() as tx:
            insert_pod(tx, _copy(plan, number), "full", "bench", delay=86_400.0)
    hosts = {n.name: n.nova_host for n in site.nodes}
    made.cloud.list_on(hosts[f"gpu{number}"] for number in range(pods))


_ONE = {"count": 1, "flavor": "gpu8", "image": "ubuntu"}


def _copy(plan: Plan, number: int) -> Plan:
    """The same plan under another name and id, on another node, with other subnets and numbers beyond the site's."""
    node = plan.placement.nodes[0].model_copy(update={"node": f"gpu{number}"})
    numbers = dict.fromkeys(plan.allotment.numbers, 100_000 + number)
    high, low = divmod(number, 256)
    subnets = {"rdma_cidr": f"100.{64 + high}.{low}.0/24", "management_cidr": f"10.{high}.{low}.0/24"}
    return plan.model_copy(
        update={
            "pod_id": str(UUID(int=number + 1)),
            "order": plan.order.model_copy(update={"name": f"full-{number}"}),
            "placement": plan.placement.model_copy(update={"nodes": (node,)}),
            "allotment": plan.allotment.model_copy(update={"numbers": numbers, **subnets}),
        }
    )


def metered(made: Bench) -> Meter:
    """What the calls of cloud and subnet managers cost from now on."""
    meter = Meter()
    meter.watch(
        made.cloud, ("find", "create", "update", "delete", "on_hosts", "on_networks", "endings", "built")
    )
    fabric = made.keeper.world().fabrics[FABRIC]
    assert isinstance(fabric, FakeFabric)
    for manager in fabric.managers:
        meter.watch(manager, ("status", "partitions", "change", "tables", "paths"))
    return meter


@contextmanager
def bench(
    folder: Path, nodes: int, boot: float = 0.0, apply: bool = True, many: bool = False
) -> Generator[Bench]:
    """weft with a site of this many nodes on an embedded PostgreSQL, which waits for its disk as in production.

    Args:
        many: see `regular_site`.
        apply: store the site; not for a second process on the same folder.
    """
    with embedded(folder) as url:
        database = Database(url)
        listener = Listener(url)
        try:
            store, site = Store(database), regular_site(nodes, managed=True, many=many)
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
            service = Service(Desk(store, keeper, Policy(), clock, listener))
            if apply:
                store.activate_site(site, "bench")
            yield Bench(database, store, cloud, keeper, listener, clock, service)
        finally:
            listener.close()
            database.close()
