"""The page of a pod of IPUs: how many, where, and how to reach them."""

from __future__ import annotations

from tests.engine.ipuhouse import POD, order
from tests.helpers.consoles import Browser, Console
from weft.app.verbs import Request
from weft.testing.cloud_state import FakeFlavor
from weft.testing.vipu import FakeVipu


def test_page_of_an_ipu_pod_says_how_to_reach_it(pods_console: Console, browser: Browser) -> None:
    """IPUs, machines, controller and data network, as in `weft pod show`."""
    house = pods_console.house
    vipu = FakeVipu(POD, [m.name for m in house.site.ipu_machines])
    house.world.resources[POD] = house.world.machines[POD] = vipu  # type: ignore[index]
    house.cloud.offers.flavors["cpu1"] = FakeFlavor(1, 512)
    house.cloud.offers.hosts.update({"poplar1": "up", "generic1": "up"})
    browser.sign_in("alice")
    shown = house.service.pods.create(
        Request(pods_console.keystone.users["alice"][1], "127.0.0.1", "req-0"), order()
    ).ipus
    assert shown is not None
    page = browser.get("/ui/pods/bert").text
    assert f"16 of {POD}: {', '.join(shown.machines)}" in page
    assert shown.controller in page and f"VLAN {shown.data_vlan}, {shown.data_addresses}" in page
