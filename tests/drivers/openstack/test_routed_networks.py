"""Networks with several segments, for which Neutron shows `segments` and no `provider:*` (ml2's
`TypeManager.extend_network_dict_provider`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackFacts, Sessions
from weft.model.errors import UnknownError
from weft.model.resources import Resource
from weft.model.specs import NetworkSpec

PLACE, NUMBER, TYPE = "provider:physical_network", "provider:segmentation_id", "provider:network_type"
Cloud = tuple[TinyCloud, OpenStackFacts]


def part(place: str, number: int) -> dict[str, object]:
    return {PLACE: place, NUMBER: number, TYPE: "vlan"}


def network(name: str, project: str, **more: object) -> dict[str, object]:
    return {"id": name, "name": name, "description": "", "project_id": project, **more}


ONE = network("n1", PROJECT, **part("gpunet", 7))
ROUTED = network("routed", "someone", segments=[part("gpunet", 8), part("gpunet", 9), part("other", 10)])


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with tiny_cloud() as (tiny, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        tiny.things["networks"], tiny.things["ports"] = [ONE, ROUTED], []
        yield tiny, OpenStackFacts(sessions)
        sessions.close()


def test_all_segments_of_a_network_count_as_used(cloud: Cloud) -> None:
    """An order gets none of these numbers."""
    _, facts = cloud
    assert facts.segments(["gpunet", "other"]) == {"gpunet": {7, 8, 9}, "other": {10}}


@pytest.mark.parametrize(("vlan", "there"), [(100, []), (9, ["routed"])])
def test_segment_of_a_routed_network_blocks_the_sites_vlan(cloud: Cloud, vlan: int, there: list[str]) -> None:
    """It can't be adopted as the site's network; other networks can still be planned."""
    _, facts = cloud
    spec = NetworkSpec(physical_network="gpunet", segment=vlan, port_security=True)
    wanted = Resource(key="network/control", name="control", where="lab", spec=spec)
    found = facts.alike([wanted], {}).get(wanted.key, [])
    assert [(one.id, one.same) for one in found] == [(name, False) for name in there]


def test_tenant_networks_are_listed_next_to_a_routed_network(cloud: Cloud) -> None:
    """It isn't a tenant's, since only administrators can create one."""
    _, facts = cloud
    assert [n.id for n in facts.networks_on("gpunet")] == ["n1"]


def test_only_the_network_without_shown_segments_is_unknown(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    """Its numbers are left out with a warning, unless no network shows any, since then a policy is missing."""
    tiny, facts = cloud
    tiny.things["networks"].append(network("hidden", "someone"))
    assert [n.id for n in facts.networks_on("gpunet")] == ["n1"]
    assert facts.segments(["gpunet"])["gpunet"] == {7, 8, 9}
    assert "segments of hidden: " in caplog.text and "get_network:segments" in caplog.text
    tiny.shows_segments = False
    tiny.things["networks"] = [ONE, network("hidden", "someone")]
    assert facts.segments(["gpunet", "third"])["gpunet"] == {7}
    with pytest.raises(UnknownError, match="segments"):
        facts.networks_on("gpunet")
    tiny.things["networks"] = [network("hidden", "someone")]
    for ask in (lambda: facts.networks_on("gpunet"), lambda: facts.segments(["other"])):
        with pytest.raises(UnknownError, match="provider"):
            ask()
