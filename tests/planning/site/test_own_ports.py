"""Ports and VLANs of the site's own networks on switches: what the graph has, and every mistake with one sentence."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers.ownports import TRUNK, document, own_ports
from weft.model.site import Site, SiteNetwork
from weft.model.specs import SegmentSpec
from weft.planning.site.graph import site_graph
from weft.planning.site.ownports import check_own_ports
from weftlab.switches.labsite import FABRIC


def test_segment_has_exactly_the_cabled_ports() -> None:
    graph = site_graph(own_ports()).by_key()
    gateways, storage = graph["segment/gateways"], graph["segment/storage"]
    assert gateways.where == FABRIC and isinstance(gateways.spec, SegmentSpec)
    assert (gateways.spec.number, gateways.spec.shared) == (13, True)
    ports = ["tor01/Ethernet31", "tor01/Ethernet32", "tor02/Ethernet31"]
    assert [(m.port, m.mode) for m in gateways.spec.members] == [(p, "access") for p in ports]
    assert isinstance(storage.spec, SegmentSpec)
    assert [(m.port, m.mode) for m in storage.spec.members] == [
        ("tor01/Ethernet33", "access"),
        (TRUNK, "trunk"),
    ]


def test_without_a_fabric_ports_are_only_recorded() -> None:
    networks = {
        n: net.model_copy(update={"fabric": None, "trunks": ()}) for n, net in own_ports().networks.items()
    }
    site = own_ports().model_copy(update={"networks": networks})
    assert not [k for k in site_graph(site).by_key() if k.startswith("segment/")]


def wrong(site: Site) -> list[tuple[str, object, str]]:
    return [(".".join(map(str, path)), value, allowed) for path, value, allowed in check_own_ports(site)]


def other(network: str, **fields: Any) -> Site:
    site = document()
    now = SiteNetwork.model_validate({**site.networks[network].model_dump(mode="json"), **fields})
    return site.model_copy(update={"networks": {**site.networks, network: now}})


@pytest.mark.parametrize(
    ("fields", "path", "said"),
    [
        ({"fabric": "ib9"}, "fabric", "Ethernet fabrics with manager.switching: roce"),
        ({"vlan": None}, "vlan", "required with a fabric"),
        ({"vlan": 1}, "vlan", "ports that were never configured"),
        ({"vlan": 4094}, "vlan", "parked ports"),
        ({"vlan": 0x102}, "vlan", "which are for pods"),
        ({"vlan": 12}, "vlan", "must be unique; network "),
        ({"trunks": ["tor09/Ethernet1"]}, "trunks.0", "a port of a switch of fabric roce"),
        ({"trunks": [TRUNK, TRUNK]}, "trunks.1", "each port once"),
        ({"trunks": ["tor01/Ethernet1"]}, "trunks.0", "whose pods have it"),
        ({"trunks": ["tor01/Ethernet31"]}, "trunks.0", "that of m1/bmc"),
        ({"fabric": None, "trunks": [TRUNK]}, "trunks", "nothing without a fabric"),
    ],
)
def test_network_mistakes_are_reported(fields: dict[str, Any], path: str, said: str) -> None:
    parking = document().fabrics[FABRIC].manager.switching
    assert parking is not None
    if fields.get("vlan") == 4094:
        fields = {"vlan": parking.parking}
    found = wrong(other("gateways", **fields))
    assert any(said in allowed and path in where for where, _, allowed in found), found


@pytest.mark.parametrize(
    ("port", "said"),
    [
        ("31", "the port's name on switch tor01, not its number"),
        ("Ethernet32", "m1/bmc has this one"),
        ("Ethernet1", "adapter roce01/mlx5_0, whose pods have it"),
        ("Ethernet5", "the link tor01/Ethernet5 to agg01/Ethernet1"),
    ],
)
def test_port_mistakes_are_reported(port: str, said: str) -> None:
    found = wrong(document(m1_bmc=port))
    assert any(said in allowed and where.startswith("interfaces") for where, _, allowed in found), found


def test_numeric_port_is_refused_where_weft_configures_ports() -> None:
    """A BMC's port would look unused by its number, and could get the storage network too."""
    site = document(m1_bmc="31")
    plain = SiteNetwork.model_validate({**site.networks["gateways"].model_dump(mode="json"), "fabric": None})
    networks = {**site.networks, "gateways": plain}
    networks["storage"] = networks["storage"].model_copy(update={"trunks": ("tor01/Ethernet31",)})
    [(where, value, allowed)] = wrong(site.model_copy(update={"networks": networks}))
    assert where.startswith("interfaces") and value == "31" and "the port's name on switch tor01" in allowed


def test_network_without_port_on_the_fabric_is_reported() -> None:
    site = document()
    rows = tuple(
        i.model_copy(update={"switch": None, "port": None}) if i.network == "gateways" else i
        for i in site.interfaces
    )
    [(where, value, allowed)] = wrong(site.model_copy(update={"interfaces": rows}))
    assert (where, value) == ("networks.gateways.fabric", FABRIC) and "nothing on it is cabled" in allowed


def test_switches_that_neutron_configures_or_weft_can_not_read_are_refused() -> None:
    site = document()
    fabric = site.fabrics[FABRIC]
    switching = fabric.manager.switching
    assert switching is not None
    generic = switching.switches[0].model_copy(
        update={"interface": "generic", "url": "ssh://192.0.2.1", "device_type": "netmiko_juniper"}
    )
    for update, said in (
        ({"configured_by": "neutron"}, "those of this one are Neutron's"),
        ({"switches": (generic, *switching.switches[1:])}, "tor01 can't (interface generic)"),
    ):
        manager = fabric.manager.model_copy(update={"switching": switching.model_copy(update=update)})
        fabrics = {**site.fabrics, FABRIC: fabric.model_copy(update={"manager": manager})}
        found = wrong(site.model_copy(update={"fabrics": fabrics}))
        assert {allowed for _, _, allowed in found if said in allowed}, found
