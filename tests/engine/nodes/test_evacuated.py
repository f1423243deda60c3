"""Servers evacuated from a host with nova-compute down: their guests may still run there."""

from __future__ import annotations

import pytest

from tests.engine.changes.test_change_loop import apply, sized
from tests.engine.house import House, impatient
from tests.engine.timehouse import make
from weft.engine.rows.records import PodRecord
from weft.model.pod import PodState


def evacuate(house: House, pod: PodRecord, node: str) -> str:
    """Evacuate as Masakari or an operator does when a host seems to be down; returns the server's new node."""
    free = next(n for n in house.site.nodes if n.role == "compute" and n.name not in pod.nodes)
    server = house.cloud.thing(f"server/{node}")
    house.cloud.offers.hosts[house.site.node_by_name[node].nova_host] = "down"
    server.fields["host"] = free.nova_host
    visit(house, pod)
    return free.name


def visit(house: House, pod: PodRecord, number: int = 3) -> None:
    for _ in range(number):
        house.store.wake(pod.id)
        house.worker.run_once()


@pytest.mark.parametrize("back", [False, True])
def test_evacuated_server_keeps_the_host_that_never_removed_it(house: House, back: bool) -> None:
    """Even after its nova-compute is connected again, which alone removes nothing."""
    pod = house.ready(make("evac", 2))
    left = pod.nodes[0]
    evacuate(house, pod, left)
    if back:
        house.cloud.offers.hosts[house.site.node_by_name[left].nova_host] = "up"
    house.release(pod)
    visit(house, pod, 6)
    assert house.store.records.receipt(pod.id) is None
    house.worker = house.new_worker("w2", impatient(0.0))
    visit(house, pod)
    capacity = house.store.capacity()
    assert left in capacity.holds and left in capacity.quarantines
    assert pod.nodes[1] not in capacity.holds
    house.service.pods.abandon(house.operator, str(pod.id), "not coming back")
    house.run(pod, PodState.RELEASED, visits=4)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and left in signed.receipt.quarantined
    results = {(i.plane, i.subject.split()[0]): i.result for i in signed.receipt.items}
    assert results["host", left] == "unknown", "Nova lists nothing there, which says nothing"


def test_possible_host_of_an_evacuated_server_is_quarantined(house: House) -> None:
    """It ran on a host that the pod doesn't hold, and that was never free to be held for it."""
    pod = house.ready(make("evac", 2))
    home = house.site.node_by_name[pod.nodes[0]].nova_host
    second = evacuate(house, pod, pod.nodes[0])
    house.cloud.offers.hosts[home] = "up"
    server = house.cloud.thing(f"server/{pod.nodes[0]}")
    house.cloud.offers.hosts[str(server.fields["host"])] = "down"
    server.fields["host"] = home
    visit(house, pod)
    house.release(pod)
    visit(house, pod, 6)
    assert second in house.store.capacity().quarantines
    assert house.store.records.receipt(pod.id) is None


def test_node_left_by_a_change_is_kept_after_an_evacuation(house: House) -> None:
    """The same proof is needed as at a release."""
    pod = house.ready(sized(3))
    gone = pod.nodes[1]
    evacuate(house, pod, gone)
    apply(house, sized(2), gone)
    visit(house, pod, 8)
    assert gone in house.store.capacity().holds
