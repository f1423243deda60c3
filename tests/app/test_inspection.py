"""Ironic's inspection data fill in what a list leaves out; contradictions are reported with both places."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.hardwarelist import HardwareList
from weft.app.hardwarelists import read_inspections, read_list
from weft.app.siteimport import import_site
from weft.cli.main import main
from weft.model.errors import InputError, InputErrors
from weft.model.site import Site
from weft.planning.hardware.complete import completed

CLIENT_ID = "ff:00:00:00:00:00:02:00:00:02:c9:00:b8:59:9f:03:00:00:00:10"
"""The id that ironic-python-agent makes of the port GUID b859:9f03:0000:0010."""


def inspected(**changes: Any) -> dict[str, Any]:
    """Inspection data of gpu1: its BMC, an Ethernet port, and an InfiniBand port with the kernel's name ib0."""
    ethernet = {"name": "eno1", "mac_address": "2C:EA:7F:00:01:02", "ipv4_address": "10.9.0.7", "has_carrier": True,
                "lldp": None, "client_id": None, "speed_mbps": 1000}  # fmt: skip
    infiniband = {"name": "ib0", "mac_address": "b8:59:9f:00:00:10", "client_id": CLIENT_ID,
                  "pci_address": "0000:c5:00.0", "has_carrier": True, "lldp": None}  # fmt: skip
    inventory = {
        "bmc_address": "10.3.0.11",
        "bmc_mac": "2c:ea:7f:00:00:02",
        "interfaces": [ethernet, infiniband],
    }
    heard = {"eno1": {"switch_system_name": "mgmt1", "switch_port_id": "Ethernet6"}}
    return {"inventory": inventory | changes, "plugin_data": {"parsed_lldp": heard}}


@pytest.fixture
def hardware(tmp_path: Path) -> HardwareList:
    """The valid list without the cells of gpu1 that inspection data can give."""
    made = HardwareList(tmp_path)
    made.spoil(
        "gpu1",
        bmc_mac="",
        bmc_address="",
        mlx5_0_port_guid="",
        mlx5_0_pci="",
        eno1_network="infra",
        eno1_mac="",
    )
    return made


def imported(hardware: HardwareList, document: Any, name: str = "gpu1") -> Site:
    hardware.write()
    (hardware.folder / f"{name}.json").write_text(
        document if isinstance(document, str) else json.dumps(document)
    )
    errors: list[InputError] = []
    records = read_list(str(hardware.folder / "hardware.csv"), {}, errors)
    found = read_inspections([str(hardware.folder / f"{name}.json")], errors)
    return import_site(str(hardware.folder / "site.yaml"), completed(records, found, errors), errors).site


def errors_of(hardware: HardwareList, document: Any, name: str = "gpu1") -> list[str]:
    with pytest.raises(InputErrors) as caught:
        imported(hardware, document, name)
    return [str(e).replace(f"{hardware.folder}/", "") for e in caught.value.errors]


def test_fields_missing_in_the_list_are_filled(hardware: HardwareList) -> None:
    """BMC, MAC address and switch port of an interface; GUID and PCI address of an adapter with another name."""
    site = imported(hardware, inspected())
    (gpu1,) = [n for n in site.nodes if n.name == "gpu1"]
    (hca,) = gpu1.hcas
    assert (hca.name, hca.port_guid, hca.pci) == ("mlx5_0", 0xB8599F0300000010, "0000:c5:00.0")
    found = {i.name: (i.mac, str(i.address), i.switch, i.port) for i in site.interfaces if i.device == "gpu1"}
    assert found["bmc"] == ("2c:ea:7f:00:00:02", "10.3.0.11", None, None)
    # An address that inspection saw is a lease of the inspection network, not the host's own.
    assert found["eno1"] == ("2c:ea:7f:00:01:02", "10.3.0.5", "mgmt1", "Ethernet6")


def test_missing_field_without_inspection_is_reported(hardware: HardwareList) -> None:
    """The control: the list alone is refused for exactly these fields."""
    hardware.write()
    assert {line.split(": ")[1] for line in hardware.errors()} == {
        "eno1_mac",
        "mlx5_0_port_guid",
        "mlx5_0_pci",
    }


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"bmc_mac": "2c:ea:7f:00:00:99"}, "bmc_mac: '2c:ea:7f:00:00:99' is not allowed: 2c:ea:7f:00:00:02, as "
         "gpu1.json has it"),
        ({"bmc_address": "10.3.0.99"}, "bmc_address: '10.3.0.99' is not allowed: 10.3.0.11, as gpu1.json has it"),
        ({"eno1_switch": "mgmt1", "eno1_port": "Ethernet5"}, "eno1_port: 'Ethernet5' is not allowed: Ethernet6, as "
         "gpu1.json has it"),
        ({"mlx5_0_port_guid": "0xb8599f0300000099"}, "mlx5_0_port_guid: '0xb8599f0300000099' is not allowed: "
         "0xb8599f0300000010, as gpu1.json has it"),
        ({"mlx5_0_pci": "0000:c6:00.0"}, "mlx5_0_pci: '0000:c6:00.0' is not allowed: 0000:c5:00.0, "
         "as gpu1.json has it"),
    ],
)  # fmt: skip
def test_contradiction_with_the_list_is_reported(
    hardware: HardwareList, row: dict[str, str], sentence: str
) -> None:
    """With the list's line, and where the inspection data have it."""
    hardware.spoil("gpu1", **row)
    del hardware.rows["poplar1"]
    assert f"hardware.csv:8: {sentence}" in [
        line.replace(f"as {hardware.folder}/", "as ") for line in errors_of(hardware, inspected())
    ]


