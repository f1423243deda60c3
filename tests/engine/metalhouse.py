"""Pods of bare-metal machines on fakes: a site with machines, and the members of its segments."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.engine.house import House
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.order import Order
from weft.model.site import Site
from weft.testing.cloud_state import FakeFlavor
from weftlab.layout import Layout
from weftlab.metal.machines import FLAVOR
from weftlab.site import make_site, settings

ORDER = Order.model_validate(
    {"name": "train", "nodes": {"kind": "bare_metal", "count": 2, "flavor": FLAVOR, "image": "tiny"}}
)


@cache
def site() -> Site:
    """The lab's default site with four bare-metal machines besides its sixteen nodes."""
    chosen = settings(nodes=16, metal=4)
    return make_site(chosen, Layout(Path("/nowhere"), Path("/nowhere"), chosen.ports))


@pytest.fixture
def house(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Generator[House]:
    with metal_house(database, database_url, monkeypatch) as made:
        yield made


@contextmanager
def metal_house(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Generator[House]:
    monkeypatch.setattr("tests.engine.house.small_site", site)
    house = House(database, database_url)
    house.cloud.offers.flavors[FLAVOR] = FakeFlavor(96, 1_048_576)
    house.cloud.offers.hosts |= {n.machine: "up" for n in house.site.nodes if n.machine is not None}
    yield house
    house.close()


def visit(house: House, pod: PodRecord, times: int = 6) -> PodRecord:
    for _ in range(times):
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def sized(count: int) -> Order:
    return ORDER.model_copy(update={"nodes": ORDER.nodes.model_copy(update={"count": count})})


def members(house: House, pod: PodRecord) -> set[int]:
    key = 0x8000 | (pod.plan.segment or 0)
    return {guid for guid, table in house.fabric.tables().items() if key in table.keys}


def ports(house: House, nodes: tuple[str, ...]) -> set[int]:
    return {h.port_guid for n in nodes for h in house.site.node_by_name[n].hcas_on("ib0")}
