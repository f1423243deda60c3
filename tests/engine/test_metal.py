"""Pods of bare-metal machines, from order to receipt: who is a member when, and what comes back only after cleaning."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.engine.house import QUICK, House, impatient
from tests.engine.test_killed import FateOfRequests, killed_at
from weft.app.shown import shown
from weft.engine import asking
from weft.engine.bootkeeper import BootKeeper
from weft.engine.database import Database
from weft.engine.machinekeeper import MachineKeeper
from weft.engine.pulse import Pulse
from weft.engine.records import PodRecord
from weft.engine.sweep import Sweeper, SweepSettings
from weft.generate.receipts import verify
from weft.model.errors import ConflictError, InputError, RefusedError
from weft.model.order import Order
from weft.model.plan import Plan
from weft.model.pod import PodState
from weft.model.quota import needed_quota
from weft.model.resources import Kind, Observed, Outcome, Resource, Status
from weft.model.site import Site
from weft.model.specs import PortSpec, ServerSpec
from weft.planning.fabric.addressing import mac_of_guid
from weft.planning.place.filters import of_kind
from weft.planning.shapes.resolve import shape_of
from weft.ports.resources import Scope
from weft.testing.cloud import FakeCloud, Fault
from weft.testing.cloud_state import FakeFlavor
from weft.testing.fabric import Fault as FabricFault
from weftlab.layout import Layout
from weftlab.metal.machines import FLAVOR
from weftlab.site import make_site, settings

ORDER = Order.model_validate(
    {"name": "train", "nodes": {"kind": "bare_metal", "count": 2, "flavor": FLAVOR, "image": "tiny"}}
)


@cache
def site() -> Site:
    """Four machines besides the sixteen other nodes."""
    chosen = settings(nodes=16, metal=4)
    return make_site(chosen, Layout(Path("/nowhere"), Path("/nowhere"), chosen.ports))


@pytest.fixture
def house(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Generator[House]:
    monkeypatch.setattr("tests.engine.house.small_site", site)
    house = House(database, database_url)
    house.cloud.offers.flavors[FLAVOR] = FakeFlavor(96, 1_048_576)
    house.cloud.offers.hosts |= {n.machine: "up" for n in house.site.nodes if n.machine is not None}
    yield house
    house.close()


def visit(house: House, pod: PodRecord, times: int = 6) -> PodRecord:
    for _ in range(times):
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.find_pod(str(pod.id), None)


def sized(count: int) -> Order:
    return ORDER.model_copy(update={"nodes": ORDER.nodes.model_copy(update={"count": count})})


def members(house: House, pod: PodRecord) -> set[int]:
    key = 0x8000 | (pod.plan.segment or 0)
    return {guid for guid, table in house.fabric.tables().items() if key in table.keys}


def ports(house: House, nodes: tuple[str, ...]) -> set[int]:
    return {h.port_guid for n in nodes for h in house.site.node_by_name[n].hcas_on("ib0")}


def test_a_pod_gets_machines_and_gives_them_back(house: House) -> None:
    pod = house.ready(ORDER)
    nodes = [house.site.node_by_name[n] for n in pod.nodes]
    assert all(n.machine for n in nodes)
    assert {s.fields["host"] for s in house.cloud.servers} == {n.machine for n in nodes}
    vnics = {t.fields["vnic_type"] for t in house.cloud.things(Kind.PORT)}
    assert vnics == {"baremetal"}
    assert members(house, pod) == ports(house, pod.nodes)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    assert verify(signed.model_dump(mode="json"), signed.public_key).valid
    machines = [i for i in signed.receipt.items if i.plane == "machine"]
    assert len(machines) == 2 and not house.cloud.things() and not house.store.capacity().holds


@pytest.mark.parametrize("by", ["nova", "ironic"])
def test_a_tenants_client_reads_the_plan_without_the_machines_ids(house: House, by: str) -> None:
    if by == "ironic":
        house.service.activate_site(house.operator, by_ironic(house.site))
    told = shown(house.service.plan_pod(house.request(), ORDER)).model_dump_json()
    assert Plan.model_validate_json(told).placement.nodes
    assert not any(n.machine in told for n in house.site.nodes if n.machine is not None)


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


def test_nobody_looks_at_every_machine_as_each_of_them_is_deployed(
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


def test_it_is_known_which_servers_are_awaited(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
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

    def told(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Outcome]:
        seen.append((wanted[0].kind, len(members(house, pod))))
        return delete(scope, wanted, ids)

    monkeypatch.setattr(house.cloud, "delete", told)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    order = list(dict.fromkeys(kind for kind, _ in seen))
    assert order.index("server") < order.index("machine")
    assert {n for kind, n in seen if kind in ("server", "machine")} == {0}


def test_a_pod_shrinks_and_grows_by_machines(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who goes leaves the segment before its server is deleted, who comes joins once it is deployed."""
    pod = house.ready(ORDER)
    inside: list[set[int]] = []
    delete = house.cloud.delete

    def told(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Outcome]:
        inside.append(members(house, pod))
        return delete(scope, wanted, ids)

    monkeypatch.setattr(house.cloud, "delete", told)
    house.service.apply_pod(house.request(), "train", sized(1))
    (stays,) = visit(house, pod).nodes
    assert inside and all(seen == ports(house, (stays,)) for seen in inside)
    assert set(house.store.capacity().holds) == {stays} and len(house.cloud.things(Kind.MACHINE)) == 1
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=1)
    house.service.apply_pod(house.request(), "train", sized(2))
    visit(house, pod)
    assert len(house.cloud.servers) == 2 and members(house, pod) == ports(house, (stays,))
    for server in house.cloud.servers:
        server.stuck = ""
    pod = house.run(pod, PodState.READY)
    pod = visit(house, pod)
    assert len(pod.nodes) == 2 and members(house, pod) == ports(house, pod.nodes)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert not house.cloud.things()


