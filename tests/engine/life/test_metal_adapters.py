"""Adapters of bare-metal machines at a release: off, flashed, or moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from tests.engine.house import House, impatient
from tests.engine.metalhouse import ORDER, ports, visit
from tests.engine.metalhouse import house as house
from weft.engine.rows.records import PodRecord
from weft.model.pod import PodState
from weft.model.resources import Kind, Outcome, Resource
from weft.ports.resources import Scope


def switched_off(house: House, nodes: Sequence[str]) -> None:
    """Let the ports of these nodes be down from now on."""
    for guid in ports(house, tuple(nodes)):
        house.fabric.switch_off(guid)


@pytest.fixture
def cleaning(house: House, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something done while Ironic cleans, once: members have left, and servers are being deleted."""

    def planned(do: Callable[[], None]) -> None:
        delete, left = house.cloud.delete, [do]

        def recorded(
            scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
        ) -> Mapping[str, Outcome]:
            if wanted[0].kind is Kind.SERVER and left:
                left.pop()()
            return delete(scope, wanted, ids)

        monkeypatch.setattr(house.cloud, "delete", recorded)

    return planned


Cleaning = Callable[[Callable[[], None]], None]


def items(house: House, pod: PodRecord, plane: str) -> dict[str, str]:
    """Subject -> what was seen, of a receipt's items of one plane."""
    signed = house.store.records.receipt(pod.id)
    assert signed is not None
    return {i.subject: i.seen for i in signed.receipt.items if i.plane == plane}


def test_cleaned_machines_that_are_off_are_freed(house: House, cleaning: Cleaning) -> None:
    """Their ports are down: the tables of the leaves' ports are read instead, and the receipt says so."""
    pod = house.ready(ORDER)
    cleaning(lambda: switched_off(house, pod.nodes))
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and not house.store.capacity().holds
    assert all("nothing is seen at" in seen for seen in items(house, pod, "p_key host").values())
    adapters = items(house, pod, "adapter")
    assert len(adapters) == 2 and all("its port is down" in seen for seen in adapters.values())


def test_machines_switched_off_by_their_tenant_are_freed(house: House) -> None:
    """Their ports are down before they leave: remaining keys are removed at the leaf's ports."""
    pod = house.ready(ORDER)
    switched_off(house, pod.nodes)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


def test_p_key_left_at_an_off_machines_leaf_is_removed(house: House, cleaning: Cleaning) -> None:
    pod = house.ready(ORDER)
    (guid, *_) = ports(house, pod.nodes)
    key = 0x8000 | (pod.plan.segment or 0)

    def left() -> None:
        switched_off(house, pod.nodes)
        house.fabric.write_key(guid, key, leaf=True)

    cleaning(left)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert key not in house.fabric.wire.leaves[guid]


def test_host_that_is_off_but_no_machine_proves_nothing(house: House) -> None:
    """Nothing says that it is off, and was cleaned: its cable may be cut, and a server run on it."""
    pod = house.ready()
    switched_off(house, pod.nodes)
    house.release(pod)
    pod = visit(house, pod)
    assert pod.state is PodState.RELEASING and set(house.store.capacity().holds) == set(pod.nodes)


def test_adapter_with_another_guid_keeps_its_machine_quarantined(house: House, cleaning: Cleaning) -> None:
    """Someone with root access has flashed it: another adapter is at its place. The other machine comes back."""
    pod = house.ready(ORDER)
    bad, good = pod.nodes
    (guid,) = ports(house, (bad,))
    cleaning(lambda: house.fabric.change_guid(guid, 0x0002C90300FFFF01))
    house.worker = house.new_worker("impatient", impatient())
    house.release(pod)
    visit(house, pod)
    capacity = house.store.capacity()
    assert "0x0002c90300ffff01 is seen at" in capacity.quarantines[bad].reason
    assert set(capacity.holds) == {bad} and good not in capacity.holds


def test_adapter_seen_elsewhere_keeps_its_machine_quarantined(house: House, cleaning: Cleaning) -> None:
    """Another machine has its GUID now, or cables were moved."""
    pod = house.ready(ORDER)
    bad, _ = pod.nodes
    (guid,) = ports(house, (bad,))
    places = house.fabric.wire.places
    cleaning(lambda: places.update({guid: replace(places[guid], port=39)}))
    house.worker = house.new_worker("impatient", impatient())
    house.release(pod)
    visit(house, pod)
    assert "the site has it at" in house.store.capacity().quarantines[bad].reason
