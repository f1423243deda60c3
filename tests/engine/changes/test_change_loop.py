"""A pod that changes while it serves: growing, shrinking, late, twice, killed in between, undeletable."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Network
from typing import Any

import pytest

from tests.engine.house import ORDER, QUICK, House
from tests.engine.timehouse import HandClock, look, make, messages
from weft.engine.hold.fence import ChangedError, LostError
from weft.engine.rows.records import Change, PodRecord, RowState
from weft.model.order import Order
from weft.model.pod import Aspect, Phase, PodState, find
from weft.model.resources import Kind
from weft.testing.cloud import Fault


def sized(count: int, order: Order = ORDER, **nodes: Any) -> Order:
    return order.model_copy(update={"nodes": order.nodes.model_copy(update={"count": count, **nodes})})


def access(order: Order = ORDER, **fields: Any) -> Order:
    return order.model_copy(update={"access": order.access.model_copy(update=fields)})


def apply(house: House, order: Order, *remove: str) -> None:
    found = house.service.pods.apply(house.request(), order.name, order, remove)
    assert found.outcome == "changed"


def settle(house: House, pod: PodRecord, visits: int = 60) -> PodRecord:
    """Visit until no change is under way; the pod is READY then, and was only READY or DEGRADED meanwhile."""
    for _ in range(visits):
        pod = look(house, pod)
        assert pod.state in (PodState.READY, PodState.DEGRADED), f"{pod.state}: {pod.reason}"
        if pod.changed_at is None and pod.state is PodState.READY and pod.ready_generation == pod.generation:
            return pod
        house.store.wake(pod.id)
        house.worker.run_once()
    raise AssertionError(f"{pod.state} ({pod.reason}), generation {pod.ready_generation} of {pod.generation}")


def statuses(pod: PodRecord) -> dict[Aspect, str]:
    """Status of its readiness and of its change."""
    return {c.type: c.status for c in pod.conditions if c.type in (Aspect.CHANGING, Aspect.READY)}


def servers(house: House) -> dict[str, str]:
    return {t.mark.key: t.id for t in house.cloud.things(Kind.SERVER) if t.mark}


def members(house: House, pod: PodRecord) -> set[str]:
    """Nodes whose adapters are in the pod's partition on the wire."""
    pkey = pod.plan.segment
    tables = house.fabric.tables()
    owner = house.site.hca_by_port_guid
    return {
        owner[g][0].name for g, t in tables.items() if any(k & 0x7FFF == pkey for k in t.keys) and g in owner
    }


def held(house: House, pod: PodRecord) -> set[str]:
    return {n for n, r in house.store.capacity().holds.items() if r.pod.id == pod.id}


def rows(house: House, pod: PodRecord, node: str) -> set[str]:
    return {str(r.state) for r in house.store.pods.resources(pod.id) if r.resource.node == node}


def test_growing_pod_gets_a_node(house: House) -> None:
    """It comes, with its adapters in the partition; the other servers are the same, and always READY."""
    pod = house.ready()
    before = servers(house)
    apply(house, sized(3))
    now = settle(house, pod)
    assert servers(house).items() > before.items()
    assert len(servers(house)) == 3
    assert members(house, now) == set(now.nodes) == held(house, now)
    assert "DEGRADED" not in " ".join(messages(house, pod, "state"))
    assert messages(house, pod, "change")[-1] == "generation 2 is applied"
    assert now.reason == ""


def test_shrinking_pod_frees_a_node(house: House) -> None:
    """Its server and membership go, it is read back and freed; its rows are tombstones."""
    pod = house.ready(sized(3))
    gone = pod.nodes[1]
    before = servers(house)
    apply(house, sized(2), gone)
    now = settle(house, pod)
    assert servers(house) == {k: v for k, v in before.items() if gone not in k}
    assert members(house, now) == set(now.nodes) == held(house, now)
    assert rows(house, pod, gone) == {"absent"}
    assert f"{gone} was read back clean and is free" in messages(house, pod, "release")
    assert house.order(make("other", 14)).nodes


