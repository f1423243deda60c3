"""The house with the lab's IPU-POD in it: four IPU-Machines, one Poplar server, one node for controllers."""

from __future__ import annotations

from typing import Any

from tests.engine.house import House
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.order import Order
from weft.model.pod import PodState
from weft.ports.clock import Clock
from weft.testing.cloud_state import FakeFlavor
from weft.testing.vipu import FakeVipu

POD = "ipupod1"


def order(name: str = "bert", count: int = 16, **more: Any) -> Order:
    """An order of `count` IPUs. Args: more: fields of the order; `start`, `end` and `duration` are its lease's."""
    document = {
        "name": name,
        "ipus": {"count": count},
        "nodes": {"count": 1, "flavor": "cpu1", "image": "tiny"},
        "lease": {k: more.pop(k) for k in ("start", "end", "duration") if k in more},
    }
    return Order.model_validate({**document, **more})


class IpuHouse(House):
    """A house with the lab's IPU-POD, its Poplar server and a host for controllers."""

    def __init__(self, database: Database, url: str, clock: Clock | None = None) -> None:
        super().__init__(database, url, clock=clock)
        self.vipu = FakeVipu(POD, [m.name for m in self.site.ipu_machines])
        self.world.resources[POD] = self.vipu  # type: ignore[index]
        self.world.machines[POD] = self.vipu  # type: ignore[index]
        self.cloud.offers.flavors["cpu1"] = FakeFlavor(1, 512)
        self.cloud.offers.hosts.update({"poplar1": "up", "generic1": "up"})

    def booted(self, wanted: Order | None = None) -> PodRecord:
        """Order a pod of IPUs, let its controller's virtual machine boot, and visit the pod until it is READY."""
        pod = self.run(self.order(wanted or order()), PodState.BOOTING)
        self.vipu.boot(pod.scope, pod.plan.graph)
        return self.run(pod, PodState.READY)