def test_a_machine_that_is_not_clean_stays_in_quarantine_and_the_other_comes_back(house: House) -> None:
    pod = house.ready(ORDER)
    bad = pod.nodes[0]
    house.cloud.plant(Fault.UNDELETABLE, verb="delete", kind=Kind.MACHINE, key=f"machine/{bad}", times=None)
    house.worker = house.new_worker("impatient", impatient())
    house.release(pod)
    pod = visit(house, pod)
    capacity = house.store.capacity()
    assert pod.state is PodState.RELEASING and house.store.receipt(pod.id) is None
    assert "machine" in capacity.quarantines[bad]["reason"] and set(capacity.holds) == {bad}
    house.worker = house.new_worker("patient")
    with pytest.raises(RefusedError):
        house.order(ORDER.model_copy(update={"name": "all"}), count=4)
    assert bad not in house.ready(ORDER.model_copy(update={"name": "next"})).nodes


def test_a_site_may_not_give_a_live_pods_node_another_machine(house: House) -> None:
    pod = house.ready(ORDER)

    def changed(name: str) -> dict[str, object]:
        document = house.site.model_dump(mode="json")
        node = next(n for n in document["nodes"] if n["name"] == name)
        node["machine"] = "00000000-0000-4000-8000-00000000beef"
        return document

    with pytest.raises(ConflictError, match=f"{pod.nodes[0]}'s host or adapters .* release the pod first"):
        house.service.activate_site(house.operator, changed(pod.nodes[0]))
    assert house.store.site().generation == 1
    free = next(n.name for n in house.site.nodes if n.machine and n.name not in pod.nodes)
    assert house.service.activate_site(house.operator, changed(free)).generation == 2


def by_ironic(site_: Site) -> dict[str, object]:
    document = site_.model_dump(mode="json")
    document["clouds"]["lab"]["machines_by"] = "ironic"
    return document


def test_who_deploys_machines_may_not_change_under_a_live_pod(house: House) -> None:
    """Its servers have ids of Nova's, and what Ironic says of them has others."""
    pod = house.ready(ORDER)
    with pytest.raises(
        ConflictError, match=r"machines_by of the cloud of .* is nova, .* release the pod first"
    ):
        house.service.activate_site(house.operator, by_ironic(house.site))
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert house.service.activate_site(house.operator, by_ironic(house.site)).generation == 2
    pod = house.ready(ORDER.model_copy(update={"name": "second"}))
    with pytest.raises(ConflictError, match="is ironic"):
        house.service.activate_site(house.operator, house.site.model_dump(mode="json"))


