"""Virtual functions of adapters on shared nodes, from order to receipt, on Ethernet and InfiniBand."""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.base.test_locks import locked, waits_for_a_lock
from tests.engine.changes.test_change_loop import apply, settle
from tests.engine.fabric.test_ethernet_life import ethernet
from tests.engine.house import House
from tests.engine.ufmhouse import UfmOfAHouse, managed_by_ufm
from tests.helpers.capacities import count_of, rows_of
from tests.helpers.waiting import wait_for
from weft.app.shown import shown
from weft.engine.audit.audit import Auditor
from weft.engine.base.database import Database
from weft.engine.book.partholds import bind_functions
from weft.engine.hold.heldpod import HeldPod
from weft.engine.proof.membership import AWAY, ONE_AWAY
from weft.engine.rows.records import PodRecord
from weft.model.errors import PermanentError, RefusedError, TemporaryError
from weft.model.fabrictypes import Mode
from weft.model.ids import format_guid
from weft.model.order import Order
from weft.model.placement import Part
from weft.model.pod import Phase, PodState
from weft.model.site import Site
from weft.model.specs import PortSpec, SegmentSpec
from weft.model.views import CapacityRowView, PodView
from weft.planning.fabric.functions import guid_of
from weft.planning.shapes.plantext import plan_text
from weft.ports.fabric import FabricDriver
from weft.testing.cloud import Fault
from weft.testing.ethernet import FakeEthernet
from weft.testing.fabric import FakeFabric
from weftlab.ufm.inventory import VirtualPort

VFS = 4


def with_functions(site: Site, vfs: int = VFS) -> Site:
    """The site with so many functions of each adapter of a compute node, at PCI addresses of their own."""
    document = site.model_dump(mode="json")
    for node in document["nodes"]:
        if node["role"] == "compute":
            for i, hca in enumerate(node["hcas"]):
                hca |= {"vfs": vfs, "vf_pci": f"0000:d{i}:00.2"}
    return Site.model_validate(document)


def slots(site: Site, node: str, vfs: int = VFS) -> list[str]:
    """PCI addresses of a host's functions, by adapter."""
    return [f"0000:d{i}:00.{2 + n}" for i, _ in enumerate(site.node_by_name[node].hcas) for n in range(vfs)]


def small(name: str, count: int = 1, **fabric: Any) -> Order:
    nodes = {"count": count, "flavor": "gpu1", "image": "tiny", "sharing": "shared"}
    return Order.model_validate({"name": name, "nodes": nodes, "fabric": {"hcas": "shared", **fabric}})


def furnished(house: House, site: Site, make: Callable[[Site], FabricDriver]) -> House:
    house.site, fabric = site, make(site)
    house.world = replace(
        house.world, resources={**house.world.resources, "ib0": fabric}, fabrics={"ib0": fabric}
    )
    house.store.activate_site(site, "test")
    for node in site.nodes:
        if node.role == "compute":
            house.cloud.offers.functions[node.nova_host] = slots(site, node.name)
    return house


def with_ufm(house: House, folder: Path) -> UfmOfAHouse:
    site = with_functions(house.site)
    ufm = UfmOfAHouse(house, site)
    furnished(house, managed_by_ufm(site, folder), ufm.driver)
    return ufm


@pytest.fixture(params=["ethernet", "infiniband", "ufm"])
def house(
    database: Database, database_url: str, request: pytest.FixtureRequest, tmp_path: Path
) -> Generator[House]:
    """InfiniBand with an in-memory manager that has a port for each function, and with UFM's driver and the
    stand-in."""
    house = House(database, database_url)
    if request.param == "ufm":
        with_ufm(house, tmp_path)
        yield house
        house.close()
        return
    if request.param == "ethernet":
        site = with_functions(ethernet(house.site))
        furnished(house, site, lambda site: FakeEthernet(site, "ib0"))
    else:
        site = with_functions(house.site)
        furnished(house, site, lambda site: FakeFabric(site, "ib0", virtual_functions=True))
    yield house
    house.close()


def part(pod: PodRecord, server: int = 0) -> Part:
    found = pod.plan.placement.nodes[server].part
    assert found is not None
    return found