def test_access_is_changed_without_recreating_servers(house: House) -> None:
    """Other sources, then a floating IP with its router, then none: no server and no port is recreated."""
    pod = house.ready()
    before = {t.id for t in house.cloud.things() if t.kind in (Kind.SERVER, Kind.PORT)}
    apply(house, access(ssh_from=(IPv4Network("9.0.0.0/8"),)))
    settle(house, pod)
    assert house.cloud.thing("security_group").fields["ssh_from"] == ("9.0.0.0/8",)
    apply(house, access(floating_ip="each"))
    settle(house, pod)
    assert len(house.cloud.things(Kind.FLOATING_IP)) == 2
    apply(house, access(floating_ip="none"))
    settle(house, pod)
    assert not house.cloud.things(Kind.FLOATING_IP)
    assert not house.cloud.things(Kind.ROUTER)
    after = {t.id for t in house.cloud.things() if t.kind in (Kind.SERVER, Kind.PORT)}
    assert before == after
    apply(house, access(floating_ip="first"))
    settle(house, pod)
    assert len(house.cloud.things(Kind.FLOATING_IP)) == 1


def test_pod_can_be_changed_again_while_it_changes(house: House) -> None:
    """Generation 3 while 2 is under way: what only 2 wanted is removed, created or not, and what 3 wants is created."""
    pod = house.ready()
    apply(house, sized(4))
    house.store.wake(pod.id)
    house.worker.run_once()
    apply(house, sized(1))
    now = settle(house, pod)
    assert now.generation == 3
    assert len(servers(house)) == 1
    assert members(house, now) == set(now.nodes) == held(house, now)
    apply(house, sized(5))
    now = settle(house, pod)
    assert len(servers(house)) == 5
    assert members(house, now) == set(now.nodes) == held(house, now)


def test_visit_of_an_older_generation_writes_nothing(house: House) -> None:
    """A worker that holds generation 1 when 2 is written is refused, in writes and before calls; it hands back."""
    pod = house.ready()
    old = house.store.claim_owner(pod.id, "old")
    assert old is not None
    apply(house, sized(3))
    before = house.store.pods.resources(pod.id)
    with pytest.raises(ChangedError):
        old.note([Change("server/x", RowState.SETTLED)])
        old.notes.flush()
    with pytest.raises(ChangedError):
        old.fence.check()
    assert issubclass(ChangedError, LostError)
    assert house.store.pods.resources(pod.id) == before
    old.hand_back_unwritten(0.0)
    settle(house, pod)


def test_change_during_a_visit_is_not_lost(house: House) -> None:
    """Applied while servers are being requested: the visit stops, nothing is created twice, the next one continues."""
    pod = house.ready()
    apply(house, sized(3))
    house.cloud.meanwhile("create", lambda: apply(house, sized(4)))
    now = settle(house, pod)
    assert now.generation == 3
    assert len(servers(house)) == len(house.cloud.things(Kind.SERVER)) == 4
    assert members(house, now) == set(now.nodes) == held(house, now)


def test_pod_can_be_released_while_it_changes(house: House) -> None:
    """Everything of every generation is removed, and the receipt includes the nodes that were freed before."""
    pod = house.ready(sized(3))
    gone = pod.nodes[2]
    apply(house, sized(2), gone)
    settle(house, pod)
    apply(house, sized(4))
    house.store.wake(pod.id)
    house.worker.run_once()
    came = set(look(house, pod).nodes)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not [t for t in house.cloud.things() if t.mark]
    assert not members(house, pod)
    assert not held(house, pod)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None
    assert signed.receipt.clean
    assert signed.receipt.given_back == (gone,)
    assert set(signed.receipt.nodes) == came
    subjects = " ".join(i.subject for i in signed.receipt.items)
    assert all(f"port-{n}-management" in subjects for n in {*pod.nodes, *came})
    assert all(f"train-{number}" in subjects for number in range(len(came)))


