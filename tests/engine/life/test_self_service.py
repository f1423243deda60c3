"""Pods with a management network that Neutron picks: there may be more of them than VLANs."""

from __future__ import annotations

import pytest

from tests.engine.house import ORDER, House
from weft.app.policy import Policy
from weft.app.redact import redacted
from weft.model.errors import ConflictError, RefusedError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.ranges import Range
from weft.model.resources import Kind
from weft.model.site import ManagementNetwork, Site
from weft.model.specs import NetworkSpec
from weft.planning.shapes.graph import management_network
from weft.planning.shapes.plantext import plan_text

VLANS = {"type": "provider", "physical_network": "physnet1", "segments": Range(first=1000, last=1999)}
SELF_SERVICE = {"type": "self-service", "physical_network": None, "segments": None}


def apply(house: House, changes: dict[str, object]) -> None:
    site = house.store.site().site
    cloud = site.clouds["lab"]
    management = ManagementNetwork.model_validate({**cloud.management.model_dump(), **changes})
    changed = cloud.model_copy(update={"management": management})
    document = site.model_copy(update={"clouds": {"lab": changed}}).model_dump(mode="json")
    house.service.site.activate(house.operator, document)


def named(name: str, count: int = 2) -> Order:
    nodes = ORDER.nodes.model_copy(update={"count": count})
    return ORDER.model_copy(update={"name": name, "nodes": nodes})


def spec(house: House, name: str) -> NetworkSpec:
    pod = house.store.pods.find(name, None)
    found = next(r for r in house.store.pods.resources(pod.id) if r.key == "network/management").resource.spec
    assert isinstance(found, NetworkSpec)
    return found


def test_self_service_pod_works_from_order_to_receipt(house: House) -> None:
    """The pod has only the fabric's number; what the cloud picked is a fact; nothing is left in the end."""
    apply(house, SELF_SERVICE)
    pod = house.ready()
    assert pod.plan.vlan is None and list(pod.plan.allotment.numbers) == ["segment/ib0"]
    assert "management    self-service, 10.64.0.0/24" in plan_text(pod.plan)
    record = next(r for r in house.store.pods.resources(pod.id) if r.key == "network/management")
    assert record.facts["type"] == "geneve" and not record.differences
    view = house.service.pods.show(house.request(), pod.name)
    assert view.vlan is None
    assert house.service.audits.run(house.operator).findings == ()
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    receipt = house.store.records.receipt(pod.id)
    assert receipt is not None and receipt.receipt.clean
    assert not house.cloud.things(Kind.NETWORK)


def test_pods_are_not_limited_by_vlans(house: House) -> None:
    """With one VLAN in the range a second pod would be refused; the cloud's own networks are more."""
    one = {**VLANS, "segments": Range(first=1000, last=1000)}
    apply(house, one)
    house.ready(named("first"))
    with pytest.raises(RefusedError, match="all management VLANs"):
        house.order(named("refused"))
    apply(house, SELF_SERVICE)
    second, third = house.ready(named("second")), house.ready(named("third"))
    facts = [
        next(r for r in house.store.pods.resources(p.id) if r.key == "network/management").facts["segment"]
        for p in (second, third)
    ]
    assert len(set(facts)) == 2
    assert len({p.plan.allotment.management_cidr for p in (second, third)}) == 2


def test_live_pods_keep_their_network(house: House) -> None:
    """The site goes from VLANs to self-service and back: each pod stays as it was built, and is released clean."""
    old = house.ready(named("old"))
    apply(house, SELF_SERVICE)
    new = house.ready(named("new"))
    assert (spec(house, "old").segment, spec(house, "new").segment) == (1000, None)
    assert house.service.audits.run(house.operator).findings == ()
    house.service.audits.run(house.operator, True)
    apply(house, VLANS)
    third = house.ready(named("third"))
    assert third.plan.vlan == 1001 and spec(house, "new").segment is None
    for pod in (old, new, third):
        house.release(pod)
        house.run(pod, PodState.RELEASED)
        receipt = house.store.records.receipt(pod.id)
        assert receipt is not None and receipt.receipt.clean
    assert not house.store.capacity().used.vlans.get("lab")


def test_tenants_see_neither_type_nor_number(house: House) -> None:
    """What the cloud picked is for operators."""
    apply(house, SELF_SERVICE)
    pod = house.ready()
    shown = redacted(house.service, Policy()).pods.show(house.request(), pod.name).model_dump_json()
    assert "geneve" not in shown and "physnet" not in shown
    planned = redacted(house.service, Policy()).pods.plan(house.request(), named("next"))
    assert "self-service" in plan_text(planned)


def test_pod_with_a_vlan_can_be_released_by_a_site_without_vlans(house: House) -> None:
    """It can be released, and not changed: where its VLAN is isn't known any more."""
    pod = house.ready()
    apply(house, SELF_SERVICE)
    site: Site = house.store.site().site
    with pytest.raises(ConflictError, match="it can be released, but not changed"):
        management_network(pod.plan.allotment, site, "lab")
