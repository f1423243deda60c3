"""What cloud-init's own reader makes of the networks in a config drive: addresses of IPoIB without DHCP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.helpers.cloudinit import read_by_cloud_init, rendered_by_cloud_init
from tests.helpers.paths import ROOT
from weft.drivers.openstack.networkdata import network_data
from weft.planning.fabric.addressing import IPoIBAddress, mac_of_guid

ELEMENT = ROOT / "images/elements/weft-ipoib/static/usr/local/share/weft/cloud-init-networkd.cfg"
MANAGEMENT = "02:00:00:00:b0:01"
PHYSICAL = "a0:00:00:27:fe:80:00:00:00:00:00:00:7c:fe:90:03:00:29:26:52"
OTHER = "80:00:00:28:fe:80:00:00:00:00:00:00:00:11:22:03:00:33:44:56"
SUBNETS: dict[str, Any] = {
    "management": {
        "ip_version": 4,
        "enable_dhcp": True,
        "cidr": "10.60.0.0/24",
        "gateway_ip": "10.60.0.1",
        "host_routes": [],
        "dns_nameservers": [],
    },
    "rdma": {
        "ip_version": 4,
        "enable_dhcp": False,
        "cidr": "10.64.0.0/22",
        "gateway_ip": None,
        "host_routes": [{"destination": "10.68.0.0/14", "nexthop": "10.64.0.1"}],
        "dns_nameservers": [],
    },
}
NETWORKS: dict[str, Any] = {"m": {"mtu": 1500}, "r": {"mtu": 2044}}


def drive(*rails: tuple[str, str]) -> Any:
    """A machine's config drive with one adapter in the management network; `rails`: MAC address and IP address of
    each.
    """
    first = {"mac": MANAGEMENT, "network": "m", "subnet": "management", "ip": "10.60.0.7"}
    more = [{"mac": mac, "network": "r", "subnet": "rdma", "ip": ip} for mac, ip in rails]
    ports = [
        {
            "id": f"port-{number}",
            "network_id": one["network"],
            "mac_address": one["mac"],
            "fixed_ips": [{"subnet_id": one["subnet"], "ip_address": one["ip"]}],
        }
        for number, one in enumerate([first, *more])
    ]
    return network_data(ports, NETWORKS, SUBNETS)


def test_each_infiniband_adapter_has_its_static_address_and_no_dhcp(tmp_path: Path) -> None:
    """It is found by the 48 bits of Neutron's MAC address in the kernel's 20 bytes."""
    rails = {"ib0": (PHYSICAL, "10.64.0.9"), "ib1": (OTHER, "10.64.1.9")}
    document = drive(*((mac_of_guid(IPoIBAddress.parse(long).guid), ip) for long, ip in rails.values()))
    hardware = {"eno1": MANAGEMENT, **{name: long for name, (long, _) in rails.items()}}
    read = read_by_cloud_init(document, hardware, tmp_path)
    assert read.interfaces.keys() == hardware.keys()
    for name, (long, address) in rails.items():
        row = read.interfaces[name]
        assert (row["type"], row["mac_address"], row["mtu"]) == ("infiniband", long, 2044)
        assert [s["type"] for s in row["subnets"]] == ["static"]
        written = read.files[name]
        assert f"Address={address}/22" in written and "DHCP=no" in written
        assert "Destination=10.68.0.0/14" in written and "Gateway=10.64.0.1" in written
    assert "DHCP=ipv4" in read.files["eno1"] and "Address=" not in read.files["eno1"].replace(
        "MACAddress=", ""
    )


def test_missing_adapter_stops_cloud_init(tmp_path: Path) -> None:
    """As with an image whose IPoIB interfaces appear after cloud-init, which then configures nothing."""
    document = drive((mac_of_guid(IPoIBAddress.parse(PHYSICAL).guid), "10.64.0.9"))
    with pytest.raises(AssertionError, match="Unable to find a system nic"):
        read_by_cloud_init(document, {"eno1": MANAGEMENT}, tmp_path)


def test_adapter_with_a_similar_guid_is_not_confused(tmp_path: Path) -> None:
    """The GUIDs of an adapter's two ports differ in the last byte."""
    document = drive((mac_of_guid(IPoIBAddress.parse(PHYSICAL).guid), "10.64.0.9"))
    second = PHYSICAL[:-2] + "53"
    read = read_by_cloud_init(document, {"eno1": MANAGEMENT, "ib0": second, "ib1": PHYSICAL}, tmp_path)
    assert "Address=10.64.0.9/22" in read.files["ib1"] and "ib0" not in read.files


UBUNTU = """\
system_info:
  distro: ubuntu
  default_user: {name: ubuntu}
  network: {renderers: [netplan, eni, sysconfig]}
"""
"""The part of Ubuntu's cloud.cfg that matters here."""


@pytest.mark.parametrize("with_element", [False, True])
def test_infiniband_gets_its_address_with_netplan(tmp_path: Path, with_element: bool) -> None:
    """netplan's renderer leaves it out without an error; with the image element's file systemd-networkd's renderer
    is chosen and the rest of the image's configuration stays.
    """
    (tmp_path / "cloud.cfg.d").mkdir()
    (tmp_path / "cloud.cfg").write_text(UBUNTU)
    if with_element:
        (tmp_path / "cloud.cfg.d/95-weft-ipoib.cfg").write_text(ELEMENT.read_text())
    document = drive((mac_of_guid(IPoIBAddress.parse(PHYSICAL).guid), "10.64.0.9"))
    hardware = {"eno1": MANAGEMENT, "ib0": PHYSICAL}
    config, renderer, made = rendered_by_cloud_init(
        document, hardware, tmp_path / "net", tmp_path / "cloud.cfg"
    )
    assert config["system_info"]["distro"] == "ubuntu" and config["system_info"]["default_user"] == {
        "name": "ubuntu"
    }
    assert renderer == ("networkd" if with_element else "netplan")
    assert ("10.64.0.9/22" in made) is with_element and MANAGEMENT in made
