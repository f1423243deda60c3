"""Names that an order leaves out resolve to those that its pod has, whatever else the site offers by now."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from ipaddress import IPv4Network

import pytest

from tests.engine.changes.test_change_loop import access, apply, settle, sized
from tests.engine.house import House
from tests.engine.life.test_parts import small
from tests.engine.timehouse import look
from weft.model.order import Order
from weft.model.pod import PodState
from weft.model.site import Site

BY_ACCELERATORS = Order.model_validate(
    {
        "name": "train",
        "nodes": {"count": 2, "accelerators": {"type": "h100", "count": 8}, "image": "tiny"},
        "lease": {"duration": "2h"},
    }
)


def another_fabric(site: Site) -> Site:
    """The site with its last node on a fabric of its own."""
    document = site.model_dump(mode="json")
    document["fabrics"]["ib9"] = document["fabrics"]["ib0"]
    last = [n for n in document["nodes"] if n["role"] == "compute"][-1]
    for hca in last["hcas"]:
        hca["fabric"] = "ib9"
    gone = {f"{last['name']}/{h['name']}" for h in last["hcas"]}
    document["links"] = [x for x in document["links"] if not gone & {x["a"], x["b"]}]
    return Site.model_validate(document)


def another_cloud(site: Site) -> Site:
    clouds = {**site.clouds, "other": site.clouds["lab"]}
    return site.model_copy(update={"clouds": clouds})


def another_flavor(site: Site) -> Site:
    lab = site.clouds["lab"]
    flavors = {**lab.flavors, "a-gpu8": lab.flavors["gpu8"], "a-gpu1": lab.flavors["gpu1"]}
    return site.model_copy(update={"clouds": {"lab": lab.model_copy(update={"flavors": flavors})}})


@pytest.mark.parametrize("site", [another_fabric, another_cloud, another_flavor])
@pytest.mark.parametrize("what", ["access", "extend", "more", "parts"])
def test_pod_changes_with_omitted_names_resolved_as_before(
    house: House, site: Callable[[Site], Site], what: str
) -> None:
    """Its own access and lease, and more nodes of the same kind: nothing of it is missing, nor anything else's."""
    order = BY_ACCELERATORS if what != "parts" else small("train", 2, lease={"duration": "2h"})
    pod = house.run(house.order(order), PodState.READY)
    house.store.activate_site(site(house.site), "test")
    if what == "extend":
        assert pod.lease_end is not None
        house.service.pods.extend(house.request(), "train", pod.lease_end + timedelta(hours=1))
        settle(house, pod)
        return
    if what == "access":
        apply(house, access(order, ssh_from=(IPv4Network("9.0.0.0/8"),)))
    else:
        apply(house, sized(3, order))
    now = settle(house, pod)
    assert (now.plan.cloud, now.plan.flavor, now.plan.fabric) == (
        pod.plan.cloud,
        pod.plan.flavor,
        pod.plan.fabric,
    )
    assert look(house, pod).generation == 2


def test_added_nodes_use_the_pods_own_flavor_and_image(house: House) -> None:
    """Although the order's accelerators lead to another flavor now, whose needs of hosts were never queried."""
    offers = house.cloud.offers
    offers.flavors["a-gpu8"] = offers.flavors["gpu8"]
    offers.image_properties["tiny"] = {"trait:CUSTOM_NEW": "required"}
    offers.traits |= {host: {"CUSTOM_NEW"} for host in ("gpu01", "gpu02", "gpu09")}
    pod = house.run(house.order(BY_ACCELERATORS), PodState.READY)
    house.store.activate_site(another_flavor(house.site), "test")
    apply(house, sized(3, BY_ACCELERATORS))
    assert set(settle(house, pod).nodes) == {"gpu01", "gpu02", "gpu09"}
