"""Pods with storage in the loop on the fakes: their orders and their ends."""

from __future__ import annotations

from typing import Any

from tests.engine.house import House, small_site
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.generate.receipts import verify
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.pod import PodState
from weft.model.receipt import Receipt
from weft.model.site import NfsExport, Site, Storage

OFFER = Storage(
    network="storage", shares=True, volumes=True, exports={"home": NfsExport(location="nas1.example:/home")}
)


SHARE = {"share": "data", "size": "1TiB", "mount": "/data"}


VOLUME = {"volume": "work", "size": "100GiB", "mount": "/work"}


def site(offer: Storage = OFFER) -> Site:
    small = small_site()
    return small.model_copy(
        update={"clouds": {"lab": small.clouds["lab"].model_copy(update={"storage": offer})}}
    )


def order(*entries: dict[str, Any], count: int = 2, **fields: Any) -> Order:
    nodes = {"count": count, "flavor": "gpu8", "image": "tiny"}
    return Order.model_validate({"name": "train", "nodes": nodes, "storage": entries, **fields})


def ready(house: House, *entries: dict[str, Any], **fields: Any) -> PodRecord:
    return house.run(house.order(order(*entries, **fields)), PodState.READY)


def receipt(house: House, pod: PodRecord) -> Receipt:
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and verify(signed.model_dump(mode="json"), signed.public_key).valid
    return signed.receipt


def apply(house: House, wanted: Order) -> PodRecord:
    view = house.service.pods.apply(house.request(), wanted.name, wanted).pod
    return house.store.pods.find(view.id, None)


def plan(house: House, wanted: Order) -> Plan:
    return house.service.pods.plan(house.request(), wanted)


def changed(house: House, wanted: Order) -> PodRecord:
    """Apply an order, and visit until the change is done."""
    pod = apply(house, wanted)
    for _ in range(40):
        pod = again(house, pod, 1)
        if pod.changed_at is None:
            break
    assert (pod.state, pod.changed_at) == (PodState.READY, None), pod.reason
    return pod


def again(house: House, pod: PodRecord, visits: int = 3) -> PodRecord:
    for _ in range(visits):
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def storage_house(database: Database, database_url: str) -> House:
    """A house whose site offers storage; its caller closes it."""
    house = House(database, database_url)
    house.store.activate_site(site(), "test")
    return house
