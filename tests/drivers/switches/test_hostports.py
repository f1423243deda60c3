"""Ports that stay in one VLAN: BMCs and gateways of IPU-Machines on the site's Ethernet fabric."""

from __future__ import annotations

from pathlib import Path

from weft.drivers.switches.cabling import Cabling
from weft.drivers.switches.hostports import port_troubles
from weft.drivers.switches.snapshot import EthernetSnapshot
from weft.drivers.switches.vlans import EVERY, PortVlans, SwitchState
from weft.model.site import Site
from weftlab.layout import Layout
from weftlab.site import make_site, settings
from weftlab.switches.labsite import FABRIC

BMC, GATEWAY, LEAF = "Ethernet31", "Ethernet32", "tor01"
BMCS, GATEWAYS = 14, 13
"""VLANs."""


def cabled(bmc: str = BMC) -> Site:
    """A site whose IPU-Machine has its BMC (VLAN 14) and gateway (VLAN 13) on a leaf of the fabric."""
    layout = Layout(Path("/n"), Path("/n"), 23000)
    found = make_site(settings(nodes=2, leaves=2, spines=1, fabric="ethernet", ipus=4), layout)
    document = found.model_dump(mode="json")
    document["ipu_pods"]["ipupod1"]["bmc"]["vlan"] = 14
    document["ipu_machines"][0] |= {
        "bmc_switch": LEAF,
        "bmc_port": bmc,
        "gw_switch": LEAF,
        "gw_port": GATEWAY,
    }
    return Site.model_validate(document)


def said(site: Site, bmc: PortVlans, gateway: PortVlans) -> list[str]:
    """What is wrong with these ports of the leaf."""
    state = SwitchState({}, {BMC: bmc, GATEWAY: gateway})
    cabling = Cabling.of(site, FABRIC, site.fabrics[FABRIC].manager.switching)
    return list(port_troubles(LEAF, EthernetSnapshot(site, FABRIC, 0.0, cabling, {LEAF: state}, {}, {})))


def test_ports_in_their_own_vlan_or_none_are_accepted() -> None:
    assert said(cabled(), PortVlans(BMCS), PortVlans(GATEWAYS)) == []
    assert said(cabled(), PortVlans(None), PortVlans(None)) == []


def test_bmc_in_a_pods_vlan_or_on_a_trunk_is_reported() -> None:
    [problem] = said(cabled(), PortVlans(0x101), PortVlans(GATEWAYS))
    assert problem == f"port {LEAF}/{BMC} of ipum1's BMC is in VLAN 257; the BMCs' network of ipupod1 has 14"
    [problem] = said(cabled(), PortVlans(BMCS, frozenset({0x101})), PortVlans(GATEWAYS))
    assert "ipum1's BMC is in VLAN 257" in problem
    [problem] = said(cabled(), PortVlans(BMCS), PortVlans(None, EVERY))
    assert problem.startswith(f"host port {LEAF}/{GATEWAY} is a trunk of every VLAN")


def test_gateway_in_the_bmc_vlan_is_reported() -> None:
    [problem] = said(cabled(), PortVlans(BMCS), PortVlans(BMCS))
    assert problem.endswith("of ipum1's IPU-Gateway is in VLAN 14; the gateways' network of ipupod1 has 13")


def test_port_unknown_to_its_switch_is_reported() -> None:
    """A number from 1, as in cabling lists: whether pods get the port isn't known."""
    [problem] = said(cabled("31"), PortVlans(0x101), PortVlans(GATEWAYS))
    assert problem == f"port {LEAF}/31 of ipum1's BMC isn't known to its switch: name it as the switch does"
