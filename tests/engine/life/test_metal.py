"""Pods of bare-metal machines, from order to receipt: assignment, changes, and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.engine.hold.test_killed import FateOfRequests, killed_at
from tests.engine.house import House, impatient
from tests.engine.metalhouse import ORDER, members, ports, sized, visit
from tests.engine.metalhouse import house as house
from weft.app.shown import shown
from weft.engine.audit.sweep import Sweeper
from weft.generate.receipts import verify
from weft.model.errors import ConflictError, InputError, RefusedError
from weft.model.plan import Plan
from weft.model.pod import PodState
from weft.model.quota import needed_quota
from weft.model.receipt import SignedReceipt
from weft.model.resources import Kind, Observed, Outcome, Resource, Status
from weft.model.site import Site
from weft.model.specs import PortSpec, ServerSpec
from weft.planning.fabric.addressing import mac_of_guid
from weft.planning.place.filters import of_kind
from weft.planning.shapes.resolve import shape_of
from weft.ports.occupants import SeenMachine
from weft.ports.resources import Scope
from weft.testing.cloud import Fault
from weftlab.metal.machines import FLAVOR


def test_pod_gets_machines_and_returns_them(house: House) -> None:
    pod = house.ready(ORDER)
    nodes = [house.site.node_by_name[n] for n in pod.nodes]
    assert all(n.machine for n in nodes)
    assert {s.fields["host"] for s in house.cloud.servers} == {n.machine for n in nodes}
    vnics = {t.fields["vnic_type"] for t in house.cloud.things(Kind.PORT)}
    assert vnics == {"baremetal"}
    assert members(house, pod) == ports(house, pod.nodes)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean
    assert verify(signed.model_dump(mode="json"), signed.public_key).valid
    machines = [i for i in signed.receipt.items if i.plane == "machine"]
    assert len(machines) == 2 and not house.cloud.things() and not house.store.capacity().holds


@pytest.mark.parametrize("by", ["nova", "ironic"])
def test_tenants_client_reads_a_plan_without_machine_ids(house: House, by: str) -> None:
    if by == "ironic":
        house.service.site.activate(house.operator, by_ironic(house.site))
    shown_text = shown(house.service.pods.plan(house.request(), ORDER)).model_dump_json()
    assert Plan.model_validate_json(shown_text).placement.nodes
    assert not any(n.machine in shown_text for n in house.site.nodes if n.machine is not None)


def test_pod_shrinks_and_grows_by_machines(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A leaving machine leaves the segment before its server is deleted, a new one joins once it is deployed."""
    pod = house.ready(ORDER)
    inside: list[set[int]] = []
    delete = house.cloud.delete

    def recorded(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Outcome]:
        inside.append(members(house, pod))
        return delete(scope, wanted, ids)

    monkeypatch.setattr(house.cloud, "delete", recorded)
    house.service.pods.apply(house.request(), "train", sized(1))
    (stays,) = visit(house, pod).nodes
    assert inside and all(seen == ports(house, (stays,)) for seen in inside)
    assert set(house.store.capacity().holds) == {stays} and len(house.cloud.things(Kind.MACHINE)) == 1
    house.cloud.plant(Fault.STUCK, verb="create", kind=Kind.SERVER, times=1)
    house.service.pods.apply(house.request(), "train", sized(2))
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


def test_unclean_machine_is_quarantined_and_the_other_returns(house: House) -> None:
    pod = house.ready(ORDER)
    bad = pod.nodes[0]
    house.cloud.plant(Fault.UNDELETABLE, verb="delete", kind=Kind.MACHINE, key=f"machine/{bad}", times=None)
    house.worker = house.new_worker("impatient", impatient())
    house.release(pod)
    pod = visit(house, pod)
    capacity = house.store.capacity()
    assert pod.state is PodState.RELEASING and house.store.records.receipt(pod.id) is None
    assert "machine" in capacity.quarantines[bad].reason and set(capacity.holds) == {bad}
    house.worker = house.new_worker("patient")
    with pytest.raises(RefusedError):
        house.order(ORDER.model_copy(update={"name": "all"}), count=4)
    assert bad not in house.ready(ORDER.model_copy(update={"name": "next"})).nodes


