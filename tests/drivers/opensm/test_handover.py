"""Real managers hand over by priority and back, as far as the simulator supports it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.drivers.opensm.rigs import RealRig, host_ports, partition, scope, seen, until
from weft.model.fabric import ManagerState
from weft.model.ids import FULL_MEMBER
from weft.model.resources import Resource, Status

pytestmark = [pytest.mark.fabric, pytest.mark.landing]
KEY, LATER = 0x101, 0x102


@pytest.fixture
def rig(real: RealRig) -> Iterator[RealRig]:
    yield real
    for name in ("opensm-sm2", "opensm-sm1"):  # alone, a manager gets the highest priority again
        real.stop(name)
    for name in ("opensm-sm1", "opensm-sm2"):
        real.start(name)


@pytest.mark.nightly(reason="a minute of processor; by day one manager hangs, ends and comes back")
def test_weft_follows_the_master_to_the_standby_and_back(rig: RealRig) -> None:
    """The members' tables never lack the key; what is changed under one manager stays under the other."""
    ports = host_ports(rig.site)
    first, later = partition(KEY, ports[:3]), partition(LATER, ports[2:5], "partition/later")

    def settled(wanted: Resource) -> bool:
        found = seen(rig, wanted)
        return found is not None and found.status is Status.SETTLED

    def rules(agent: str) -> bool:
        for table in rig.driver.tables(ports[:3]).values():
            assert FULL_MEMBER | KEY in table.keys, "a member has lost its key in between"
        states = {m.name: m.state for m in rig.driver.status().managers}
        (other,) = {"sm1", "sm2"} - {agent}
        return (states[agent], states[other]) == (ManagerState.MASTER, ManagerState.STANDBY)

    assert rig.driver.create(scope(), [first], {})["partition"].error is None
    until("it is settled", lambda: settled(first))
    assert rules("sm1")
    rig.faults.lower("sm1", 12)
    until("sm2 has taken over", lambda: rules("sm2"))
    assert rig.driver.create(scope(), [later], {})[later.key].error is None
    until("a change under sm2 is settled", lambda: settled(first) and settled(later))
    rig.faults.lower("sm2", 11)
    until("sm1 is back", lambda: rules("sm1"))
    until("both are settled under sm1", lambda: settled(first) and settled(later))
    fewer = partition(KEY, ports[:2])
    rig.driver.update(scope(), [fewer], {})
    until("a change under sm1 is settled", lambda: settled(fewer))
    rig.driver.delete(scope(), [fewer, later], {})
    until("they are gone", lambda: all(t.keys == {0x7FFF} for t in rig.driver.tables(ports).values()))
