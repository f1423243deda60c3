"""Every release ends within its limit: what is unknown is reported and its nodes quarantined, all else returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.engine.audit.test_sweep import sweep
from tests.engine.house import QUICK, House
from tests.engine.life.test_parts import small
from tests.engine.timehouse import HandClock, look, make
from weft.engine.base.gate import ClosedError
from weft.engine.rows.records import PodRecord
from weft.model.errors import NotYetError
from weft.model.kinds import Kind
from weft.model.pod import PodState
from weft.model.receipt import Receipt
from weft.ports.occupants import Ended, Ending
from weft.testing.cloud import Fault


def at_its_limit(house: House, pod: PodRecord, visits: int = 3) -> Receipt:
    """Release it with a limit that is over at once; returns the receipt."""
    house.release(pod)
    house.worker = house.new_worker("w2", replace(QUICK, ends=0.0, patience=0.0, patience_servers=0.0))
    for _ in range(visits):
        house.store.wake(pod.id)
        house.worker.run_once()
    after = look(house, pod)
    assert after.state is PodState.RELEASED
    assert after.reason == "abandoned by weft: its release has lasted longer than 0 h"
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and not signed.receipt.clean
    assert signed.receipt.abandoned is not None and signed.receipt.abandoned.by == "weft"
    return signed.receipt


def test_endless_removal_costs_only_its_node(house: House) -> None:
    """A nova-compute was killed during it: its event has no end, and nothing will ever be known."""
    pod = house.ready(make("killed", 3))
    bad = pod.nodes[0]
    server = house.cloud.thing(f"server/{bad}").id
    house.cloud.meanwhile(
        "endings",
        lambda: house.cloud.ends(
            server, Ending(Ended.UNKNOWN, "compute_terminate_instance hasn't ended yet")
        ),
    )
    receipt = at_its_limit(house, pod)
    capacity = house.store.capacity()
    assert receipt.quarantined == (bad,)
    assert set(capacity.quarantines) == {bad} and not capacity.holds
    assert receipt.abandoned is not None and receipt.abandoned.kept == (), "its numbers aren't used"
    assert {(i.plane, i.result) for i in receipt.items if i.result != "clean"} == {("guest", "unknown")}


def test_guest_that_was_never_removed_keeps_its_networks_vlan(house: House) -> None:
    """The fabric was read, but if its host is cut off from Neutron, its port is still in that VLAN."""
    pod = house.ready(make("cut", 2))
    house.cloud.offers.hosts[house.site.node_by_name[pod.nodes[0]].nova_host] = "down"
    receipt = at_its_limit(house, pod)
    assert receipt.quarantined == (pod.nodes[0],)
    assert receipt.abandoned is not None and receipt.abandoned.kept == (f"vlan/lab {pod.plan.vlan}",)


def test_guest_that_was_left_behind_keeps_its_networks_vlan(house: House) -> None:
    """Its host was cut off over a reboot, so its port is still in that VLAN."""
    pod = house.ready(make("behind", 2))
    server = house.cloud.thing(f"server/{pod.nodes[0]}").id
    behind = Ending(Ended.LEFT_BEHIND, "compute_reboot_instance hasn't ended yet")
    house.cloud.meanwhile("endings", lambda: house.cloud.ends(server, behind))
    receipt = at_its_limit(house, pod)
    assert receipt.quarantined == (pod.nodes[0],)
    assert receipt.abandoned is not None and receipt.abandoned.kept == (f"vlan/lab {pod.plan.vlan}",)


def test_guest_with_too_long_a_record_keeps_only_its_node_and_vlan(house: House) -> None:
    """Its tenant shelved it a thousand times: where else it ran isn't known; what is known is reported."""
    pod = house.ready(make("shelved", 3))
    server = house.cloud.thing(f"server/{pod.nodes[0]}").id
    host = house.site.node_by_name["gpu16"].nova_host
    too_long = Ending(Ended.UNKNOWN, "Nova's record of it has more than 9 actions", hosts=(host,), cut=True)
    house.cloud.meanwhile("endings", lambda: house.cloud.ends(server, too_long))
    receipt = at_its_limit(house, pod)
    assert set(receipt.quarantined) == {pod.nodes[0], "gpu16"}
    assert receipt.abandoned is not None and receipt.abandoned.kept == (f"vlan/lab {pod.plan.vlan}",)
    [left] = [i for i in receipt.items if i.result != "clean"]
    assert (left.plane, left.result) == ("guest", "unknown")
    why = house.store.capacity().quarantines[pod.nodes[0]].reason
    assert "more than 9 actions" in why, "operators read it"


