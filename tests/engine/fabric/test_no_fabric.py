"""Pods without an RDMA network: only the management network, on hosts with or without adapters."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from tests.engine.house import House
from tests.engine.queue.test_agenda import World
from weft.model.errors import InputError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.planning.shapes.plantext import plan_text


def plain(name: str = "plain", count: int = 2, **more: object) -> Order:
    nodes = {"count": count, "flavor": "gpu8", "image": "tiny"}
    return Order.model_validate({"name": name, "nodes": nodes, "fabric": "none", **more})


def test_pod_without_a_fabric_works_from_order_to_receipt(house: House) -> None:
    """No partition, no P_Key, no port on the fabric; the receipt is signed all the same."""
    pod = house.ready(plain())
    kinds = {r.kind for r in house.store.pods.resources(pod.id)}
    assert "segment" not in kinds and "server" in kinds
    keys = {r.key for r in house.store.pods.resources(pod.id)}
    assert not any("rdma" in key for key in keys) and "network/management" in keys
    assert {key for key in keys if key.startswith("port/")} == {f"port/{n}/management" for n in pod.nodes}
    assert pod.plan.segment is None and not pod.plan.allotment.rdma_cidr
    assert "on no fabric" in plan_text(pod.plan) and "RDMA network  none" in plan_text(pod.plan)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.store.capacity().holds
    assert house.store.records.receipt(pod.id) is not None


def test_pod_without_a_fabric_is_placed_close_together(house: House) -> None:
    """By the leaves that its hosts connect to, although it doesn't use them."""
    plan = house.service.pods.plan(house.request(), plain())
    assert plan.fabric == "none" and plan.placement.level == "leaf"


def test_nodes_of_a_pod_without_a_fabric_are_not_shared_with_others(house: House) -> None:
    """A pod on the fabric goes elsewhere, and the other way round."""
    first = house.ready(plain("a", 10))
    second = house.order(count=6)
    assert not set(first.nodes) & set(second.nodes)


@pytest.mark.parametrize(
    "more", [{"name": "ib0"}, {"hcas_per_node": 1}, {"bisection_gbps": 5}, {"hcas": "shared"}]
)
def test_fabric_options_without_a_fabric_are_refused(more: dict[str, object]) -> None:
    """The order is refused when it is read."""
    with pytest.raises(ValidationError, match="no RDMA network"):
        plain(fabric={"isolation": "none", **more})


def test_subnet_for_a_missing_network_is_refused(house: House) -> None:
    with pytest.raises(InputError, match=r"network\.rdma"):
        house.service.pods.plan(house.request(), plain(network={"rdma": "10.9.0.0/24"}))


def test_node_is_not_booked_with_and_without_a_fabric_at_once() -> None:
    """In one look at the queue, orders of a fabric and of none are promised different nodes."""
    world = World()
    world.policy = world.policy.model_copy(update={"bookings": 2})
    world.order(0, 16, 5, "a")
    world.run()
    world.order(1, 10, 5, "a")
    world.order(2, 10, 5, "a")
    world.waiting[-1].order.__dict__["fabric"] = plain().fabric
    found = world.look()
    kept = [note.booking for note in found.notes.values() if note.booking]
    assert len(kept) == 2
    one, other = kept
    assert one.end <= other.start or other.end <= one.start or not set(one.nodes) & set(other.nodes)


def test_site_can_be_applied_while_a_pod_without_a_fabric_lives(house: House) -> None:
    """None is no fabric that could be missing from the new site."""
    house.ready(plain())
    assert house.service.site.activate(house.operator, house.site.model_dump(mode="json")).generation == 2
