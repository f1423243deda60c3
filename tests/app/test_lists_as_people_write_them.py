"""Hardware lists as spreadsheets and people write them: read as meant, or refused with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.hardwarelist import HardwareList
from weft.app.hardwarelists import read_list
from weft.app.inventories import of_bmcs
from weft.app.sitefile import load_site
from weft.cli.main import main
from weft.model.errors import InputError
from weft.model.hardware import HardwareRecord
from weft.model.site import Site

GPU = {"gpu_type": "h100", "gpu_pci": "0000:07:00.0 0000:08:00.0"}


@pytest.fixture
def hardware(tmp_path: Path) -> HardwareList:
    return HardwareList(tmp_path)


def site_of(hardware: HardwareList) -> Site:
    hardware.write()
    return hardware.imported().site


@pytest.mark.parametrize("nothing", ["N/A", "n/a", "-", "–", "none", "NULL", "TBD", "unknown", "#N/A", "?"])
def test_placeholder_cell_counts_as_empty(hardware: HardwareList, nothing: str) -> None:
    """No rack is called TBD, no switch N/A, and no node is in maintenance for the reason `-`."""
    hardware.spoil("gpu1", rack=nothing, eth0_mac=nothing, eth0_address=nothing, maintenance=nothing)
    site = site_of(hardware)
    [gpu] = [n for n in site.nodes if n.name == "gpu1"]
    assert gpu.rack is None and gpu.maintenance is None
    assert [r.name for r in site.racks] == ["r1"]
    assert not [i for i in site.interfaces if (i.device, i.name) == ("gpu1", "eth0")]


@pytest.mark.parametrize("said", ["no", "No", "false", "FALSE", "0", "off"])
def test_maintenance_no_is_not_a_reason(hardware: HardwareList, said: str) -> None:
    """In a list as in the site file."""
    hardware.spoil("gpu1", maintenance=said)
    hardware.spoil("ipum1", maintenance=said)
    hardware.spoil("poplar1", maintenance="fan")
    site = site_of(hardware)
    assert {n.name: n.maintenance for n in site.nodes} == {"gpu1": None, "poplar1": "fan"}
    assert {m.maintenance for m in site.ipu_machines} == {None}


@pytest.mark.parametrize("ports", ["48", "Ethernet1-Ethernet48", "swp1-48", "Eth1/1-1/48"])
def test_cell_with_several_ports_is_not_read_as_one_port(hardware: HardwareList, ports: str) -> None:
    """A count of ports, or a range without brackets, isn't the name of a single port."""
    hardware.spoil("mgmt1", ports=ports)
    hardware.write()
    assert any(
        line.startswith(
            f"hardware.csv:2: ports: '{ports}' is not allowed: the ports' names, a range of them in brackets"
        )
        for line in hardware.errors()
    )


def test_ports_separated_by_commas_are_several(hardware: HardwareList) -> None:
    """`Ethernet1, Ethernet2` isn't one name with a comma in it."""
    hardware.spoil("mgmt1", ports='"Ethernet1, Ethernet2,Ethernet[3-7];Ethernet8"')
    [mgmt] = [d for d in site_of(hardware).devices if d.name == "mgmt1"]
    assert mgmt.ports == ("Ethernet1", "Ethernet2", "Ethernet[3-7]", "Ethernet8")


@pytest.mark.parametrize("pci", ["C5:00.0", "00000000:C5:00.0", "0000:c5:00.0"])
def test_pci_addresses_of_the_usual_tools_are_read(hardware: HardwareList, pci: str) -> None:
    """lspci leaves out domain 0, nvidia-smi writes it with eight digits."""
    hardware.spoil("gpu1", mlx5_0_pci=pci, gpu_type="h100", gpu_pci=pci.replace("0.0", "1.0"))
    [gpu] = [n for n in site_of(hardware).nodes if n.name == "gpu1"]
    assert [h.pci for h in gpu.hcas] == ["0000:c5:00.0"]
    assert [a.pci for a in gpu.accelerators] == ["0000:c5:01.0"]


