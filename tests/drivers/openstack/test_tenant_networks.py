"""Tenants' networks are read completely or not at all: what Neutron hides or doesn't answer is never nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.drivers.openstack.tinycloud import PROJECT, Reply, TinyCloud, tiny_cloud
from weft.drivers.openstack import OpenStackFacts, Sessions
from weft.model.errors import UnknownError
from weft.ports.tenantnetworks import TenantPort

TEAM_B = "ffffffffffffffffffffffffffffffbb"
NET = "00000000-aaaa-4000-8000-00000000000a"
PORT = "00000000-bbbb-4000-8000-00000000000b"


@pytest.fixture
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TinyCloud, OpenStackFacts]]:
    with tiny_cloud() as (cloud, text):
        file = tmp_path_factory.mktemp("tiny") / "clouds.yaml"
        file.write_text(text)
        sessions = Sessions("weft", [file])
        yield cloud, OpenStackFacts(sessions)
        sessions.close()


def network(**more: Any) -> dict[str, Any]:
    provider = {"network_type": "vlan", "physical_network": "ibnet", "segmentation_id": 1793}
    row = {"id": NET, "name": "mine", "project_id": "team-b", "description": ""}
    return {**row, **{f"provider:{k}": v for k, v in provider.items()}, **more}


def port(**more: Any) -> dict[str, Any]:
    binding = {"host_id": "gpu01", "vnic_type": "baremetal", "vif_type": "other", "profile": {}}
    row = {
        "id": PORT,
        "name": "p",
        "network_id": NET,
        "mac_address": "7c:fe:90:29:26:52",
        "device_id": "",
        "device_owner": "",
        "extra_dhcp_opts": [],
        "fixed_ips": [{"ip_address": "198.18.0.5"}],
    }
    return {**row, **{f"binding:{k}": v for k, v in binding.items()}, **more}


def test_port_fields_are_read_from_neutron(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    tiny, facts = cloud
    options = [
        {"opt_name": "client-id", "opt_value": "ff:01", "ip_version": 4},
        {"opt_name": "61", "opt_value": "ff:02", "ip_version": 4},
        {"opt_name": "mtu", "opt_value": "2044", "ip_version": 4},
    ]
    profile = {"pci_slot": "0000:0c:00.0", "physical_network": "ibnet"}
    tiny.things["networks"] = [network()]
    tiny.things["ports"] = [port(extra_dhcp_opts=options, **{"binding:profile": profile})]
    (found,) = facts.networks_on("ibnet")
    assert (found.id, found.name, found.project_id, found.number, found.mark) == (
        NET,
        "mine",
        "team-b",
        1793,
        None,
    )
    wanted = TenantPort(
        PORT, "p", "7c:fe:90:29:26:52", "baremetal", "other", "gpu01", "0000:0c:00.0", ("ff:01", "ff:02")
    )
    assert found.ports == (wanted,) and facts.port_now(PORT, TEAM_B) == wanted
    tiny.things["ports"] = [port(fixed_ips=[])]
    assert [p.has_address for n in facts.networks_on("ibnet") for p in n.ports] == [False]


@pytest.mark.parametrize(
    "owner, server", [("compute:nova", "s1"), ("network:dhcp", ""), ("", ""), (None, "")]
)
def test_only_devices_of_nova_are_servers(
    cloud: tuple[TinyCloud, OpenStackFacts], owner: str | None, server: str
) -> None:
    tiny, facts = cloud
    tiny.things["ports"] = [port(device_id="s1", device_owner=owner)]
    found = facts.port_now(PORT, TEAM_B)
    assert found is not None and found.server == server


def test_networks_of_other_types_are_left_out(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """If Neutron ignored a filter: a flat network, and one of several segments."""
    tiny, facts = cloud
    other = network(id="1", **{"provider:physical_network": "physnet1"})
    flat = network(id="2", **{"provider:network_type": "flat", "provider:segmentation_id": None})
    many = network(
        id="3", **{f"provider:{k}": None for k in ("network_type", "physical_network", "segmentation_id")}
    )
    tiny.things["networks"] = [other, flat, many, network()]
    assert [n.id for n in facts.networks_on("ibnet")] == [NET]


@pytest.mark.parametrize(
    "field", ["binding:host_id", "binding:vif_type", "binding:profile", "extra_dhcp_opts"]
)
def test_partly_shown_port_is_unknown(cloud: tuple[TinyCloud, OpenStackFacts], field: str) -> None:
    tiny, facts = cloud
    row = port()
    del row[field]
    tiny.things["networks"], tiny.things["ports"] = [network()], [row]
    with pytest.raises(UnknownError, match=field):
        facts.networks_on("ibnet")
    with pytest.raises(UnknownError, match=field):
        facts.port_now(PORT, TEAM_B)


def test_networks_without_segments_shown_are_unknown(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    tiny, facts = cloud
    row = network()
    del row["provider:segmentation_id"]
    tiny.things["networks"], tiny.shows_segments = [row], False
    with pytest.raises(UnknownError, match="get_network:provider"):
        facts.networks_on("ibnet")


@pytest.mark.parametrize(
    "reply", [Reply(500, {}), Reply(200, {}), Reply(200, {"ports": None}), Reply(404, "gone", own=False)]
)
def test_missing_answer_is_not_a_listing(cloud: tuple[TinyCloud, OpenStackFacts], reply: Reply) -> None:
    tiny, facts = cloud
    tiny.things["networks"], tiny.things["ports"] = [network()], [port()]
    tiny.lies = [("GET .*/ports.*", reply)]
    with pytest.raises(UnknownError):
        facts.networks_on("ibnet")


def with_group(tiny: TinyCloud) -> None:
    """Add the project's group `default`, which the project can't delete."""
    tiny.things["security_groups"].append({"id": "sg-b", "name": "default", "project_id": TEAM_B})


def assert_unknown(facts: OpenStackFacts, why: str) -> None:
    """Neither whether the network is gone nor the port's state can be read."""
    with pytest.raises(UnknownError, match=why):
        facts.is_gone(NET, TEAM_B)
    with pytest.raises(UnknownError, match=why):
        facts.port_now(PORT, TEAM_B)


