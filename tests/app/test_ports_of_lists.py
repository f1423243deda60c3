"""Ethernet adapters in hardware lists: a switch port has one adapter, however it is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.app.hardwarelists import read_list
from weft.app.siteimport import import_site
from weft.model.errors import InputError, InputErrors
from weft.model.site import Site

HEAD = """
name: roce
clouds:
  main:
    management: {physical_network: physnet1, segments: {first: 1000, last: 1099}, addresses: 10.16.0.0/16}
    rdma_addresses: 10.128.0.0/16
    flavors: {}
fabrics:
  roce:
    type: ethernet
    physical_network: rocenet
    segments: {first: 257, last: 300}
    manager:
      driver: switches
      switching:
        switches: [{name: leaf1, interface: sonic, url: "https://10.0.1.1"}]
        parking: 4000
        credentials: /etc/weft/switches.json
        ca: /etc/weft/ca.pem
"""


class RoceList:
    """A list of hosts, each with an adapter on a port of a switch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def site(self, *ports: str, mac: str = "02:00:00:00:c0", rate: str = "200") -> Site:
        """Raises `InputErrors`."""
        rows = [
            "name,kind,fabric,level,ports,e0_fabric,e0_mac,e0_guid,e0_port_guid,e0_pci,e0_switch,e0_port,e0_rate_gbps"
        ]
        rows.append("leaf1,switch,roce,leaf,64,,,,,,,,")
        for number, port in enumerate(ports, 1):
            guid = f"0x{number:016x}"
            rows.append(
                f"gpu{number},compute,,,,roce,{mac}:0{number},{guid},{guid},0000:17:00.0,leaf1,{port},{rate}"
            )
        (self.folder / "list.csv").write_text("\n".join(rows), encoding="utf-8")
        (self.folder / "head.yaml").write_text(HEAD)
        errors: list[InputError] = []
        records = read_list(str(self.folder / "list.csv"), {}, errors)
        return import_site(str(self.folder / "head.yaml"), records, errors).site

    def errors(self, *ports: str, **more: str) -> list[str]:
        with pytest.raises(InputErrors) as caught:
            self.site(*ports, **more)
        return [str(e).partition("list.csv:")[2] for e in caught.value.errors]


@pytest.fixture
def roce(tmp_path: Path) -> RoceList:
    return RoceList(tmp_path)


@pytest.mark.parametrize("other", ["ethernet16", "Ethernet 16", "Ethernet016", "Eth16", "leaf1/Ethernet16"])
def test_port_in_two_spellings_is_one_port(roce: RoceList, other: str) -> None:
    """Otherwise two tenants' adapters would be on one port, in one VLAN."""
    [line] = roce.errors("Ethernet16", other)
    assert "a switch's port must be unique; gpu1/e0 already has it" in line


def test_different_ports_stay_different(roce: RoceList) -> None:
    """The control: numbers with zeros inside, breakouts, and other letters."""
    ports = ("Ethernet1", "Ethernet10", "Ethernet1/1", "Ethernet1/10", "swp1s0", "swp1s1", "swp10")
    site = roce.site(*ports)
    assert [h.switch_port for n in site.nodes for h in n.hcas] == [f"leaf1/{p}" for p in ports]


def test_switch_name_before_a_port_is_removed(roce: RoceList) -> None:
    """Cabling lists write both in one cell; here the switch has a column of its own."""
    site = roce.site("LEAF1/Ethernet16", "Ethernet1/7")
    assert [h.switch_port for n in site.nodes for h in n.hcas] == ["leaf1/Ethernet16", "leaf1/Ethernet1/7"]


def test_impossible_character_in_a_port_is_reported(roce: RoceList) -> None:
    """A spreadsheet's dash looks like the one of `ge-0/0/1`, but the switch has no such port."""
    [line] = roce.errors("ge\u20110/0/1")
    assert "e0_port" in line and "in ASCII" in line


@pytest.mark.parametrize(("mac", "what"), [("03:00:00:00:c0", "multicast"), ("01:80:c2:00:00", "multicast")])
def test_group_mac_address_of_an_adapter_is_reported(roce: RoceList, mac: str, what: str) -> None:
    """Also if the site describes no interfaces of its own networks."""
    [line] = roce.errors("Ethernet1", mac=mac)
    assert "e0_mac" in line and what in line


def test_rate_in_another_unit_is_reported(roce: RoceList) -> None:
    """200000 (Mb/s) where Gb/s are expected."""
    assert roce.errors("Ethernet1", rate="200000") == [
        "3: e0_rate_gbps: '200000' is not allowed: 10000 or less"
    ]