def test_gpu_type_in_two_spellings_is_reported(hardware: HardwareList) -> None:
    """Orders name one type, so hosts with the other spelling would never be found."""
    hardware.spoil("poplar1", kind="compute", gpu_type="h100", gpu_pci="0000:07:00.0")
    hardware.spoil("gpu1", gpu_type="H100", gpu_pci="0000:07:00.0")
    hardware.write()
    assert hardware.errors() == [
        "hardware.csv:9: gpu_type: 'H100' is not allowed: h100, as other rows write it: orders name one type"
    ]


def test_links_of_a_bond_may_have_any_separator(hardware: HardwareList) -> None:
    """As several PCI addresses in a cell may."""
    hardware.spoil(
        "nas1", eth0_bond_macs='"00:a0:98:00:00:02, 00a0.9800.0003"', eth0_bond_ports="tor1/Ethernet30/1;"
    )
    [nas] = [i for i in site_of(hardware).interfaces if i.device == "nas1"]
    assert nas.bond_macs == ("00:a0:98:00:00:02", "00:a0:98:00:00:03")
    assert nas.bond_ports == ("tor1/Ethernet30/1",)


def test_columns_from_and_to_are_read_as_ends_of_a_cable(hardware: HardwareList) -> None:
    """The commonest headings of cabling lists."""
    (hardware.folder / "cables.csv").write_text("From,From Port,To,To Port\nleaf1,1,gpu1,mlx5_0\n")
    errors: list[InputError] = []
    [row] = read_list(str(hardware.folder / "cables.csv"), {}, errors)
    assert not errors
    assert {c: cell.text for c, cell in row.cells.items()} == {
        "a": "leaf1", "a_port": "1", "b": "gpu1", "b_port": "mlx5_0"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("begin", "what"),
    [
        (b"PK\x03\x04\x14\x00\x06\x00\xff", "a workbook: save its sheet as CSV in UTF-8"),
        ("name,kind\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_other_spreadsheet_format_is_refused_with_advice(
    hardware: HardwareList, begin: bytes, what: str
) -> None:
    """For a workbook, and Excel's `Unicode text`, the sentence says what to save instead."""
    hardware.write()
    (hardware.folder / "hardware.csv").write_bytes(begin)
    assert hardware.errors()[0].endswith(f"; this is {what}")


def test_some_hosts_without_a_rack_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A merged cell of a spreadsheet is only in its first row; the other hosts would silently be in no rack."""
    hardware = HardwareList(tmp_path)
    hardware.spoil("gpu1", rack="")
    hardware.write()
    monkeypatch.chdir(tmp_path)
    assert main(["site", "import", "hardware.csv", "--site", "site.yaml", "--output", "out"]) == 0
    assert "note: 1 hosts have no rack, and others have one: gpu1" in capsys.readouterr().out
    assert load_site("out/site.yaml", links_needed=False)


@pytest.mark.parametrize("called", ["iDRAC9", "iLO 6", "iRMC S5", "XCC", "CIMC", "IMM2", "IPMI LAN"])
def test_vendors_bmc_column_is_read_as_the_bmc(hardware: HardwareList, called: str) -> None:
    """Otherwise `--redfish` would ask no BMC, and an inspection would find a second one at its address."""
    for attribute in ("mac", "address"):
        hardware.rows["gpu1"][f"{called} {attribute}"] = hardware.rows["gpu1"].pop(f"bmc_{attribute}")
        hardware.columns.append(f"{called} {attribute}")
        for row in hardware.rows.values():
            row.pop(f"bmc_{attribute}", None)
        hardware.columns.remove(f"bmc_{attribute}")
    for name in ("ipum1", "ipum2", "poplar1"):
        del hardware.rows[name]
    assert [(i.name, str(i.address)) for i in site_of(hardware).interfaces if i.device == "gpu1"] == [
        ("bmc", "10.3.0.11")
    ]


def test_redfish_without_a_bmc_to_ask_is_reported(hardware: HardwareList) -> None:
    """The option would do nothing."""
    (hardware.folder / "oob.csv").write_text(
        "name,kind,oob_mac,oob_ip\ngpu1,compute,02:00:00:00:00:01,10.3.0.5\n"
    )
    errors: list[InputError] = []
    assert (
        of_bmcs(read_list(str(hardware.folder / "oob.csv"), {}, errors), lambda _: HardwareRecord(""), errors)
        == {}
    )
    assert [str(e) for e in errors] == ["--redfish: missing: hosts with a bmc_address: the lists have none"]
