"""What is really on nodes: nothing is given, kept or given back on weft's own book alone."""

from __future__ import annotations

import pytest
from tests.engine.house import ORDER, House

from weft.engine.occupancy import FOREIGN
from weft.model.errors import RefusedError, UnknownError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing

pytestmark = pytest.mark.database

ALL = ORDER.model_copy(update={"name": "all", "nodes": ORDER.nodes.model_copy(update={"count": 16})})


def stranger(house: House, host: str) -> Thing:
    """Somebody else's server on a host that weft's book says is free, or a pod's."""
    return house.cloud.add(Kind.SERVER, "secret-project-x", "team-b", host=host)


def nodes(house: House) -> list[str]:
    return [n.name for n in house.site.nodes if n.role == "compute"]


# -- before nodes are given -------------------------------------------------------------------------------------


def test_a_node_with_a_strangers_server_is_given_to_nobody(house: House) -> None:
    """The others are; an order that needs it too is refused with a reason that names no other project."""
    theirs = stranger(house, "gpu03")
    with pytest.raises(RefusedError) as caught:
        house.order(ALL)
    said = str(caught.value.detail)
    assert f"gpu03: {FOREIGN}" in said
    assert not any(word in said for word in ("team-b", "secret", theirs.id))
    pod = house.order(count=15)
    assert "gpu03" not in pod.nodes


def test_a_claim_in_placement_alone_is_enough(house: House) -> None:
    """A move under way holds the devices of two hosts, one of them for no server that Nova would show there."""
    house.cloud.offers.claims["gpu01"] = {"a-migration"}
    pod = house.order(count=15)
    assert "gpu01" not in pod.nodes
    with pytest.raises(RefusedError):
        house.order(ORDER.model_copy(update={"name": "more"}), count=1)


def test_a_host_of_a_cell_that_is_down_is_not_free(house: House) -> None:
    """Nova leaves it out of its listing: that is not the same as empty."""
    house.cloud.offers.unreadable = {"gpu05", "gpu06"}
    assert not {"gpu05", "gpu06"} & set(house.order(count=14).nodes)


def test_without_an_answer_nothing_is_given(house: House) -> None:
    """Neither the listing nor the look at the chosen nodes may fail."""
    for times in (1, None):
        planted = house.cloud.plant(Fault.UNREACHABLE, verb="occupants", times=times)
        with pytest.raises(UnknownError):
            house.order()
        planted.lift()
    assert not house.store.live_pods()


def test_who_comes_between_the_listing_and_the_claim_is_seen(house: House) -> None:
    """The nodes that were chosen are looked at once more, with Placement's word, and others taken."""
    first = house.order()
    house.release(first)
    house.run(first, PodState.RELEASED)
    for node in first.nodes:
        house.cloud.offers.claims[node] = {f"build-{node}"}  # scheduled; Nova shows no host of it yet
    assert not set(house.order().nodes) & set(first.nodes)


def test_the_queue_waits_for_strangers_too(house: House) -> None:
    """An order that waits is not started on a node that somebody else is on, and is once he has gone."""
    theirs = stranger(house, "gpu03")
    order = Order.model_validate({**ALL.model_dump(), "queue": True})
    pod = house.order(order)
    house.worker.tend_queue()
    waiting = house.store.find_pod(str(pod.id), None)
    assert waiting.placed is None and waiting.reason
    house.cloud.offers.claims["gpu04"] = {"a-migration"}
    house.cloud.lose(theirs)
    with house.database.transaction() as tx:
        tx.run("touch_queue", at=house.clock.now())
    house.worker.tend_queue()
    assert house.store.find_pod(str(pod.id), None).placed is None
    house.cloud.offers.claims.clear()
    with house.database.transaction() as tx:
        tx.run("touch_queue", at=house.clock.now())
    house.worker.tend_queue()
    assert len(house.store.find_pod(str(pod.id), None).nodes) == 16
