"""A fabric with switches configured by Neutron's ML2 driver: weft only waits, reports, and proves."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

import pytest

from tests.engine.fabric.test_ethernet_life import ethernet, ports, released, stranger, visits
from tests.engine.house import ORDER, House
from weft.engine.base.database import Database
from weft.engine.rows.ledger import FabricLedger
from weft.model.errors import ConflictError, RefusedError
from weft.model.fabric import Clean, Snapshot
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Outcome, Resource
from weft.model.site import Site
from weft.model.specs import NetworkSpec, PortSpec, SegmentSpec, ServerSpec
from weft.planning.shapes.plantext import plan_text
from weft.ports.resources import Scope
from weft.testing.cloud import FakeCloud
from weft.testing.ethernet import FakeNeutrons


def by_neutron(site: Site) -> Site:
    document = ethernet(site).model_dump(mode="json")
    switches = [
        {"name": s["name"], "interface": "eos", "url": f"https://{s['name']}.example"}
        for s in document["switches"]
    ]
    document["fabrics"]["ib0"]["manager"]["switching"] = {
        "configured_by": "neutron",
        "switches": switches,
        "parking": 4000,
    }
    return Site.model_validate(document)


class Ml2Cloud(FakeCloud):
    """Its Neutron puts adapters into the network's VLAN when a server gets their ports, and takes them out when the
    ports are deleted, as networking-generic-switch does.

    Attributes:
        deaf: its ML2 driver fails: switches stay as they are.
    """

    fabric: FakeNeutrons
    site: Site
    deaf = False

    def create(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        made = super().create(scope, wanted, ids)
        for resource in wanted:
            if isinstance(resource.spec, NetworkSpec) and resource.key == "network/rdma":
                self.vlan = resource.spec.segment
            if isinstance(resource.spec, ServerSpec):
                self._set(resource.node, self.vlan)
        return made

    def delete(
        self, scope: Scope, wanted: Sequence[Resource], ids: Mapping[str, str]
    ) -> Mapping[str, Outcome]:
        for resource in wanted:
            if isinstance(resource.spec, PortSpec) and resource.spec.vnic_type == "direct-physical":
                self._set(resource.node, None)
        return super().delete(scope, wanted, ids)

    def _set(self, node: str, vlan: int | None) -> None:
        for hca in self.site.node_by_name[node].hcas_on("ib0") if not self.deaf else ():
            self.fabric.put(hca.port_id, vlan)


class NeutronsHouse(House):
    fake: FakeNeutrons
    cloud: Ml2Cloud


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[NeutronsHouse]:
    house = NeutronsHouse(database, database_url)
    house.site = by_neutron(house.site)
    house.cloud = Ml2Cloud(seed=1, name="lab", latency=0.0)
    house.cloud.offers.images.add("tiny")
    ledger = FabricLedger(database, "ib0", house.site.fabrics["ib0"].words)
    house.fake = house.cloud.fabric = FakeNeutrons(house.site, "ib0", ledger)
    house.cloud.site = house.site
    house.world = replace(
        house.world,
        resources={"lab": house.cloud, "ib0": house.fake},
        fabrics={"ib0": house.fake},
        clouds={"lab": house.cloud},
    )
    for switch in house.fake.switches.values():  # as where Neutron doesn't manage the VLANs themselves
        switch.config.vlans = dict.fromkeys(house.site.fabrics["ib0"].segments.numbers(), "net")
    house.store.activate_site(house.site, "test")
    yield house
    house.close()


def revisions(house: NeutronsHouse) -> list[int]:
    return [s.config.revision for s in house.fake.switches.values()]


def test_neutron_managed_pod_works_without_changes_by_weft(house: NeutronsHouse) -> None:
    """READY once the switches show exactly the members; plan, audit and receipt name the manager of the VLANs."""
    pod = house.ready()
    number = pod.plan.segment
    assert number is not None
    assert house.fake.snapshot().ports_in[number] == frozenset(ports(house, pod))
    limit, untried = pod.plan.limits
    assert "Neutron" in limit and "probe agents" in untried and f"Limit: {limit}" in plan_text(pod.plan)
    report = house.service.audits.run(house.operator)
    assert report.findings == () and report.limits == (f"ib0: {limit}", f"ib0: {untried}")
    house.release(pod)
    receipt = released(house, pod).receipt
    assert receipt.clean
    assert any(i.plane == "switch" and "defined by Neutron" in i.seen for i in receipt.items)
    assert sum(i.plane == "switch port" for i in receipt.items) == len(ports(house, pod))
    assert number not in house.fake.snapshot().ports_in
    assert revisions(house) == [0] * len(house.fake.switches)
    assert house.ready().plan.segment == number


def test_pod_with_ports_that_neutron_forgot_is_not_ready(house: NeutronsHouse) -> None:
    house.cloud.deaf = True
    pod = visits(house, house.order(), 12)
    assert pod.state is not PodState.READY and pod.plan.segment not in house.fake.snapshot().ports_in
    for port in ports(house, pod):
        house.fake.put(port, pod.plan.segment)
    assert house.run(pod, PodState.READY).state is PodState.READY


def test_port_left_behind_by_neutron_prevents_the_receipt(house: NeutronsHouse) -> None:
    """Neutron says that the port is gone; the switch says otherwise, and the node isn't assigned."""
    pod = house.ready()
    house.cloud.deaf = True
    house.release(pod)
    assert visits(house, pod, 8).state is PodState.RELEASING and house.store.records.receipt(pod.id) is None
    assert set(house.store.capacity().holds) >= set(pod.nodes)
    for port in ports(house, pod):
        house.fake.put(port, None)
    assert released(house, pod).receipt.clean


