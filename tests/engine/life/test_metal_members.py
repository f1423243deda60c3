"""Adapters of bare-metal machines are in their pod's segment only while its servers run on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from tests.engine.house import QUICK, House
from tests.engine.metalhouse import ORDER, members, ports, sized, visit
from tests.engine.metalhouse import house as house
from weft.engine.rows.records import PodRecord
from weft.engine.watch.bootkeeper import BootKeeper
from weft.model.pod import PodState
from weft.model.resources import Kind, Outcome, Resource
from weft.ports.resources import Scope
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing
from weft.testing.fabric import Fault as FabricFault


def test_no_machine_is_a_member_before_all_are_deployed(house: House) -> None:
    """The other's server is ACTIVE already; the fabric isn't touched until nothing but the tenant's runs anywhere."""
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=1)
    pod = visit(house, house.order(ORDER))
    assert len(house.cloud.servers) == 2 and pod.state is PodState.BOOTING
    assert members(house, pod) == set()
    for server in house.cloud.servers:
        server.stuck = ""
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == ports(house, pod.nodes)


def test_deployment_does_not_check_every_machine_at_each_boot(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every server that boots comes a visit: its looks would grow with the square of their number. There is one
    before the adapters are members."""
    house.worker = house.new_worker("calm", replace(QUICK, watch_every=3600.0))
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=3)
    pod = visit(house, house.order(sized(3)))
    looks: list[set[int]] = []
    on_hosts = house.cloud.on_hosts
    monkeypatch.setattr(
        house.cloud, "on_hosts", lambda hosts: looks.append(members(house, pod)) or on_hosts(hosts)
    )
    for server in house.cloud.servers:
        assert pod.state is PodState.BOOTING and not looks
        server.stuck = ""
        pod = visit(house, pod, 1)
    pod = house.run(pod, PodState.READY)
    assert looks and looks[0] == set() and members(house, pod) == ports(house, pod.nodes)


def test_awaited_servers_are_known_without_listing_machines(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ironic can't be asked what changed, and isn't asked of all its machines."""
    asked: list[set[str]] = []
    monkeypatch.setattr(house.cloud, "built", lambda since, awaited: asked.append(set(awaited())) or ())
    visit(house, house.order(ORDER), 3)
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=None)
    before = {s.id for s in house.cloud.servers}
    visit(house, house.order(ORDER.model_copy(update={"name": "second"})))
    BootKeeper(house.database, lambda: house.world, every=0.0).look()
    assert asked == [{s.id for s in house.cloud.servers} - before] and len(before) == 2


def test_members_leave_before_a_machine_is_cleaned(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = house.ready(ORDER)
    seen: list[tuple[str, int]] = []
    delete = house.cloud.delete

    def recorded(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Outcome]:
        seen.append((wanted[0].kind, len(members(house, pod))))
        return delete(scope, wanted, ids)

    monkeypatch.setattr(house.cloud, "delete", recorded)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    order = list(dict.fromkeys(kind for kind, _ in seen))
    assert order.index("server") < order.index("machine")
    assert {n for kind, n in seen if kind in ("server", "machine")} == {0}


def test_recreated_server_is_not_a_member_meanwhile(house: House) -> None:
    """An operator has a deleted server replaced: the machine is deployed again."""
    pod = house.ready(ORDER)
    gone = house.cloud.servers[0]
    house.cloud.lose(gone)
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=1)
    pod = visit(house, pod)
    assert pod.state is PodState.DEGRADED
    house.store.request_repair(pod.id)
    pod = visit(house, pod)
    left = [n for n in pod.nodes if house.site.node_by_name[n].machine != gone.fields["host"]]
    assert len(house.cloud.servers) == 2
    assert members(house, pod) == ports(house, tuple(left))


def members_at_deletion(
    house: House, pod: PodRecord, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, set[int]]]:
    """Kind of what is deleted, and the members of the segment at that moment."""
    seen: list[tuple[str, set[int]]] = []
    delete = house.cloud.delete

    def recorded(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Outcome]:
        seen.append((wanted[0].kind, members(house, pod)))
        return delete(scope, wanted, ids)

    monkeypatch.setattr(house.cloud, "delete", recorded)
    return seen


