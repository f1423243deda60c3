"""Tenants' networks on a fabric of UFM: those that UFM's service for Neutron had set up become weft's.

docs/fabric-managers.md, "From UFM with `mlnx_sdn_assist` to weft", step by step.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from tests.engine.house import ORDER
from tests.engine.tenanthouse import TenantHouse
from tests.engine.ufmhouse import UfmOfAHouse, managed_by_ufm
from weft.engine.audit.sweep import Sweeper, SweepSettings
from weft.engine.base.database import Database
from weft.engine.base.world import World
from weft.engine.hold.fence import LostError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.tenantnetwork import PortState
from weft.planning.fabric.functions import guid_of
from weftlab.ufm.control import foreign
from weftlab.ufm.inventory import VirtualPort


class Moved:
    """A house whose fabric UFM manages, and what was asked of that UFM."""

    def __init__(self, house: TenantHouse, folder: Path) -> None:
        self.house, self.ufm = house, UfmOfAHouse(house, house.site)
        site = managed_by_ufm(house.site, folder)
        driver = self.ufm.driver(site)
        house.world = World({"lab": house.cloud, "ib0": driver}, {"ib0": driver}, {"lab": house.cloud})
        house.apply(site)

    def another_hand(self, number: int, *guids: int) -> None:
        """Set a P_Key's members, or remove it, as another manager does."""
        members = {f"{g:016x}": "full" for g in guids} or None
        self.ufm.ufm.set_pkeys(foreign(f"{number:#x}", members))

    def members(self, number: int) -> set[int]:
        made = self.ufm.ufm.pkeys.get(number)
        return {int(g, 16) for g in made.guids} if made else set()

    def changes(self) -> list[str]:
        return [f"{m} {p}" for m, p in self.ufm.ufm.calls if m != "GET"]

    def foreign_numbers(self, repair: bool = False) -> set[str]:
        """P_Keys that the audit lists as unowned."""
        report = self.house.service.audits.run(self.house.operator, repair)
        return {f.subject for f in report.findings}


@pytest.fixture
def moved(database: Database, database_url: str, tmp_path: Path) -> Generator[Moved]:
    house = TenantHouse(database, database_url)
    yield Moved(house, tmp_path)
    house.close()


def test_other_managers_settings_are_adopted_without_a_request(moved: Moved) -> None:
    """Until the site serves them the audit lists them and removes nothing; after that, nothing is written either."""
    house = moved.house
    house.serve(False)
    same, other, gone = (house.free_number(back) for back in (10, 9, 8))
    mine = house.network("same", same)
    for node in ("gpu15", "gpu14"):
        house.adapter(mine, node)
    moved.another_hand(same, house.guid("gpu15"), house.guid("gpu14"))
    moved.another_hand(other, house.guid("gpu13"), house.guid("gpu12"))
    moved.another_hand(gone, house.guid("gpu11"))
    assert len(moved.foreign_numbers()) >= 3
    moved.foreign_numbers(repair=True)
    assert moved.changes() == []

    house.serve(True)
    served = house.ready(mine)
    assert {p.state for p in served.ports} == {PortState.IN}
    strangers = house.network("other", other)
    house.adapter(strangers, "gpu13")
    house.settle(strangers)
    owner = house.owner(strangers)
    assert owner.state is not PodState.READY and f"{house.guid('gpu12'):016x}" in owner.reason
    assert moved.changes() == []

    moved.another_hand(other, house.guid("gpu13"))
    house.clock.sleep(3600.0)
    house.ready(strangers)
    assert moved.changes() == [] and moved.members(gone) == {house.guid("gpu11")}
    assert moved.foreign_numbers() == {f"{gone:#x}", "gpu11/mlx5_0"}, "what no network has"

    house.adapter(mine, "gpu10")
    house.ready(mine)
    assert moved.changes() == ["PUT /ufmRestV3/resources/pkeys/"]
    assert moved.members(same) == {house.guid(f"gpu{n}") for n in (15, 14, 10)}


