"""An Ethernet fabric's description, port by port: mistakes are reported with path, value and what is allowed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft.drivers.switches.capabilities import capabilities_of
from weft.model.site import Site
from weft.planning.fabric.topology import Topology
from weft.planning.site.check import check_site, hints
from weftlab.layout import LabError, Layout
from weftlab.site import make_site, settings

Document = dict[str, Any]


def lab(**asked: Any) -> Site:
    place = Layout(Path("/nowhere"), Path("/nowhere"), 23000)
    return make_site(settings(nodes=4, leaves=2, spines=2, ipus=0, fabric="ethernet", **asked), place)


def switching(document: Document) -> Document:
    return document["fabrics"]["roce"]["manager"]["switching"]


def problems(change: Callable[[Document], object]) -> list[str]:
    document = lab().model_dump(mode="json")
    change(document)
    found = check_site(Site.model_validate(document))
    return [f"{'.'.join(map(str, path))}: {value!r}: {allowed}" for path, value, allowed in found]


def test_lab_fabric_is_valid_with_its_leaves() -> None:
    site = lab()
    assert check_site(site) == [] and hints(site) == ()
    topology = Topology.of(site, "roce")
    assert topology.leaves == {"tor01": ("roce01", "roce02"), "tor02": ("roce03", "roce04")}
    assert topology.uplinks == {"tor01": 200, "tor02": 200}, "two links to spines, each as fast as an adapter"


def test_link_rate_overrides_the_default() -> None:
    document = lab().model_dump(mode="json")
    for link in switching(document)["links"]:
        link["rate_gbps"] = 400
    assert Topology.of(Site.model_validate(document), "roce").uplinks == {"tor01": 800, "tor02": 800}


def test_cables_described_by_ports_are_counted() -> None:
    """Two adapters of each of four hosts, each of two leaves to each of two spines; the table `links` is empty."""
    site = lab()
    assert site.links == () and site.link_count == 8 + 4
    document = site.model_dump(mode="json")
    switching(document)["links"].pop()
    assert Site.model_validate(document).link_count == 8 + 3


def test_peer_links_are_not_uplinks() -> None:
    document = lab().model_dump(mode="json")
    switching(document)["links"].append({"a": "tor01/Ethernet39", "b": "tor02/swp39", "peer": True})
    site = Site.model_validate(document)
    assert check_site(site) == []
    assert Topology.of(site, "roce").uplinks == {"tor01": 200, "tor02": 200}


def test_hints_name_vlan_owner_and_unreadable_switches() -> None:
    """Hints of the site's check, and limits of the fabric, which plans and audits show."""
    document = lab().model_dump(mode="json")
    switching(document)["configured_by"] = "neutron"
    site = Site.model_validate(document)
    assert any("Neutron's ML2 driver" in hint for hint in hints(site))
    assert not capabilities_of(site, "roce").configures and capabilities_of(site, "roce").limits
    generic = {"interface": "generic", "device_type": "netmiko_juniper", "url": "ssh://127.0.0.1"}
    document = lab().model_dump(mode="json")
    switching(document)["switches"][0].update(generic)
    [limit] = capabilities_of(Site.model_validate(document), "roce").limits
    assert limit.startswith("tor01 (netmiko_juniper) can't be read back")
    assert capabilities_of(lab(), "roce").limits == ()


@pytest.mark.parametrize("place", ["tor01:abc", "tor01:99999", "tor01:0", "tor01:22:33", "[::1", ":22"])
def test_site_with_an_impossible_port_or_host_in_an_address_is_refused(place: str) -> None:
    for scheme, access in (
        ("https", {}),
        ("ssh", {"interface": "generic", "device_type": "netmiko_juniper"}),
    ):
        document = lab().model_dump(mode="json")
        switching(document)["switches"][0].update(access, url=f"{scheme}://{place}")
        with pytest.raises(ValueError, match="a port of 1 to 65535"):
            Site.model_validate(document)