def test_interface_is_matched_by_mac_despite_another_name(hardware: HardwareList) -> None:
    """The list's eno1 is the kernel's eno2; the cable of the kernel's eno1 must not become eno1's."""
    hardware.spoil("gpu1", eno1_mac="2c:ea:7f:00:01:03")
    document = inspected()
    document["inventory"]["interfaces"].append({"name": "eno2", "mac_address": "2c:ea:7f:00:01:03"})
    (eno1,) = [i for i in imported(hardware, document).interfaces if i.name == "eno1"]
    assert (eno1.mac, eno1.switch, eno1.port) == ("2c:ea:7f:00:01:03", None, None)
    document["plugin_data"]["parsed_lldp"]["eno2"] = {
        "switch_system_name": "mgmt1",
        "switch_port_id": "Ethernet5",
    }
    del hardware.rows["poplar1"]
    (eno1,) = [i for i in imported(hardware, document).interfaces if i.name == "eno1"]
    assert (eno1.switch, eno1.port) == ("mgmt1", "Ethernet5")


def test_swapped_interface_names_are_accepted(hardware: HardwareList) -> None:
    """The kernel's eno1 is the list's eno2 and vice versa: no contradiction."""
    hardware.spoil("gpu1", eno1_mac="2c:ea:7f:00:01:03", eno2_mac="2c:ea:7f:00:01:02", eno2_network="infra")
    document = inspected()
    document["inventory"]["interfaces"].append({"name": "eno2", "mac_address": "2c:ea:7f:00:01:03"})
    found = {i.name: i for i in imported(hardware, document).interfaces if i.device == "gpu1"}
    assert (found["eno1"].port, found["eno2"].port) == (None, "Ethernet6")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ENO-1", "interface 'ENO-1' needs a name that differs from 'ENO_1' by letters or digits"),
        ("管理", "interface '管理' needs a name with Latin letters or digits"),
    ],
)
def test_colliding_or_unnamed_interfaces_are_reported(
    hardware: HardwareList, name: str, sentence: str
) -> None:
    """Two interfaces that get the same column, or one without a name: reported with the file."""
    document = inspected()
    document["inventory"]["interfaces"] += [
        {"name": n, "mac_address": f"02:00:00:00:00:0{i}"} for i, n in enumerate(("ENO_1", name))
    ]
    assert any("gpu1.json" in line and sentence in line for line in errors_of(hardware, document))


def test_other_notation_is_not_a_contradiction(hardware: HardwareList) -> None:
    """Separators and capitals of MAC addresses."""
    hardware.spoil(
        "gpu1", bmc_mac="2CEA.7F00.0002", bmc_address="10.3.0.11/24", mlx5_0_port_guid="0xB8599F0300000010"
    )
    assert imported(hardware, inspected()).nodes


def test_inspection_file_of_an_unlisted_host_is_refused(hardware: HardwareList) -> None:
    """A file with an unknown name isn't ignored."""
    assert any(
        "gpu7" in line and "the name of a machine of the lists" in line
        for line in errors_of(hardware, inspected(), "gpu7")
    )


def test_bmc_address_0_0_0_0_of_an_inspection_is_ignored(hardware: HardwareList) -> None:
    """Ironic's agent reports it if it finds no BMC."""
    hardware.spoil("gpu1", bmc_mac="2c:ea:7f:00:00:02", bmc_address="10.3.0.11")
    assert imported(hardware, inspected(bmc_address="0.0.0.0", bmc_mac=None)).nodes


@pytest.mark.parametrize("text", ["", "[]", "{}",
                                  '{"inventory": {"interfaces": [{}]}}', '{"inventory": {"interfaces": [1]}}',
                                  '{"inventory": {}, "plugin_data": {"parsed_lldp": [1]}}', "[" * 100_000])  # fmt: skip
def test_invalid_inspection_files_are_refused(hardware: HardwareList, text: str) -> None:
    """Empty, truncated, or of another shape: one sentence with the file's name."""
    assert any("--inspection" in line and "gpu1.json" in line for line in errors_of(hardware, text))


def test_switch_of_an_inspection_is_found_by_any_of_its_names(hardware: HardwareList) -> None:
    """With its domain and in another case; a port's alias and the name in its description."""
    hardware.spoil("gpu1", eno1_switch="TOR1")
    document = inspected()
    document["plugin_data"]["parsed_lldp"]["eno1"] = {
        "switch_system_name": "Tor1.dc.example", "switch_port_id": "etp5", "switch_port_description": "Ethernet5/1"
    }  # fmt: skip
    site = imported(hardware, document)
    (one,) = [i for i in site.interfaces if i.device == "gpu1" and i.name == "eno1"]
    assert (one.switch, one.port) == ("tor1", "Ethernet5/1")


def test_import_command_reads_inspection_files(
    hardware: HardwareList, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two files of one host are an error."""
    hardware.write()
    file = hardware.folder / "gpu1.json"
    file.write_text(json.dumps(inspected()))
    words = [
        "site",
        "import",
        str(hardware.folder / "hardware.csv"),
        "--site",
        str(hardware.folder / "site.yaml"),
    ]
    assert main([*words, "--inspection", str(file)]) == 0
    assert main([*words, "--inspection", str(file), str(file)]) == 2
    assert "one file per host" in capsys.readouterr().err
