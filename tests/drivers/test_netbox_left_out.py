"""What NetBox describes but isn't there isn't imported, and each such object is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.hardwarelist import SITE
from tests.helpers.netboxserver import TOKEN, Inventory, serving
from weft.cli.main import main
from weft.drivers.netbox import NetBox
from weft.model.errors import PermanentError
from weft.model.hardware import HardwareRecord


def choice(value: str) -> dict[str, str]:
    return {"value": value, "label": value.title()}


def read(box: Inventory, *statuses: str) -> tuple[dict[str, HardwareRecord], list[str]]:
    """The records by name, and what was left out."""
    with serving(box) as url:
        netbox = NetBox(url, TOKEN)
        return {str(r.text("name")): r for r in netbox.records(statuses=statuses)}, netbox.left_out


def texts(record: HardwareRecord) -> dict[str, str]:
    return {name: cell.text for name, cell in record.cells.items() if name not in ("name", "kind", "rack")}


STATUSES = ("active", "staged", "planned", "offline", "failed", "inventory", "decommissioning")


def test_nonexistent_devices_are_left_out_and_named() -> None:
    """Active and staged devices exist; a cable to one that doesn't is left out."""
    box = Inventory()
    leaf = box.device("leaf0", "switch", "r1")
    box.interface(leaf, "swp1")
    box.devices[-1]["status"] = choice("decommissioning")
    for n, status in enumerate(STATUSES, 1):
        number = box.device(f"gpu0{n}", "gpu-node", "r1")
        box.devices[-1]["status"] = choice(status)
        box.interface(number, "eth0", f"0C:42:A1:00:00:0{n}", f"10.3.0.1{n}/24", to=("leaf0", "swp1"))
    found, left_out = read(box)
    assert list(found) == ["gpu01", "gpu02"]
    assert "NetBox device 4: gpu03 has status planned (see --status)" in left_out
    assert len([line for line in left_out if "has status" in line and "device" in line]) == 6
    assert "cable of gpu01's eth0 to leaf0/swp1: leaf0 has status decommissioning" in "\n".join(left_out)
    assert texts(found["gpu01"]) == {"eth0_mac": "0C:42:A1:00:00:01", "eth0_address": "10.3.0.11"}


def test_devices_of_the_chosen_status_are_imported() -> None:
    """A planned device has its planned cables; if no device is left the error lists the statuses that occur."""
    box = Inventory()
    number = box.device("gpu01", "gpu-node", "r1")
    box.devices[-1]["status"] = choice("planned")
    to: dict[str, Any] = {"to": ("leaf1", "swp7"), "connected_endpoints_reachable": False}
    box.interface(number, "eth0", "0C:42:A1:00:00:01", "10.3.0.11/24", **to)
    box.addresses[-1]["status"] = choice("reserved")
    found, left_out = read(box, "planned", "reserved")
    assert (
        texts(found["gpu01"])["eth0_port"] == "swp7" and texts(found["gpu01"])["eth0_address"] == "10.3.0.11"
    )
    assert left_out == []
    with pytest.raises(
        PermanentError, match="none with status active or staged, but planned; name the status"
    ):
        read(box)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"connected_endpoints_reachable": False}, "a cable of the path isn't connected"),
        ({"connected_endpoints_type": "circuits.circuittermination"}, "an interface of a device is needed"),
        ({"connected_endpoints": None, "connected_endpoints_type": None}, "it leads to no interface"),
    ],
)
def test_cable_without_an_end_is_left_out(change: dict[str, Any], text: str) -> None:
    """`connected_endpoints_reachable` is false unless every cable of the path has the status connected."""
    box = Inventory()
    number = box.device("gpu01", "gpu-node", "r1")
    box.interface(number, "mlx5_0", "0C:42:A1:00:00:01", "10.5.1.1/24", to=("leaf1", "swp7"), **change)
    found, left_out = read(box)
    assert texts(found["gpu01"]) == {"mlx5_0_mac": "0C:42:A1:00:00:01", "mlx5_0_address": "10.5.1.1"}
    assert len(left_out) == 1 and "cable of gpu01's mlx5_0" in left_out[0] and text in left_out[0]