def test_drift_is_reported_and_left_to_neutron(house: NeutronsHouse) -> None:
    pod = house.ready()
    number, other = pod.plan.segment, stranger(house, pod)
    house.fake.put(other, number)
    [found] = [f for f in house.service.audits.run(house.operator).findings if f.kind == "membership"]
    assert "weft doesn't configure this fabric" in found.repair
    assert visits(house, pod, 2).state is PodState.DEGRADED
    assert revisions(house) == [0] * len(house.fake.switches)
    house.fake.put(other, None)
    assert house.run(pod, PodState.READY).state is PodState.READY


def test_unowned_port_in_the_range_is_reported(house: NeutronsHouse) -> None:
    """As after a restored database: it is an orphan that `--repair` can't remove."""
    first = house.site.fabrics["ib0"].segments.first
    port = house.site.nodes[0].hcas_on("ib0")[0].port_id
    house.fake.put(port, first)
    found = house.service.audits.run(house.operator, repair=True).findings
    assert found and not any(f.repaired for f in found)
    assert house.fake.snapshot().ports_in == {first: frozenset({port})}
    assert house.ready().plan.segment == first + 1, "what is in use isn't given out"


def test_port_that_cannot_be_read_back_makes_an_unclean_receipt(house: NeutronsHouse) -> None:
    """It holds nothing back either: nodes and VLAN are free again, and the receipt says what was only accepted."""
    pod = house.ready()
    was = house.fake.clean

    def unproved(segment: SegmentSpec, snapshot: Snapshot) -> Clean:
        clean = was(segment, snapshot)
        accepted = (replace(i, result="accepted") if i.plane == "switch port" else i for i in clean.items)
        return replace(clean, items=tuple(accepted))

    house.fake.clean = unproved  # type: ignore[method-assign]
    house.release(pod)
    receipt = released(house, pod).receipt
    assert not receipt.clean and receipt.quarantined == ()
    assert {i.result for i in receipt.items} == {"clean", "accepted"}
    assert not set(house.store.capacity().holds) & set(pod.nodes)
    assert house.ready().plan.segment == pod.plan.segment


def test_virtual_functions_are_refused_with_the_reason(house: NeutronsHouse) -> None:
    document = ORDER.model_dump(mode="json")
    document["nodes"] |= {"sharing": "shared"}
    document["fabric"] |= {"hcas": "shared"}
    with pytest.raises(RefusedError, match="ML2 driver sets the VLANs"):
        house.service.pods.plan(house.request(), Order.model_validate(document))


def test_manager_of_vlans_cannot_change_under_a_pod(house: NeutronsHouse) -> None:
    """What one manager has set the other wouldn't remove."""
    pod = house.ready()
    document = house.site.model_dump(mode="json")
    switches = {s["name"] for s in document["switches"]}
    links = [
        {"a": f"{k['a']}/Ethernet{k['a_port']}", "b": f"{k['b']}/Ethernet{k['b_port']}"}
        for k in document.pop("links")
        if {k["a"], k["b"]} <= switches
    ]
    document["fabrics"]["ib0"]["manager"]["switching"] |= {"configured_by": "weft", "links": links}
    with pytest.raises(ConflictError, match=f"configured_by .*{pod.plan.segment} is held"):
        house.service.site.activate(house.operator, document)