def test_machine_leaves_before_its_broken_server_is_deleted(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator has it repaired: Nova calls a server deleted when the cleaning of its machine has begun."""
    pod = house.ready(ORDER)
    broken = house.cloud.servers[0]
    broken.broken = "ERROR"
    left = [n for n in pod.nodes if house.site.node_by_name[n].machine != broken.fields["host"]]
    seen = members_at_deletion(house, pod, monkeypatch)
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=1)
    house.store.request_repair(pod.id)
    pod = visit(house, pod)
    assert seen and all(inside == ports(house, tuple(left)) for _, inside in seen)
    assert len(house.cloud.servers) == 2 and members(house, pod) == ports(house, tuple(left))
    for server in house.cloud.servers:
        server.stuck = ""
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == ports(house, pod.nodes)


def test_server_is_recreated_although_its_machine_is_broken(house: House) -> None:
    """As after a rescue or a rebuild that failed: only the end of the server brings its machine to rest again."""
    pod = house.ready(ORDER)
    broken = house.cloud.servers[0]
    machine = machine_of(house, broken)
    broken.broken, broken.hosted, machine.broken = "ERROR", True, "rescue failed: no agent came"
    house.store.request_repair(pod.id)
    pod = visit(house, pod)
    assert pod.state is PodState.DEGRADED and broken.id not in {s.id for s in house.cloud.servers}
    machine.broken = ""
    pod = house.run(pod, PodState.READY)
    assert len(house.cloud.servers) == 2 and members(house, pod) == ports(house, pod.nodes)
    assert machine.id in {t.id for t in house.cloud.things(Kind.MACHINE)}, "it was never given back"


def test_broken_machine_recovers_during_a_repair(house: House) -> None:
    """Such as one that Ironic doesn't show for a while: its server runs on."""
    pod = house.ready(ORDER)
    servers, machine = {s.id for s in house.cloud.servers}, machine_of(house, house.cloud.servers[0])
    machine.broken = "Ironic doesn't know it"
    pod = visit(house, pod)
    house.store.request_repair(pod.id)
    pod = visit(house, pod)
    assert pod.state is PodState.DEGRADED and "doesn't know it" in pod.reason
    machine.broken = ""
    pod = house.run(pod, PodState.READY)
    assert {s.id for s in house.cloud.servers} == servers


def machine_of(house: House, server: Thing) -> Thing:
    return next(t for t in house.cloud.things(Kind.MACHINE) if t.fields["machine"] == server.fields["host"])


def test_pulled_cable_of_another_machine_does_not_block_a_repair(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It isn't in the segment as it should be; that is no reason to leave the broken one as it is."""
    pod = house.ready(ORDER)
    broken, other = house.cloud.servers[:2]
    broken.broken = "ERROR"
    [dark] = [n for n in pod.nodes if house.site.node_by_name[n].machine == other.fields["host"]]
    for port in ports(house, (dark,)):
        house.fabric.cut(port)
    seen = members_at_deletion(house, pod, monkeypatch)
    house.store.request_repair(pod.id)
    visit(house, pod, times=12)
    [mine] = [n for n in pod.nodes if n != dark]
    assert seen and all(not inside & ports(house, (mine,)) for _, inside in seen)


def test_silent_fabric_prevents_removals(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = house.ready(ORDER)
    house.cloud.servers[0].broken = "ERROR"
    seen = members_at_deletion(house, pod, monkeypatch)
    house.fabric.plant(FabricFault.STOPPED)
    house.store.request_repair(pod.id)
    pod = visit(house, pod)
    assert not seen and len(house.cloud.servers) == 2


def test_pod_becomes_ready_without_being_degraded_first(house: House) -> None:
    """Its members are decided when its servers are there, and not first by a verdict that something is wrong."""
    pod = house.ready(ORDER)
    said = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "state"]
    assert not [m for m in said if m.startswith("DEGRADED")], said
    assert "READY" in said[-1]