def test_pods_with_a_shared_quarantined_node_keep_their_vlans_until_cleared(house: House) -> None:
    """The second pod's quarantine of the node doesn't end the first one's: its guest may still run there."""
    pods = [house.run(house.order(small(f"part{i}")), PodState.READY) for i in range(2)]
    (node,) = {n for pod in pods for n in pod.nodes}
    house.cloud.offers.hosts[house.site.node_by_name[node].nova_host] = "down"
    for pod in pods:
        at_its_limit(house, pod)
    sweep(house)
    assert [vlan_of(house, pod) for pod in pods] == [pod.plan.vlan for pod in pods]
    house.store.clear_quarantine(node)
    sweep(house)
    assert [vlan_of(house, pod) for pod in pods] == [None, None]


def vlan_of(house: House, pod: PodRecord) -> int | None:
    """The VLAN that the pod holds."""
    with house.database.statement() as tx:
        rows = tx.rows("numbers_of", owner_id=pod.id)
    return next((row["number"] for row in rows if row["space"] == "vlan/lab"), None)


def dark(house: House) -> None:
    for manager in house.fabric.managers:
        manager.stop()


def undeletable(kind: Kind) -> Callable[[House], None]:
    return lambda house: void(house.cloud.plant(Fault.UNDELETABLE, kind=kind, times=None))


def void(_: object) -> None:
    pass


def silent(house: House) -> None:
    house.cloud.plant(Fault.UNREACHABLE, verb="find", times=None)


def put_off(house: House) -> None:
    """The cloud's driver always answers that it is too early."""

    def delete(*_: object) -> None:
        raise NotYetError("remove the segment", "ib0", "another change is under way", delay=0.0)

    house.fabric.delete = delete  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize(
    ("hinders", "nodes"),
    [
        (dark, True),
        (silent, True),
        (put_off, True),
        (undeletable(Kind.SERVER), True),
        (undeletable(Kind.NETWORK), False),
        (undeletable(Kind.SECURITY_GROUP), False),
    ],
)
def test_release_ends_whatever_it_waits_for(
    house: House, hinders: Callable[[House], None], nodes: bool
) -> None:
    """A manager that stays dark, a cloud that stays silent, a deletion that hangs, a driver that never ends."""
    pod = house.ready(make("stuck", 2))
    hinders(house)
    receipt = at_its_limit(house, pod)
    assert receipt.quarantined == (pod.nodes if nodes else ())
    assert not house.store.capacity().holds


def test_release_that_makes_progress_is_not_abandoned(house: House) -> None:
    """What is seen gone by the limit ends it cleanly."""
    pod = house.ready(make("slow", 2))
    house.release(pod)
    house.worker = house.new_worker("w2", replace(QUICK, ends=0.0))
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and signed.receipt.abandoned is None


