"""A pod on a fabric of switches and VLANs, from order to receipt, by the same engine, app and API."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

from tests.engine.house import House, nothing_lands
from weft.app.shown import shown
from weft.drivers.switches.capabilities import capabilities_of
from weft.engine.audit.sweep import Sweeper
from weft.engine.base.database import Database
from weft.engine.proof.membership import BESIDE, OTHERS
from weft.engine.rows.records import PodRecord
from weft.generate.receipts import verify
from weft.model.pod import PodState
from weft.model.receipt import SignedReceipt
from weft.model.resources import Kind
from weft.model.site import Site
from weft.planning.shapes.plantext import plan_text
from weft.testing.ethernet import FakeEthernet


def ethernet(site: Site) -> Site:
    """The site with its fabric as one of switches; each adapter at the switch port at which its cable ends."""
    leaf = {k.b: f"{k.a}/Ethernet{k.a_port}" for k in site.links} | {
        k.a: f"{k.b}/Ethernet{k.b_port}" for k in site.links
    }
    document = site.model_dump(mode="json")
    for node in document["nodes"]:
        for hca in node["hcas"]:
            hca["switch_port"] = leaf[f"{node['name']}/{hca['name']}"]
    document["fabrics"]["ib0"] |= {"type": "ethernet", "manager": {"driver": "switches"}}
    return Site.model_validate(document)


class EthernetHouse(House):
    """A house with `fake` in the place of its InfiniBand fabric, and nothing else changed."""

    fake: FakeEthernet


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[EthernetHouse]:
    house = EthernetHouse(database, database_url)
    house.site = ethernet(house.site)
    house.fake = FakeEthernet(house.site, "ib0")
    house.world = replace(
        house.world, resources={**house.world.resources, "ib0": house.fake}, fabrics={"ib0": house.fake}
    )
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


def ports(house: House, pod: PodRecord) -> list[str]:
    return sorted(h.port_id for n in pod.nodes for h in house.site.node_by_name[n].hcas_on("ib0"))


def visits(house: House, pod: PodRecord, number: int = 4) -> PodRecord:
    for _ in range(number):
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def released(house: House, pod: PodRecord) -> SignedReceipt:
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and verify(signed.model_dump(mode="json")).valid
    return signed


def stranger(house: House, pod: PodRecord) -> str:
    """A port of a node that isn't the pod's."""
    node = next(n for n in house.site.nodes if n.role == "compute" and n.name not in pod.nodes)
    return node.hcas_on("ib0")[0].port_id


def test_ethernet_pod_works_from_order_to_receipt(house: EthernetHouse) -> None:
    """READY with exactly its ports in its VLAN, called a VLAN everywhere; released, each port is read back clean."""
    pod = house.ready()
    number = pod.plan.segment
    assert number is not None and pod.plan.allotment.segment == str(number)
    assert house.fake.snapshot().ports_in[number] == frozenset(ports(house, pod))
    view = house.service.pods.show(house.request(), str(pod.id))
    assert view.segment == str(number)
    shown_text = shown(pod.plan).model_dump_json()
    assert not any(port in shown_text for port in ports(house, pod))
    assert house.service.audits.run(house.operator).findings == ()
    house.release(pod)
    receipt = released(house, pod).receipt
    assert receipt.clean and receipt.segment == str(number)
    planes = [i.plane for i in receipt.items]
    assert planes.count("switch port") == len(ports(house, pod)) and "switch" in planes
    assert number not in house.fake.snapshot().ports_in and number not in house.fake.configured().numbers
    again = house.ready()
    assert (again.plan.segment, again.nodes) == (number, pod.nodes)


def test_foreign_port_in_the_vlan_is_found_and_removed(house: EthernetHouse) -> None:
    pod = house.ready()
    assert pod.plan.segment is not None
    house.fake.put(stranger(house, pod), pod.plan.segment)
    [found] = [f for f in house.service.audits.run(house.operator).findings if f.kind == "membership"]
    assert f"VLAN {pod.plan.segment} of pod train, but is not a member" in found.what
    after = visits(house, pod)
    assert after.state is PodState.READY
    assert any("VLAN" in e.message or "no member" in e.message for e in house.store.records.events(pod.id, 0))
    assert house.fake.snapshot().ports_in[pod.plan.segment] == frozenset(ports(house, pod))


def test_missing_member_is_restored(house: EthernetHouse) -> None:
    pod = house.ready()
    house.fake.put(ports(house, pod)[0], None)
    assert house.service.audits.run(house.operator).findings
    visits(house, pod)
    assert house.run(pod, PodState.READY).state is PodState.READY
    assert pod.plan.segment is not None
    assert house.fake.snapshot().ports_in[pod.plan.segment] == frozenset(ports(house, pod))


def test_unrelated_switches_do_not_delay_a_change(house: EthernetHouse) -> None:
    """One that is away isn't asked, and neither is one that is slow."""
    pod = house.ready()
    house.release(pod)
    released(house, pod)
    needed = {port.partition("/")[0] for port in ports(house, pod)}
    away, *slow = (s for s in house.fake.switches.values() if s.name not in needed)
    away.reachable = False
    before = {s.name: s.asked for s in (away, *slow)}

    def asked() -> set[str]:
        return {name for name, number in before.items() if house.fake.switches[name].asked > number}

    again = house.ready()
    assert again.nodes == pod.nodes and not asked()
    away.reachable = True
    house.release(again)
    assert released(house, again).receipt.clean
    assert asked() <= {away.name}, "what it was a moment ago is not known"


