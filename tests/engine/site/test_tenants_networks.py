"""What tenants put on a pod's networks is noticed, and repaired or reported as decided."""

from __future__ import annotations

from tests.engine.house import House
from weft.engine.rows.records import PodRecord
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.views import Finding
from weft.testing.cloud_state import Thing


def visit(house: House, pod: PodRecord) -> PodRecord:
    house.store.wake(pod.id)
    house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def guest(house: House, network: str, project: str = "team-b") -> Thing:
    """A port that isn't weft's, with a server of that project's on it."""
    there = house.cloud.thing(network)
    return house.cloud.add(
        Kind.PORT, "guest", project, network=there.id, address="10.9.9.9", owner="compute:nova"
    )


def foreign(house: House, kind: str = "port") -> list[Finding]:
    report = house.service.audits.run(house.operator)
    return [f for f in report.findings if f.category == "foreign" and f.kind == kind]


def test_share_of_a_pods_network_is_removed_by_a_visit(house: House) -> None:
    """Another project could put ports on it."""
    pod = house.ready()
    network = house.cloud.thing("network/rdma")
    house.cloud.share(network, "team-b")
    assert visit(house, pod).state is PodState.READY
    assert network.fields["shared_with"] == ()
    said = [e.message for e in house.store.records.events(pod.id, 0) if e.type == "repair"]
    assert any("shared_with is team-b" in m for m in said)


def test_share_in_use_degrades_the_pod_until_the_port_is_removed(house: House) -> None:
    """Neutron refuses to remove a share in use; an operator's repair removes the port, then the share."""
    pod = house.ready()
    network = house.cloud.thing("network/rdma")
    house.cloud.share(network, "team-b")
    port = guest(house, "network/rdma")
    seen = visit(house, pod)
    assert seen.state is PodState.DEGRADED
    assert "RbacPolicyInUse" in seen.reason or port.id in seen.reason
    assert [f.id for f in foreign(house)] == [port.id]
    house.service.audits.run(house.operator, repair=True)
    assert port not in house.cloud.things() and network.fields["shared_with"] == ()
    assert visit(house, pod).state is PodState.READY


def test_foreign_port_on_the_rdma_network_only_degrades_the_pod(house: House) -> None:
    """The pod's own ports are not recreated, and it doesn't fail: its servers go on, and it is observed again."""
    pod = house.ready()
    before = {t.id for t in house.cloud.things()}
    port = guest(house, "network/rdma", "team-a")
    for _ in range(5):
        seen = visit(house, pod)
    assert seen.state is PodState.DEGRADED and port.id in seen.reason
    assert {t.id for t in house.cloud.things()} - {port.id} == before
    house.cloud.lose(port)
    assert visit(house, pod).state is PodState.READY


def test_tenants_own_port_on_the_management_network_is_shown_and_stays(house: House) -> None:
    """A tenant's login server on a network that is its alone does no harm while the pod lives."""
    pod = house.ready()
    port = guest(house, "network/management", "team-a")
    assert visit(house, pod).state is PodState.READY
    found = foreign(house)
    assert [f.id for f in found] == [port.id] and found[0].pod_id == str(pod.id)
    house.service.audits.run(house.operator, repair=True)
    assert port in house.cloud.things()


def test_release_names_the_blocking_port_and_repair_removes_it(house: House) -> None:
    """Otherwise the pod would be RELEASING forever, without a reason."""
    pod = house.ready()
    port = guest(house, "network/management", "team-a")
    house.release(pod)
    for _ in range(3):
        seen = visit(house, pod)
    assert seen.state is PodState.RELEASING and "guest" in seen.reason
    assert [f.id for f in foreign(house)] == [port.id]
    house.service.audits.run(house.operator, repair=True)
    assert port not in house.cloud.things()
    house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and receipt.receipt.clean


def test_address_pairs_are_removed(house: House) -> None:
    """With 0.0.0.0/0 a server may send from any address, and its group's rules mean nothing."""
    pod = house.ready()
    port = house.cloud.thing(f"port/{pod.nodes[0]}/management")
    port.fields["address_pairs"] = ("0.0.0.0/0",)
    assert visit(house, pod).state is PodState.READY
    assert port.fields["address_pairs"] == ()


def test_deleted_security_group_is_restored_on_all_ports(house: House) -> None:
    """Port security off, then the group deleted: the order decides who may reach the servers."""
    pod = house.ready()
    group = house.cloud.thing("security_group")
    ports = [house.cloud.thing(f"port/{node}/management") for node in pod.nodes]
    for port in ports:
        port.fields["security_groups"] = ()
    house.cloud.lose(group)
    house.run(pod, PodState.READY, visits=1) if visit(house, pod).state is PodState.READY else visit(
        house, pod
    )
    again = house.cloud.thing("security_group")
    assert again.id != group.id
    assert all(port.fields["security_groups"] == (again.id,) for port in ports)


def test_tenants_subnet_on_the_rdma_network_is_noticed(house: House) -> None:
    """With DHCP it would give addresses to the pod's adapters."""
    pod = house.ready()
    network = house.cloud.thing("network/rdma")
    subnet = house.cloud.add(Kind.SUBNET, "extra", "team-a", network=network.id, cidr="192.0.2.0/24")
    seen = visit(house, pod)
    assert seen.state is PodState.DEGRADED and subnet.id in seen.reason
    assert [f.id for f in foreign(house, "subnet")] == [subnet.id]
    house.service.audits.run(house.operator, repair=True)
    assert visit(house, pod).state is PodState.READY