def test_networks_are_left_to_another_manager_while_pods_stay(moved: Moved) -> None:
    """Nothing is written for that, and later changes of them, or of their number, don't concern weft."""
    house = moved.house
    pod = house.run(house.order(), PodState.READY)
    number = house.free_number()
    mine = house.network("mine", number)
    house.adapter(mine, "gpu15")
    house.ready(mine)
    owner, before, inside = house.owner_id(mine), moved.changes(), moved.members(number)
    assert inside == {house.guid("gpu15")}

    house.serve(False, leave=True)
    house.tenants.look()
    house.tenants.look()
    assert house.owners() == [] and house.see(owner).state is PodState.RELEASED
    assert "stays as it is" in [e.message for e in house.store.records.events(owner, 0)][-1]
    while house.worker.run_once():
        pass
    moved.foreign_numbers(repair=True)
    assert moved.changes() == before and moved.members(number) == inside
    assert f"{number:#x}" in moved.foreign_numbers(), "the audit lists it, as any that isn't weft's"

    moved.another_hand(number, house.guid("gpu15"), house.guid("gpu14"))
    house.adapter(mine, "gpu13")
    house.tenants.look()
    pod = house.run(pod, PodState.READY)
    other = house.run(house.order(ORDER.model_copy(update={"name": "other"})), PodState.READY)
    used = {r.spec.number for p in (pod, other) for r in p.plan.graph.resources if r.kind is Kind.SEGMENT}
    assert number not in used
    assert moved.members(number) == {house.guid("gpu15"), house.guid("gpu14")}

    moved.another_hand(number, house.guid("gpu15"), house.guid("gpu13"))
    before = moved.changes()
    house.serve(True)
    house.ready(mine)
    assert moved.changes() == before, "and back again"


def test_left_network_is_not_taken_for_remains_of_an_earlier_pod(moved: Moved) -> None:
    """The number was another network's once: neither a sweep nor the audit removes the partition."""
    house = moved.house
    number = house.free_number()
    first = house.network("first", number)
    port = house.adapter(first, "gpu14")
    house.ready(first)
    owner = house.owner_id(first)
    house.cloud.lose(port)
    house.cloud.lose(first)
    house.tenants.look()
    house.visit(house.see(owner), PodState.RELEASED)
    house.clock.sleep(5.0)
    mine = house.network("mine", number)
    house.adapter(mine, "gpu15")
    house.ready(mine)
    house.serve(False, leave=True)
    house.tenants.look()
    house.clock.sleep(5.0)
    before = moved.changes()
    moved.foreign_numbers(repair=True)
    sweeps = SweepSettings()
    Sweeper(house.store, house.keeper.world, house.keeper.site, house.time, sweeps).sweep()
    assert moved.changes() == before and moved.members(number) == {house.guid("gpu15")}


def test_worker_that_holds_a_left_network_writes_nothing_more(moved: Moved) -> None:
    house = moved.house
    mine = house.network("mine", house.free_number())
    house.adapter(mine, "gpu15")
    house.ready(mine)
    owner = house.owner_id(mine)
    held = house.store.claim_owner(owner, "slow")
    assert held is not None
    house.serve(False, leave=True)
    house.tenants.look()
    with pytest.raises(LostError):
        held.fence.check()
    held.hand_back_unwritten(0.0)
    assert house.see(owner).state is PodState.RELEASED


def test_function_in_a_tenants_network_becomes_a_member(moved: Moved) -> None:
    """Its GUID is a member as soon as Neutron has bound the port; until UFM shows it up, the network says so."""
    house = moved.house
    network, mac = house.network(), "fa:16:3e:00:00:42"
    node = house.site.node_by_name["gpu15"]
    port = house.cloud.add(Kind.PORT, "vf", "team-b", None, network=network.id, mac=mac)
    port.fields |= {
        "vnic_type": "direct",
        "vif_type": "hw_veb",
        "bound_host": node.nova_host,
        "pci_slot": None,
    }
    number = house.free_number()
    house.settle(network)
    assert moved.members(number) == {guid_of(mac)}
    owner = house.owner(network)
    assert owner.state is PodState.DEGRADED and "UFM shows no virtual port" in owner.reason
    moved.ufm.strays.append(VirtualPort(f"{guid_of(mac):016x}", f"{house.guid():016x}"))
    house.ready(network)
    assert house.port(network, port).state is PortState.IN
    house.cloud.lose(port)
    house.settle(network)
    assert moved.members(number) == set()