def test_machine_reassigned_to_another_pod_does_not_delay_a_release(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was given back when the first pod shrank, with its record; to Ironic it is in use again."""
    first = house.ready(sized(3))
    house.service.pods.apply(house.request(), "train", sized(1))
    (stays,) = visit(house, first).nodes
    gone = {*first.nodes} - {stays}
    anothers_are_there(house, monkeypatch)
    second = house.ready(ORDER.model_copy(update={"name": "next", "nodes": sized(3).nodes}))
    assert gone < {*second.nodes}
    house.release(first)
    house.run(first, PodState.RELEASED)
    signed = house.store.records.receipt(first.id)
    assert signed is not None and signed.receipt.clean
    assert machines_of(signed) == {*first.nodes}


def test_freed_machine_goes_to_the_next_pod_despite_a_quarantined_one(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = house.ready(ORDER)
    bad, good = pod.nodes
    planted = house.cloud.plant(
        Fault.UNDELETABLE, verb="delete", kind=Kind.MACHINE, key=f"machine/{bad}", times=None
    )
    house.worker = house.new_worker("impatient", impatient())
    house.release(pod)
    visit(house, pod)
    house.worker = house.new_worker("patient")
    anothers_are_there(house, monkeypatch)
    assert good in house.ready(ORDER.model_copy(update={"name": "next", "nodes": sized(3).nodes})).nodes
    house.worker = house.new_worker("impatient", impatient())
    visit(house, pod)
    assert set(house.store.capacity().quarantines) == {bad}
    planted.lift()
    for thing in house.cloud.things(Kind.MACHINE):
        thing.undeletable = False
    house.worker = house.new_worker("patient")
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean and machines_of(signed) == {bad, good}
    planes = {
        plane: {i.subject for i in signed.receipt.items if i.plane == plane} for plane in ("guest", "host")
    }
    assert planes["host"] == {bad, good} and len(planes["guest"]) == 2


def machines_of(signed: SignedReceipt) -> set[str]:
    """Nodes of whose machines a receipt has a record."""
    items = [i for i in signed.receipt.items if i.plane == "machine" and i.result == "clean"]
    assert len(items) == len({i.subject for i in items})
    return {i.subject.split()[0].partition("-machine-")[2] for i in items}


def anothers_are_there(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cloud show, as Ironic does, that a machine which another pod has now isn't free and clean."""
    find = house.cloud.find

    def found(scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]) -> Mapping[str, Observed]:
        holds = house.store.capacity().holds
        theirs = {
            r.key
            for r in wanted
            if r.kind is Kind.MACHINE and r.node in holds and str(holds[r.node].pod.id) != scope.owner.id
        }
        seen = find(scope, wanted, ids)
        return {
            k: Observed("another's", Status.PENDING, "in use") if k in theirs else o for k, o in seen.items()
        }

    monkeypatch.setattr(house.cloud, "find", found)


def test_site_cannot_give_a_held_node_another_machine(house: House) -> None:
    pod = house.ready(ORDER)

    def changed(name: str) -> dict[str, object]:
        document = house.site.model_dump(mode="json")
        node = next(n for n in document["nodes"] if n["name"] == name)
        node["machine"] = "00000000-0000-4000-8000-00000000beef"
        return document

    with pytest.raises(ConflictError, match=f"{pod.nodes[0]}'s host or adapters .* release the pod first"):
        house.service.site.activate(house.operator, changed(pod.nodes[0]))
    assert house.store.site().generation == 1
    free = next(n.name for n in house.site.nodes if n.machine and n.name not in pod.nodes)
    assert house.service.site.activate(house.operator, changed(free)).generation == 2


def by_ironic(site_: Site) -> dict[str, object]:
    document = site_.model_dump(mode="json")
    document["clouds"]["lab"]["machines_by"] = "ironic"
    return document


def test_site_cannot_change_the_deployer_of_a_live_pods_machines(house: House) -> None:
    """Its servers have ids of Nova's; what Ironic reports of them has other ids."""
    pod = house.ready(ORDER)
    with pytest.raises(
        ConflictError, match=r"machines_by of the cloud of .* is nova, .* release the pod first"
    ):
        house.service.site.activate(house.operator, by_ironic(house.site))
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert house.service.site.activate(house.operator, by_ironic(house.site)).generation == 2
    pod = house.ready(ORDER.model_copy(update={"name": "second"}))
    with pytest.raises(ConflictError, match="is ironic"):
        house.service.site.activate(house.operator, house.site.model_dump(mode="json"))