def test_release_includes_a_node_that_was_leaving(house: House) -> None:
    """It is read back, in the receipt, and free."""
    pod = house.ready(sized(3))
    gone = pod.nodes[2]
    apply(house, sized(2), gone)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not held(house, pod)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None
    assert signed.receipt.clean
    assert any(i.plane == "host" and i.subject == gone for i in signed.receipt.items)


def test_uncleanable_node_is_quarantined_and_the_pod_goes_on(house: House, clock: HandClock) -> None:
    """Its server can't be deleted: the other nodes are freed, new ones come, and it stays held and quarantined."""
    pod = house.ready(sized(4))
    bad, good = pod.nodes[1], pod.nodes[2]
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{bad}", times=None)
    house.worker = house.new_worker("w2", replace(QUICK, limits={**QUICK.limits, PodState.RELEASING: 0.0}))
    apply(house, sized(2), bad, good)
    clock.forward(seconds=1)
    now = settle(house, pod)
    assert held(house, now) == {*now.nodes, bad}
    quarantine = house.store.capacity().quarantines
    assert quarantine.keys() == {bad}
    assert members(house, now) == set(now.nodes)
    apply(house, sized(3))
    clock.forward(seconds=1)
    now = settle(house, pod)
    assert bad not in now.nodes
    planted.lift()
    house.cloud.thing(f"server/{bad}").undeletable = False
    for _ in range(5):
        clock.forward(seconds=10)
        house.store.wake(pod.id)
        house.worker.run_once()
    assert held(house, now) == set(now.nodes)
    assert house.store.capacity().quarantines.keys() == {bad}


@pytest.mark.parametrize("fault", ["writable", "reachable"])
def test_node_is_kept_while_a_standby_would_restore_its_membership(
    house: House, clock: HandClock, fault: str
) -> None:
    """The pod keeps its number, so the number isn't held back: the node's next pod would be in this pod's partition."""
    pod = house.ready(sized(3))
    gone, standby = pod.nodes[1], house.fabric.manager("sm2")
    setattr(standby, fault, False)
    apply(house, sized(2), gone)
    for _ in range(5):
        clock.forward(seconds=10)
        house.store.wake(pod.id)
        house.worker.run_once()
    now = house.store.pods.find(str(pod.id), None)
    assert members(house, now) == set(now.nodes) and held(house, now) == {*now.nodes, gone}
    assert rows(house, pod, gone) == {"absent"} and "sm2" in str(messages(house, pod, "state"))
    setattr(standby, fault, True)
    house.fabric.level()
    now = settle(house, pod)
    assert held(house, now) == set(now.nodes)
    assert f"{gone} was read back clean and is free" in messages(house, pod, "release")


def test_server_that_reappears_is_removed_again(house: House) -> None:
    """Seen on the host when the node is read back: the node isn't freed before the server is gone for good."""
    pod = house.ready(sized(3))
    gone = pod.nodes[2]
    server = house.cloud.thing(f"server/{gone}")
    apply(house, sized(2), gone)
    house.cloud.meanwhile("endings", lambda: house.cloud.bring_back(server))
    settle(house, pod)
    assert gone not in held(house, pod)
    assert f"server/{gone}" not in servers(house)


def test_killed_worker_is_replaced_in_a_change(house: House) -> None:
    """The next worker finds by name what was requested; no node is freed while a lost request may take effect."""
    pod = house.ready(sized(3))
    gone = pod.nodes[0]
    apply(house, sized(2), gone)
    dead = house.store.claim_owner(pod.id, "dead")
    assert dead is not None
    dead.note([Change(r.key, RowState.DELETING) for r in dead.resources() if r.resource.node == gone])
    dead.notes.flush()
    dead.hand_back_unwritten(0.0)
    now = settle(house, pod)
    assert held(house, now) == set(now.nodes)
    assert len(servers(house)) == 2