def port(pod: PodRecord) -> PortSpec:
    """The port of the pod's first virtual function."""
    found = [r.spec for r in pod.plan.graph.resources if isinstance(r.spec, PortSpec) and r.spec.function]
    return found[0]


def segment(pod: PodRecord) -> SegmentSpec:
    return next(r.spec for r in pod.plan.graph.resources if isinstance(r.spec, SegmentSpec))


def held(house: House) -> dict[str, str | None]:
    """`node:function` -> slot, of all pods."""
    rows = house.store.capacity().parts
    return {f"{r.node}:{vf}": r.part.slots.get(vf) for r in rows for vf in r.part.vfs}


def test_two_pods_share_a_host_with_functions_of_their_own(house: House) -> None:
    """Each in its own segment with exactly its members; the receipt reads them gone while the other pod goes on."""
    one = house.run(house.order(small("one")), PodState.READY)
    two = house.run(house.order(small("two")), PodState.READY)
    assert one.nodes == two.nodes and part(one).vfs != part(two).vfs
    spec = port(one)
    assert (spec.vnic_type, spec.function) == ("direct", part(one).vfs[0]) and spec.mac != port(two).mac
    fabric = house.world.fabric("ib0")
    assert segment(one).number != segment(two).number
    for pod in (one, two):
        spec = segment(pod)
        assert fabric.snapshot().ports_in[spec.number] == spec.ports
        assert not fabric.check(spec, fabric.snapshot()).problems
    assert Auditor(house.store, house.world, house.site, house.clock).check().findings == ()
    house.release(one)
    house.run(one, PodState.RELEASED)
    signed = house.store.records.receipt(one.id)
    assert signed is not None and signed.receipt.clean
    assert segment(one).number not in fabric.snapshot().ports_in
    assert [k.partition(":")[2] for k in held(house)] == [part(two).vfs[0]]
    assert fabric.snapshot().ports_in[segment(two).number] == segment(two).ports


def test_members_are_the_functions_port_or_a_tag_on_every_adapter(house: House) -> None:
    pod = house.order(small("p"))
    node = house.site.node_by_name[pod.nodes[0]]
    physical = sorted(h.port_id for h in node.hcas_on("ib0"))
    members = segment(pod).members
    if house.site.fabrics["ib0"].type == "ethernet":
        assert [(m.port, m.mode, m.behind) for m in members] == [(p, Mode.TRUNK, ()) for p in physical]
        return
    mac = port(pod).mac
    assert mac is not None
    own = format_guid(guid_of(mac))
    assert [(m.port, m.mode, m.behind) for m in members] == [(own, Mode.FULL, tuple(physical))]


def test_slot_bound_by_nova_is_read_back(house: House) -> None:
    """weft counts from the adapter near the accelerator, Nova takes the last adapter's last function; both are then
    known."""
    first = house.order(small("p"))
    (node,) = first.nodes
    assert list(held(house).values()) == [None]
    there = slots(house.site, node)
    house.cloud.offers.functions[house.site.node_by_name[node].nova_host] = there[::-1]
    house.run(first, PodState.READY)
    assert held(house) == {f"{node}:{part(first).vfs[0]}": there[-1]}
    book = house.store.capacity().book()
    ((_, kept),) = next(k.parts for k in book.leases)
    assert kept.slots == {part(first).vfs[0]: there[-1]}


def test_tenants_see_neither_slots_nor_others_functions(house: House) -> None:
    pod = house.run(house.order(small("p")), PodState.READY)
    shown_text = shown(house.service.pods.show(house.request(), "p")).model_dump_json()
    assert not any(slot in shown_text for slot in slots(house.site, pod.nodes[0]))
    assert shown(house.service.pods.show(house.request(), "p")).placed[0].part is None


