"""Releases of bare-metal machines end, and wait longer while one is cleaned."""

from __future__ import annotations

from dataclasses import replace

from tests.engine.house import House, impatient
from tests.engine.metalhouse import ORDER, visit
from tests.engine.metalhouse import house as house
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault


def test_endless_cleaning_quarantines_only_its_machine(house: House) -> None:
    """Erasing disks takes hours: the limit of everything else doesn't end it."""
    pod = house.ready(ORDER)
    bad, good = pod.nodes
    house.cloud.plant(Fault.UNDELETABLE, verb="delete", kind=Kind.MACHINE, key=f"machine/{bad}", times=None)
    house.release(pod)
    house.worker = house.new_worker("an hour later", replace(impatient(), ends=0.0))
    assert visit(house, pod).state is PodState.RELEASING
    assert set(house.store.capacity().holds) == {bad} and good not in house.store.capacity().quarantines
    house.worker = house.new_worker("a day later", replace(impatient(), ends=0.0, ends_cleaning=0.0))
    assert visit(house, pod).state is PodState.RELEASED
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and not signed.receipt.clean and signed.receipt.quarantined == (bad,)
    assert not house.store.capacity().holds
