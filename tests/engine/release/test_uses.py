"""What others have on a pod's resources: named to those who may end it, and ended only by an operator's repair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.engine.house import House
from tests.engine.timehouse import make
from weft.app.tenanttext import reason
from weft.engine.rows.records import PodRecord
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.testing.cloud import Fault
from weft.testing.cloud_state import Thing

GROUP, MANAGEMENT, ADAPTER = "security_group", "port/{node}/management", "port/{node}/rdma0"


@dataclass
class Obstacle:
    """A resource of others in the way. `goes_on`, `stays`: whether its use, and the resource itself, is still there."""

    id: str
    goes_on: Callable[[], bool]
    stays: Callable[[], bool]
    blocks: str = ""


def own(house: House, pod: PodRecord, key: str) -> Thing:
    key = key.format(node=pod.nodes[0])
    mine = (t for t in house.cloud.things() if t.mark and t.mark.owner.id == str(pod.id))
    return next(t for t in mine if t.mark and t.mark.key == key)


def _groups(port: Thing) -> tuple[object, ...]:
    groups = port.fields["security_groups"]
    assert isinstance(groups, tuple)
    return groups


def in_group(project: str) -> Callable[[House, PodRecord], Obstacle]:
    """A port of a server elsewhere, as by `openstack server add security group`."""

    def made(house: House, pod: PodRecord) -> Obstacle:
        group = own(house, pod, GROUP)
        if project != "team-a":
            house.cloud.share(group, project)
        port = house.cloud.add(Kind.PORT, "login", project, security_groups=("theirs", group.id), network="x")
        return Obstacle(
            port.id,
            lambda: group.id in _groups(port),
            lambda: port in house.cloud.things() and "theirs" in _groups(port),
            "security group",
        )

    return made


def trunk_parent(house: House, pod: PodRecord) -> Obstacle:
    child = house.cloud.add(Kind.PORT, "child", "team-a", network="x")
    trunk = house.cloud.make_trunk("mine", "team-a", own(house, pod, MANAGEMENT), child)
    return Obstacle(
        trunk.id, lambda: trunk.id in house.cloud.trunks, lambda: child in house.cloud.things(), "port"
    )


def trunk_subport(house: House, pod: PodRecord) -> Obstacle:
    port = own(house, pod, MANAGEMENT)
    parent = house.cloud.add(Kind.PORT, "parent", "team-a", network="x")
    trunk = house.cloud.make_trunk("mine", "team-a", parent, port)
    return Obstacle(
        trunk.id,
        lambda: port.id in trunk.subports,
        lambda: trunk.id in house.cloud.trunks and parent in house.cloud.things(),
        "port",
    )


def through_router(house: House, pod: PodRecord) -> Obstacle:
    """A subnet of the tenant's own on the pod's router, with a floating IP for a port there."""
    router = house.cloud.things(Kind.ROUTER)[0]
    port = house.cloud.add(Kind.PORT, "login", "team-a", network="x")
    address = house.cloud.add(Kind.FLOATING_IP, "", "team-a", router=router.id, port=port.id)
    return Obstacle(
        address.id,
        lambda: address.fields["router"] is not None,
        lambda: {address.id, port.id} <= {t.id for t in house.cloud.things()},
        "router",
    )


def on_management(house: House, pod: PodRecord) -> Obstacle:
    network = own(house, pod, "network/management")
    port = house.cloud.add(Kind.PORT, "login", "team-a", network=network.id, owner="compute:nova")
    return Obstacle(port.id, lambda: port in house.cloud.things(), lambda: True, "network")


OBSTACLES = {
    "group": in_group("team-a"),
    "group-of-another-project": in_group("team-b"),
    "trunk-parent": trunk_parent,
    "trunk-subport": trunk_subport,
    "router": through_router,
    "network": on_management,
}


def visit(house: House, pod: PodRecord, visits: int = 3) -> PodRecord:
    for _ in range(visits):
        house.store.wake(pod.id)
        house.worker.run_once()
    return house.store.pods.find(str(pod.id), None)


def routed(name: str) -> Order:
    order = make(name, 1)
    access = order.access.model_copy(update={"floating_ip": "first"})
    return order.model_copy(update={"access": access})


@pytest.mark.parametrize("kind", OBSTACLES)
def test_blocking_use_is_named_and_ended_by_repair(house: House, kind: str) -> None:
    """While the pod lives it is listed and left alone; the used resource stays, and the receipt is clean."""
    pod = house.ready(routed("used"))
    obstacle = OBSTACLES[kind](house, pod)
    listed = {f.id: f for f in house.service.audits.run(house.operator, repair=True).findings}
    assert listed[obstacle.id].pod_id == str(pod.id) and obstacle.goes_on()
    assert visit(house, pod, 1).state is PodState.READY
    house.release(pod)
    seen = visit(house, pod)
    assert seen.state is PodState.RELEASING and obstacle.id in seen.reason
    shown = reason(seen.reason, seen.state)
    if kind == "group-of-another-project":
        assert obstacle.id not in shown and "team-b" not in shown
        assert f"something of another project uses the pod's {obstacle.blocks} (operators see what)" in shown
    else:
        assert obstacle.id in shown and f"uses the pod's {obstacle.blocks}: remove it" in shown
    house.service.audits.run(house.operator, repair=True)
    assert obstacle.stays() and not obstacle.goes_on()
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


def test_share_of_a_pods_group_is_removed_by_repair(house: House) -> None:
    """Only once none of the other project's ports is in the group; these are removed first when the pod is released."""
    pod = house.ready(make("used", 1))
    group = own(house, pod, GROUP)
    house.cloud.share(group, "team-b")
    found = [f for f in house.service.audits.run(house.operator).findings if f.kind == "share"]
    assert [f.pod for f in found] == ["used"] and "team-b" in found[0].what
    house.service.audits.run(house.operator, repair=True)
    assert group.facts["rbac"] == () and house.service.audits.run(house.operator).findings == ()


