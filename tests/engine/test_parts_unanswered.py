"""Servers on shared nodes whose creation was never answered."""

from __future__ import annotations

from tests.engine.house import House
from tests.engine.test_parts import ready, small
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault


def test_a_server_that_was_never_seen_and_was_renamed_keeps_its_part(house: House) -> None:
    """Its owner has rewritten all that it could be found by; what is its project's and on its host since then isn't
    another pod's, whose servers are known."""
    neighbour = ready(house, "neighbour")
    (beside,) = house.cloud.servers
    pod = house.order(small("train"))
    assert neighbour.nodes == pod.nodes
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SERVER, key="server/*")
    while len(house.cloud.servers) == 1:
        house.store.wake(pod.id)
        house.worker.run_once()
    _, server = house.cloud.servers
    server.name, server.mark, beside.created = "mine", None, house.cloud.clock.now()
    house.release(pod)
    for _ in range(5):
        house.store.wake(pod.id)
        house.worker.run_once()
    pod = house.store.find_pod(str(pod.id), None)
    assert pod.state is PodState.RELEASING and house.store.receipt(pod.id) is None
    assert f"server {server.id} 'mine' (by Nova and Placement) was made in the pod's project" in pod.reason
    house.cloud.plant(Fault.UNREACHABLE, verb="made_by")
    house.store.wake(pod.id)
    house.worker.run_once()
    assert house.store.receipt(pod.id) is None
    house.cloud.lose(server)
    house.run(pod, PodState.RELEASED)
