"""Owners have a number in turn: members are removed only if they belong to its last owner that weft knows."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.audit.test_sweep import alarms, corrections, sweep
from tests.engine.base.test_restored_database import guids, inside, number_of, released, switched
from tests.engine.dumps import dump, restore
from tests.engine.fabric.test_ethernet_life import EthernetHouse, ports
from tests.engine.house import House
from tests.engine.life.test_functions import furnished
from tests.engine.tenanthouse import TenantHouse
from tests.engine.timehouse import make
from tests.engine.ufmhouse import UfmOfAHouse, managed_by_ufm
from weft.engine.base.database import Database
from weft.engine.base.gate import Gate
from weft.model.pod import PodState
from weft.ports.witness import Witness
from weftlab.ufm.control import foreign

__all__ = ["switched"]
OPERATORS = [0xABCDEF0000000001, 0xABCDEF0000000002]


@pytest.mark.parametrize(("others", "stays"), [(True, True), (False, False)])
def test_sweep_on_ufm_removes_only_a_released_pods_members(
    house: House, tmp_path: Path, others: bool, stays: bool
) -> None:
    """What an operator has made with a number that weft used before is reported by the audit, and no receipt is
    corrected by it."""
    ufm = UfmOfAHouse(house, house.site)
    furnished(house, managed_by_ufm(house.site, tmp_path), ufm.driver)
    pod = released(house)
    number = number_of(pod)
    members = OPERATORS if others else sorted(guids(house, pod))[:1]
    ufm.ufm.set_pkeys(foreign(f"{number:#x}", {f"{guid:016x}": "full" for guid in members}))
    sweep(house)
    assert (number in ufm.ufm.pkeys) is stays
    assert bool(corrections(house, pod)) is not stays and bool(alarms(house, pod)) is not stays


@pytest.fixture
def tenants(database: Database, database_url: str) -> Generator[TenantHouse]:
    house = TenantHouse(database, database_url)
    yield house
    house.close()


def test_network_of_an_accepted_dump_leaves_its_number_to_its_successor(
    tenants: TenantHouse, tmp_path: Path
) -> None:
    """It was released after the dump; its release waits until no other owner has the number, and ends then."""
    house = tenants
    ufm = UfmOfAHouse(house, house.site)
    furnished(house, managed_by_ufm(house.site, tmp_path), ufm.driver)
    network = house.network()
    port, number = house.adapter(network), house.free_number()
    house.ready(network)
    owner = house.owner(network)
    dump(house.database.url)
    house.cloud.lose(port)
    house.cloud.lose(network)
    house.look()
    for _ in range(6):
        house.visit(owner)
    assert house.see(owner.id).state == PodState.RELEASED
    successor = house.guid("gpu14")
    ufm.ufm.set_pkeys(foreign(f"{number:#x}", {f"{successor:016x}": "full"}))
    restore(house.database.url)
    house.clock.forward(minutes=1)
    house.restart()
    house.tenants = house.new_keeper()
    house.service.audits.accept_database(house.operator)
    for _ in range(3):
        house.look()
        house.visit(owner)
    assert inside(ufm, number) == {successor}
    assert "its number may be another owner's" in house.see(owner.id).reason
    ufm.ufm.set_pkeys(foreign(f"{number:#x}", None))
    house.clock.forward(minutes=10)
    for _ in range(6):
        house.visit(owner)
    assert house.see(owner.id).state == PodState.RELEASED


class Slow:
    """A cloud that writes its note only when the test lets it."""

    def __init__(self, house: House) -> None:
        self._house, self._cloud = house, house.cloud
        self.writes, self.may = threading.Event(), threading.Event()
        self.written: list[set[str]] = []
        """Nodes in quarantine when it was written."""

    def witness(self, site: str) -> Witness:
        return self._cloud.witness(site)

    def testify(self, site: str, witness: Witness) -> None:
        self.writes.set()
        self.may.wait(5)
        self.written.append(set(self._house.store.capacity().quarantines))
        self._cloud.testify(site, witness)


def test_second_quarantine_waits_for_the_note_of_the_first(house: House) -> None:
    """Each is noted before it is written, also if several begin at once."""
    house.ready()
    slow = Slow(house)
    gate = Gate(house.database, lambda: (house.site.name, {"lab": slow}))  # pyright: ignore[reportArgumentType]
    gate.look()
    threads = [
        threading.Thread(target=house.store.quarantine, args=(node, "smokes")) for node in ("gpu09", "gpu10")
    ]
    threads[0].start()
    assert slow.writes.wait(5)
    threads[1].start()
    threads[1].join(0.2)
    assert house.store.capacity().quarantines == {}
    slow.may.set()
    for thread in threads:
        thread.join(10)
    assert set(house.store.capacity().quarantines) == {"gpu09", "gpu10"}
    first, second = slow.written
    assert first == set() and "gpu10" not in second


def test_sweep_of_unnamed_vlans_spares_ports_that_the_pod_never_had(switched: EthernetHouse) -> None:
    """An operator's VLAN of that number, on a port of another node."""
    house = switched
    old = released(house, make("old", 2))
    number, used = number_of(old), set(ports(house, old))
    switch = next(iter(house.fake.switches.values()))
    free = next(p for p in switch.config.ports if f"{switch.name}/{p}" not in used)
    switch.config.vlans[number] = ""
    switch.config.ports[free] = replace(switch.config.ports[free], access=number)
    sweep(house)
    assert number in switch.config.vlans and switch.config.ports[free].access == number
    assert corrections(house, old) == ()
