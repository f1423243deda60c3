"""One switch port for two interfaces, and several ports for one: BMCs on a host's own port (NC-SI), and bonds."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from weft.app.sitefile import load_site
from weft.drivers.switches.cabling import Cabling
from weft.model.errors import InputErrors
from weft.model.site import Site

SITE = """\
name: shared
clouds:
  main:
    management: {physical_network: physnet1, segments: {first: 1000, last: 1099}, addresses: 10.16.0.0/16}
    rdma_addresses: 10.128.0.0/16
    flavors: {}
fabrics:
  ib: {physical_network: ib, segments: {first: 0x101, last: 0x17e}, manager: {driver: opensm}}
devices:
  - {name: tor1, kind: switch, ports: "swp[1-8]"}
  - {name: tor2, kind: switch, ports: "swp[1-8]"}
nodes:
  - {name: host1.dc_1, role: service}
  - {name: bm01, machine: 6f9f1f0a-3a39-4c55-9b0e-000000000001}
networks:
  oob:
    physical_network: physnet1
    vlan: 13
    subnets: {bmc: {role: bmc, addresses: 10.3.0.0/24, dhcp: false}}
  infra:
    physical_network: physnet1
    vlan: 99
    subnets: {infra: {role: infrastructure, addresses: 10.4.0.0/24, dhcp: false}}
"""
BMC = {"device": "host1.dc_1", "name": "bmc", "network": "oob", "mac": "02:00:00:00:0b:01", "address": "10.3.0.11",
       "switch": "tor1", "port": "swp3"}  # fmt: skip
ENO1 = BMC | {"name": "eno_1", "network": "infra", "mac": "02:00:00:00:0c:01", "address": "10.4.0.11"}
ENO2 = ENO1 | {"name": "eno2", "mac": "02:00:00:00:0c:02", "address": "10.4.0.12"}


def checked(folder: Path, *interfaces: dict[str, str]) -> tuple[list[str], Site | None]:
    """What is wrong with the site if it has these interfaces."""
    (folder / "site.yaml").write_text(
        SITE + yaml.safe_dump({"interfaces": list(interfaces)}, sort_keys=False)
    )
    try:
        return [], load_site(folder / "site.yaml")
    except InputErrors as error:
        return [str(e).partition(": ")[2] for e in error.errors], None


@pytest.mark.parametrize("port", ["swp3", "3"])
def test_bmc_may_share_its_hosts_port(tmp_path: Path, port: str) -> None:
    """In either order, with the port by name or by number."""
    eno1 = ENO1 | {"port": port}
    assert checked(tmp_path, BMC, eno1)[0] == [] and checked(tmp_path, eno1, BMC)[0] == []


def test_other_interfaces_may_not_share_a_port(tmp_path: Path) -> None:
    """A third interface, two that aren't a BMC's, another host's BMC, the BMC of a bare-metal machine for pods."""
    unique = "'tor1/swp3' is not allowed: a switch port must be unique; "
    third = f"interfaces[2].port: {unique}host1.dc_1/bmc with host1.dc_1/eno_1 already has it"
    assert checked(tmp_path, BMC, ENO1, ENO2)[0] == [third]
    assert checked(tmp_path, ENO1, ENO2)[0] == [
        f"interfaces[1].port: {unique}host1.dc_1/eno_1 already has it"
    ]
    other = BMC | {"device": "bm01"}
    assert checked(tmp_path, other, ENO1)[0] == [f"interfaces[1].port: {unique}bm01/bmc already has it"]
    assert checked(tmp_path, other, ENO1 | {"device": "bm01"})[0] == [
        "interfaces[1].port: 'tor1/swp3' is not allowed: a port of its own: it shares that of bm01/bmc, and bm01's "
        "tenants would reach BMCs over it"
    ]


def test_bond_ports_are_not_shared(tmp_path: Path) -> None:
    """Nor the MAC addresses of its links; its ports must exist."""
    bond = ENO1 | {"bond_ports": "tor2/swp3", "bond_macs": "02:00:00:00:0c:01 02:00:00:00:0c:07"}
    wrong, site = checked(tmp_path, bond)
    assert wrong == [] and site is not None
    (one,) = site.interfaces
    assert one.ends == (("tor1", "swp3"), ("tor2", "swp3"))
    assert checked(tmp_path, bond, ENO2 | {"switch": "tor2", "mac": "02:00:00:00:0c:07"})[0] == [
        "interfaces[1].mac: '02:00:00:00:0c:07' is not allowed: a MAC address must be unique; host1.dc_1/eno_1 already "
        "has it",
        "interfaces[1].port: 'tor2/swp3' is not allowed: a switch port must be unique; host1.dc_1/eno_1 already has it",
    ]
    assert checked(tmp_path, bond | {"bond_ports": "tor2/swp9"})[0] == [
        "interfaces[0].bond_ports[0]: 'swp9' is not allowed: a port of tor2: swp[1-8], or 1 to 8"
    ]
    assert checked(tmp_path, bond | {"bond_ports": "tor1/swp3"})[0] == [
        "interfaces[0].bond_ports[0]: 'tor1/swp3' is not allowed: a switch port must be unique; host1.dc_1/eno_1 "
        "already has it"
    ]


def test_fabric_knows_every_link_of_a_bond(tmp_path: Path) -> None:
    """Ports of hardware on a fabric's switches are read whatever they carry."""
    bond = ENO1 | {"bond_ports": "leaf1/swp4"}
    text = yaml.safe_load(SITE)
    text["fabrics"]["roce"] = {
        "type": "ethernet", "physical_network": "roce", "segments": {"first": 2000, "last": 2099},
        "manager": {"driver": "switches", "switching": {"parking": 3999, "switches": [
            {"name": "leaf1", "interface": "sonic", "url": "https://10.4.0.99"}]}},
    }  # fmt: skip
    text["switches"] = [{"name": "leaf1", "fabric": "roce", "level": "leaf", "ports": 8}]
    text["interfaces"] = [bond]
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(text))
    site = load_site(tmp_path / "site.yaml")
    assert Cabling.of(site, "roce", site.fabrics["roce"].manager.switching).others == {"leaf1/swp4"}
    text["networks"]["infra"]["fabric"] = "roce"
    (tmp_path / "site.yaml").write_text(yaml.safe_dump(text))
    with pytest.raises(
        InputErrors, match="bond_ports: 'leaf1/swp4' is not allowed: none: weft sets this port's VLAN"
    ):
        load_site(tmp_path / "site.yaml")


@pytest.mark.parametrize(
    ("device", "name", "host_name"),
    [
        ("host1.dc_1", "NIC.Embedded.1-1-1", "host1-dc-1-nic-embedded-1-1-1"),
        ("host1.dc_1", "eth_0", "host1-dc-1-eth-0"),
        ("host1.dc_1", "n" * 60, None),
        ("host1.dc_1", "n" * 55, "host1-" + "n" * 55),
    ],
)
def test_host_names_have_only_characters_that_dns_allows(
    tmp_path: Path, device: str, name: str, host_name: str | None
) -> None:
    """Dashes replace other characters, and a domain that is too long is left out; a name that is too long is
    refused.
    """
    wrong, site = checked(tmp_path, ENO1 | {"device": device, "name": name})
    if host_name is None:
        assert len(wrong) == 1 and "device and interface don't make one" in wrong[0]
    else:
        assert site is not None and [i.host_name for i in site.interfaces] == [host_name]
