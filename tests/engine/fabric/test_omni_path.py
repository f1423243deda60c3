"""Omni-Path: a fabric for whole machines that weft places by, and on which it isolates no pods."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from functools import cache

import pytest

from tests.engine.house import House
from tests.engine.metalhouse import ORDER
from tests.engine.metalhouse import site as metal_site
from weft.engine.base.database import Database
from weft.model.errors import InputError, RefusedError
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.resources import Kind
from weft.model.site import Site
from weft.planning.shapes.plantext import plan_text
from weft.planning.site.check import check_site, hints
from weft.testing.cloud_state import FakeFlavor
from weftlab.metal.machines import FLAVOR


@cache
def site() -> Site:
    document = metal_site().model_dump(mode="json")
    document["fabrics"]["ib0"] |= {"type": "omni-path", "manager": {"driver": "none"}}
    for node in document["nodes"]:
        for hca in node["hcas"]:
            hca["vfs"] = 0
    return Site.model_validate(document)


@pytest.fixture
def house(database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Generator[House]:
    monkeypatch.setattr("tests.engine.house.small_site", site)
    house = House(database, database_url)
    house.cloud.offers.flavors[FLAVOR] = FakeFlavor(96, 1_048_576)
    house.cloud.offers.hosts |= {n.machine: "up" for n in house.site.nodes if n.machine is not None}
    resources = {k: v for k, v in house.world.resources.items() if k != "ib0"}
    house.world = replace(house.world, resources=resources, fabrics={})
    yield house
    house.close()


def test_whole_machines_work_from_order_to_receipt_on_omni_path(house: House) -> None:
    """Placed by the fabric's leaves, without a segment or an RDMA network; the plan says what weft doesn't do."""
    pod = house.run(house.order(ORDER), PodState.READY)
    assert pod.plan.fabric == "ib0" and pod.plan.segment is None and pod.plan.allotment.rdma_cidr == ""
    assert {n.leaf for n in pod.plan.placement.nodes} <= {s.name for s in house.site.switches}
    kinds = {r.kind for r in pod.plan.graph.resources}
    assert Kind.SEGMENT not in kinds and Kind.MACHINE in kinds
    assert not any("rdma" in r.key for r in pod.plan.graph.resources)
    [limit] = pod.plan.limits
    assert limit.startswith("Omni-Path: weft doesn't keep pods apart on it") and limit in plan_text(pod.plan)
    house.release(pod)
    house.run(pod, PodState.RELEASED)
    signed = house.store.records.receipt(pod.id)
    assert signed is not None and signed.receipt.clean


@pytest.mark.parametrize(
    ("nodes", "fabric", "reason"),
    [
        (
            {"kind": "virtual"},
            {},
            "virtual machines are not possible on fabric ib0: Omni-Path adapters have no SR-IOV",
        ),
        (
            {"kind": "virtual", "sharing": "shared"},
            {"hcas": "shared"},
            "shared adapters are not possible on fabric ib0: Omni-Path adapters have no SR-IOV",
        ),
    ],
)
def test_unsupported_order_is_refused_with_the_reason(
    house: House, nodes: dict[str, str], fabric: dict[str, str], reason: str
) -> None:
    flavor = (
        "gpu8" if "gpu8" in house.site.clouds["lab"].flavors else next(iter(house.site.clouds["lab"].flavors))
    )
    document = ORDER.model_dump(mode="json", exclude_none=True)
    document["nodes"] = {"count": 1, "image": "tiny", "flavor": flavor} | {
        k: v for k, v in nodes.items() if (k, v) != ("kind", "virtual")
    }
    document["fabric"] = {"name": "ib0", **fabric}
    with pytest.raises(RefusedError, match=reason) as refused:
        house.service.pods.plan(house.request(), Order.model_validate(document))
    assert "nodes.kind: bare_metal" in str(vars(refused.value))


def test_address_range_for_a_missing_network_is_refused(house: House) -> None:
    document = ORDER.model_dump(mode="json", exclude_none=True) | {"network": {"rdma": "10.77.0.0/24"}}
    with pytest.raises(InputError, match="on fabric ib0 the pod has no RDMA network"):
        house.service.pods.plan(house.request(), Order.model_validate(document))


def test_site_check_rejects_features_omni_path_lacks() -> None:
    assert check_site(site()) == []
    assert any("is Omni-Path: bare metal only" in hint for hint in hints(site()))
    document = site().model_dump(mode="json")
    document["fabrics"]["ib0"]["manager"] = {"driver": "opensm"}
    document["nodes"][0]["hcas"][0]["vfs"] = 4
    found = [
        f"{'.'.join(map(str, p))}: {allowed}" for p, _, allowed in check_site(Site.model_validate(document))
    ]
    assert any(f.startswith("fabrics.ib0.manager.driver: none on a fabric of type omni-path") for f in found)
    assert any("Omni-Path adapters have no virtual functions" in f for f in found)
