"""Servers without adapters on a pod's nodes: they don't affect its segment, nor delay its release."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.engine.house import ORDER, House
from tests.engine.nodes.test_nodes import keyless, members, stranger, visit
from weft.app.shown import shown
from weft.engine.base.database import Database
from weft.engine.proof.membership import BESIDE, OTHERS, SOME
from weft.engine.rows.records import PodRecord
from weft.model.errors import RefusedError
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing


@pytest.fixture
def house(database: Database, database_url: str) -> Generator[House]:
    house = House(database, database_url)
    yield house
    house.close()


def adapters(house: House, pod: PodRecord) -> set[str]:
    """`node/adapter` of all ports with the pod's P_Key on the wire, as full member."""
    key, tables = 0x8000 | (pod.plan.segment or 0), house.fabric.tables()
    return {f"{n.name}/{h.name}" for n in house.site.nodes for h in n.hcas if key in tables[h.port_guid].keys}


def passed_through(house: House, theirs: Thing, **fields: object) -> Thing:
    """Give a stranger's server a port with an adapter of its host, as Neutron shows it."""
    host = theirs.fields["host"]
    known = {"network": "theirs", "device_id": theirs.id, "bound_host": host, **fields}
    return house.cloud.add(Kind.PORT, "theirs", "team-b", None, **known)


def test_server_without_adapter_leaves_the_segment_unchanged(house: House) -> None:
    """The pod stays READY with all of its members; its reason says what is there without another party's data, and
    operators learn from the audit what it is."""
    pod = house.ready()
    theirs = stranger(house, pod.nodes[0])
    for _ in range(2):
        pod = visit(house, pod)
        assert pod.state is PodState.READY and members(house, pod) == set(pod.nodes)
    assert f"node {pod.nodes[0]}: {BESIDE}" in pod.reason
    said = shown(house.service.pods.show(house.request(), str(pod.id))).reason or ""
    assert f"node {pod.nodes[0]}: {BESIDE}" in said
    for word in (theirs.id, theirs.name, "team-b"):
        assert word not in pod.reason and word not in said
    found = {f.subject: f.what for f in house.service.audits.run(house.operator).findings if f.kind == "node"}
    assert set(found) == {pod.nodes[0]} and theirs.id in found[pod.nodes[0]]
    house.cloud.lose(theirs)
    assert BESIDE not in visit(house, pod).reason


@pytest.mark.parametrize(
    "fields",
    [
        {"vnic_type": "direct-physical", "pci_slot": "0000:41:00.0"},
        {"vnic_type": "direct", "pci_slot": ""},
        {"vnic_type": "macvtap", "pci_slot": "0000:aa:00.1"},
    ],
    ids=["an adapter of the fabric", "a device that isn't said", "one that the site doesn't have"],
)
def test_server_that_may_have_an_adapter_takes_its_node_out(house: House, fields: dict[str, str]) -> None:
    """Whatever Neutron says of the pod's own ports, and whatever server the other port's owner names."""
    pod = house.ready()
    node, other = pod.nodes
    port = passed_through(house, stranger(house, node), **fields)
    port.fields["device_id"] = ""
    pod = visit(house, pod)
    assert pod.state is PodState.DEGRADED and OTHERS in pod.reason
    assert members(house, pod) == {other} and keyless(house, pod, node)


def test_unreadable_devices_or_ports_take_the_node_out(house: House) -> None:
    """A flavor with devices of its own, and ports that Neutron doesn't list or doesn't show."""
    pod = house.ready()
    node, other = pod.nodes
    theirs = stranger(house, node)
    theirs.fields["flavor"] = "gpu1"  # a flavor that has accelerators by a PCI alias
    assert members(house, visit(house, pod)) == {other}
    del theirs.fields["flavor"]
    assert members(house, visit(house, pod)) == {node, other}
    planted = house.cloud.plant(Fault.UNREACHABLE, verb="ports", times=None)
    pod = visit(house, pod)
    assert OTHERS in pod.reason and members(house, pod) == {other}
    planted.lift()
    house.cloud.unseen_projects.add(pod.project_id)
    assert members(house, visit(house, pod)) == {other}
    house.cloud.unseen_projects.clear()
    assert members(house, visit(house, pod)) == {node, other}


def test_only_the_adapter_unbound_from_the_pods_server_leaves_the_segment(house: House) -> None:
    """Its port was detached, or is another server's by now: the stranger could be given that adapter next."""
    pod = house.ready()
    node, other = pod.nodes
    stranger(house, node)
    port = house.cloud.thing(f"port/{node}/mlx5_1")
    port.facts |= {"device_id": "", "bound_host": "", "pci_slot": None}
    pod = visit(house, pod)
    assert pod.state is PodState.DEGRADED and f"node {node}: {SOME}" in pod.reason
    assert adapters(house, pod) == {f"{node}/mlx5_0", f"{other}/mlx5_0", f"{other}/mlx5_1"}


def test_release_does_not_wait_for_a_server_without_adapter(house: House) -> None:
    """The receipt is clean and says nothing of it; the node isn't assigned before it is gone."""
    pod = house.ready()
    node = pod.nodes[0]
    theirs = stranger(house, node)
    pod = visit(house, pod)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and receipt.receipt.clean and not receipt.receipt.quarantined
    assert theirs.id not in receipt.model_dump_json() and theirs.name not in receipt.model_dump_json()
    with pytest.raises(RefusedError):
        house.order(ORDER.model_copy(update={"name": "all"}), count=16)
    assert node not in house.order(ORDER.model_copy(update={"name": "rest"}), count=15).nodes


def test_release_waits_for_a_server_with_adapter(house: House) -> None:
    """The same for an allocation that only Placement shows: what it is, is unknown."""
    pod = house.ready()
    theirs = stranger(house, pod.nodes[0])
    port = passed_through(house, theirs, vnic_type="direct-physical", pci_slot="0000:40:00.0")
    house.release(pod)
    for _ in range(3):
        pod = visit(house, pod)
    assert pod.state is PodState.RELEASING and theirs.id in pod.reason
    house.cloud.lose(port)
    house.run(pod, PodState.RELEASED)