def test_functions_limit_the_servers_of_a_host(house: House) -> None:
    """Each host has 2 adapters of 4: its 8 accelerators go with 8 functions; with two each only 4 servers fit."""
    adapters = len(house.site.node_by_name["gpu01"].hcas_on("ib0"))
    each = min(8, adapters * VFS // 2)
    pod = house.order(small("p", each, hcas_per_node=2))
    assert len(pod.nodes) == 1 and len(held(house)) == 2 * each
    assert all(len({vf.split("/")[0] for vf in part(pod, i).vfs}) == 2 for i in range(each))
    other = house.order(small("q", hcas_per_node=2))
    assert other.nodes != pod.nodes


def test_concurrent_orders_never_share_a_function(house: House) -> None:
    requests = [house.request() for _ in range(16)]

    def order(i: int) -> PodView:
        for _ in range(20):
            try:
                return house.service.pods.create(requests[i], small(f"p{i}"))
            except (
                TemporaryError
            ):  # claims go one at a time: on a busy machine the last ones are refused for now
                continue
        pytest.fail(f"p{i} was refused for now 20 times")

    with ThreadPoolExecutor(16) as pool:
        views = list(pool.map(order, range(16)))
    assert len(views) == 16 == len(held(house))
    macs = [port(house.store.pods.find(v.id, None)).mac for v in views]
    assert len(set(macs)) == 16


def test_database_refuses_a_second_holder_of_function_or_slot(house: House) -> None:
    one, two = house.order(small("one")), house.order(small("two"))
    (node,) = one.nodes
    for statement in ("function", "slot"):
        with pytest.raises(PermanentError), house.database.transaction() as tx:
            if statement == "function":
                tx.run("hold_function", node=node, function=part(one).vfs[0], pod_id=two.id, server=0)
                continue
            for pod in (one, two):
                key = next(r.key for r in pod.plan.graph.resources if r.spec == port(pod))
                tx.run("bind_function", pod_id=pod.id, key=key, slot="0000:d0:00.2")


def test_last_reading_decides_who_has_the_slot(house: House) -> None:
    """Two ports can't be bound to one function: the other reading is out of date, and is read again."""
    one = house.run(house.order(small("one")), PodState.READY)
    before = held(house)
    ((_, slot),) = before.items()
    two = house.order(small("two"))
    (node,) = two.nodes
    host = house.site.node_by_name[node].nova_host
    house.cloud.offers.functions[host] = [s for s in slots(house.site, node) if s != slot]
    for thing in house.cloud.things():
        if thing.facts.get("pci_slot") == slot:
            thing.facts["pci_slot"] = None  # its server was stopped, say, and has given it back
    house.cloud.offers.functions[host] = slots(house.site, node)
    house.run(two, PodState.READY)
    assert held(house) == {f"{node}:{part(one).vfs[0]}": None, f"{node}:{part(two).vfs[0]}": slot}


def beside_one_that_locks(house: House, work: Callable[[], object], first: str, then: str) -> None:
    """Work that waits for the first function's row, while its holder locks the other one's, in the common order."""
    lock = "SELECT FROM function_hold WHERE node || ':' || function = %s FOR UPDATE"
    with ThreadPoolExecutor(1) as pool, locked(house, lock, first) as two:
        done = pool.submit(work)
        wait_for(lambda: waits_for_a_lock(house))
        two.execute(lock, [then])
        two.commit()
        done.result()


@pytest.mark.parametrize("house", ["ethernet"], indirect=True)
def test_pods_with_swapped_functions_do_not_deadlock(house: House) -> None:
    """Each writes the other's row besides its own, locking all in the same order."""
    one = house.run(house.order(small("one")), PodState.READY)
    house.run(house.order(small("two")), PodState.READY)
    before = dict(sorted(held(house).items()))
    (node,), ((mine, _), (other, slot)) = one.nodes, before.items()
    key = next(r.key for r in one.plan.graph.resources if r.spec == port(one))

    def read_again() -> None:
        with house.database.transaction() as tx:
            bind_functions(tx, one.id, {key: str(slot)})

    beside_one_that_locks(house, read_again, mine, other)
    assert held(house) == {mine: slot, other: None} and mine.startswith(node)


@pytest.mark.parametrize("house", ["ethernet"], indirect=True)
@pytest.mark.parametrize("way", ["released", "given back"])
def test_freed_functions_are_locked_in_the_same_order(house: House, way: str) -> None:
    """Nova gives functions freed by one pod to another, whose rows have them a moment before the first one's rows lose
    them."""
    before = house.run(house.order(small("before")), PodState.READY)
    house.release(before)
    signed = house.store.records.receipt(house.run(before, PodState.RELEASED).id)
    one = house.run(house.order(small("one", count=2)), PodState.READY)
    first, last = sorted(held(house))
    taken = house.store.claim_owner(one.id, "w")
    assert isinstance(taken, HeldPod) and signed is not None and set(one.nodes) == set(before.nodes)
    with house.database.statement() as tx:
        # Rows go with their servers', the first one's first.
        tx._connection.execute("UPDATE function_hold SET server = 1 - server")  # pyright: ignore[reportPrivateUsage]

    def end() -> None:
        if way == "given back":
            taken.nodes.give_back(one.nodes, ())
        else:
            taken.become(phase=Phase.RELEASING)
            taken.released(signed)

    beside_one_that_locks(house, end, first, last)
    assert not held(house)


def test_removed_servers_function_leaves_the_segment_and_is_freed(house: House) -> None:
    """Others of the pod on the same host keep theirs; on Ethernet they are behind the same adapters, which stay in."""
    pod = house.run(house.order(small("p", 3)), PodState.READY)
    (node,) = pod.nodes
    before, own = held(house), {f"{node}:{vf}" for vf in part(pod, 1).vfs}
    apply(house, small("p", 2), pod.plan.graph.by_key()[f"server/{node}/1"].name)
    now = settle(house, pod)
    assert held(house).keys() == before.keys() - own
    ports = {m.port for m in segment(now).members}
    gone = {m.port for m in segment(pod).members} - ports
    assert len(gone) == (0 if house.site.fabrics["ib0"].type == "ethernet" else 1)
    seen = house.world.fabric("ib0").snapshot()
    assert now.plan.segment is not None and seen.ports_in[now.plan.segment] == ports
    other = house.run(house.order(small("q")), PodState.READY)
    assert other.nodes == (node,) and own == {f"{node}:{vf}" for vf in part(other).vfs}
    apply(house, small("p", 4))
    assert settle(house, pod).nodes == (node,)
    assert house.service.audits.run(house.operator).findings == ()
    for one in (pod, other):
        house.release(one)
        house.run(one, PodState.RELEASED)
        signed = house.store.records.receipt(one.id)
        assert signed is not None and signed.receipt.clean


def test_server_deleted_by_its_tenant_takes_no_other_out(house: House) -> None:
    """On one host its own function leaves where it has a port of its own; adapters leave only with the last server."""
    pod = house.run(house.order(small("p", 3)), PodState.READY)
    (node,) = pod.nodes
    ports, all_of = house.world.fabric("ib0"), {m.port for m in segment(pod).members}
    assert pod.plan.segment is not None
    functions = house.site.fabrics["ib0"].type != "ethernet"
    for gone in (1, 2):
        house.cloud.lose(house.cloud.thing(f"server/{node}/{gone}"))
        for _ in range(3):
            house.store.wake(pod.id)
            house.worker.run_once()
        now = house.store.pods.find(str(pod.id), None)
        assert now.state is PodState.DEGRADED and ONE_AWAY in now.reason and AWAY not in now.reason
        seen = ports.snapshot().ports_in[pod.plan.segment]
        assert seen < all_of and len(seen) == len(all_of) - gone if functions else seen == all_of
    house.cloud.lose(house.cloud.thing(f"server/{node}/0"))
    for _ in range(3):
        house.store.wake(pod.id)
        house.worker.run_once()
    assert AWAY in house.store.pods.find(str(pod.id), None).reason
    assert not ports.snapshot().ports_in.get(pod.plan.segment)


def test_host_loses_its_last_server_while_another_comes(house: House) -> None:
    """Its part isn't freed before it is gone; adapters used by the new server are in the segment again."""
    pod = house.run(house.order(small("p", 9)), PodState.READY)
    names = [n.node for n in pod.plan.placement.nodes]
    full, last = sorted(pod.nodes, key=names.count, reverse=True)
    planted = house.cloud.plant(Fault.UNDELETABLE, key=f"server/{last}/0", times=None)
    apply(house, small("p", 8), last)
    for _ in range(4):
        house.store.wake(pod.id)
        house.worker.run_once()
    apply(house, small("p", 9))
    for _ in range(6):
        house.store.wake(pod.id)
        house.worker.run_once()
    now = house.store.pods.find(str(pod.id), None)
    assert [n.node for n in now.plan.placement.nodes] == [full] * 8 + [last] and len(held(house)) == 10
    planted.lift()
    house.cloud.thing(f"server/{last}/0").undeletable = False
    now = settle(house, pod)
    assert len(held(house)) == 9 and not house.store.capacity().quarantines
    seen = house.world.fabric("ib0").snapshot()
    assert now.plan.segment is not None
    assert seen.ports_in[now.plan.segment] == {m.port for m in segment(now).members}
    assert house.service.audits.run(house.operator).findings == ()


@pytest.mark.parametrize("house", ["ethernet", "infiniband"], indirect=True)
def test_manager_without_functions_is_reported(house: House) -> None:
    """OpenSM has no virtual ports. Switches of Ethernet need none: the pod is ordered."""
    site = with_functions(house.site, VFS)
    if site.fabrics["ib0"].type == "ethernet":
        assert house.order(small("p")).nodes
        return
    furnished(house, site, lambda site: FakeFabric(site, "ib0"))
    with pytest.raises(RefusedError, match="not possible on fabric ib0: OpenSM has no virtual ports"):
        house.order(small("p"))


@pytest.mark.parametrize("house", ["ethernet", "infiniband"], indirect=True)
def test_site_without_functions_is_reported(house: House) -> None:
    document = with_functions(house.site, 0).model_dump(mode="json")
    for hca in (h for n in document["nodes"] for h in n["hcas"]):
        hca["vf_pci"] = None
    furnished(
        house,
        Site.model_validate(document),
        lambda site: (
            FakeEthernet(site, "ib0")
            if site.fabrics["ib0"].type == "ethernet"
            else FakeFabric(site, "ib0", virtual_functions=True)
        ),
    )
    with pytest.raises(
        RefusedError, match="not possible on fabric ib0: the site describes no virtual functions"
    ):
        house.order(small("p"))


def test_whole_nodes_have_whole_adapters(house: House) -> None:
    order = small("p")
    whole = order.model_copy(update={"nodes": order.nodes.model_copy(update={"sharing": "dedicated"})})
    with pytest.raises(RefusedError, match="whole nodes have whole adapters"):
        house.order(whole)


def test_capacity_counts_free_functions(house: House) -> None:
    """A row without a fabric, and one on the fabric with the remaining virtual functions."""

    def row() -> CapacityRowView:
        found = rows_of(house.service.capacity.show(house.operator), "parts")
        assert {r.place for r in found} == {"none", "ib0"}
        return next(r for r in found if r.place == "ib0")

    empty = row()
    house.run(house.order(small("one")), PodState.READY)
    taken = row()
    before, after = (count_of(r, "virtual functions").free for r in (empty, taken))
    assert before is not None and after == before - 1
    assert (taken.free, count_of(taken, "nodes in part use").total) == (empty.free - 1, 1)


def test_unsupported_features_of_functions_are_refused(house: House) -> None:
    planned = plan_text(house.order(small("p")).plan)
    assert "security groups don't filter" in planned and "VXLAN" in planned and "Live migration" in planned
    whole = Order.model_validate({"name": "q", "nodes": {"count": 1, "flavor": "gpu8", "image": "tiny"}})
    said = plan_text(house.order(whole).plan)
    assert "Virtual functions" not in said and "can't be live-migrated" in said


# -- UFM's virtual ports ----------------------------------------------------------------------------------------


@pytest.fixture
def ufm(database: Database, database_url: str, tmp_path: Path) -> Generator[tuple[House, UfmOfAHouse]]:
    house = House(database, database_url)
    yield house, with_ufm(house, tmp_path)
    house.close()


def of_virtual_ports(pod: PodRecord, house: House) -> list[str]:
    items = house.store.records.receipt(pod.id)
    assert items is not None and items.receipt.clean
    return [i.seen for i in items.receipt.items if "virtual port" in i.seen]


def test_pod_waits_until_its_function_has_its_guid(
    ufm: tuple[House, UfmOfAHouse],
) -> None:
    """UFM accepts a GUID that no port has: only what it shows after the boot says that the host has set it."""
    house, manager = ufm
    pod = house.order(small("p"))
    mac = port(pod).mac
    assert mac is not None
    own = format_guid(guid_of(mac))
    manager.dark.add(mac)
    for _ in range(12):
        house.store.wake(pod.id)
        house.worker.run_once()
    held_back = house.store.pods.find(str(pod.id), None)
    assert held_back.state is not PodState.READY and own in held_back.reason and "not up" in held_back.reason
    manager.dark.clear()
    pod = house.run(pod, PodState.READY)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    (said,) = of_virtual_ports(pod, house)
    assert said.endswith("UFM shows no virtual port with it any more")


def test_function_is_kept_while_its_port_is_up(ufm: tuple[House, UfmOfAHouse]) -> None:
    """Nova reports a running server as gone, as after a deletion while its host was away."""
    house, manager = ufm
    pod = house.run(house.order(small("p")), PodState.READY)
    mac = port(pod).mac
    assert mac is not None
    (node,) = pod.nodes
    own = house.site.node_by_name[node].hcas_on("ib0")[0]
    manager.strays.append(VirtualPort(f"{guid_of(mac):016x}", f"{own.port_guid:016x}"))
    house.release(pod)
    for _ in range(12):
        house.store.wake(pod.id)
        house.worker.run_once()
    left = house.store.pods.find(str(pod.id), None)
    assert left.state is PodState.RELEASING and node in left.reason and list(held(house)) != []
    manager.strays.clear()
    house.run(pod, PodState.RELEASED)
    (said,) = of_virtual_ports(pod, house)
    assert said.endswith("UFM shows no virtual port with it any more") and held(house) == {}


def test_audit_finds_an_unowned_function_that_is_up(ufm: tuple[House, UfmOfAHouse]) -> None:
    """A server that the cloud has forgotten runs on: the next pod's function would have its GUID, too."""
    house, manager = ufm
    pod = house.ready(small("one"))
    mac = port(pod).mac
    assert mac is not None and house.service.audits.run(house.operator).findings == ()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    assert house.service.audits.run(house.operator).findings == ()
    own = house.site.node_by_name[pod.nodes[0]].hcas_on("ib0")[0]
    manager.strays.append(VirtualPort(f"{guid_of(mac):016x}", f"{own.port_guid:016x}"))
    manager.strays.append(VirtualPort("0000000000005678", f"{own.port_guid:016x}"))
    (found,) = house.service.audits.run(house.operator).findings
    assert (found.category, found.subject) == ("foreign", f"{pod.nodes[0]}/{part(pod).vfs[0]}")
    assert (
        f"up behind {pod.nodes[0]}/{own.name}" in found.what
        and "may run that the cloud forgot" in found.repair
    )


def test_stolen_guid_is_an_alarm_until_it_is_returned(ufm: tuple[House, UfmOfAHouse]) -> None:
    """A server with a whole adapter gives one of its functions another pod's GUID: UFM lets it into the partition."""
    house, manager = ufm
    pod = house.run(house.order(small("p")), PodState.READY)
    mac = port(pod).mac
    assert mac is not None
    thief = next(n for n in house.site.nodes if n.role == "compute" and n.name not in pod.nodes)
    adapter = thief.hcas_on("ib0")[0]
    manager.strays.append(VirtualPort(f"{guid_of(mac):016x}", f"{adapter.port_guid:016x}"))
    pod = house.run(pod, PodState.DEGRADED)
    assert "also appears elsewhere" in pod.reason and thief.name in pod.reason
    (found,) = house.service.audits.run(house.operator).findings
    assert thief.name in found.what
    manager.strays.clear()
    house.run(pod, PodState.READY)