def test_time_without_weft_does_not_count_towards_abandoning_a_release(
    house: House, clock: HandClock
) -> None:
    """Nor does time in which a restored database wasn't accepted: only an hour of attempts counts."""
    pod = house.ready(make("down", 2))
    dark(house)
    house.release(pod)
    visits(house, pod)
    clock.sleep(2 * QUICK.ends)
    house.worker = house.new_worker("w2", QUICK)
    assert visits(house, pod).state is PodState.RELEASING
    clock.sleep(QUICK.ends / 2)
    gate = house.database.gate
    gate.closed = lambda *_: ClosedError()  # type: ignore[method-assign]
    assert visits(house, pod).state is PodState.RELEASING
    clock.sleep(2 * QUICK.ends)
    del gate.closed
    assert visits(house, pod).state is PodState.RELEASING
    clock.sleep(QUICK.ends)
    assert visits(house, pod).state is PodState.RELEASED


def visits(house: House, pod: PodRecord, times: int = 3) -> PodRecord:
    for _ in range(times):
        house.store.wake(pod.id)
        house.worker.run_once()
    return look(house, pod)


def test_record_that_contradicts_what_weft_saw_proves_no_end(house: House) -> None:
    """Nova lists no action of a server that weft has seen launched: the guest may run on, and its node is kept."""
    pod = house.ready(make("launched", 2))
    server = house.cloud.thing(f"server/{pod.nodes[0]}")
    server.facts["launched_at"] = "2026-11-30T10:00:00.000000"
    for flavor in ("other", "gpu8"):  # a difference, so that visits write what they see
        server.fields["flavor"] = flavor
        house.store.wake(pod.id)
        house.worker.run_once()
    never = Ending(Ended.NEVER_RAN, "Nova's record names no nova-compute that ever had it")
    house.cloud.meanwhile("endings", lambda: house.cloud.ends(server.id, never))
    receipt = at_its_limit(house, pod)
    assert receipt.quarantined == (pod.nodes[0],)
    assert {(i.plane, i.result) for i in receipt.items if i.result != "clean"} >= {("guest", "unknown")}
    assert receipt.abandoned is not None and receipt.abandoned.kept == (f"vlan/lab {pod.plan.vlan}",)


DEFECTS = ("find", "endings", "on_hosts", "delete")


def has_defect(house: House, what: str) -> None:
    """From now on a method of the cloud's driver, or of the fabric's, fails in a way that was not foreseen."""

    def fail(*given: object, **named: object) -> None:
        raise KeyError("a defect")

    setattr(house.cloud if what in DEFECTS else house.fabric, what.removeprefix("fabric "), fail)


@pytest.mark.parametrize("what", [*DEFECTS, "fabric snapshot", "fabric clean"])
def test_defect_costs_only_what_it_hides(house: House, what: str) -> None:
    """The release ends within its limit, and the receipt says what wasn't read."""
    pod = house.ready(make("defect", 2))
    has_defect(house, what)
    house.release(pod)
    house.store.wake(pod.id)
    house.worker.run_once()
    reason = look(house, pod).reason
    assert "defect in weft (KeyError: 'a defect')" in reason
    receipt = at_its_limit(house, pod)
    assert {"unknown", "not clean"} & {i.result for i in receipt.items}
    assert set(receipt.quarantined) == set(pod.nodes) == set(house.store.capacity().quarantines)


def test_defect_quarantines_no_node_that_the_wire_proves_out(house: House) -> None:
    """The segment can't be looked for by its name; the wire shows all the same that no node has its key."""
    pod = house.ready(make("defect", 2))
    has_defect(house, "fabric find")
    house.release(pod)
    receipt = at_its_limit(house, pod)
    assert [(i.plane, i.result) for i in receipt.items if i.result != "clean"] == [("database", "not clean")]
    assert not receipt.quarantined and not house.store.capacity().quarantines


def test_abandoned_release_ends_despite_a_defect(house: House) -> None:
    pod = house.ready(make("defect", 2))
    has_defect(house, "on_hosts")
    house.release(pod)
    house.store.wake(pod.id)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "it never ends")
    house.run(pod, PodState.RELEASED)
    assert set(house.store.capacity().quarantines) == set(pod.nodes)