@pytest.mark.parametrize(
    ("address", "change", "text"),
    [
        ("10.1.0.9/24", {"status": choice("deprecated")}, "has status deprecated"),
        ("10.1.0.9/24", {"status": choice("reserved")}, "has status reserved"),
        ("10.1.0.9/24", {"role": choice("vip")}, "has role vip"),
        ("169.254.3.1/24", {}, "is link-local"),
        ("fd00::9/64", {}, "is IPv6"),
    ],
)
def test_shared_address_is_left_out(address: str, change: dict[str, Any], text: str) -> None:
    """The interface's other address is used."""
    box = Inventory()
    number = box.device("gpu01", "gpu-node", "r1")
    interface = box.interface(number, "bmc", "0C:42:A1:00:00:01", "10.1.0.8/24")
    box.address(interface, number, address)
    box.addresses[-1] |= change
    found, left_out = read(box)
    assert found["gpu01"].text("bmc_address") == "10.1.0.8"
    assert left_out == [
        f"NetBox address 501: {address} of gpu01's bmc {text}"
        + (" (see --status)" if "status" in change else "")
    ]


def test_interfaces_without_a_use_are_counted() -> None:
    """Without address, VLAN and fabric."""
    box = Inventory()
    number = box.device("gpu01", "gpu-node", "r1")
    for n in range(5):
        box.interface(number, f"eth{n}", f"0C:42:A1:00:00:0{n}")
    _, left_out = read(box)
    what = "5 interfaces of gpu01 without address, untagged VLAN and fabric: eth0, eth1, eth2 …"
    assert left_out == [f"NetBox device 1: {what}"]


def bonded(box: Inventory, **more: Any) -> int:
    """gpu01 with bond0 over two links to two switches."""
    number = box.device("gpu01", "service", "r1")
    bond = box.interface(number, "bond0", address="10.3.0.11/24", type=choice("lag"), **more)
    for n in (0, 1):
        mac = f"0C:42:A1:00:00:0{n}"
        box.interface(number, f"ens1f{n}", mac, to=(f"tor{n + 1}", "swp 1"), lag=bond)
    return bond


@pytest.mark.parametrize("mac", [None, "0c:42:a1:00:00:00", "02:42:a1:00:00:09"])
def test_links_of_a_bond_are_kept(mac: str | None) -> None:
    """With MAC addresses and cables; a bond without a MAC address gets its first link's."""
    box = Inventory()
    bonded(box, mac_address=mac)
    found, left_out = read(box)
    links = ["0C:42:A1:00:00:00", "0C:42:A1:00:00:01"]
    assert texts(found["gpu01"]) == {
        "bond0_mac": mac or links[0],
        "bond0_address": "10.3.0.11",
        "bond0_switch": "tor1",
        "bond0_port": "swp1",
        "bond0_bond_macs": " ".join(links[not (mac or "").startswith("02") :]),
        "bond0_bond_ports": "tor2/swp1",
    }
    assert left_out == []


def test_vlan_interface_resolves_to_its_hardware() -> None:
    """It gets the parent's MAC address and cable; a second VLAN of the parent is left out by name."""
    box = Inventory()
    number = box.device("gpu01", "service", "r1")
    parent = box.interface(number, "eno1", "0C:42:A1:00:00:01", to=("tor1", "swp1"))
    for vlan in (30, 40):
        above: dict[str, Any] = {"type": choice("virtual"), "parent": {"id": parent}}
        box.interface(number, f"eno1.{vlan}", address=f"10.{vlan}.0.11/24", **above)
    found, left_out = read(box)
    assert texts(found["gpu01"]) == {
        "eno1_30_mac": "0C:42:A1:00:00:01",
        "eno1_30_address": "10.30.0.11",
        "eno1_30_switch": "tor1",
        "eno1_30_port": "swp1",
    }
    assert left_out == [
        "NetBox interface 102: gpu01's eno1.40: another interface of the device has its MAC address 0C:42:A1:00:00:01"
    ]