def test_ironic_directly_uses_no_quota_and_pins_ports_to_adapters(house: House) -> None:
    house.service.site.activate(house.operator, by_ironic(house.site))
    plan = house.service.pods.plan(house.request(), ORDER)
    servers = [r.spec for r in plan.graph.resources if isinstance(r.spec, ServerSpec)]
    assert [s.by for s in servers] == ["ironic", "ironic"]
    needed = needed_quota(plan.graph, vcpus=96, ram=1024)
    assert not needed.keys() & {"servers", "cores", "RAM (MiB)"} and needed["ports"] == 4
    macs = {r.spec.mac for r in plan.graph.resources if isinstance(r.spec, PortSpec)} - {None}
    there = {mac_of_guid(guid) for guid in ports(house, tuple(n.node for n in plan.placement.nodes))}
    assert macs == there
    shown_plan = shown(plan)
    assert "Nova shows no servers for them" in " ".join(shape_of(shown_plan.order).limits(shown_plan))


def test_order_of_machines_or_of_other_nodes_considers_only_its_kind(house: House) -> None:
    bare, _ = of_kind(house.site, "ib0", "lab", 1, None, bare_metal=True)
    others, _ = of_kind(house.site, "ib0", "lab", 1, None)
    assert (bare.bit_count(), others.bit_count(), bare & others) == (4, 16, 0)


def test_flavor_of_the_other_kind_of_node_is_refused(house: House) -> None:
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
def test_broken_machine_of_a_ready_pod_is_reported_not_replaced(house: House, reason: str) -> None:
    pod = house.ready(ORDER)
    machine = next(t for t in house.cloud.things(Kind.MACHINE))
    machine.broken = reason
    pod = visit(house, pod)
    assert pod.state is PodState.DEGRADED and reason in pod.reason
    assert machine.id in {t.id for t in house.cloud.things(Kind.MACHINE)}


def test_next_tenants_machine_is_not_reported_as_remains(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To Ironic it isn't free any more; no receipt is called wrong because of that, and nothing is removed."""
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
    Sweeper(house.store, house.keeper.world, house.keeper.site, house.time).sweep()
    assert not [e for e in house.store.records.events(pod.id, 0) if e.type == "alarm"]


@pytest.mark.landing
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_pod_survives_a_worker_killed_at_any_request(
    house: House, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    fate = FateOfRequests(house, monkeypatch)
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
        signed = house.store.records.receipt(pod.id)
        assert signed is not None and signed.receipt.clean and not house.cloud.things()
    assert request > 5


def test_audit_names_others_who_may_act_on_a_machine(house: House) -> None:
    """Also on an unassigned one: its owner may have written another BMC's address before it is assigned."""
    free = next(n for n in house.site.nodes if n.machine)
    assert house.service.audits.run(house.operator).findings == ()
    theirs = SeenMachine(state="available", others="it is owned by project p, whose members …")
    house.cloud.offers.machines[str(free.machine)] = theirs
    [found] = house.service.audits.run(house.operator).findings
    assert (found.kind, found.subject, found.what) == ("machine", free.name, theirs.others)
    house.cloud.plant(Fault.UNREACHABLE, verb="occupants", times=None)
    assert "machine" in {
        f.kind for f in house.service.audits.run(house.operator).findings if f.category == "unknown"
    }


def test_machine_that_fails_has_room_on_a_free_machine_only(house: House) -> None:
    """Sixteen free virtual hosts are no room for it."""
    pod = house.order(sized(2))
    found = house.service.site.impact(house.operator, pod.nodes[0])
    assert [(p.pod, p.elsewhere and p.elsewhere.fits) for p in found.pods] == [("train", True)]
    order = sized(2).model_copy(update={"name": "next"})
    house.order(order)
    [mine] = house.service.site.impact(house.operator, pod.nodes[0]).pods
    assert mine.elsewhere is not None and mine.elsewhere.fits is False
