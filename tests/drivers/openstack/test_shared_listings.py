"""What a pod's verdict needs of its networks is listed once: for its own resources, and for others' on them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, tiny_cloud
from tests.drivers.openstack.tinyneutron import Neutron
from weft.drivers.openstack import OpenStackDriver, OpenStackFacts, Sessions, onnetworks
from weft.model.errors import UnknownError
from weft.model.owner import Owner
from weft.model.resources import Observed, Resource, Status
from weft.model.specs import NetworkSpec, PortSpec, SubnetSpec
from weft.model.uses import Use
from weft.ports.listings import SharedListings
from weft.ports.resources import Scope

SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
OTHER = "fedcba9876543210fedcba9876543210"
NETS = ("rdma", "mgmt")


def resource(key: str, spec: NetworkSpec | SubnetSpec | PortSpec) -> Resource:
    return Resource(key=key, name=f"weft-{key.replace('/', '-')}", where="lab", spec=spec)


def port(net: str, node: str) -> Resource:
    spec = PortSpec(
        network=f"network/{net}",
        subnet=f"subnet/{net}",
        vnic_type="normal",
        host=node,
        address="",
        security_groups=(),
    )
    return resource(f"port/{net}/{node}", spec)


POD = [
    *(
        resource(f"network/{n}", NetworkSpec(physical_network="ibnet", segment=i, port_security=False))
        for i, n in enumerate(NETS)
    ),
    *(
        resource(
            f"subnet/{n}", SubnetSpec(network=f"network/{n}", cidr="10.0.0.0/24", gateway=False, dhcp=False)
        )
        for n in NETS
    ),
    *(port(n, node) for n in NETS for node in ("gpu01", "gpu02")),
]
IDS = {r.key: f"id-{r.key.replace('/', '-')}" for r in POD}
OF_PORT: dict[str, Any] = {
    "mac_address": "fa:16:3e:00:00:01",
    "status": "DOWN",
    "port_security_enabled": False,
}
Cloud = tuple[Neutron, OpenStackDriver, OpenStackFacts]


def of_subnet(network: str) -> dict[str, Any]:
    """Fields of a subnet of one of the pod's networks. `network`: its key."""
    return {"network_id": IDS[network], "cidr": "10.0.0.0/24", "enable_dhcp": False}


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """The pod's resources, and another project's port and subnet on one of its networks."""
    with tiny_cloud(Neutron) as (tiny, text):
        assert isinstance(tiny, Neutron)
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        tiny.things |= {name: [] for name in ("rbac_policies", "networks", "subnets", "ports")}
        for one in POD:
            mark, id_ = SCOPE.mark(one.key).text(), IDS[one.key]
            if isinstance(one.spec, NetworkSpec):
                tiny.make("networks", id_, description=mark)
            elif isinstance(one.spec, SubnetSpec):
                tiny.make("subnets", id_, **of_subnet(one.spec.network), description=mark)
            else:
                assert isinstance(one.spec, PortSpec)
                tiny.port(id_, network=IDS[one.spec.network], **{**OF_PORT, "description": mark})
        tiny.port("theirs", OTHER, network=IDS["network/rdma"], **OF_PORT)
        tiny.make("subnets", "their-subnet", OTHER, **of_subnet("network/rdma"))
        sessions.own().extensions.of(sessions.own().network)
        tiny.asked.clear()
        yield tiny, driver, OpenStackFacts(sessions)
        driver.close()
        sessions.close()


def verdict(
    cloud: Cloud, listings: SharedListings | None
) -> tuple[dict[str, Observed], list[Use], Counter[str]]:
    """Own resources and uses, as a verdict reads them at the same time; and what Neutron was asked."""
    tiny, driver, facts = cloud
    tiny.asked.clear()
    networks = [IDS[f"network/{n}"] for n in NETS]
    with ThreadPoolExecutor(1) as pool:
        uses = pool.submit(facts.on_networks, PROJECT, networks, listings)
        seen = driver.find(replace(SCOPE, listings=listings), POD, IDS)
    asked = Counter(line for line in tiny.asked if " /network/" in line)
    return dict(seen), list(uses.result()), asked


def test_verdict_lists_networks_once_for_all_who_read_it(cloud: Cloud) -> None:
    """Four listings, where the driver and the search for others' things make seven; what is seen is the same."""
    seen, uses, asked = verdict(cloud, SharedListings(len(POD)))
    alone, their_uses, before = verdict(cloud, None)
    paths = ("networks", "ports", "rbac-policies", "subnets")
    assert asked == Counter(f"GET /network/{path}" for path in paths)
    assert before.total() == 7
    assert seen == alone and {o.status for o in seen.values()} == {Status.SETTLED}
    assert sorted(u.id for u in uses) == sorted(u.id for u in their_uses)
    assert {"theirs", "their-subnet"} <= {u.id for u in uses}


def test_ports_of_a_large_owner_are_listed_by_network(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnetworks, "LARGE", 4)
    seen, uses, asked = verdict(cloud, SharedListings(len(POD)))
    assert asked["GET /network/ports"] == 2 and asked.total() == 5
    assert "theirs" in {u.id for u in uses} and all(o.there for o in seen.values())


def test_missing_port_and_subnet_are_asked_for_by_their_ids(cloud: Cloud) -> None:
    """A shared listing proves no more than one of the driver's own."""
    tiny, _, _ = cloud
    gone = ("port/mgmt/gpu02", "subnet/mgmt")
    for key, rows in zip(gone, (tiny.things["ports"], tiny.things["subnets"]), strict=True):
        rows[:] = [row for row in rows if row["id"] != IDS[key]]
    seen, _, asked = verdict(cloud, SharedListings(len(POD)))
    assert [seen[key].there for key in gone] == [False, False]
    assert asked[f"GET /network/ports/{IDS[gone[0]]}"] == asked[f"GET /network/subnets/{IDS[gone[1]]}"] == 1


def test_error_of_a_shared_listing_is_everyones_and_asked_again() -> None:
    listings, begun, go_on = SharedListings(), threading.Event(), threading.Event()

    def fail() -> str:
        begun.set()
        assert go_on.wait(30)
        raise UnknownError("list ports", "network", "timeout")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(listings.once, "ports", fail)
        assert begun.wait(30)
        second = pool.submit(listings.once, "ports", lambda: "asked by itself")
        go_on.set()
        with pytest.raises(UnknownError):
            first.result()
        error = second.exception()
    assert error is None or isinstance(error, UnknownError)
    assert listings.once("ports", lambda: "now") == ("asked by itself" if error is None else "now")