def test_straight_through_ironic_no_quota_counts_and_each_port_is_at_its_adapter(house: House) -> None:
    house.service.activate_site(house.operator, by_ironic(house.site))
    plan = house.service.plan_pod(house.request(), ORDER)
    servers = [r.spec for r in plan.graph.resources if isinstance(r.spec, ServerSpec)]
    assert [s.by for s in servers] == ["ironic", "ironic"]
    needed = needed_quota(plan.graph, vcpus=96, ram=1024)
    assert not needed.keys() & {"servers", "cores", "RAM (MiB)"} and needed["ports"] == 4
    macs = {r.spec.mac for r in plan.graph.resources if isinstance(r.spec, PortSpec)} - {None}
    there = {mac_of_guid(guid) for guid in ports(house, tuple(n.node for n in plan.placement.nodes))}
    assert macs == there
    told = shown(plan)
    assert "Nova shows no servers for them" in " ".join(shape_of(told.order).limits(told))


def test_machines_and_other_nodes_are_never_taken_for_each_other(house: House) -> None:
    bare, _ = of_kind(house.site, "ib0", "lab", 1, None, bare_metal=True)
    others, _ = of_kind(house.site, "ib0", "lab", 1, None)
    assert (bare.bit_count(), others.bit_count(), bare & others) == (4, 16, 0)


def test_a_flavor_is_of_machines_or_not(house: House) -> None:
    for kind, flavor in (("virtual", FLAVOR), ("bare_metal", "gpu8")):
        with pytest.raises(InputError, match=r"nodes\.kind"):
            house.order(ORDER, kind=kind, flavor=flavor)


def test_two_pods_have_different_machines(house: House) -> None:
    first = house.ready(ORDER)
    second = house.ready(ORDER.model_copy(update={"name": "second"}))
    assert not set(first.nodes) & set(second.nodes)
    with pytest.raises(RefusedError):
        house.order(ORDER.model_copy(update={"name": "third"}), count=1)


@pytest.mark.parametrize("reason", ["in maintenance: power failure", "clean failed: sda", "not in Ironic"])
def test_a_machine_that_breaks_under_a_ready_pod_is_told_and_not_replaced(house: House, reason: str) -> None:
    pod = house.ready(ORDER)
    machine = next(t for t in house.cloud.things(Kind.MACHINE))
    machine.broken = reason
    pod = visit(house, pod)
    assert pod.state is PodState.DEGRADED and reason in pod.reason
    assert machine.id in {t.id for t in house.cloud.things(Kind.MACHINE)}


def test_a_server_that_is_made_again_is_no_member_meanwhile(house: House) -> None:
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


def told_at_deletion(
    house: House, pod: PodRecord, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, set[int]]]:
    """Kind of what is deleted, and the members of the segment at that moment."""
    seen: list[tuple[str, set[int]]] = []
    delete = house.cloud.delete

    def told(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Outcome]:
        seen.append((wanted[0].kind, members(house, pod)))
        return delete(scope, wanted, ids)

    monkeypatch.setattr(house.cloud, "delete", told)
    return seen