def test_breaking_new_server_does_not_affect_the_others(house: House) -> None:
    """After all attempts the pod is DEGRADED and says why, the old servers stay, and another change helps."""
    pod = house.ready()
    before = servers(house)
    house.cloud.plant(Fault.BROKEN, key="server/*", times=None, reason="No valid host was found.")
    apply(house, sized(3))
    for _ in range(20):
        house.store.wake(pod.id)
        house.worker.run_once()
    now = look(house, pod)
    assert now.state is PodState.DEGRADED
    assert "changing to generation 2: create" in now.reason
    assert statuses(now) == {Aspect.CHANGING: "true", Aspect.READY: "false"}
    ready = find(now.conditions, Aspect.READY)
    assert ready is not None and ready.message and ready.message in now.reason
    assert before.items() <= servers(house).items()
    new = next(n for n in now.nodes if n not in pod.nodes)
    apply(house, sized(2), new)
    now = settle(house, pod)
    assert servers(house) == before
    assert held(house, now) == set(pod.nodes)


def test_change_does_not_recreate_a_server_that_its_tenant_deleted(house: House) -> None:
    """A change creates only what it adds; earlier resources are repaired as always, servers only by an operator."""
    pod = house.ready()
    lost = pod.nodes[0]
    house.cloud.lose(house.cloud.thing(f"server/{lost}"))
    house.store.wake(pod.id)
    house.worker.run_once()
    assert look(house, pod).state is PodState.DEGRADED
    apply(house, sized(3))
    for _ in range(20):
        house.store.wake(pod.id)
        house.worker.run_once()
    now = look(house, pod)
    assert servers(house).keys() == {f"server/{n}" for n in now.nodes if n != lost}
    assert now.state is PodState.DEGRADED
    assert members(house, now) == set(now.nodes) - {lost}


def test_change_resumes_after_an_outage_of_the_cloud(house: House) -> None:
    """Meanwhile the pod says that it is changing and why it makes no progress."""
    pod = house.ready()
    apply(house, sized(3))
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="create", times=None)
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    now = look(house, pod)
    assert now.state is PodState.READY
    assert now.reason.startswith("changing to generation 2: ")
    assert statuses(now) == {Aspect.CHANGING: "true", Aspect.READY: "true"}
    ready = find(now.conditions, Aspect.READY)
    assert ready is not None and ready.message == "changing to generation 2"
    planted.lift()
    now = settle(house, pod)
    assert now.generation == 2
    assert statuses(now) == {Aspect.READY: "true"}


@pytest.mark.parametrize("fault", [Fault.ERROR_500, Fault.BROKEN])
def test_resources_of_a_stuck_change_are_not_foreign(house: House, fault: Fault) -> None:
    """Ports of the new node are on the pod's own network before their server is: no stranger is there."""
    pod = house.ready()
    house.cloud.plant(fault, verb="create", kind=Kind.SERVER, key="server/*", times=None)
    apply(house, sized(3))
    for _ in range(8):
        house.store.wake(pod.id)
        house.worker.run_once()
    now = look(house, pod)
    assert "changing to generation 2" in now.reason and "doesn't belong" not in now.reason
    assert now.state is (PodState.READY if fault is Fault.ERROR_500 else PodState.DEGRADED)


def test_stranger_on_an_old_node_is_reported_while_a_change_is_stuck(house: House) -> None:
    """The blocked change hides nothing of the part that was READY: the old node's P_Key is removed."""
    pod = house.ready()
    apply(house, sized(3))
    house.cloud.plant(Fault.UNREACHABLE, verb="create", times=None)
    house.store.wake(pod.id)
    house.worker.run_once()
    house.cloud.add(
        Kind.SERVER, "secret-project-x", "team-b", host=pod.nodes[0], flavor="gpu1"
    )  # a flavor that has accelerators by a PCI alias
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    now = look(house, pod)
    assert now.state is PodState.DEGRADED
    assert "changing to generation 2: " in now.reason
    assert pod.nodes[0] in now.reason
    assert members(house, now) == set(now.nodes) - {pod.nodes[0]}


