"""The operator's placement settings in the service: decisions follow the site from then on."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.house import House
from tests.engine.timehouse import HandClock, look, make, queue
from weft.engine.base.database import Database
from weft.model.reservation import Reservation
from weft.model.site import PlacementPolicy
from weft.planning.fabric.topology import Topology


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    """Free nodes on four leaves: 3, 3 and 2 in one block, 4 in another."""
    house = House(database, database_url, clock=HandClock())
    weigh(house, 0.5)
    leaves = Topology.of(house.site, "ib0").leaves
    for leaf, out in zip(leaves, (1, 1, 2, 0), strict=True):
        for node in leaves[leaf][:out]:
            house.store.quarantine(node, "test")
    yield house
    house.close()


def weigh(house: House, weight: float) -> None:
    """Activate a site whose last leaf is a block of its own, with this weight of blocks."""
    site = house.store.site().site
    last = max(s.name for s in site.switches if s.level == "leaf")
    switches = tuple(
        s.model_copy(update={"block": "b" if s.name == last else "a"}) if s.level == "leaf" else s
        for s in site.switches
    )
    policy = PlacementPolicy(block=weight)
    house.store.activate_site(site.model_copy(update={"switches": switches, "placement": policy}), "test")


def test_new_weight_changes_later_plans(house: House) -> None:
    """Seven nodes go to two leaves of two blocks; with a weight of 4, to three leaves of one."""
    before = house.service.pods.plan(house.request(), make("train", 7)).placement
    assert (len({n.leaf for n in before.nodes}), len({n.block for n in before.nodes})) == (2, 2)
    assert "leaves + 0.5·(blocks−1)" in before.explanation.chosen
    weigh(house, 4)
    after = house.service.pods.plan(house.request(), make("train", 7)).placement
    assert (len({n.leaf for n in after.nodes}), len({n.block for n in after.nodes})) == (3, 1)
    assert "leaves + 4·(blocks−1)" in after.explanation.chosen


def test_queue_bookings_follow_the_sites_weights(house: House) -> None:
    """The booking of an order that waits is decided by the engine, with the same weight."""
    house.ready(make("first", 12, duration="8h"))
    one = queue(house, "one", 7)
    house.worker.tend_queue()
    locations = Topology.of(house.store.site().site, "ib0").locations

    def blocks() -> set[str]:
        (row,) = house.store.capacity().bookings
        return {locations[node].block for node in row.nodes}

    assert blocks() == {"a", "b"}
    house.release(one)
    weigh(house, 4)
    two = queue(house, "two", 7)
    house.worker.tend_queue()
    assert look(house, two).expected_start is not None
    assert blocks() == {"a"}


def test_reserved_nodes_are_taken_first_by_their_project(house: House) -> None:
    """Now, and in a booking for later; others avoid them, and nothing is refused for them."""
    leaf = list(Topology.of(house.site, "ib0").leaves)[1]
    house.request("team-a")
    aside = Reservation(name="night", project_id="team-a", leaves=(leaf,))
    house.service.capacity.reserve(house.operator, aside)
    plan = house.service.pods.plan(house.request(), make("train", 2))
    assert {n.leaf for n in plan.placement.nodes} == {leaf}
    assert "2 of 2 nodes are set aside for the project" in plan.placement.explanation.chosen
    other = house.service.pods.plan(house.request("team-b"), make("train", 2))
    assert leaf not in {n.leaf for n in other.placement.nodes}
    house.ready(make("first", 12, duration="8h"))
    queue(house, "next", 3)
    house.worker.tend_queue()
    (row,) = house.store.capacity().bookings
    assert {Topology.of(house.site, "ib0").locations[n].leaf for n in row.nodes} == {leaf}
