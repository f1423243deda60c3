"""What Neutron makes of a network: accepted, or reported with what an operator must change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackDriver, Sessions
from weft.model.errors import PermanentError
from weft.model.owner import Owner
from weft.model.resources import Resource
from weft.model.specs import NetworkSpec
from weft.ports.resources import Scope

SCOPE = Scope("lab", Owner.pod("00000000-1111-2222-3333-444444444444"), "train", PROJECT)
NETWORK = Resource(
    key="network/management",
    name="weft-00000000-network-management",
    where="lab",
    spec=NetworkSpec(port_security=True),
)


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TinyCloud, OpenStackDriver]]:
    with tiny_cloud() as (cloud, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        driver = OpenStackDriver("lab", sessions)
        yield cloud, driver
        driver.close()
        sessions.close()


def made(of_type: str, physical_network: str | None) -> dict[str, object]:
    return {
        "id": "net-1",
        "name": NETWORK.name,
        "description": SCOPE.mark(NETWORK.key).text(),
        "project_id": PROJECT,
        "created_at": "2026-01-01T00:00:00Z",
        "provider:network_type": of_type,
        "provider:physical_network": physical_network,
        "provider:segmentation_id": 13,
        "port_security_enabled": True,
    }


@pytest.mark.parametrize("of_type", ["geneve", "vxlan", "gre"])
def test_overlay_network_is_accepted_with_its_number(
    cloud: tuple[TinyCloud, OpenStackDriver], of_type: str
) -> None:
    """Whatever the number is, nothing differs."""
    tiny, driver = cloud
    row = made(of_type, None)
    tiny.lies = [("POST .*/networks", Reply(201, {"network": row}))]
    assert driver.create(SCOPE, [NETWORK], {})[NETWORK.key].id == "net-1"
    tiny.lies, tiny.things["networks"] = [], [row]
    seen = driver.find(SCOPE, [NETWORK], {NETWORK.key: "net-1"})[NETWORK.key]
    assert seen.differences == () and (seen.facts["type"], seen.facts["segment"]) == (of_type, 13)


def test_vlan_picked_by_neutron_is_refused(cloud: tuple[TinyCloud, OpenStackDriver]) -> None:
    """It may be one that the site keeps closed or a fabric needs, so no server is put on it."""
    tiny, driver = cloud
    row = made("vlan", "physnet1")
    tiny.lies = [("POST .*/networks", Reply(201, {"network": row}))]
    error = driver.create(SCOPE, [NETWORK], {})[NETWORK.key].error
    assert isinstance(error, PermanentError) and "project_network_types" in error.then
    tiny.lies, tiny.things["networks"] = [], [row]
    seen = driver.find(SCOPE, [NETWORK], {NETWORK.key: "net-1"})[NETWORK.key]
    assert [(d.field, d.wanted, d.observed) for d in seen.differences] == [("overlay", "yes", "no")]


def test_mtu_that_neutron_cannot_give_names_its_options(cloud: tuple[TinyCloud, OpenStackDriver]) -> None:
    """With Neutron's own words, from its `_validate_mtu`."""
    tiny, driver = cloud
    said = "Invalid input for operation: Requested MTU is too big, maximum is 1500."
    body = {"NeutronError": {"type": "InvalidInput", "message": said, "detail": ""}}
    tiny.lies = [("POST .*/networks", Reply(400, body))]
    spec = NetworkSpec(physical_network="rocenet", segment=257, port_security=False, mtu=9000)
    wanted = NETWORK.model_copy(update={"spec": spec})
    error = driver.create(SCOPE, [wanted], {})[NETWORK.key].error
    assert isinstance(error, PermanentError) and "maximum is 1500" in error.answer
    assert "physical_network_mtus" in error.then and "mtu in the site" in error.then