def test_pod_can_be_changed_while_it_is_built(house: House) -> None:
    """With fewer nodes while it boots: what isn't wanted any more goes, and the rest becomes READY."""
    pod = house.order(sized(3))
    for _ in range(2):
        house.worker.run_once()
    gone = look(house, pod).nodes[1]
    apply(house, sized(2), gone)
    house.run(pod, PodState.READY)
    now = settle(house, pod)
    assert len(servers(house)) == 2
    assert members(house, now) == set(now.nodes) == held(house, now)


def test_failed_pod_is_retried_by_a_change(house: House) -> None:
    """One of three hosts is broken: without it the pod becomes READY."""
    pod = house.order(sized(3))
    bad = look(house, pod).nodes[2]
    house.cloud.plant(Fault.BROKEN, key=f"server/{bad}", times=None, reason="No valid host was found.")
    house.run(pod, PodState.FAILED)
    apply(house, sized(2), bad)
    revived = look(house, pod)
    assert (revived.phase, revived.state) == (Phase.BUILDING, PodState.BOOTING)
    assert Aspect.FAILED not in {c.type for c in revived.conditions}
    house.run(pod, PodState.READY)
    now = settle(house, pod)
    assert servers(house).keys() == {f"server/{n}" for n in now.nodes}
    assert held(house, now) == set(now.nodes)


def test_spares_come_and_go_without_a_server(house: House) -> None:
    """A spare is held; as a node it gets its server; it is read back like every node before it is freed."""
    pod = house.ready()
    apply(house, sized(2, spare=1))
    now = settle(house, pod)
    assert held(house, now) == {*now.nodes, *now.spares}
    (spare,) = now.spares
    apply(house, sized(3))
    now = settle(house, pod)
    assert spare in now.nodes
    assert members(house, now) == set(now.nodes) == held(house, now)
    assert not [hold for hold in house.store.capacity().holds.values() if hold.spare]


@pytest.mark.parametrize("made", [True, False])
def test_node_that_left_returns_as_a_spare(house: House, made: bool) -> None:
    """Its former server is gone, or never was, and isn't missed."""
    pod = house.ready(sized(4)) if made else house.order(count=4)
    apply(house, sized(1))
    house.run(pod, PodState.READY)
    settle(house, pod)
    apply(house, sized(1, spare=3))
    now = settle(house, pod)
    assert {r.resource.node for r in house.store.pods.resources(pod.id) if r.kind is Kind.SERVER} == set(
        now.held
    )
    assert members(house, now) == set(now.nodes)


def test_audit_of_a_changing_pod_ignores_what_is_not_created_yet(house: House) -> None:
    """It finds what is missing of earlier resources, and of new ones that were created."""
    pod = house.ready()
    apply(house, sized(3))
    assert house.service.audits.run(house.operator).findings == ()
    house.cloud.plant(Fault.ERROR_500, verb="create", kind=Kind.SERVER, key="server/*", times=None)
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
        assert house.service.audits.run(house.operator).findings == ()
    house.cloud.faults.clear()
    now = settle(house, pod)
    apply(house, sized(4))
    lost = f"server/{now.nodes[0]}"
    house.cloud.lose(house.cloud.thing(lost))
    found = house.service.audits.run(house.operator).findings
    assert [(f.category, f.subject) for f in found] == [("missing", lost)]


def test_audit_of_a_changed_pod_finds_nothing(house: House) -> None:
    """Tombstones aren't missing, and what stays is what is wanted."""
    pod = house.ready(sized(3))
    apply(house, sized(2), pod.nodes[0])
    settle(house, pod)
    apply(house, sized(4))
    settle(house, pod)
    assert house.service.audits.run(house.operator).findings == ()