def test_vlan_on_an_unneeded_switch_is_removed(house: EthernetHouse) -> None:
    pod = house.ready()
    assert pod.plan.segment is not None
    house.fake.put(stranger(house, pod), pod.plan.segment)
    house.release(pod)
    assert released(house, pod).receipt.clean
    assert pod.plan.segment not in house.fake.snapshot().ports_in


def test_vlan_that_stays_on_a_port_prevents_the_receipt(house: EthernetHouse) -> None:
    """The switch goes on answering with its state before the release, so the VLAN is unknown until it is read."""
    pod = house.ready()
    switch = house.fake.switches[ports(house, pod)[0].partition("/")[0]]
    switch.freeze()
    house.release(pod)
    assert visits(house, pod).state is PodState.RELEASING and house.store.records.receipt(pod.id) is None
    switch.thaw()
    assert released(house, pod).receipt.clean


def test_unreadable_switch_is_unknown(house: EthernetHouse) -> None:
    """READY becomes DEGRADED and unknown; a release waits; nothing is freed meanwhile."""
    pod = house.ready()
    switch = house.fake.switches[ports(house, pod)[0].partition("/")[0]]
    switch.reachable = False
    after = visits(house, pod, 1)
    assert after.state is PodState.DEGRADED
    house.release(pod)
    assert visits(house, pod).state is PodState.RELEASING and house.store.records.receipt(pod.id) is None
    assert set(house.store.capacity().holds) >= set(pod.nodes)
    switch.reachable = True
    assert released(house, pod).receipt.clean


def test_port_back_in_a_released_pods_vlan_is_swept(house: EthernetHouse) -> None:
    """The receipt was right when it was signed; what came back is removed again, and reported."""
    pod = house.ready()
    house.release(pod)
    released(house, pod)
    port = ports(house, pod)[0]
    assert pod.plan.segment is not None
    house.fake.put(port, pod.plan.segment)
    Sweeper(house.store, house.keeper.world, house.keeper.site, house.time).sweep()
    assert pod.plan.segment not in house.fake.snapshot().ports_in
    [alarm] = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "alarm"]
    assert f"segment {pod.plan.segment}" in alarm


def test_foreign_vlan_is_not_assigned(house: EthernetHouse) -> None:
    first = house.site.fabrics["ib0"].segments.first
    for switch in house.fake.switches.values():
        switch.config.vlans[first] = "the operator's own"
    assert house.ready().plan.segment == first + 1


def test_plan_says_what_ethernet_cannot_provide(house: EthernetHouse) -> None:
    """The plan names what adapters bypass, and that RoCE stays in its VLAN."""
    text = plan_text(house.ready().plan)
    assert "Whole adapters (PCI passthrough): security groups don't filter their traffic" in text
    assert "can't be live-migrated" in text and "no VXLAN network" in text
    assert "RoCE in the pod's VLAN, at layer 2" in text and "trunk ports" in text


