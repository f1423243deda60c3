"""What fails with a node, rack, switch or cable, worked out from the site."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import pytest

from tests.engine.house import small_site
from tests.planning.place.test_rails import railed
from tests.planning.site.test_bonds import bonded
from tests.planning.site.test_switching import lab
from weft.model.errors import InputError
from weft.model.site import Device, Interface, Link, Site, Switch
from weft.planning.fabric.outage import Failed, Outage, outage, whole
from weft.planning.fabric.targets import target_of

tree = cache(lambda: railed(2, 3, 2))


def failing(site: Site, target: str) -> Outage:
    return outage(site, target_of(site, target).failed)


def lost(found: Outage) -> dict[str, Mapping[str, list[str]]]:
    return {name: loss.lost for name, loss in found.nodes.items()}


def test_failed_leaf_of_a_rail_costs_each_node_of_its_group_one_adapter() -> None:
    """Seven of eight rails are left, so no node loses the fabric; spines lose bandwidth."""
    found = failing(tree(), "l0-r3")
    assert lost(found) == {f"gpu{n}": {"ib0": ["mlx5_3"]} for n in (1, 2, 3)}
    assert not whole(tree(), found.nodes["gpu1"], "ib0")
    assert [(u.switch, u.before - u.after) for u in found.uplinks] == [("s0", 400), ("s1", 400)]
    assert found.touched == ("gpu1", "gpu2", "gpu3")


def test_failure_of_a_spine_costs_bandwidth_and_no_node() -> None:
    found = failing(tree(), "s0")
    assert found.nodes == {}
    assert {(u.switch, u.before, u.after) for u in found.uplinks} == {
        (f"l{g}-r{r}", 800, 400) for g in (0, 1) for r in range(8)
    }


def test_loss_of_the_last_path_cuts_off_the_smaller_part() -> None:
    """A cable or a spine may be the last path. Equal halves are cut off from each other."""
    site = small_site()
    only = [x for x in site.links if "spine02" not in (x.a, x.b)]
    links = [x for x in only if {x.a, x.b} != {"leaf04", "spine01"}]
    one = next(x for x in only if {x.a, x.b} == {"leaf04", "spine01"})
    switches = tuple(s for s in site.switches if s.name != "spine02")
    narrow = site.model_copy(update={"links": (*links, one), "switches": switches})
    found = failing(narrow, f"leaf04:{one.a_port if one.a == 'leaf04' else one.b_port}")
    behind = {"gpu13", "gpu14", "gpu15", "gpu16", "sm2"}
    assert set(found.nodes) == behind and not any(lost(found).values())
    assert all(whole(narrow, loss, "ib0") for loss in found.nodes.values())
    assert [(u.switch, u.after) for u in found.uplinks] == [("leaf04", 0), ("spine01", 3000)]
    assert set(failing(narrow, "spine01").nodes) >= {f"gpu{n:02}" for n in range(1, 17)}


def test_failed_leaf_costs_its_nodes_the_whole_fabric() -> None:
    found = failing(small_site(), "leaf01")
    assert set(found.touched) == {"gpu01", "gpu02", "gpu03", "gpu04", "sm1"}
    assert all(whole(small_site(), found.nodes[name], "ib0") for name in found.touched)


def test_rack_fails_with_its_nodes_and_switches() -> None:
    """Nodes of other racks on its leaf lose the fabric; a subnet manager in it is named."""
    site = small_site()
    nodes = tuple(n.model_copy(update={"rack": "r9"}) if n.name == "gpu02" else n for n in site.nodes)
    found = failing(site.model_copy(update={"nodes": nodes}), "rack01")
    assert {n for n, loss in found.nodes.items() if loss.everything} == {"gpu01", "gpu03", "gpu04", "sm1"}
    assert found.nodes["gpu02"].lost == {"ib0": ["mlx5_0", "mlx5_1"]}
    assert found.notes == ("fabric ib0 loses 1 of 2 subnet managers: sm1",)


@cache
def mlag() -> Site:
    document: Any = lab().model_dump(mode="json")
    bonded()(document)
    return Site.model_validate(document)


@pytest.mark.parametrize("target", ["tor02", "tor02/bond7", "tor02:bond7", "tor02 port bond7"])
def test_one_failed_switch_of_a_bond_costs_redundancy_only(target: str) -> None:
    node = mlag().nodes[0]
    found = failing(mlag(), target).nodes[node.name]
    assert not found.lost.get(node.hcas[0].fabric) or "mlx5_0" not in found.lost[node.hcas[0].fabric]
    assert f"{node.hcas[0].name} on {node.hcas[0].fabric}" in found.thinner
    both = outage(mlag(), Failed(switches=frozenset({"tor01", "tor02"}))).nodes[node.name]
    assert node.hcas[0].name in both.lost[node.hcas[0].fabric]


def test_failed_peer_link_costs_the_pairs_redundancy() -> None:
    found = failing(mlag(), "tor01/Ethernet39")
    assert found.nodes == {} and found.uplinks == ()
    assert found.notes == ("the MLAG pair of tor01 and tor02 loses its peer link, so its redundancy",)


def test_failed_switch_of_ipu_machines_costs_their_data_network() -> None:
    """It is on no fabric of the site, so what else is connected to it is unknown."""
    site = small_site()
    found = failing(site, "tor1")
    assert list(found.touched) == ["ipum1", "ipum2", "ipum3", "ipum4"]
    assert found.nodes["ipum1"].networks == ["rnic on data network of IPU-POD ipupod1"]
    assert "what is behind tor1 is unknown" in found.notes[0]
    assert f"of {len(site.units) - 4} of {len(site.units)} nodes" in found.notes[1]
    assert set(failing(site, "tor1:9").nodes) == {"ipum1"}


def management() -> Site:
    """Two nodes and a PDU on a management switch; the second node also has a bond to another switch."""
    site = small_site()
    given: dict[str, Any] = {"network": "oob", "switch": "mgmt1"}
    interfaces = (
        Interface.model_validate(
            {**given, "mac": f"02:00:00:00:00:0{n}", "address": f"10.9.0.{n}", "port": f"{n}", **one}
        )
        for n, one in enumerate(
            (
                {"device": "gpu01", "name": "bmc"},
                {"device": "gpu02", "name": "mgmt", "bond_ports": ("mgmt2/2",)},
                {"device": "pdu1", "name": "eth0"},
            ),
            1,
        )
    )
    devices = tuple(Device(name=n, kind="switch", rack="rack02") for n in ("mgmt1", "mgmt2", "mgmt3"))
    devices += (Device(name="pdu1", kind="pdu"),)
    return site.model_copy(update={"devices": devices, "interfaces": tuple(interfaces)})


def test_failed_management_switch_costs_what_the_site_describes_and_the_rest_is_unknown() -> None:
    found = failing(management(), "mgmt1")
    assert {n: (x.networks, x.thinner) for n, x in found.nodes.items()} == {
        "gpu01": (["bmc on oob"], []),
        "gpu02": ([], ["mgmt on oob"]),
    }
    assert found.touched == ("gpu01",) and found.others == ("pdu1/eth0 on oob",)
    assert any("what is behind mgmt1 is unknown" in note for note in found.notes)
    assert failing(management(), "gpu01/bmc").touched == ("gpu01",)
    assert any("mgmt3 is unknown" in note for note in failing(management(), "mgmt3").notes)
    assert failing(management(), "rack02").touched[0] == "gpu01", "a rack fails with its management switches"


def test_fabric_switch_without_cables_in_the_site_is_unknown() -> None:
    site = small_site()
    lonely = Switch(name="leaf99", fabric="ib0", level="leaf", ports=40)
    found = failing(site.model_copy(update={"switches": (*site.switches, lonely)}), "leaf99")
    assert found.notes == ("the site has no cables of switch leaf99: what depends on it is unknown",)


def test_cable_is_found_by_either_end() -> None:
    for target in ("gpu01/mlx5_1", "leaf01:2", "leaf01 port 2", "leaf01/2", "link:leaf01:2"):
        assert target_of(small_site(), target).kind == "link"
        assert lost(failing(small_site(), target)) == {"gpu01": {"ib0": ["mlx5_1"]}}, target


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("leaf1", "a node, rack, switch or link of site lab, such as leaf01"),
        ("leaf01:99", "a port of leaf01 that has a cable in site lab; cabled ports of leaf01: 1, 2, 3"),
        ("rack:leaf01", "a rack of site lab"),
        ("switch:", "a node, rack, switch or link of site lab"),
        ("gpu01/mlx5_9", "a node, rack, switch or link"),
        ("x" * 255, "a node, rack, switch or link of site lab"),
    ],
)
def test_unknown_target_is_refused_with_the_nearest_names(target: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        target_of(small_site(), target)
    assert said in str(refused.value)


def test_name_of_a_node_and_a_rack_is_refused_without_its_kind() -> None:
    site = small_site()
    nodes = tuple(n.model_copy(update={"rack": "gpu01"}) if n.name == "gpu02" else n for n in site.nodes)
    site = site.model_copy(update={"nodes": nodes})
    with pytest.raises(InputError, match="node:gpu01 or rack:gpu01"):
        target_of(site, "gpu01")
    assert set(failing(site, "rack:gpu01").nodes) == {"gpu02"}
    assert set(failing(site, "node:gpu01").nodes) == {"gpu01"}


def test_node_loses_the_fabric_with_its_last_cable() -> None:
    """Its other adapter has no cable in the site."""
    site = small_site()
    links: tuple[Link, ...] = tuple(x for x in site.links if "gpu01/mlx5_1" not in (x.a, x.b))
    bare = site.model_copy(update={"links": links})
    found = failing(bare, "gpu01/mlx5_0")
    assert whole(bare, found.nodes["gpu01"], "ib0")
