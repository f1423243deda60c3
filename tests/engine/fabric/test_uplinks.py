"""Uplink bandwidth held for a pod, and leaves reserved for a project."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.engine.house import House
from tests.engine.projects import give_back, leaves, order, refused
from tests.engine.timehouse import HandClock, look, make, queue
from weft.model.errors import InputError
from weft.model.pod import PodState
from weft.planning.fabric.topology import Topology

# -- uplinks --------------------------------------------------------------------------------------------------------


def test_uplinks_are_assigned_once_and_returned(house: House) -> None:
    """2,000 Gb/s per leaf: a second pod that crosses is refused with what is left, and gets it all after a release."""
    first = order(house, "team-a", "first", 6, gbps=800)
    assert "the uplinks keep 800 Gb/s for each node" in first.plan.placement.explanation.chosen
    changes = refused(house, "team-b", 10, gbps=500)
    assert "fabric.bisection_gbps: 200 instead of 500" in changes
    assert "when pod first (6 nodes) is released" in changes
    give_back(house, "team-a", first)
    order(house, "team-b", "second", 10, gbps=500)


def test_uplinks_of_a_booking_are_kept_for_its_time(house: House, clock: HandClock) -> None:
    """An order that would run into it is refused; one that ends before gets all of it."""
    start = clock.now() + timedelta(hours=2)
    order(house, "team-a", "later", 6, start=start, duration="1h", gbps=900)
    changes = refused(house, "team-b", 10, gbps=500, duration="3h")
    assert "fabric.bisection_gbps: 100 instead of 500" in changes
    assert "lease.end: 2026-11-21T10:00Z at the latest" in changes
    assert "lease.start: fits from 2026-11-21T11:00Z" in changes
    order(house, "team-b", "short", 10, gbps=500, duration="2h")


def test_bandwidth_without_known_uplinks_is_refused(house: House) -> None:
    """And an order that waits when the cables leave the site says what is wrong, and no other is affected."""
    waits = order(house, "team-a", "waits", 2, gbps=100, queue=True)
    other = queue(house, "other", 2)
    links = tuple(k for k in house.site.links if "/" in k.a or "/" in k.b)
    house.store.activate_site(house.site.model_copy(update={"links": links}), "test")
    with pytest.raises(
        InputError, match=r"fabric.bisection_gbps: 100 is not allowed: 0 or omitted: the site has no"
    ):
        order(house, "team-a", "x", 2, gbps=100)
    house.worker.tend_queue()
    assert look(house, waits).state is PodState.FAILED and "bisection_gbps" in look(house, waits).reason
    assert look(house, other).state is PodState.PLACED


# -- dedicated leaves -----------------------------------------------------------------------------------------------


def test_dedicated_leaf_keeps_its_pods_and_gets_no_others(house: House, clock: HandClock) -> None:
    """Pods there stay, new orders of other projects go elsewhere, a booking there moves, and capacity counts it."""
    stays = house.run(order(house, "team-b", "stays", 1, locality={"required": "leaf"}), PodState.READY)
    (own,) = leaves(house, stays)
    start = clock.now() + timedelta(hours=1)
    promised = order(
        house, "team-b", "promised", 3, start=start, duration="1h", locality={"required": "leaf"}
    )
    house.store.activate_site(dedicate(house, own, "team-c"), "test")
    house.worker.tend_queue()
    nodes = house.store.capacity().bookings[0].nodes
    locations = Topology.of(house.site, "ib0").locations
    assert own not in {locations[n].leaf for n in nodes} and look(house, promised).state is PodState.PENDING
    house.store.wake(stays.id)
    house.worker.run_once()
    assert look(house, stays).state is PodState.READY
    assert any(f.filter == "dedicated" and f.removed == 4 for f in planned(house, "team-b").filters)
    assert not any(f.filter == "dedicated" and f.removed for f in planned(house, "team-c").filters)
    rooms = {p: house.service.capacity.show(house.request(p)).rows[0].free for p in ("team-b", "team-c")}
    assert rooms["team-c"] - rooms["team-b"] == 3
    house.service.pods.release(house.request("team-b"), str(promised.id))


def dedicate(house: House, leaf: str, project: str) -> Any:
    rows = (s.model_copy(update={"project": project}) if s.name == leaf else s for s in house.site.switches)
    return house.site.model_copy(update={"switches": tuple(rows)})


def planned(house: House, project: str) -> Any:
    return house.service.pods.plan(house.request(project), make("x", 1)).placement.explanation