def test_every_worker_waits_for_a_change_that_may_land(house: EthernetHouse) -> None:
    """It wasn't answered, and the worker that sent it has handed the pod back: another one, whose driver doesn't know
    it, gives nothing back before it can't land any more."""
    house.fake.late = True
    pod = visits(house, house.order(), 2)
    assert "no answer" in pod.reason and pod.late_until is not None
    another = FakeEthernet(house.site, "ib0")
    another.share(house.fake)
    resources = {**house.world.resources, "ib0": another}
    house.world = replace(house.world, resources=resources, fabrics={"ib0": another})
    house.keeper = type(house.keeper)(house.store, lambda _: house.world)
    house.worker = house.new_worker("w2")
    house.release(pod)
    waiting = visits(house, pod)
    assert waiting.state is PodState.RELEASING and "outcome of a request is unknown" in waiting.reason
    assert waiting.late_until is not None and waiting.late_until > waiting.since
    house.fake.arrive()
    assert another.snapshot().ports_in[pod.plan.segment or 0]
    nothing_lands(house.database)
    signed = released(house, pod)
    assert signed.receipt.clean and signed.receipt.late_until is not None
    assert (pod.plan.segment or 0) not in another.snapshot().ports_in


def test_audit_names_switches_that_cannot_be_read_back(house: EthernetHouse) -> None:
    """Each audit says that it found nothing there because it couldn't look."""
    document = house.site.model_dump(mode="json")
    names = sorted(
        {h.switch_port.partition("/")[0] for n in house.site.nodes for h in n.hcas if h.switch_port}
    )
    generic = {"interface": "generic", "device_type": "netmiko_juniper", "url": "ssh://10.0.1.9"}
    switches = [{"name": n, "interface": "eos", "url": f"https://{n}"} for n in names[1:]]
    document["fabrics"]["ib0"]["manager"]["switching"] = {
        "parking": 4000,
        "switches": [{"name": names[0], **generic}, *switches],
    }
    site = Site.model_validate(document)
    house.fake.capabilities = capabilities_of(site, "ib0")
    [said] = [t for t in house.service.audits.run(house.operator).limits if "can't be read back" in t]
    assert said.startswith(f"ib0: {names[0]} (netmiko_juniper) can't be read back")


def test_number_used_by_a_port_without_its_vlan_is_not_chosen(house: EthernetHouse) -> None:
    """As for an order, the use of a number counts, not only its definition."""
    rail = house.site.fabrics["ib0"]
    first = rail.segments.first
    pod = house.order()
    house.cloud.add(Kind.NETWORK, "stranger", "team-b", physical_network=rail.physical_network, segment=first)
    house.fake.put(stranger(house, pod), first + 1)
    assert first + 1 not in house.fake.configured().numbers
    after = house.run(pod, PodState.READY)
    assert after.plan.segment == first + 2


def test_server_without_adapter_takes_no_port_out_of_a_vlan(house: EthernetHouse) -> None:
    """A small server of another project on a pod's node; one with an adapter takes that node's ports out."""
    pod = house.ready()
    node = pod.nodes[0]
    theirs = house.cloud.add(Kind.SERVER, "small", "team-b", host=node)
    pod = visits(house, pod, 2)
    assert pod.state is PodState.READY and BESIDE in pod.reason
    inside = house.fake.snapshot().ports_in[pod.plan.segment or 0]
    assert inside == set(ports(house, pod))
    fields = {
        "network": "theirs",
        "bound_host": node,
        "vnic_type": "direct-physical",
        "pci_slot": "0000:40:00.0",
    }
    house.cloud.add(Kind.PORT, "theirs", "team-b", None, device_id=theirs.id, **fields)
    pod = visits(house, pod, 2)
    assert pod.state is PodState.DEGRADED and OTHERS in pod.reason
    mine = {h.port_id for h in house.site.node_by_name[node].hcas_on("ib0")}
    assert house.fake.snapshot().ports_in[pod.plan.segment or 0] == inside - mine