FIRST = "fabrics.roce.manager.switching"
CASES: dict[str, tuple[Callable[[Document], object], list[str]]] = {
    "a switch without access": (
        lambda d: switching(d)["switches"].pop(3),
        [f"{FIRST}.switches: 3: every switch of fabric roce: agg02 missing"],
    ),
    "an unknown switch": (
        lambda d: switching(d)["switches"][0].update(name="tor99"),
        [
            f"{FIRST}.switches.0.name: 'tor99': switches of fabric roce: agg01, agg02, tor01, tor02",
            f"{FIRST}.switches: 4: every switch of fabric roce: tor01 missing",
        ],
    ),
    "one address for two": (
        lambda d: switching(d)["switches"][1].update(url="https://127.0.0.1:23040/"),
        [
            f"{FIRST}.switches.1.url: 'https://127.0.0.1:23040': a switch's address must be unique; "
            "switch tor01 already has it"
        ],
    ),
    "a link to a host's port": (
        lambda d: switching(d)["links"][0].update(a="tor01/Ethernet1"),
        [
            f"{FIRST}.links.0.a: 'tor01/Ethernet1': a switch's port must be unique; "
            "roce01/mlx5_0 already has it"
        ],
    ),
    "a link that goes nowhere": (
        lambda d: switching(d)["links"][0].update(b="core/Ethernet1"),
        [f"{FIRST}.links.0.b: 'core/Ethernet1': a port of a switch of fabric roce"],
    ),
    "a link from a switch to itself": (
        lambda d: switching(d)["links"][0].update(b="tor01/Ethernet40"),
        [f"{FIRST}.links.0.b: 'tor01/Ethernet40': the two ends of a link must be on different switches"],
    ),
    "leaves that don't reach each other": (
        lambda d: switching(d).update(links=[k for k in switching(d)["links"] if k["a"].startswith("tor01")]),
        [f"{FIRST}.links: 'tor02': links from tor02 to tor01: a fabric must be connected"],
    ),
    "a bond of no adapter": (
        lambda d: switching(d).update(bundles=[{"ports": ["tor01/Port-Channel7", "tor02/bond7"]}]),
        [
            f"{FIRST}.bundles.0.ports: 'tor01/Port-Channel7, tor02/bond7': with exactly one end that is the "
            "switch_port of an adapter; no adapter has any of these"
        ],
    ),
    "a bond of two adapters": (
        lambda d: switching(d).update(bundles=[{"ports": ["tor01/Ethernet1", "tor01/Ethernet2"]}]),
        [
            f"{FIRST}.bundles.0.ports: 'tor01/Ethernet1, tor01/Ethernet2': with exactly one end that is the "
            "switch_port of an adapter; these are roce01/mlx5_0, roce01/mlx5_1's"
        ],
    ),
    "a parking VLAN among the pods'": (
        lambda d: switching(d).update(parking=300),
        [f"{FIRST}.parking: 300: a VLAN outside of 257 to 382, which are for pods"],
    ),
    "a switch that can't be verified": (
        lambda d: [
            switching(d).update(configured_by="neutron"),
            switching(d)["switches"][0].update(
                interface="generic", device_type="netmiko_juniper", url="ssh://127.0.0.1:22"
            ),
        ],
        [
            f"{FIRST}.switches.0.interface: 'generic': an interface that can be read: where Neutron sets the VLANs, "
            "weft only reads them"
        ],
    ),
    "more cables than ports": (
        lambda d: d["switches"][0].update(ports=5),
        ["switches.0.ports: 5: at least 6: that many of its ports are cabled"],
    ),
    "an adapter on a spine": (
        lambda d: d["nodes"][0]["hcas"][0].update(switch_port="agg02/agg02p30"),
        ["nodes.0.hcas.0.switch_port: 'agg02/agg02p30': a port of a leaf: agg02 is a spine"],
    ),
    "a cable said twice": (
        lambda d: d.update(links=[{"a": "tor01", "a_port": 9, "b": "agg01", "b_port": 9}]),
        [
            "links.0.a: 'tor01': not in the table links: cables of fabric roce are in manager.switching and "
            "switch_port"
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_mistakes_are_reported(case: str) -> None:
    change, wanted = CASES[case]
    assert problems(change) == wanted


def test_switching_is_only_for_driver_switches() -> None:
    document = lab().model_dump(mode="json")
    description = switching(document)
    place = Layout(Path("/nowhere"), Path("/nowhere"), 23000)
    other = make_site(settings(nodes=4), place).model_dump(mode="json")
    other["fabrics"]["ib0"]["manager"]["switching"] = description
    found = check_site(Site.model_validate(other))
    assert [(path, allowed) for path, _, allowed in found] == [
        (("fabrics", "ib0", "manager", "switching"), "nothing: only a manager of driver switches has it")
    ]


def test_fabric_without_switching_allows_only_plans() -> None:
    document = lab().model_dump(mode="json")
    document["fabrics"]["roce"]["manager"]["switching"] = None
    [hint] = hints(Site.model_validate(document))
    assert (
        hint == "fabric roce has no manager.switching: weft can plan on it, but can't configure its switches"
    )


def test_lab_with_both_fabrics_is_valid() -> None:
    place = Layout(Path("/nowhere"), Path("/nowhere"), 23000)
    site = make_site(settings(nodes=4, ipus=0, fabric="both"), place)
    assert check_site(site) == []
    assert set(site.fabrics) == {"ib0", "roce"}
    assert len(Topology.of(site, "roce").locations) == 4 and "gpu01" in Topology.of(site, "ib0").locations


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [
        ({"switches": "junos"}, "--switches junos is not allowed: one of eos, nvue, sonic, ovs, mixed"),
        ({"leaves": 18}, "18 leaves and 2 spines are not allowed on an Ethernet fabric: 18 switches at most"),
        ({"fabric_manager": "ufm"}, "--fabric-manager is not allowed with --fabric ethernet"),
    ],
)
def test_impossible_lab_is_refused(asked: dict[str, Any], wrong: str) -> None:
    with pytest.raises(LabError, match=wrong):
        settings(**{"nodes": 40, "leaves": 2, "spines": 2, "fabric": "ethernet", **asked})


def test_qos_needs_ethernet_and_reporting_switches() -> None:
    def refuse(document: Document) -> None:
        document["fabrics"]["roce"]["qos"] = {"policy": "refuse"}

    [found] = problems(refuse)
    assert found.startswith("fabrics.roce.qos.policy: 'refuse': warn: agg02 can't say their settings")

    def all_speak(document: Document) -> None:
        refuse(document)
        for switch in switching(document)["switches"]:
            switch.update(interface="eos", url=f"https://{switch['name']}.example")

    assert problems(all_speak) == []

    def elsewhere(document: Document) -> None:
        document["fabrics"]["ib0"] = {
            "type": "infiniband",
            "physical_network": "ibnet",
            "segments": {"first": 101, "last": 200},
            "manager": {"driver": "ufm", "addresses": ["https://ufm.example"]},
            "qos": {},
        }

    assert any(p.startswith("fabrics.ib0.qos") for p in problems(elsewhere))


def test_network_mtu_is_limited_by_adapters_and_switches() -> None:
    def larger(document: Document) -> None:
        document["fabrics"]["roce"] |= {"mtu": 9000, "qos": {"mtu": 4200}}

    [found] = problems(larger)
    assert found == "fabrics.roce.mtu: 9000: at most 4200, the MTU that qos wants of adapters and switches"
    assert problems(lambda document: document["fabrics"]["roce"].update(mtu=1500, qos={})) == []


def test_probe_agents_are_unique_and_on_known_nodes() -> None:
    def two(document: Document) -> None:
        [agent] = document["fabrics"]["roce"]["traffic"]["agents"]
        document["fabrics"]["roce"]["traffic"]["agents"] += [{**agent, "nodes": ["roce01", "gpu99"]}]

    found = problems(two)
    assert [p.partition(":")[0].rpartition("agents.1.")[2] for p in found] == [
        "name",
        "url",
        "nodes.0",
        "nodes.1",
    ]
    assert "nodes with an adapter on fabric roce: roce01" in found[3]

    def infiniband(document: Document) -> None:
        traffic = document["fabrics"]["roce"]["traffic"]
        manager = {"driver": "ufm", "addresses": ["https://ufm.example"]}
        document["fabrics"]["ib0"] = {
            "type": "infiniband",
            "physical_network": "ibnet",
            "segments": {"first": 101, "last": 200},
            "manager": manager,
            "traffic": traffic,
        }

    assert any(p.startswith("fabrics.ib0.traffic") for p in problems(infiniband))