def test_circular_interfaces_are_bounded() -> None:
    """NetBox refuses them, but an answer may have them."""
    box = Inventory()
    number = box.device("gpu01", "service", "r1")
    box.interface(
        number, "br0", "0C:42:A1:00:00:01", "10.3.0.11/24", type=choice("bridge"), bridge={"id": 101}
    )
    box.interface(number, "br1", type=choice("bridge"), bridge={"id": 100})
    assert read(box)[0]["gpu01"].text("br0_mac") == "0C:42:A1:00:00:01"


def test_infiniband_interface_is_an_adapter() -> None:
    """Its GUIDs are in custom fields, or in its WWN; without any it is left out by name."""
    box = Inventory()
    number = box.device("gpu01", "gpu-node", "r1")
    guids = {"Node GUID": "0x0002c90300300100", "pci": "0000:17:00.0"}
    ndr: dict[str, Any] = {"type": choice("infiniband-ndr")}
    box.interface(
        number,
        "ib0",
        to=("ibleaf1", "1/1"),
        custom_fields={**guids, "port_guid": "0x0002c90300300101"},
        **ndr,
    )
    box.interface(number, "ib1", custom_fields=guids, wwn="00:02:C9:03:00:30:01:02", **ndr)
    box.interface(number, "ib2", custom_fields={"asset": "7"}, **ndr)
    found, left_out = read(box)
    assert texts(found["gpu01"]) == {
        "ib0_guid": "0x0002c90300300100",
        "ib0_port_guid": "0x0002c90300300101",
        "ib0_pci": "0000:17:00.0",
        "ib1_guid": "0x0002c90300300100",
        "ib1_port_guid": "00:02:C9:03:00:30:01:02",
        "ib1_pci": "0000:17:00.0",
    }
    assert "cable of gpu01's ib0 to ibleaf1/1/1: the links of InfiniBand come from discovery" in left_out[0]
    assert "InfiniBand interface gpu01's ib2: no custom fields guid, port_guid and pci" in left_out[1]


def test_adapter_of_an_ethernet_fabric_is_read() -> None:
    """An interface with the custom field fabric and neither address nor VLAN."""
    box = Inventory()
    number = box.device("gpu01", "gpu-node", "r1")
    custom = {"fabric": "roce", "guid": "0x0002c90300300100", "PCI address": "0000:17:00.0"}
    box.interface(number, "ens1", "0C:42:A1:00:00:01", to=("leaf1", "swp7"), custom_fields=custom)
    assert texts(read(box)[0]["gpu01"]) == {
        "ens1_mac": "0C:42:A1:00:00:01",
        "ens1_fabric": "roce",
        "ens1_guid": "0x0002c90300300100",
        "ens1_pci": "0000:17:00.0",
        "ens1_switch": "leaf1",
        "ens1_port": "swp7",
    }


def test_ports_with_blanks_are_written_without_them() -> None:
    """At the switch and at the cable's other end; a name with brackets is left out, with its cable."""
    box = Inventory()
    switch = box.device("mgmt1", "switch", "r1")
    for name in ("Port 1", "Port 2", "Eth[3]", "Port2"):
        box.interface(switch, name)
    number = box.device("gpu01", "service", "r1")
    box.interface(number, "eth0", "0C:42:A1:00:00:01", "10.3.0.11/24", to=("mgmt1", "Port 2"))
    box.interface(number, "eth1", "0C:42:A1:00:00:02", "10.3.0.12/24", to=("mgmt1", "Eth[3]"))
    found, left_out = read(box)
    assert found["mgmt1"].text("ports") == "Port1 Port2"
    assert found["gpu01"].text("eth0_port") == "Port2" and found["gpu01"].text("eth1_port") is None
    assert [line.partition(": ")[2] for line in left_out] == [
        "port 'Eth[3]' of mgmt1: its name has brackets or other letters",
        "port 'Port2' of mgmt1: 'Port 2' is Port2 already",
        "cable of gpu01's eth1 to mgmt1/Eth[3]: the port's name has brackets or other letters",
    ]


