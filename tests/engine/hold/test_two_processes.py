"""Two workers that are processes of their own, on switches that both speak to: what one of them doesn't know, the
database tells it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Generator
from pathlib import Path
from uuid import UUID

import pytest

from tests.drivers.switches.onefront import CONFIRM, MAKES
from tests.engine.house import QUICK, House, nothing_lands
from weft.app.worldkeeper import WorldKeeper
from weft.drivers.switches import open_fabric
from weft.engine.base.clock import DatabaseClock, SystemClock
from weft.engine.base.database import Database
from weft.engine.base.listener import Listener
from weft.engine.base.world import World
from weft.engine.queue.dispatcher import Dispatcher
from weft.engine.rows.ledger import FabricLedger
from weft.engine.rows.records import PodRecord
from weft.engine.store.signing import Signer
from weft.engine.store.store import Store
from weft.engine.visit.reconciler import Reconciler
from weft.engine.watch.worker import Worker
from weft.generate.receipts import verify
from weft.model.pod import PodState
from weft.model.site import Site
from weft.testing.cloud import FakeCloud
from weftlab.switches import leaf_spine
from weftlab.switches.front import PARKING, Front
from weftlab.switches.fronts import Fronts
from weftlab.switches.plan import FabricPlan, Speaks

pytestmark = pytest.mark.landing

FABRIC = "ib0"
LONG = 60.0


def cabled(site: Site, plan: FabricPlan, fronts: Fronts) -> Site:
    """The site with all of the fabric's adapters on one leaf."""
    document, leaf = site.model_dump(mode="json"), plan.by_name["leaf1"]
    adapters = [h for node in document["nodes"] for h in node["hcas"] if h["fabric"] == FABRIC]
    for number, adapter in enumerate(adapters, 1):
        adapter["switch_port"] = f"leaf1/{leaf.port(number)}"
    switching = {
        "switches": [
            {"name": s.name, "interface": s.speaks, "url": fronts.urls[s.name]} for s in plan.switches
        ],
        "links": [{"a": plan.port(c.a), "b": plan.port(c.b)} for c in plan.cables],
        "parking": PARKING,
        "ca": str(fronts.ca),
        "credentials": str(fronts.credentials),
    }
    document["fabrics"][FABRIC] |= {
        "type": "ethernet",
        "manager": {"driver": "switches", "switching": switching},
    }
    return Site.model_validate(document)


def world_of(site: Site, database: Database, cloud: FakeCloud) -> World:
    """A world with its own driver of the fabric."""
    ledger = FabricLedger(database, FABRIC, site.fabrics[FABRIC].words)
    fabric = open_fabric(site, FABRIC, ledger, CONFIRM)
    return World(resources={"lab": cloud, FABRIC: fabric}, fabrics={FABRIC: fabric}, clouds={"lab": cloud})


def other_worker(url: str, site: str, pod: str, visits: int) -> None:
    """A process that visits a pod, and ends as if it had been killed. Its cloud is another one, in its memory."""
    database, listener = Database(url), Listener(url)
    store, cloud = Store(database), FakeCloud(seed=1, name="lab", latency=0.0)
    cloud.offers.images.add("tiny")
    world = world_of(Site.model_validate_json(site), database, cloud)
    keeper, clock = WorldKeeper(store, lambda _: world), DatabaseClock(database, SystemClock())
    reconciler = Reconciler(keeper.world, keeper.site, Signer(store), clock, QUICK, {})
    worker = Worker(database, listener, reconciler, QUICK, Dispatcher(store, keeper.world), "other", None)
    for _ in range(visits):
        store.wake(UUID(pod))
        worker.run_once()
    os._exit(0)


class TwoHouse(House):
    """A house whose worker is in this process. `front`: the leaf's interface."""

    front: Front

    def elsewhere(self, pod: PodRecord, visits: int) -> PodRecord:
        """Let another process visit the pod so many times."""
        spawn = multiprocessing.get_context("spawn")
        given = (self.database.url, self.site.model_dump_json(), str(pod.id), visits)
        other = spawn.Process(target=other_worker, args=given)
        other.start()
        other.join(LONG)
        assert other.exitcode == 0
        return self.store.pods.find(str(pod.id), None)

    def here(self, pod: PodRecord) -> PodRecord:
        for _ in range(4):
            self.store.wake(pod.id)
            self.worker.run_once()
        return self.store.pods.find(str(pod.id), None)


@pytest.fixture(params=["eos", "nvue", "sonic"])
def house(
    request: pytest.FixtureRequest, database: Database, database_url: str, tmp_path: Path
) -> Generator[TwoHouse]:
    house = TwoHouse(database, database_url)
    speaks: Speaks = request.param
    adapters = sum(h.fabric == FABRIC for node in house.site.nodes for h in node.hcas)
    plan = leaf_spine(speaks, leaves=1, spines=1, hosts_each=adapters)
    fronts = Fronts(tmp_path / "fronts", plan, None)
    house.site, house.front = cabled(house.site, plan, fronts), fronts.by_name["leaf1"]
    house.world = world_of(house.site, database, house.cloud)
    house.store.activate_site(house.site, "test")
    yield house
    house.world.fabrics[FABRIC].close()
    house.close()
    fronts.close()


def test_change_with_a_lost_answer_is_waited_for_by_another_process(house: TwoHouse) -> None:
    """It was killed since. The switch shows nothing of the change at the pod's release, and applies it afterwards."""
    house.front.faults.late = MAKES[house.front.plan.speaks]
    pod = house.elsewhere(house.order(), 2)
    assert "no answer" in pod.reason and pod.late_until is not None
    number, fabric = pod.plan.segment or 0, house.world.fabrics[FABRIC]
    assert number not in fabric.snapshot().ports_in
    house.release(pod)
    waiting = house.here(pod)
    assert waiting.state is PodState.RELEASING and "outcome of a request is unknown" in waiting.reason
    assert waiting.late_until is not None and waiting.late_until >= pod.late_until
    house.front.arrive()
    assert number in fabric.snapshot().ports_in or house.front.plan.speaks == "nvue"
    nothing_lands(house.database)
    ended = house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(ended.id)
    assert signed is not None and verify(signed.model_dump(mode="json")).valid
    assert signed.receipt.clean and signed.receipt.late_until is not None
    assert number not in fabric.snapshot().ports_in
