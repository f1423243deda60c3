"""Spares: held idle for a pod, shown, counted, booked, and freed with the rest."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.engine.house import House, impatient
from tests.engine.timehouse import HandClock, look, make, messages, policy, queue, release
from tests.helpers.offers import offers
from weft.engine.audit.audit import Auditor
from weft.engine.base.database import Database
from weft.model.errors import ConflictError, InputError, RefusedError
from weft.model.ids import FULL_MEMBER
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.site import ProjectLimits
from weft.planning.shapes.plantext import plan_text
from weft.testing.cloud import Fault


def spared(name: str, count: int, spare: int, **more: object) -> Order:
    order = make(name, count, **more)
    return order.model_copy(update={"nodes": order.nodes.model_copy(update={"spare": spare})})


def test_pod_holds_its_spares_idle(house: House) -> None:
    """They have rows like its nodes, but no server, port or P_Key; lists, the pod's page and the events name them."""
    pod = house.run(house.order(spared("train", 3, 1)), PodState.READY)
    assert len(pod.nodes) == 3 and len(pod.spares) == 1
    holds = house.store.capacity().holds
    assert {n: hold.spare for n, hold in holds.items()} == {n: n in pod.spares for n in pod.held}
    spare = pod.spares[0]
    assert {r.key.split("/")[1] for r in house.store.pods.resources(pod.id) if r.kind == "server"} == set(
        pod.nodes
    )
    assert not any(spare in r.key for r in house.store.pods.resources(pod.id))
    view = house.service.pods.show(house.request(), "train")
    assert [n.node for n in view.spares] == [spare] and view.nodes == 3
    assert any(m.endswith(f"; spare: {spare}") for m in messages(house, pod, "state"))
    shown = next(n for n in house.service.nodes.list(house.operator) if n.name == spare)
    assert (shown.state, shown.pod, shown.reason) == ("busy", "train", "held as a spare")
    assert f"spare  {spare}" in plan_text(pod.plan) and "3 and 1 spare of cloud" in plan_text(pod.plan)


def test_idle_spare_with_a_p_key_is_a_finding(house: House) -> None:
    """A P_Key of the pod's on its port is foreign there."""
    pod = house.run(house.order(spared("train", 3, 1)), PodState.READY)
    auditor = Auditor(house.store, house.world, house.site, house.clock)
    assert auditor.check().findings == ()
    assert pod.plan.segment is not None
    port = house.site.node_by_name[pod.spares[0]].hcas[0].port_guid
    house.fabric.write_key(port, FULL_MEMBER | pod.plan.segment)
    found = [f for f in auditor.check().findings if f.kind == "membership"]
    assert [(f.category, f.pod) for f in found] == [("different", "train")]
    assert found[0].subject.startswith(pod.spares[0]) and "is not a member" in found[0].what


def test_spare_is_freed_with_the_rest_and_named_in_the_receipt(house: House) -> None:
    """Until then no other pod gets it, not even as the last node."""
    pod = house.run(house.order(spared("train", 3, 1)), PodState.READY)
    with pytest.raises(RefusedError) as caught:
        house.order(make("all", 13))
    assert "when pod train (4 nodes) is released" in offers(caught.value)
    release(house, pod)
    receipt = house.service.pods.receipt(house.request(), "train").receipt
    assert (receipt.nodes, receipt.spares, receipt.clean) == (pod.nodes, pod.spares, True)
    assert not house.store.capacity().holds
    assert len(house.order(make("all", 16)).nodes) == 16