def test_trunk_on_an_adapters_port_is_removed_from_a_live_pod(house: House) -> None:
    """Only the pod's own may be on its RDMA network; Neutron refuses while the server is there."""
    pod = house.ready(make("used", 1))
    port = next(t for t in house.cloud.things(Kind.PORT) if t.fields.get("vnic_type") == "direct-physical")
    trunk = house.cloud.make_trunk("mine", "team-a", port)
    (found,) = [f for f in house.service.audits.run(house.operator, repair=True).findings if f.id == trunk.id]
    assert found.pod == pod.name and found.repaired is False and "TrunkInUse" in found.repair
    assert trunk.id in house.cloud.trunks


def test_uses_of_an_orphan_end_before_it_is_removed(house: House) -> None:
    """A released pod's group that came back, with someone's port in it: the port stays."""
    pod = house.run(house.ready(make("used", 1)), PodState.READY)
    group = own(house, pod, GROUP)
    port = house.cloud.add(Kind.PORT, "login", "team-a", security_groups=(group.id,), network="x")
    house.release(pod)
    house.worker.run_once()
    house.service.pods.abandon(house.operator, str(pod.id), "stuck")
    house.run(pod, PodState.RELEASED)
    assert group in house.cloud.things()
    house.clock.sleep(60.0)
    report = house.service.audits.run(house.operator, repair=True)
    assert group not in house.cloud.things(), report.findings
    assert port in house.cloud.things() and port.fields["security_groups"] == ()


def test_unlisted_uses_are_unknown(house: House) -> None:
    """They are a finding, not an absence."""
    house.ready(make("used", 1))
    house.cloud.plant(Fault.UNREACHABLE, verb="networks", times=None)
    found = house.service.audits.run(house.operator).findings
    assert [f.pod for f in found if f.category == "unknown" and f.kind == "network"] == ["used"]
