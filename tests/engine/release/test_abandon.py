"""An operator abandons a release that can't finish; what wasn't seen clean isn't assigned again."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.house import House, impatient
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.model.errors import ConflictError, ForbiddenError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.views import AuditLogSearch
from weft.testing.cloud import Fault

WHY = "project deleted"


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url, loop=impatient(900.0))
    yield house
    house.close()


def stuck(house: House, kind: Kind = Kind.SERVER) -> PodRecord:
    """A pod whose release makes no progress: the cloud refuses to delete one kind of its resources."""
    pod = house.ready()
    house.cloud.plant(Fault.UNDELETABLE, kind=kind, times=None)
    house.release(pod)
    house.worker.run_once()
    assert house.store.pods.find(str(pod.id), None).state is PodState.RELEASING
    return pod


def test_abandoned_pod_is_released_with_an_unclean_receipt(house: House) -> None:
    """The receipt names user and reason, and what was left; the nodes are quarantined."""
    pod = stuck(house)
    house.service.pods.abandon(house.operator, str(pod.id), WHY)
    after = house.run(pod, PodState.RELEASED, visits=2)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean is False
    said = signed.receipt.abandoned
    assert said is not None and (said.by, said.reason) == ("admin-admin (operator)", WHY)
    assert signed.receipt.quarantined == tuple(sorted(pod.nodes))
    servers = [i for i in signed.receipt.items if i.plane == "server"]
    assert {i.result for i in servers} == {"not clean"}
    # The project reads it: what was seen, which may belong to others, is only in the operators' events.
    assert {i.seen for i in servers} == {"it still exists, or isn't the pod's alone"}
    assert WHY in after.reason
    assert set(house.store.capacity().quarantines) == set(pod.nodes)
    assert not house.store.capacity().holds


def test_abandoned_pod_keeps_numbers_that_may_be_in_use(house: House) -> None:
    """A network that was not seen gone still uses its VLAN and its P_Key."""
    pod = stuck(house, Kind.NETWORK)
    house.service.pods.abandon(house.operator, str(pod.id), WHY)
    house.run(pod, PodState.RELEASED, visits=2)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.abandoned is not None
    assert signed.receipt.abandoned.kept == (
        f"segment/ib0 {pod.plan.segment}",
        f"vlan/lab {pod.plan.vlan}",
    )
    assert signed.receipt.quarantined == ()
    again = house.ready()
    assert again.plan.segment != pod.plan.segment
    assert again.plan.vlan != pod.plan.vlan


def test_abandoning_with_unreadable_fabric_keeps_nodes_and_p_key(house: House) -> None:
    """Unknown isn't clean; what the cloud showed to be gone is freed."""
    pod = house.ready()
    for manager in house.fabric.managers:
        manager.stop()
    house.release(pod)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "fabric scrapped")
    house.run(pod, PodState.RELEASED, visits=2)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.abandoned is not None
    assert signed.receipt.quarantined == tuple(sorted(pod.nodes))
    assert signed.receipt.abandoned.kept == (f"segment/ib0 {pod.plan.segment}",)


def test_abandoning_leaves_alone_nodes_that_were_freed_early(house: House) -> None:
    """What an overdue release freed early may belong to others when the rest is abandoned."""
    pod = house.ready()
    bad, good = pod.nodes
    house.cloud.plant(Fault.UNDELETABLE, key=f"server/{bad}", kind=Kind.SERVER, times=None)
    house.release(pod)
    overdue = house.new_worker("w2", impatient(0.0))
    overdue.run_once()
    assert set(house.store.capacity().holds) == {bad}
    house.service.pods.abandon(house.operator, str(pod.id), WHY)
    house.run(pod, PodState.RELEASED, visits=2)
    assert set(house.store.capacity().quarantines) == {bad}
    assert good not in house.store.capacity().quarantines


def test_abandoned_release_that_finishes_is_clean(house: House) -> None:
    """Nothing is abandoned where everything was seen gone."""
    pod = stuck(house)
    for fault in house.cloud.faults:
        fault.lift()
    for thing in house.cloud.things():
        thing.undeletable = False
    house.service.pods.abandon(house.operator, str(pod.id), WHY)
    house.run(pod, PodState.RELEASED, visits=2)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and signed.receipt.abandoned is None


def test_only_a_release_under_way_can_be_abandoned(house: House) -> None:
    """Not a live pod, nor one that was abandoned or released before."""
    pod = house.ready()
    with pytest.raises(ConflictError, match="release it first"):
        house.service.pods.abandon(house.operator, str(pod.id), WHY)
    house.cloud.plant(Fault.UNDELETABLE, kind=Kind.SERVER, times=None)
    house.release(pod)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), WHY)
    with pytest.raises(ConflictError, match="already requested this"):
        house.service.pods.abandon(house.operator, str(pod.id), WHY)
    house.run(pod, PodState.RELEASED, visits=2)
    with pytest.raises(ConflictError, match="nothing to abandon"):
        house.service.pods.abandon(house.operator, str(pod.id), WHY)


def test_abandoning_needs_an_operator_and_is_logged(house: House) -> None:
    """Not even a tenant for its own pod: capacity and proof are the operator's."""
    pod = stuck(house)
    with pytest.raises(ForbiddenError):
        house.service.pods.abandon(house.request(), str(pod.id), WHY)
    house.service.pods.abandon(house.operator, str(pod.id), WHY)
    log = [e for e in house.store.records.audit_log(AuditLogSearch()) if e.action == "pod abandon"]
    said = [(e.user, e.outcome.split(":")[0]) for e in log]
    assert said == [("admin-admin", "done"), ("team-a-member", "ForbiddenError")]
