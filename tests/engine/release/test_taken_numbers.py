"""Numbers that others use in Neutron are not assigned; one that is taken in the meantime is replaced."""

from __future__ import annotations

import pytest

from tests.engine.changes.test_apply_rows import apply
from tests.engine.house import ORDER, House
from tests.engine.timehouse import look, make
from weft.model.errors import UnknownError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing


def stranger(house: House, physical_network: str, segment: int) -> Thing:
    """A network that isn't weft's, on a number of weft's range."""
    return house.cloud.add(
        Kind.NETWORK, "stranger", "team-b", physical_network=physical_network, segment=segment
    )


def test_foreign_networks_numbers_are_not_assigned(house: House) -> None:
    """Otherwise every order would fail on the lowest free VLAN."""
    vlan = house.site.clouds["lab"].management
    rail = house.site.fabrics["ib0"]
    stranger(house, vlan.physical_network, vlan.segments.first)
    stranger(house, rail.physical_network, rail.segments.first)
    pod = house.ready()
    assert pod.plan.vlan == vlan.segments.first + 1
    assert pod.plan.segment == rail.segments.first + 1


@pytest.mark.parametrize("kind", ["management", "rdma"])
def test_number_taken_since_the_order_is_replaced(house: House, kind: str) -> None:
    """What was created is removed and recreated with another number."""
    vlan, rail = house.site.clouds["lab"].management, house.site.fabrics["ib0"]
    place, first = (
        (vlan.physical_network, vlan.segments.first)
        if kind == "management"
        else (rail.physical_network, rail.segments.first)
    )
    pod = house.order()
    stranger(house, place, first)
    after = house.run(pod, PodState.READY)
    numbers = after.plan
    assert (numbers.vlan if kind == "management" else numbers.segment) == first + 1
    assert {house.cloud.thing(f"network/{n}").fields["segment"] for n in ("management", "rdma")} == {
        numbers.vlan,
        numbers.segment,
    }
    assert [k for k in house.fabric.partitions() if k in rail.segments] == [numbers.segment]
    said = [
        e.message for e in house.store.records.events(pod.id, 0) if "in use by something else" in e.message
    ]
    assert len(said) == 1
    assert after.nodes == pod.nodes
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.store.capacity().used.vlans and not house.store.capacity().used.segments


def test_number_is_held_while_a_manager_that_was_away_has_it(house: House) -> None:
    """It would restore the former members in the next pod's segment when it takes over."""
    rail = house.site.fabrics["ib0"]
    pod = house.order()
    theirs = stranger(house, rail.physical_network, rail.segments.first)
    for _ in range(40):
        house.store.wake(pod.id)
        house.worker.run_once()
        if house.store.pods.find(str(pod.id), None).taken is not None:
            break
    standby = house.fabric.manager("sm2")
    standby.reachable = False
    after = house.run(pod, PodState.READY)
    assert after.plan.segment == rail.segments.first + 1
    house.cloud.lose(theirs)
    other = house.ready(ORDER.model_copy(update={"name": "other"}))
    assert other.plan.segment == rail.segments.first + 2, "the standby may have the first one still"
    with house.database.transaction() as tx:
        stale = tx.rows("stale_numbers", fabric="ib0")
    assert [(row["manager"], row["number"]) for row in stale] == [("sm2", rail.segments.first)]


def test_concurrent_change_keeps_the_new_number(house: House) -> None:
    """Its plan was read with the number that turned out to be taken, and is written with the one that replaced it."""
    vlan = house.site.clouds["lab"].management
    pod = house.order(make("train", 2))
    stranger(house, vlan.physical_network, vlan.segments.first)

    def renumbered() -> None:
        for _ in range(12):
            house.store.wake(pod.id)
            house.worker.run_once()
            if look(house, pod).plan.vlan != vlan.segments.first:
                return
        raise AssertionError("no other number")

    house.cloud.meanwhile("occupants", renumbered)
    assert apply(house, make("train", 3)).outcome == "changed"
    after = house.run(pod, PodState.READY)
    assert (after.plan.vlan, len(after.nodes)) == (vlan.segments.first + 1, 3)
    assert house.cloud.thing("network/management").fields["segment"] == after.plan.vlan
    assert house.store.capacity().used.vlans["lab"] == {after.plan.vlan}


def test_release_requested_while_a_number_is_replaced_wins(house: House) -> None:
    """Nothing is recreated for a pod that isn't wanted any more."""
    vlan = house.site.clouds["lab"].management
    pod = house.order()
    stranger(house, vlan.physical_network, vlan.segments.first)
    house.cloud.meanwhile("delete", lambda: house.release(pod))
    house.run(pod, PodState.RELEASED)
    assert [t.name for t in house.cloud.things()] == ["stranger"]


def test_pod_without_another_number_fails_with_the_reason(house: House) -> None:
    """Waiting would change nothing; and nothing of it is left outside."""
    vlan = house.site.clouds["lab"].management
    pod = house.order()
    for number in vlan.segments.numbers():
        stranger(house, vlan.physical_network, number)
    after = house.run(pod, PodState.FAILED)
    assert "no other number" in after.reason


def test_unknown_segments_are_not_free(house: House) -> None:
    """A Neutron that can't be asked makes orders wait, not collide."""
    house.cloud.plant(Fault.UNREACHABLE, verb="segments")
    with pytest.raises(UnknownError):
        house.order(ORDER)


def test_segment_of_a_routed_network_is_not_assigned(house: House) -> None:
    """An operator's network with several segments, of which Neutron shows `segments` and no VLAN of its own."""
    first = house.ready()
    place = house.cloud.thing("network/management").fields["physical_network"]
    assert first.plan.vlan is not None
    taken = first.plan.vlan + 1
    segments = ((place, taken), ("elsewhere", 7))
    house.cloud.add(Kind.NETWORK, "routed", "operators", segments=segments)
    second = house.ready(ORDER.model_copy(update={"name": "second"}))
    assert second.plan.vlan not in (None, first.plan.vlan, taken)
