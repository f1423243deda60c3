"""Bonds: both functions of one NIC (VF-LAG), and the leaves' ends of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.planning.site.test_switching import Document, lab, switching
from weft.model.site import Site
from weft.planning.site.check import check_site

PCI = "0000:40:00.0"


def bonded(**other: Any) -> Callable[[Document], None]:
    """A site whose first adapter is a bond of both functions of its NIC, with an aggregation on each leaf of an MLAG
    pair.
    """

    def change(document: Document) -> None:
        hca = document["nodes"][0]["hcas"][0]
        assert hca["pci"] == PCI
        hca |= {"switch_port": "tor01/Port-Channel7", "bond_pci": "0000:40:00.1", "bond_mode": "802.3ad"}
        hca |= {"eswitch": "switchdev", "vfs": 4, **other}
        switching(document)["links"].append({"a": "tor01/Ethernet39", "b": "tor02/swp39", "peer": True})
        switching(document)["bundles"] = [{"ports": ["tor01/Port-Channel7", "tor02/bond7"]}]

    return change


def problems(*changes: Callable[[Document], object]) -> list[str]:
    document = lab().model_dump(mode="json")
    for change in changes:
        change(document)
    found = check_site(Site.model_validate(document))
    return [f"{'.'.join(map(str, path[-3:]))}: {value!r}: {allowed}" for path, value, allowed in found]


def no_bundle(document: Document) -> None:
    switching(document)["bundles"] = []


def test_correct_vf_lag_is_accepted() -> None:
    assert problems(bonded()) == []
    assert problems(bonded(bond_mode="balance-xor")) == []
    assert problems(bonded(vfs=0, vf_pci=None, eswitch=None)) == [], "a whole adapter needs no switchdev"
    assert problems(bonded(), no_bundle) == [], "one leaf's aggregation has both cables"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            bonded(eswitch="legacy"),
            "hcas.0.eswitch: 'legacy': switchdev: virtual functions of a bond (VF-LAG)",
        ),
        (bonded(eswitch=None), "hcas.0.eswitch: None: switchdev"),
        (bonded(bond_mode=None), "hcas.0.bond_mode: None: the mode of the bond: 802.3ad"),
        (
            bonded(bond_pci="0000:41:00.1"),
            "bond_pci: '0000:41:00.1': the other physical function of the same NIC",
        ),
        (bonded(bond_pci=PCI), "the other physical function of the same NIC: 0000:40:00.N, not 0000:40:00.0"),
        (
            bonded(bond_pci=None),
            "hcas.0.bond_mode: '802.3ad': nothing: without bond_pci the adapter is no bond",
        ),
    ],
)
def test_nic_rules_for_bonds_are_checked(change: Callable[[Document], None], expected: str) -> None:
    assert any(expected in one for one in problems(change)), problems(change)


def test_embedded_switch_needs_no_bond() -> None:
    def single(document: Document) -> None:
        document["nodes"][0]["hcas"][0] |= {"eswitch": "switchdev", "vfs": 4}

    assert problems(single) == []


def test_second_function_of_a_bond_is_not_an_adapter() -> None:
    def both(document: Document) -> None:
        document["nodes"][0]["hcas"][1]["pci"] = "0000:40:00.1"

    assert any("mlx5_1 has it, and a bond is one adapter" in p for p in problems(bonded(), both))


def test_aggregation_over_two_leaves_needs_their_peer_link() -> None:
    def no_peer(document: Document) -> None:
        switching(document)["links"][-1]["peer"] = False

    [found] = problems(bonded(), no_peer)
    assert "ends on one MLAG pair: no link of tor01 and tor02 is a peer link" in found
    assert problems(bonded(bond_mode="active-backup"), no_peer) == [], "failover needs no peer link"


def test_plain_port_is_not_an_aggregation() -> None:
    def plain(document: Document) -> None:
        document["nodes"][0]["hcas"][0]["switch_port"] = "tor01/Ethernet7"
        switching(document)["bundles"] = [{"ports": ["tor01/Ethernet7", "tor02/swp7"]}]

    found = problems(bonded(), plain)
    assert len(found) == 2 and all("a link aggregation: the bond's links" in p for p in found)
    assert problems(bonded(bond_mode="active-backup"), plain) == []
    [alone] = problems(bonded(), plain, no_bundle)
    assert "switch_port: 'tor01/Ethernet7': a link aggregation of both cables" in alone


def test_failover_needs_both_ports() -> None:
    [found] = problems(bonded(bond_mode="active-backup"), no_bundle)
    assert "with both switch ports in manager.switching.bundles" in found


def test_breakout_ports_are_accepted() -> None:
    """`Ethernet7/1`, `swp7s0`: one of the ports that a cable of four lanes is split into."""

    def broken_out(document: Document) -> None:
        document["nodes"][0]["hcas"][0]["switch_port"] = "tor01/Ethernet7/1"
        switching(document)["bundles"] = [{"ports": ["tor01/Ethernet7/1", "tor02/swp7s0"]}]

    assert len([p for p in problems(bonded(), broken_out) if "a link aggregation" in p]) == 2
    assert problems(bonded(bond_mode="active-backup"), broken_out) == []


def test_infiniband_has_no_bonds() -> None:
    document = lab(fabric_only=False).model_dump(mode="json")
    bonded()(document)
    document["fabrics"]["ib0"] = {
        "type": "infiniband",
        "physical_network": "ibnet",
        "segments": {"first": 101, "last": 200},
        "manager": {"driver": "ufm", "addresses": ["https://ufm.example"]},
    }
    document["nodes"][0]["hcas"][0]["fabric"] = "ib0"
    document["nodes"][0]["hcas"][0]["switch_port"] = None
    found = [str(p[0][-1]) for p in check_site(Site.model_validate(document))]
    assert "bond_pci" in found