def test_a_machine_leaves_before_its_broken_server_is_taken_away(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator has it repaired: Nova calls a server deleted when the cleaning of its machine has begun."""
    pod = house.ready(ORDER)
    broken = house.cloud.servers[0]
    broken.broken = "ERROR"
    left = [n for n in pod.nodes if house.site.node_by_name[n].machine != broken.fields["host"]]
    seen = told_at_deletion(house, pod, monkeypatch)
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=1)
    house.store.request_repair(pod.id)
    pod = visit(house, pod)
    assert seen and all(inside == ports(house, tuple(left)) for _, inside in seen)
    assert len(house.cloud.servers) == 2 and members(house, pod) == ports(house, tuple(left))
    for server in house.cloud.servers:
        server.stuck = ""
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == ports(house, pod.nodes)


def test_another_machines_pulled_cable_does_not_keep_one_from_being_repaired(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It isn't in the segment as it should be; that is no reason to leave the broken one as it is."""
    pod = house.ready(ORDER)
    broken, other = house.cloud.servers[:2]
    broken.broken = "ERROR"
    [dark] = [n for n in pod.nodes if house.site.node_by_name[n].machine == other.fields["host"]]
    for port in ports(house, (dark,)):
        house.fabric.cut(port)
    seen = told_at_deletion(house, pod, monkeypatch)
    house.store.request_repair(pod.id)
    visit(house, pod, times=12)
    [mine] = [n for n in pod.nodes if n != dark]
    assert seen and all(not inside & ports(house, (mine,)) for _, inside in seen)


def test_nothing_is_taken_away_while_the_fabric_does_not_answer(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = house.ready(ORDER)
    house.cloud.servers[0].broken = "ERROR"
    seen = told_at_deletion(house, pod, monkeypatch)
    house.fabric.plant(FabricFault.STOPPED)
    house.store.request_repair(pod.id)
    pod = visit(house, pod)
    assert not seen and len(house.cloud.servers) == 2


def test_a_pod_gets_ready_without_having_been_degraded(house: House) -> None:
    """Its members are decided when its servers are there, and not first by a verdict that something is wrong."""
    pod = house.ready(ORDER)
    said = [e.message for e in house.store.events(pod.id, 0) if e.type == "state"]
    assert not [m for m in said if m.startswith("DEGRADED")], said
    assert "READY" in said[-1]


def test_a_machine_that_its_tenant_has_deployed_again_is_out_meanwhile(house: House) -> None:
    """A rebuild by Nova: the server keeps its id and its place, and Ironic's agent runs on the machine."""
    pod = house.ready(ORDER)
    again, other = pod.nodes
    machine = house.site.node_by_name[again].machine or ""
    house.cloud.offers.busy[machine] = "Ironic has it in state deploying"
    pod = visit(house, pod, 2)
    assert members(house, pod) == ports(house, (other,))
    assert pod.state is PodState.DEGRADED and "doesn't run the pod's server now" in pod.reason
    assert len(house.cloud.servers) == 2  # nothing of the tenant's is taken away because of that
    del house.cloud.offers.busy[machine]
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == ports(house, pod.nodes)


def test_a_pod_is_looked_at_at_once_when_its_machine_is_deployed_again(house: House) -> None:
    """READY pods have their turn once a minute; by then an agent may have booted."""
    pod = house.ready(ORDER)
    keeper = MachineKeeper(house.database, lambda: house.world, lambda: house.site, every=0.0)
    keeper.look()
    assert not house.worker.run_once()
    house.cloud.offers.busy[house.site.node_by_name[pod.nodes[0]].machine or ""] = "Ironic has it deploying"
    keeper.look()
    assert house.worker.run_once()
    assert members(house, pod) == ports(house, pod.nodes[1:])
    with house.database.statement() as tx:
        due = tx.rows("wake_busy", nodes=list(pod.nodes[:1]))
    assert not due, "it is known by now"


def test_between_two_listings_it_is_asked_which_machines_changed_last(house: House) -> None:
    """A listing of thousands takes its time; what is deployed again must be out before it has booted."""

    def look(times: int) -> tuple[int, int]:
        """How often all were listed, and asked which changed."""
        before = [house.cloud.calls[verb] for verb in ("occupants", "changes")]
        for _ in range(times):
            keeper.look()
        listed, asked = (
            house.cloud.calls[v] - n for v, n in zip(("occupants", "changes"), before, strict=True)
        )
        return listed, asked

    keeper = MachineKeeper(house.database, lambda: house.world, lambda: house.site, every=3600.0, briefly=0.0)
    assert look(3) == (1, 0), "nothing can happen to anybody"
    pod = house.ready(ORDER)
    assert look(1) == (0, 1) and not house.worker.run_once()
    house.cloud.plant(Fault.UNREACHABLE, verb="changes", times=1)
    house.cloud.offers.busy[house.site.node_by_name[pod.nodes[0]].machine or ""] = "Ironic has it deploying"
    assert look(1) == (0, 1) and not house.worker.run_once()
    assert look(1) == (0, 1) and house.worker.run_once()
    assert members(house, pod) == ports(house, pod.nodes[1:])


@pytest.mark.parametrize("how", ["refuses", "hangs"])
def test_a_cloud_that_can_not_be_asked_keeps_no_other_from_being_looked_at(
    house: House, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Nor is weft unwell because of it: an Ironic is down for an upgrade, and nothing else is."""
    pod, pulse = house.ready(ORDER), Pulse()
    silent = FakeCloud(seed=2, name="aaa", latency=0.0)
    silent.plant(Fault.UNREACHABLE, verb="occupants", times=None)
    world = replace(house.world, clouds={"aaa": silent, **house.world.clouds})
    mine = house.site.node_by_name[pod.nodes[0]]
    other = next(n for n in house.site.nodes if n.machine and n.name not in pod.nodes)
    found = house.site.model_copy(update={"nodes": (other.model_copy(update={"cloud": "aaa"}), mine)})
    house.cloud.offers.busy[mine.machine or ""] = "Ironic has it deploying"
    keeper = MachineKeeper(house.database, lambda: world, lambda: found, pulse)
    goes_on = threading.Event()
    if how == "hangs":
        monkeypatch.setattr(asking, "PATIENCE", 0.05)
        monkeypatch.setattr(silent, "seen_machines", lambda: goes_on.wait(60) and {})
    keeper.look()
    assert house.worker.run_once() and members(house, pod) == ports(house, pod.nodes[1:])
    assert not [said for said in pulse.checks().values() if said != "ok"]
    goes_on.set()


def test_of_many_workers_one_lists_the_machines_also_without_pods(house: House) -> None:
    """How a machine is cleaned that nobody has had yet is looked at, too."""

    def keeper(every: float) -> MachineKeeper:
        return MachineKeeper(house.database, lambda: house.world, lambda: house.site, every=every)

    before = house.cloud.calls["occupants"]
    for worker in [keeper(3600.0) for _ in range(3)]:
        worker.look()
    assert house.cloud.calls["occupants"] == before + 1


def test_a_machine_deployed_again_while_ironic_does_not_answer_stays_as_it_was(house: House) -> None:
    pod = house.ready(ORDER)
    house.cloud.offers.unreadable.add(house.site.node_by_name[pod.nodes[0]].machine or "")
    pod = visit(house, pod, 2)
    assert pod.state is PodState.DEGRADED and members(house, pod) == ports(house, pod.nodes)


def test_a_machine_deployed_again_while_nova_does_not_answer_is_out(house: House) -> None:
    """An operator has it rescued during an upgrade of Nova: Ironic's word alone says that the pod's server is off."""
    pod = house.ready(ORDER)
    machine = house.site.node_by_name[pod.nodes[0]].machine or ""
    house.cloud.offers.unreadable.add(machine)
    house.cloud.offers.busy[machine] = "Ironic has it in state rescuing"
    pod = visit(house, pod, 2)
    assert pod.state is PodState.DEGRADED and members(house, pod) == ports(house, pod.nodes[1:])
    house.cloud.offers.unreadable.clear()
    house.cloud.offers.busy.clear()
    pod = house.run(pod, PodState.READY)
    assert members(house, pod) == ports(house, pod.nodes)


def test_who_has_a_machine_next_is_no_remains_of_who_had_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To Ironic it isn't free any more; no receipt is called wrong because of that, and nothing is taken away."""
    pod = house.ready(ORDER)
    house.release(pod)
    pod = house.run(pod, PodState.RELEASED)
    find = house.cloud.find

    def in_use(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Observed]:
        seen = find(scope, wanted, ids)
        theirs = {r.key for r in wanted if r.kind is Kind.MACHINE and scope.owner.id == str(pod.id)}
        return {
            k: Observed("another's", Status.PENDING, "in use") if k in theirs else o for k, o in seen.items()
        }

    monkeypatch.setattr(house.cloud, "find", in_use)
    Sweeper(house.store, house.keeper.world, house.keeper.site, house.time, SweepSettings(pause=0.01)).sweep()
    assert not [e for e in house.store.events(pod.id, 0) if e.type == "alarm"]


@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_worker_that_is_killed_at_any_request(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    fate = FateOfRequests(monkeypatch)
    died, request = True, 0
    while died:
        request += 1
        pod = house.order(ORDER.model_copy(update={"name": f"p{request}"}), count=1)
        died = killed_at(house, fate, request, after, pod)
        house.run(pod, PodState.READY)
        names = [t.name for t in house.cloud.things()]
        assert len(names) == len(set(names))
        house.release(pod)
        died |= killed_at(house, fate, request, after, pod)
        house.run(pod, PodState.RELEASED)
        signed = house.store.receipt(pod.id)
        assert signed is not None and signed.receipt.clean and not house.cloud.things()
    assert request > 5


def switched_off(house: House, nodes: Sequence[str]) -> None:
    """Their ports are down from here on."""
    for guid in ports(house, tuple(nodes)):
        house.fabric.switch_off(guid)


@pytest.fixture
def cleaning(house: House, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something done while Ironic cleans, once: members have left, and servers are being deleted."""

    def planned(do: Callable[[], None]) -> None:
        delete, left = house.cloud.delete, [do]

        def told(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Outcome]:
            if wanted[0].kind is Kind.SERVER and left:
                left.pop()()
            return delete(scope, wanted, ids)

        monkeypatch.setattr(house.cloud, "delete", told)

    return planned


Cleaning = Callable[[Callable[[], None]], None]


def items(house: House, pod: PodRecord, plane: str) -> dict[str, str]:
    """Subject -> what was seen, of a receipt's items of one plane."""
    signed = house.store.receipt(pod.id)
    assert signed is not None
    return {i.subject: i.seen for i in signed.receipt.items if i.plane == plane}


def test_machines_that_are_off_after_their_cleaning_are_given_back(house: House, cleaning: Cleaning) -> None:
    """Their ports are down: the tables of the leaves' ports are read instead, and the receipt says so."""
    pod = house.ready(ORDER)
    cleaning(lambda: switched_off(house, pod.nodes))
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and not house.store.capacity().holds
    assert all("nothing is seen at" in seen for seen in items(house, pod, "p_key host").values())
    told = items(house, pod, "adapter")
    assert len(told) == 2 and all("its port is down" in seen for seen in told.values())


def test_machines_that_their_tenant_has_switched_off_leave_and_are_given_back(house: House) -> None:
    """Their ports are down before they leave: what is left at the leaf's ports is taken away there."""
    pod = house.ready(ORDER)
    switched_off(house, pod.nodes)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


def test_a_key_that_is_left_at_the_leaf_of_a_machine_that_is_off_is_taken_away_there(
    house: House, cleaning: Cleaning
) -> None:
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


def test_a_host_that_is_no_machine_and_off_proves_nothing(house: House) -> None:
    """Nobody says of it that it is off, and was cleaned: its cable may be cut, and a server run on it."""
    pod = house.ready()
    switched_off(house, pod.nodes)
    house.release(pod)
    pod = visit(house, pod)
    assert pod.state is PodState.RELEASING and set(house.store.capacity().holds) == set(pod.nodes)


def test_an_adapter_with_another_guid_keeps_its_machine_in_quarantine(
    house: House, cleaning: Cleaning
) -> None:
    """Whoever had root on it has flashed it: somebody else is at its place. The other machine comes back."""
    pod = house.ready(ORDER)
    bad, good = pod.nodes
    (guid,) = ports(house, (bad,))
    cleaning(lambda: house.fabric.change_guid(guid, 0x0002C90300FFFF01))
    house.worker = house.new_worker("impatient", impatient())
    house.release(pod)
    visit(house, pod)
    capacity = house.store.capacity()
    assert "0x0002c90300ffff01 is seen at" in capacity.quarantines[bad]["reason"]
    assert set(capacity.holds) == {bad} and good not in capacity.holds


def test_an_adapter_that_is_seen_at_another_place_keeps_its_machine_in_quarantine(
    house: House, cleaning: Cleaning
) -> None:
    """Another machine has its GUID now, or somebody has moved cables."""
    pod = house.ready(ORDER)
    bad, _ = pod.nodes
    (guid,) = ports(house, (bad,))
    places = house.fabric.wire.places
    cleaning(lambda: places.update({guid: replace(places[guid], port=39)}))
    house.worker = house.new_worker("impatient", impatient())
    house.release(pod)
    visit(house, pod)
    assert "the site has it at" in house.store.capacity().quarantines[bad]["reason"]