def test_host_name_unknown_to_dns_is_left_out() -> None:
    box = Inventory()
    number = box.device("gpu01", "service", "r1")
    box.interface(number, "eth0", "0C:42:A1:00:00:01", "10.3.0.11/24", dns_name="gpu_01.dc.example")
    found, left_out = read(box)
    assert "eth0_dns_name" not in found["gpu01"].cells
    assert "dns_name 'gpu_01' of gpu01's eth0: not of letters, digits and '-'" in left_out[0]


def test_complete_netbox_becomes_a_site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bond, an InfiniBand adapter, Dell's interface names, a host name with a domain; what was left out is
    reported.
    """
    box = Inventory()
    for n in (1, 2):
        tor = box.device(f"tor{n}", "switch", "r1")
        box.interface(tor, "swp 1")
        box.interface(tor, "swp 2")
    bonded(box)
    node = box.device("gpu02.dc.example", "gpu-node", "r1")
    box.interface(node, "NIC.Embedded.1-1-1", "0C:42:A1:00:00:21", "10.3.0.21/24")
    guids = {"guid": "0x0002c90300300100", "port_guid": "0x0002c90300300101", "pci": "0000:17:00.0"}
    box.interface(node, "ib0", type=choice("infiniband-ndr"), custom_fields=guids)
    box.device("gpu03", "gpu-node", "r1")
    box.devices[-1]["status"] = choice("planned")
    (tmp_path / "head.yaml").write_text(SITE)
    monkeypatch.setenv("NETBOX_TOKEN", TOKEN)
    out = tmp_path / "out"
    with serving(box) as url:
        words = ["site", "import", "--netbox", url, "--site", str(tmp_path / "head.yaml")]
        assert main(words) == 0
        assert "left out: NetBox device 5: gpu03 has status planned" in capsys.readouterr().out
        assert main([*words, "--json", "--output", str(out)]) == 0
    assert len(json.loads(capsys.readouterr().out)["left_out"]) == 1
    rows = (out / "interfaces.csv").read_text().splitlines()
    assert "gpu01,bond0,infra,0c:42:a1:00:00:00,10.3.0.11,tor1,swp1,0c:42:a1:00:00:01,tor2/swp1" in rows
    assert (
        "gpu02.dc.example,ib0,ib0,0x0002c90300300100,0x0002c90300300101,0000:17:00.0"
        in (out / "hcas.csv").read_text()
    )


def test_interfaces_on_undescribed_networks_are_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By address, VLAN or name; an inventory has all networks, the site file only those that it needs."""
    box = Inventory()
    pdu = box.device("pdu1", "pdu", "r1")
    box.interface(pdu, "eth0", "00:C0:B7:00:00:01", "10.3.0.4/24")
    box.interface(pdu, "eth1", "00:C0:B7:00:00:02", "192.0.2.7/24")
    box.interface(pdu, "eth2", "00:C0:B7:00:00:03", vlan=3999)
    box.interface(pdu, "eth3", "00:C0:B7:00:00:04", custom_fields={"network": "guests"})
    (tmp_path / "head.yaml").write_text(SITE)
    monkeypatch.setenv("NETBOX_TOKEN", TOKEN)
    with serving(box) as url:
        assert main(["site", "import", "--netbox", url, "--site", str(tmp_path / "head.yaml"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"]["interfaces"] == 1
    assert [line.partition(": ")[2] for line in found["left_out"]] == [
        "pdu1's eth1: no network of the site file has the address 192.0.2.7",
        "pdu1's eth2: no network of the site file has VLAN 3999",
        "pdu1's eth3: no network of the site file is called guests",
    ]
