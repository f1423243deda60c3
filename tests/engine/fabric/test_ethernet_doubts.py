"""Switches that didn't answer, or didn't save: what is held until it is known, and what needs no waiting."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import replace

import pytest

from tests.engine.changes.test_change_loop import apply, held, settle, sized
from tests.engine.fabric.test_ethernet_life import EthernetHouse, ethernet, ports, released, visits
from tests.engine.house import nothing_lands
from tests.engine.timehouse import look
from weft.engine.base.database import Database
from weft.engine.rows.records import PodRecord
from weft.engine.watch.fabrickeeper import FabricKeeper
from weft.model.fabric import Clean, Snapshot
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.specs import SegmentSpec
from weft.testing.ethernet import FakeEthernet


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[EthernetHouse]:
    house = EthernetHouse(database, database_url)
    house.site = ethernet(house.site)
    house.fake = FakeEthernet(house.site, "ib0")
    house.world = replace(
        house.world, resources={**house.world.resources, "ib0": house.fake}, fabrics={"ib0": house.fake}
    )
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


def smallest(house: EthernetHouse, pod: PodRecord) -> tuple[str, list[str]]:
    """The leaf with the fewest nodes of a pod, and these nodes; the pod must be on several leaves."""
    leaves: dict[str, list[str]] = {}
    for node in pod.nodes:
        port, *_ = (h.port_id for h in house.site.node_by_name[node].hcas_on("ib0"))
        leaves.setdefault(port.partition("/")[0], []).append(node)
    assert len(leaves) > 1
    return min(leaves.items(), key=lambda item: len(item[1]))


def test_node_is_kept_while_its_switch_may_restore_the_vlan(house: EthernetHouse) -> None:
    """The pod has left a switch that has no room to save that: after a restart the port would be in its VLAN, with the
    node's next pod. It is saved once there is room, though no order changes anything there."""
    pod = house.ready(sized(5))
    leaf, gone = smallest(house, pod)
    assert pod.plan.segment is not None
    switch = house.fake.switches[leaf]
    switch.full = True
    apply(house, sized(5 - len(gone)), *gone)
    now = visits(house, pod, 8)
    assert pod.plan.segment not in switch.config.vlans and pod.plan.segment in switch.saved.vlans
    assert set(gone) <= held(house, now)
    switch.full = False
    now = settle(house, pod)
    assert held(house, now) == set(now.nodes) and pod.plan.segment not in switch.saved.vlans


def test_release_does_not_wait_for_switches_without_a_port_of_the_pod(house: EthernetHouse) -> None:
    """Its VLAN stays held until such a switch was read without it."""
    pod = house.ready()
    number, needed = pod.plan.segment, {port.partition("/")[0] for port in ports(house, pod)}
    away = next(s for s in house.fake.switches.values() if s.name not in needed)
    away.reachable = False
    house.release(pod)
    receipt = released(house, pod).receipt
    assert receipt.clean
    [unread] = [u for i in receipt.items if i.plane == "switch" for u in i.unread]
    assert unread.startswith(f"{away.name} could not be read: the VLAN stays held")
    unread = " ".join(u for i in receipt.items for u in i.unread)
    others = {n.name for n in house.site.nodes} - {*pod.nodes}
    assert "no answer" not in unread and not any(name in unread for name in others), "its project reads it"

    def stale() -> list[tuple[str, int]]:
        FabricKeeper(house.database, house.keeper.world).tend()
        with house.database.transaction() as tx:
            return [(r["manager"], r["number"]) for r in tx.rows("stale_numbers", fabric="ib0")]

    assert stale() == [(away.name, number)]
    away.reachable = True
    assert stale() == []


def test_number_is_kept_while_a_change_with_it_may_land(house: EthernetHouse) -> None:
    """The number turns out to be a foreign network's while a switch is silent: the next pod with it would include this
    pod's port."""
    rail = house.site.fabrics["ib0"]
    number = rail.segments.first
    pod = house.order()
    theirs = house.cloud.add(
        Kind.NETWORK, "stranger", "team-b", physical_network=rail.physical_network, segment=number
    )
    house.fake.late = True
    now = visits(house, pod, 12)
    assert now.late_until is not None and now.taken is not None
    assert now.plan.segment == number and "outcome of a request is unknown" in now.reason
    house.fake.arrive()
    nothing_lands(house.database)
    assert house.run(pod, PodState.READY).plan.segment == number + 1
    house.cloud.lose(theirs)
    assert number not in house.fake.snapshot().ports_in


def lands(house: EthernetHouse, pod: PodRecord) -> float:
    """Seconds for which something of the pod may still take effect."""
    return (pod.late_until - house.time.now()).total_seconds() if pod.late_until is not None else 0.0


class PartlyAccepted(FakeEthernet):
    """A fabric with one switch that can't be read back: what it was asked for was accepted."""

    unread_leaf = ""

    def clean(self, segment: SegmentSpec, snapshot: Snapshot) -> Clean:
        clean = super().clean(segment, snapshot)
        items = (
            replace(i, result="accepted")
            if i.plane == "switch port" and f" {self.unread_leaf}/" in i.subject
            else i
            for i in clean.items
        )
        return replace(clean, items=tuple(items))


def test_port_freed_unread_is_named_in_the_receipt(house: EthernetHouse) -> None:
    """The pod has left the only switch that can't be read back, long before its release: its absence is unproved."""
    fake = PartlyAccepted(house.site, "ib0")
    house.world = replace(
        house.world, resources={**house.world.resources, "ib0": fake}, fabrics={"ib0": fake}
    )
    pod = house.ready(sized(5))
    leaf, gone = smallest(house, pod)
    fake.unread_leaf = leaf
    apply(house, sized(5 - len(gone)), *gone)
    now = settle(house, pod)
    assert held(house, now) == set(now.nodes)
    house.release(pod)
    receipt = released(house, pod).receipt
    accepted = {i.subject.split()[0].partition("/")[0] for i in receipt.items if i.result == "accepted"}
    assert accepted == set(gone) and not receipt.clean


class Later:
    """A fabric whose next change is sent, and isn't answered until the event."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def __bool__(self) -> bool:
        assert self.event.wait(30.0)
        return True


def test_pending_effect_is_remembered_although_the_order_changed(house: EthernetHouse) -> None:
    """What ends the visit is another request's answer; the switch's comes later, after the walk has ended."""
    later = Later()
    house.fake.late = later  # type: ignore[assignment]

    def changed() -> None:
        apply(house, sized(3))
        threading.Timer(0.5, later.event.set).start()

    house.cloud.meanwhile("create", changed)
    pod = house.order()
    visits(house, pod, 1)
    assert lands(house, look(house, pod)) > 5.0