@pytest.mark.parametrize("served", [False, True])
def test_only_neutrons_own_404_proves_absence(cloud: tuple[TinyCloud, OpenStackFacts], served: bool) -> None:
    """With a role of weft's in the project and without; also if Keystone doesn't have the project any more."""
    tiny, facts = cloud
    with_group(tiny)
    tiny.served = {TEAM_B} if served else set()
    tiny.things["networks"], tiny.things["ports"] = [network()], [port()]
    assert not facts.is_gone(NET, TEAM_B)
    assert (found := facts.port_now(PORT, TEAM_B)) and found.id == PORT
    tiny.things["networks"], tiny.things["ports"] = [], []
    assert facts.is_gone(NET, TEAM_B) and facts.port_now(PORT, TEAM_B) is None
    tiny.lies = [("GET .*/(ports|networks)/.*", Reply(404, "<html>proxy</html>", "text/html", own=False))]
    assert_unknown(facts, "404")


def test_lost_rights_over_other_projects_make_all_unknown(
    cloud: tuple[TinyCloud, OpenStackFacts],
) -> None:
    """Neutron itself then answers empty listings and 404."""
    tiny, facts = cloud
    with_group(tiny)
    tiny.things["networks"] = [network(project_id=TEAM_B)]
    tiny.things["ports"] = [port(project_id=TEAM_B)]
    tiny.narrow = {PROJECT}
    assert facts.networks_on("ibnet") == []
    assert_unknown(facts, "default security group of project " + TEAM_B)
    tiny.narrow = set()
    assert not facts.is_gone(NET, TEAM_B)


def test_neutron_listing_nothing_is_unknown(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    tiny, facts = cloud
    tiny.things = {}
    assert_unknown(facts, "every project has one")
    tiny.lies = [("GET .*/security-groups", Reply(200, {"security_groups": None}))]
    assert_unknown(facts, "security_groups")


def test_api_server_without_wefts_policies_is_not_believed(
    cloud: tuple[TinyCloud, OpenStackFacts],
) -> None:
    """It answers 404 to weft's own token; a token of the project, which needs no policies, decides."""
    tiny, facts = cloud
    with_group(tiny)
    tiny.served = {TEAM_B}
    tiny.things["networks"] = [network(project_id=TEAM_B)]
    tiny.things["ports"] = [port(project_id=TEAM_B)]
    # 404 only to weft's own token, although it sees the group
    tiny.missing_for = {PROJECT}
    assert not facts.is_gone(NET, TEAM_B)
    assert facts.port_now(PORT, TEAM_B) is not None


def test_served_project_without_a_token_is_unknown(
    cloud: tuple[TinyCloud, OpenStackFacts],
) -> None:
    tiny, facts = cloud
    with_group(tiny)
    listed = [{"id": PROJECT, "name": "service"}, {"id": TEAM_B, "name": "b"}]
    tiny.lies = [("GET /v3/auth/projects", Reply(200, {"projects": listed}))]
    assert_unknown(facts, "401")
    tiny.lies = [("GET /v3/auth/projects", Reply(200, {}))]
    assert_unknown(facts, "projects")


def test_ports_of_all_projects_are_found_by_host_and_address(cloud: tuple[TinyCloud, OpenStackFacts]) -> None:
    """Rows that a filter should remove are removed; unless another project's resources are shown nothing is known."""
    tiny, facts = cloud
    with_group(tiny)
    other = port(id="1", mac_address="FA:16:3E:00:00:01", project_id="team-c", **{"binding:host_id": "gpu02"})
    tiny.things["ports"] = [port(project_id=TEAM_B), other]
    (found,) = facts.ports_at(TEAM_B, hosts=["gpu01"])
    assert (found.id, found.network, found.project_id, found.vnic_type) == (PORT, NET, TEAM_B, "baremetal")
    assert [p.id for p in facts.ports_at(TEAM_B, macs=["fa:16:3e:00:00:01"])] == ["1"]
    assert not facts.ports_at(TEAM_B, hosts=["gpu03"], macs=["fa:16:3e:00:00:02"])
    tiny.things["ports"] = [port()]
    with pytest.raises(UnknownError, match="project_id"):
        facts.ports_at(TEAM_B, hosts=["gpu01"])
    tiny.things["ports"], tiny.things["security_groups"] = [], []
    with pytest.raises(UnknownError, match="default security group"):
        facts.ports_at(TEAM_B, hosts=["gpu01"])
