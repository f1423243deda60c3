"""A number returns once its users are proved gone, whatever else a tenant keeps from being deleted."""

from __future__ import annotations

import pytest

from tests.engine.audit.test_sweep import corrections, sweep
from tests.engine.house import House, impatient
from tests.engine.timehouse import look, make
from weft.engine.rows.records import PodRecord
from weft.model.kinds import Kind
from weft.model.pod import PodState
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing


def things(house: House, pod: PodRecord, kind: Kind) -> list[Thing]:
    return [t for t in house.cloud.things(kind) if t.mark and t.mark.owner.id == str(pod.id)]


def group_in_use(house: House, pod: PodRecord, project: str = "team-a") -> Thing:
    """A port of a server elsewhere in the pod's group, as by `openstack server add security group`."""
    (group,) = things(house, pod, Kind.SECURITY_GROUP)
    name = f"of-another-server-{pod.name}"
    return house.cloud.add(Kind.PORT, name, project, None, security_groups=(group.id,), network="mine")


def overdue(house: House, pod: PodRecord, visits: int = 4) -> PodRecord:
    """Release the pod with settings under which a release is overdue at once."""
    house.release(pod)
    return visited(house, pod, visits)


def visited(house: House, pod: PodRecord, visits: int = 3) -> PodRecord:
    worker = house.new_worker("overdue", impatient(0.0))
    for _ in range(visits):
        house.store.wake(pod.id)
        worker.run_once()
    return look(house, pod)


def numbers(house: House, pod: PodRecord) -> set[str]:
    """Spaces of the numbers that the pod holds."""
    with house.database.statement() as tx:
        return {row["space"] for row in tx.rows("numbers_of", owner_id=pod.id)}


def test_group_in_use_keeps_no_number(house: House) -> None:
    """The next order gets both, and the release that goes on touches nothing of it; its receipt is clean."""
    pod = house.ready(make("first", 1))
    port = group_in_use(house, pod)
    pod = overdue(house, pod)
    assert pod.state is PodState.RELEASING and numbers(house, pod) == set()
    other = house.ready(make("second", 1))
    assert (other.plan.segment, other.plan.vlan) == (pod.plan.segment, pod.plan.vlan)
    members = house.fabric.tables()
    visited(house, pod)
    assert look(house, other).state is PodState.READY and house.fabric.tables() == members
    house.cloud.lose(port)
    assert visited(house, pod).state is PodState.RELEASED
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    planes = {item.plane for item in signed.receipt.items}
    assert {"partition", "network", "security_group"} <= planes
    assert house.fabric.tables() == members and numbers(house, other) == {"segment/ib0", "vlan/lab"}
    assert sweep(house) == [] and corrections(house, pod) == ()


def test_group_of_an_abandoned_pod_keeps_no_number(house: House) -> None:
    """Abandonment returns what is proved gone by then."""
    pod = house.ready(make("left", 1))
    group_in_use(house, pod)
    house.release(pod)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "stuck")
    assert visited(house, pod).state is PodState.RELEASED and numbers(house, pod) == set()


@pytest.mark.parametrize(
    ("key", "kept"), [("network/rdma", {"segment/ib0"}), ("network/management", {"vlan/lab"})]
)
def test_remaining_network_keeps_only_its_own_number(house: House, key: str, kept: set[str]) -> None:
    """For an InfiniBand network that is the P_Key, for the management network its VLAN."""
    pod = house.ready(make("left", 1))
    house.cloud.plant(Fault.UNDELETABLE, key=key, times=None)
    assert numbers(house, overdue(house, pod)) == kept


def test_unread_fabric_keeps_only_its_number(house: House) -> None:
    """Every network is proved gone meanwhile."""
    pod = house.ready(make("dark", 1))
    for manager in house.fabric.managers:
        manager.stop()
    overdue(house, pod)
    assert "segment/ib0" in numbers(house, pod)


def test_sweep_frees_each_number_separately(house: House) -> None:
    """Also after an abandoned release."""
    pod = house.ready(make("left", 1))
    group_in_use(house, pod)
    house.cloud.plant(Fault.UNDELETABLE, key="network/management", times=None)
    house.release(pod)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "stuck")
    assert visited(house, pod).state is PodState.RELEASED and numbers(house, pod) == {"vlan/lab"}
    for network in things(house, pod, Kind.NETWORK):
        house.cloud.lose(network)
    before = house.clock.seconds
    sweep(house)
    assert numbers(house, pod) == set()
    assert house.clock.seconds - before == 300.0, "it waits for nothing that may never go"
