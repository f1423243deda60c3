"""Interruptions: a lost answer, a slow manager, a manager that ends or hangs during a change."""

from __future__ import annotations

import pytest

from tests.drivers.opensm.rigs import FABRIC, FakeRig, RealRig, host_ports, partition, scope, seen, until
from weft.model.errors import UnknownError
from weft.model.resources import Status
from weft.testing.fabric import FakeFabric, Fault


def fake() -> tuple[FakeRig, FakeFabric]:
    rig = FakeRig()
    assert isinstance(rig.driver, FakeFabric)
    return rig, rig.driver


def test_lost_answer_is_unknown_and_repeatable() -> None:
    """The change took effect without an answer: unknown, then found by its mark, and made only once."""
    rig, fabric = fake()
    fabric.plant(Fault.LOST_ANSWER)
    wanted = partition(0x101, host_ports(rig.site)[:2])
    with pytest.raises(UnknownError):
        fabric.create(scope(), [wanted], {})
    found = seen(rig, wanted)
    assert found is not None and found.status is Status.SETTLED
    fabric.create(scope(), [wanted], {})
    assert len(fabric.marked("lab", [])) == 1


def test_slow_manager_leaves_the_segment_pending() -> None:
    """Pending until the tables show it, without another change."""
    rig, fabric = fake()
    fabric.plant(Fault.SLOW)
    wanted = partition(0x101, host_ports(rig.site)[:2])
    assert fabric.create(scope(), [wanted], {})["partition"].error is None
    first = seen(rig, wanted)
    assert first is not None and first.status is Status.PENDING and "no member" in first.reason
    until("the manager has swept", lambda: (s := seen(rig, wanted)) and s.status is Status.SETTLED)


def test_manager_that_ends_during_a_change_is_recovered() -> None:
    """The file is written but not read: unknown, and in effect when a manager is back."""
    rig, fabric = fake()
    fabric.plant(Fault.STOPPED)
    wanted = partition(0x101, host_ports(rig.site)[:2])
    with pytest.raises(UnknownError, match="is no longer running"):
        fabric.create(scope(), [wanted], {})
    with pytest.raises(UnknownError):
        fabric.find(scope(), [wanted], {})
    fabric.manager("sm1").start()
    found = seen(rig, wanted)
    assert found is not None and found.reason == ""


def test_fake_latency_is_seeded() -> None:
    """The fake delays answers without changing them."""
    site = FakeRig().site
    slow = FakeFabric(site, FABRIC, seed=7, latency=0.002)
    wanted = partition(0x101, host_ports(site)[:2])
    slow.create(scope(), [wanted], {})
    assert slow.find(scope(), [wanted], {})["partition"].status is Status.SETTLED


@pytest.mark.fabric
def test_hanging_manager_is_unknown(real: RealRig) -> None:
    """opensm exists and doesn't answer: unknown within bounded time, and well after a restart."""
    wanted = partition(0x101, host_ports(real.site)[:2])
    real.driver.create(scope(), [wanted], {})
    until("it is settled", lambda: (s := seen(real, wanted)) and s.status is Status.SETTLED)
    real.stop("opensm-sm2")
    real.faults.freeze("opensm-sm1")
    try:
        with pytest.raises(UnknownError):
            real.driver.find(scope(), [wanted], {})
        assert any("does not answer" in p for m in real.driver.status().managers for p in m.problems)
    finally:
        # it lost what the simulator sent meanwhile, so only a new process continues
        real.faults.thaw("opensm-sm1")
        real.stop("opensm-sm1")
        real.start("opensm-sm1")
        real.start("opensm-sm2")
    until("both are well", lambda: (s := seen(real, wanted)) and s.status is Status.SETTLED)


@pytest.mark.nightly(reason="ten seconds of processor; by day one manager hangs, and is started again")
@pytest.mark.fabric
def test_hanging_fabric_is_repaired(real: RealRig) -> None:
    """Both managers exist and neither answers; after the repair the configured partition is there again."""
    wanted = partition(0x101, host_ports(real.site)[:2])
    real.driver.create(scope(), [wanted], {})
    until("it is settled", lambda: (s := seen(real, wanted)) and s.status is Status.SETTLED)
    for name in ("opensm-sm1", "opensm-sm2"):
        real.faults.freeze(name)
    real.faults.repair(patience=1.0)
    until("it is settled again", lambda: (s := seen(real, wanted)) and s.status is Status.SETTLED)
    real.stop("opensm-sm2")
    real.faults.repair(patience=1.0)
    assert real.driver.status().problems == ()


@pytest.mark.fabric
def test_lost_datagrams_leave_the_segment_pending_until_repaired(real: RealRig) -> None:
    """The manager can't write one port's table; the reason quotes its log."""
    ports = host_ports(real.site)
    end = next(f"{n.name}/{h.name}" for n in real.site.nodes for h in n.hcas if h.port_guid == ports[1])
    real.faults.lose(end, 100)
    try:
        wanted = partition(0x101, ports[:3])
        real.driver.create(scope(), [wanted], {})
        found = seen(real, wanted)
        assert found is not None and found.status is not Status.SETTLED
        assert any(f"{ports[1]:016x}" in d.field for d in found.differences)
    finally:
        real.faults.lose(end, 0)

    def step() -> bool:
        real.driver.update(scope(), [wanted], {})
        now = seen(real, wanted)
        return now is not None and now.status is Status.SETTLED

    until("it is settled", step)


@pytest.mark.fabric
def test_cable_moved_to_another_leaf_port_keeps_the_segment(real: RealRig) -> None:
    """The member is one at its new leaf port, and the old leaf port loses the key."""
    ports = host_ports(real.site)
    wanted = partition(0x101, ports[:3])
    real.driver.create(scope(), [wanted], {})
    until("it is settled", lambda: (s := seen(real, wanted)) and s.status is Status.SETTLED)
    link = next(k for k in real.site.links if k.b.startswith(real.site.nodes[1].name + "/"))
    real.cut(ports[1])
    real.faults.link(link.a, 40, link.b, 1)
    try:

        def moved() -> bool:
            real.driver.update(scope(), [wanted], {})
            now = seen(real, wanted)
            return now is not None and now.status is Status.SETTLED

        until("it is settled at its new place", moved)
        table = real.driver.tables([ports[1]])[ports[1]]
        assert (table.leaf, table.leaf_port) == (link.a, 40)
    finally:
        real.driver.delete(scope(), [wanted], {})
        real.faults.unlink(link.b)
        real.faults.link(link.a, link.a_port, link.b, 1)
        until("the cable is back", lambda: real.driver.tables([ports[1]])[ports[1]].leaf_port == link.a_port)
