"""Releases of IPU pods end although a machine's V-IPU agent stays silent."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from tests.engine.house import impatient
from tests.engine.ipuhouse import IpuHouse
from weft.engine.base.database import Database
from weft.model.pod import PodState


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[IpuHouse]:
    house = IpuHouse(database, database_url)
    yield house
    house.close()


def test_only_the_silent_machine_is_quarantined(house: IpuHouse) -> None:
    """Its state is unknown and reported."""
    pod = house.booted()
    away = pod.nodes[1]
    house.vipu.away.add(away)
    house.worker = house.new_worker("hasty", replace(impatient(), ends=0.0))
    house.release(pod)
    for _ in range(10):
        house.store.wake(pod.id)
        house.worker.run_once()
    capacity, signed = house.store.capacity(), house.store.records.receipt(pod.id)
    assert house.store.pods.find(str(pod.id), None).state is PodState.RELEASED
    assert signed is not None and not signed.receipt.clean and away in signed.receipt.quarantined
    assert away in capacity.quarantines and not capacity.holds
