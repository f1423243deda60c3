"""Flavors and images of a site by the site's loop, on the fake cloud. The driver's own work is tried on a real Nova and
Glance (`tests/e2e/test_nova_things.py`)."""

from __future__ import annotations

from collections.abc import Generator

import psycopg
import pytest

from tests.engine.sitehouse import KEYS, SiteHouse
from tests.engine.timehouse import look, make
from weft.app.sitefile import checked
from weft.engine.base.database import Database
from weft.model.errors import ConflictError, RefusedError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import Flavor, FlavorInNova, ImageProperties
from weft.testing.cloud import Fault
from weft.testing.cloud_state import FakeFlavor

FLAVOR, IMAGE = "flavor/lab/numa4", "image_properties/lab/gpu"


class FlavorHouse(SiteHouse):
    """A house whose site has a flavor of weft's own, and an image with properties."""

    def __init__(self, database: Database, url: str) -> None:
        super().__init__(database, url)
        self.flavored()

    def flavored(self, cores: int = 4, **specs: str) -> None:
        flavor = Flavor(cores=cores, memory_mib=4096, numa_nodes=2, nova=FlavorInNova(extra_specs=specs))
        image = ImageProperties(properties={"hw_numa_nodes": "2"})
        cloud = self.site.clouds["lab"]
        update = {"flavors": {**cloud.flavors, "numa4": flavor}, "images": {"gpu": image}}
        clouds = {"lab": cloud.model_copy(update=update)}
        self.activate(checked(self.site.model_copy(update={"clouds": clouds})))


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[FlavorHouse]:
    house = FlavorHouse(database, database_url)
    yield house
    house.close()


def test_flavor_is_planned_applied_changed_and_removed(house: FlavorHouse) -> None:
    """The driver gets a removed key, and must know that it is there by weft's doing."""
    house.flavored(**{"hw:mem_page_size": "large"})
    assert {f"create {FLAVOR}", f"create {IMAGE}"} <= set(house.steps())
    house.applied()
    assert house.mine().keys() == KEYS | {FLAVOR, IMAGE} and house.ask().nothing
    house.flavored()
    [step] = house.plan().steps
    assert (step.action, step.key) == ("change", FLAVOR)
    assert "hw:mem_page_size=large" in step.fields[0].was
    house.applied()
    assert house.mine()[FLAVOR].fields["former"] == ("hw:mem_page_size",)
    assert house.plan().nothing and house.ask().nothing
    assert house.service.audits.run(house.operator).findings == ()
    house.destroyed()
    assert house.service.site.receipt(house.operator).receipt.clean


def test_resized_flavor_is_another_one_and_waits_for_pods(house: FlavorHouse) -> None:
    """Nova can't resize one: that is reported before, and refused while pods have servers of it."""
    house.applied()
    pod = house.ready()
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE resource SET document = jsonb_set(document, '{spec,flavor}', '\"numa4\"') "
            "WHERE owner_id = %s AND kind = 'server'",
            [pod.id],
        )
    house.flavored(cores=8)
    plan = house.plan()
    assert [(s.action, s.key) for s in plan.steps] == [("recreate", FLAVOR)]
    [conflict] = plan.conflicts
    assert "flavor numa4 would be made again (vcpus 4 → 8)" in conflict.what and "train" in conflict.what
    with pytest.raises(ConflictError, match="train"):
        house.ask()
    with pytest.raises(ConflictError, match="train with flavor numa4"):
        house.service.site.destroy(house.operator)
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute(
            "UPDATE resource SET document = jsonb_set(document, '{spec,flavor}', '\"gpu8\"') "
            "WHERE owner_id = %s AND kind = 'server'",
            [pod.id],
        )
    first = house.mine()[FLAVOR].id
    house.applied()
    assert house.mine()[FLAVOR].id != first and house.mine()[FLAVOR].fields["vcpus"] == 8


def test_flavor_being_destroyed_gets_no_new_users(house: FlavorHouse) -> None:
    """A new user would block the removal, and lose the flavor. Waiting orders keep waiting, and say so."""
    house.applied()
    house.cloud.offers.flavors["numa4"] = FakeFlavor(4, 4096)
    order = make("numa", 1)
    order = order.model_copy(update={"nodes": order.nodes.model_copy(update={"flavor": "numa4"})})
    house.service.site.destroy(house.operator)
    with pytest.raises(RefusedError, match=r"the site is removing flavor numa4: order again"):
        house.order(order)
    later = house.order(order.model_copy(update={"name": "later", "queue": True}))
    house.worker._dispatcher.run()  # pyright: ignore[reportPrivateUsage]
    waits = look(house, later)
    assert waits.state is PodState.PENDING and "the site is removing" in waits.reason
    assert house.ready(make("other", 1)).state is PodState.READY, "it has none of that"
    house.visit(house.site_owner(), PodState.RELEASED)
    assert house.service.site.receipt(house.operator).receipt.clean
    house.applied()
    assert house.ready(order).state is PodState.READY


def test_flavor_of_a_killed_worker_is_deleted_in_the_end(house: FlavorHouse) -> None:
    """Nova takes a flavor and its extra specs in two requests."""
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.FLAVOR, verb="create")
    house.applied()
    house.destroyed()
    assert house.cloud.things(Kind.FLAVOR) == []


def test_adopted_flavor_stays(house: FlavorHouse) -> None:
    there = house.cloud.add(Kind.FLAVOR, "numa4", "service", vcpus=4, ram=4096, disk=0, extra_specs={})
    house.applied(adopt=True)
    assert house.mine()[FLAVOR] is there
    house.destroyed()
    assert house.cloud.things(Kind.FLAVOR) == [there] and there.mark is None


def test_drift_is_repaired(house: FlavorHouse) -> None:
    house.applied()
    house.mine()[FLAVOR].fields["extra_specs"] = {"hw:numa_nodes": "8"}
    assert [s.action for s in house.plan().steps] == ["change"]
    house.applied()
    assert house.cloud.things(Kind.FLAVOR)[0].fields["extra_specs"]["hw:numa_nodes"] == "2"  # type: ignore[index]