def test_spares_count_for_limits_and_shares(house: House, clock: HandClock) -> None:
    """A project's node limit counts what it holds, idle or not; so does its use."""
    policy(house, projects={"team-a": ProjectLimits(max_nodes=4)})
    with pytest.raises(
        RefusedError, match=r"0 of at most 4 nodes.* 5 more are requested, 1 of them spare"
    ) as caught:
        house.order(spared("big", 4, 1))
    assert "nodes.count: 3 instead of 4" in offers(caught.value)
    with pytest.raises(RefusedError):
        house.order(spared("big", 4, 1, queue=True))
    house.run(house.order(spared("fits", 3, 1)), PodState.READY)
    clock.forward(hours=1)
    with house.database.transaction() as tx:
        used = tx.rows("use_of_projects", at=clock.now(), half_life=1e9)
    assert [(r["project_id"], round(float(r["seconds"]) / 3600)) for r in used] == [("team-a", 4)]
    waits = queue(house, "waits", 1)
    house.worker.tend_queue()
    assert look(house, waits).reason == "project team-a has 4 of 4 nodes"


def test_units_in_use_follow_a_change_of_the_order(house: House, clock: HandClock) -> None:
    """For a pod with nodes, and for a waiting order."""
    house.ready(spared("grows", 2, 1))
    queue(house, "waits", 16)
    house.service.pods.apply(house.request(), "grows", spared("grows", 4, 1))
    house.service.pods.apply(house.request(), "waits", make("waits", 3, queue=True))
    house.worker.tend_queue()
    clock.forward(hours=1)
    with house.database.transaction() as tx:
        used = tx.rows("use_of_projects", at=clock.now(), half_life=1e9)
    assert [round(float(r["seconds"]) / 3600) for r in used] == [5 + 3]


def test_booking_includes_the_spares(house: House, clock: HandClock) -> None:
    """For a requested start, and for one by the queue; they are held when it begins."""
    first = house.ready(make("first", 14, duration="8h"))
    fixed = house.order(spared("fixed", 2, 1, start=clock.now() + timedelta(hours=8), duration="1h"))
    waits = house.order(spared("waits", 12, 1, queue=True, duration="1h"))
    house.worker.tend_queue()
    promised = {r.pod.id: len(r.nodes) for r in house.store.capacity().bookings}
    assert promised == {fixed.id: 3, waits.id: 13}
    assert "nodes booked: 13" in look(house, waits).reason
    clock.forward(hours=8)
    house.store.end_leases()
    house.run(first, PodState.RELEASED)
    house.worker.tend_queue()
    assert {len(look(house, p).spares) for p in (fixed, waits)} == {1}
    assert len(house.store.capacity().holds) == 16 and not house.store.capacity().bookings


def test_spare_is_freed_while_a_node_is_quarantined(database: Database, database_url: str) -> None:
    """At the release's limit the unclean node is quarantined; the unused spare is freed."""
    house = House(database, database_url)
    try:
        pod = house.run(house.order(spared("train", 2, 1)), PodState.READY)
        sick = pod.nodes[0]
        house.cloud.plant(Fault.UNDELETABLE, key=f"server/{sick}", times=None)
        house.worker = house.new_worker("impatient", impatient())
        house.release(pod)
        for _ in range(2):
            house.store.wake(pod.id)
            house.worker.run_once()
        capacity = house.store.capacity()
        assert set(capacity.quarantines) == set(capacity.holds) == {sick}
    finally:
        house.close()


def test_impossible_spares_are_refused_with_the_field(house: House) -> None:
    """With partial slices, with more than there are, with IPUs: one sentence each, and nothing is held."""
    with pytest.raises(InputError, match=r"nodes.spare: 1 is not allowed: a multiple of the slice \(2\)"):
        house.order(spared("odd", 4, 1, locality={"slice": 2}))
    with pytest.raises(RefusedError, match=r"17 nodes \(1 of them spare\) are requested") as caught:
        house.order(spared("huge", 16, 1))
    assert "nodes.spare: 0 instead of 1" in offers(caught.value)
    assert not house.store.capacity().holds
    pod = house.run(house.order(spared("once", 1, 1)), PodState.READY)
    with pytest.raises(ConflictError):
        house.order(spared("once", 1, 1))
    assert set(house.store.capacity().holds) == set(pod.held)
