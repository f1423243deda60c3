"""Servers on shared nodes whose creation was never answered."""

from __future__ import annotations

from datetime import timedelta

from tests.engine.house import House
from tests.engine.life.test_parts import ready, small
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault


def test_renamed_server_that_was_never_seen_keeps_its_part(house: House) -> None:
    """Its owner has changed all by which it could be found; what is in its project and on its host since then, and
    isn't another pod's known server, counts as it."""
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
    pod = house.store.pods.find(str(pod.id), None)
    assert pod.state is PodState.RELEASING and house.store.records.receipt(pod.id) is None
    assert f"server {server.id} 'mine' (by Nova and Placement) was made in the pod's project" in pod.reason
    house.cloud.plant(Fault.UNREACHABLE, verb="made_by")
    house.store.wake(pod.id)
    house.worker.run_once()
    assert house.store.records.receipt(pod.id) is None
    house.cloud.lose(server)
    house.run(pod, PodState.RELEASED)


def test_other_projects_server_of_the_same_name_keeps_no_part(house: House) -> None:
    """Tenants choose names: only what is in the pod's own project may be its server, and not known pods' servers."""
    placed = house.service.pods.create(house.request("team-b"), small("train"))
    neighbour = house.run(house.store.pods.find(placed.id, None), PodState.READY)
    pod = house.order(small("train"))
    assert neighbour.nodes == pod.nodes
    house.cloud.plant(Fault.UNREACHABLE, verb="create", kind=Kind.SERVER, times=None)
    for _ in range(10):
        house.store.wake(pod.id)
        house.worker.run_once()
    (theirs,) = house.cloud.servers
    (row,) = (r for r in house.store.pods.resources(pod.id) if r.kind is Kind.SERVER)
    assert theirs.name == row.resource.name == "train-0" and row.started_at is not None
    stray = house.cloud.add(Kind.SERVER, "train-0", "team-c", None, host=theirs.fields["host"])
    house.release(pod)
    pod = house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and all(i.result == "clean" for i in receipt.receipt.items), stray


def test_own_projects_server_of_the_same_name_keeps_its_part(house: House) -> None:
    """Without a mark, and created too early by Nova's clock: it may be the server whose creation wasn't answered."""
    pod = house.order(small("train"))
    house.cloud.plant(Fault.LOST_ANSWER, kind=Kind.SERVER, key="server/*")
    while not house.cloud.servers:
        house.store.wake(pod.id)
        house.worker.run_once()
    (server,) = house.cloud.servers
    assert server.created is not None
    server.mark, server.created = None, server.created - timedelta(days=1)
    house.release(pod)
    for _ in range(5):
        house.store.wake(pod.id)
        house.worker.run_once()
    pod = house.store.pods.find(str(pod.id), None)
    assert pod.state is PodState.RELEASING and house.store.records.receipt(pod.id) is None
    assert "has the name of a server of the pod" in pod.reason
    house.cloud.plant(Fault.UNREACHABLE, verb="made_by")
    house.store.wake(pod.id)
    house.worker.run_once()
    assert house.store.records.receipt(pod.id) is None
    house.cloud.lose(server)
    house.run(pod, PodState.RELEASED)
