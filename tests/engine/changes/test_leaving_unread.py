"""Nodes that a shrinking pod leaves while its fabric can't be read: no other pod gets one with the old P_Key."""

from __future__ import annotations

import psycopg

from tests.engine.changes.test_change_loop import apply, sized
from tests.engine.house import House, impatient
from tests.engine.timehouse import look, make
from weft.engine.rows.records import PodRecord
from weft.engine.watch.worker import Worker
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault


def members(house: House, pod: PodRecord) -> set[str]:
    """Nodes whose adapters have the pod's P_Key, on the wire itself."""
    wire, owner = house.fabric.wire, house.site.hca_by_port_guid
    segment = pod.plan.segment
    return {
        owner[g][0].name
        for g, keys in wire.hosts.items()
        if g in owner and any(k & 0x7FFF == segment for k in keys)
    }


def shrunk(house: House) -> tuple[PodRecord, str]:
    """A pod that is shrinking from 3 nodes to 2, and the third: the fabric went dark before its adapters were out."""
    pod = house.ready(sized(3))
    gone = pod.nodes[1]
    for manager in house.fabric.managers:
        manager.stop()
    apply(house, sized(2), gone)
    visits(house, pod, house.worker, 3)
    assert gone in house.store.capacity().holds and gone in members(house, pod)
    return pod, gone


def visits(house: House, pod: PodRecord, worker: Worker, number: int) -> None:
    for _ in range(number):
        house.store.wake(pod.id)
        worker.run_once()


def test_overdue_release_keeps_a_node_that_its_pod_was_leaving(house: House) -> None:
    """The segment as a whole is unknown, and the plan doesn't include the node any more."""
    pod, gone = shrunk(house)
    house.release(pod)
    visits(house, pod, house.new_worker("w2", impatient(0.0)), 4)
    capacity = house.store.capacity()
    assert {gone, *look(house, pod).nodes} <= capacity.holds.keys() & capacity.quarantines.keys()


def test_abandoned_release_quarantines_a_node_that_its_pod_was_leaving(house: House) -> None:
    """And its receipt says so."""
    pod, gone = shrunk(house)
    house.release(pod)
    visits(house, pod, house.worker, 2)
    house.service.pods.abandon(house.operator, str(pod.id), "fabric scrapped")
    house.run(pod, PodState.RELEASED, visits=4)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and gone in signed.receipt.quarantined
    assert gone in house.store.capacity().quarantines


def test_pod_never_gets_a_node_with_another_pods_p_key(house: House) -> None:
    """Its old server still runs there once the fabric is back."""
    pod, gone = shrunk(house)
    stays = look(house, pod).nodes[0]
    house.cloud.plant(Fault.UNDELETABLE, key=f"server/{stays}", kind=Kind.SERVER, times=None)
    house.release(pod)
    visits(house, pod, house.new_worker("w2", impatient(0.0)), 4)
    for manager in house.fabric.managers:
        manager.start()
    free = sum(n.role == "compute" for n in house.site.nodes) - len(house.store.capacity().holds)
    view = house.service.pods.create(house.request("team-b"), make("next", free))
    with psycopg.connect(house.database.url, autocommit=True) as connection:
        connection.execute("UPDATE owner SET next_at = now() + interval '1 h' WHERE id = %s", [pod.id])
    new = house.run(house.store.pods.find(str(view.id), None), PodState.READY)
    assert gone not in new.nodes
    assert not members(house, pod) & {*new.nodes}
