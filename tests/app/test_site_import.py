"""Hardware lists become the files of a site: what was checked is written, all of it or nothing."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.helpers.hardwarelist import GOOD, HardwareList
from tests.helpers.paths import EXAMPLES
from weft.app.csvtables import rows_of
from weft.app.hardwarelists import read_list
from weft.app.sitefile import load_site
from weft.app.siteimport import import_site, write_import
from weft.cli.main import main
from weft.generate.sitecsv import table_csv
from weft.model.errors import InputError, InputErrors
from weft.model.site import Site

LISTS = EXAMPLES / "hardware"


@pytest.fixture
def hardware(tmp_path: Path) -> HardwareList:
    return HardwareList(tmp_path)


def of_yaml(hardware: HardwareList, text: str) -> list[str]:
    """The errors of a YAML list."""
    (hardware.folder / "hardware.yaml").write_text(text)
    hardware.write()
    errors: list[InputError] = []
    records = read_list(str(hardware.folder / "hardware.yaml"), {}, errors)
    try:
        import_site(str(hardware.folder / "site.yaml"), records, errors)
    except InputErrors as error:
        return [str(e).replace(f"{hardware.folder}/", "") for e in error.errors]
    return []


def test_example_list_is_a_whole_ipu_pod64(tmp_path: Path) -> None:
    """16 IPU-Machines, four Poplar servers, two switches and a PDU, each interface in its network."""
    errors: list[InputError] = []
    head = str(LISTS / "ipupod64.yaml")
    records = read_list(str(LISTS / "ipupod64.csv"), {}, errors)
    imported = import_site(head, records, errors)
    write_import(imported, head, str(tmp_path / "site"))
    site = load_site(tmp_path / "site" / "site.yaml")
    assert site == imported.site
    assert (len(site.ipu_machines), len(site.nodes), len(site.devices)) == (16, 6, 3)
    assert {m.rnic_port for m in site.ipu_machines} == set(range(9, 25))
    assert {i.network for i in site.interfaces} == {"infrastructure"}
    before = load_site(EXAMPLES / "sites" / "ipupod64" / "site.yaml").ipu_machines
    cabled = {"bmc_switch": None, "bmc_port": None, "gw_switch": None, "gw_port": None}
    assert tuple(m.model_copy(update=cabled) for m in site.ipu_machines) == before


def test_missing_addresses_become_the_lowest_free_ones(hardware: HardwareList) -> None:
    """Not in the pool, not the gateway, not used anywhere in the list, and never twice."""
    hardware.site_text = hardware.site_text.replace("first: 10.3.0.200", "first: 10.3.0.5")
    hardware.spoil("pdu1", eth0_address="", eth0_network="infra")
    hardware.spoil("mgmt1", eth0_address="10.3.0.3")
    hardware.spoil("tor1", eth0_address="", eth0_network="infra")
    for row in ("poplar1", "gpu1"):
        del hardware.rows[row]
    hardware.spoil("ipum2", bmc_address="", gw_address="", rnic_address="")
    hardware.write()
    assert dict(hardware.imported().given) == {
        "tor1/eth0": "10.3.0.2",
        "pdu1/eth0": "10.3.0.4",
        "nas1/eth0": "10.12.0.1",
        "ipum2/bmc": "10.1.0.2",
        "ipum2/gw": "10.2.0.2",
        "ipum2/rnic": "10.5.1.2",
    }


def test_full_subnet_is_reported(hardware: HardwareList) -> None:
    """The error names the row without an address."""
    hardware.site_text = hardware.site_text.replace("first: 10.12.0.100", "first: 10.12.0.1")
    hardware.write()
    assert hardware.errors() == [
        "hardware.csv:5: eth0_address: missing: an address, since storage has no free one left"
    ]


def test_csv_and_yaml_give_the_same_site(hardware: HardwareList) -> None:
    """Nested and flat fields of YAML are the columns of CSV."""
    lines = ["hardware:"]
    for name, cells in GOOD.items():
        lines.append(f"  - name: {name}")
        lines += [f"    {c}: {v}" for c, v in cells.items() if not c.startswith(("bmc_", "ports"))]
        if ports := cells.get("ports"):
            lines.append(f"    ports: {ports.split()}")
        if bmc := {c[4:]: v for c, v in cells.items() if c.startswith("bmc_")}:
            lines.append("    bmc:")
            lines += [f"      {c}: {v}" for c, v in bmc.items()]
    assert of_yaml(hardware, "\n".join(lines)) == []
    errors: list[InputError] = []
    records = read_list(str(hardware.folder / "hardware.yaml"), {}, errors)
    assert import_site(str(hardware.folder / "site.yaml"), records, errors).site == hardware.imported().site


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("machines: []", ["hardware.yaml:1: machines: '…' is not allowed: unknown field; a list has one, hardware, "
                          "with the pieces of hardware"]),
        ("hardware: all of it",
         ["hardware.yaml:1: hardware: 'all of it' is not allowed: a list of pieces of hardware"]),
        ("hardware: [pdu1]", ["hardware.yaml:1: hardware[0]: 'pdu1' is not allowed: a mapping of fields"]),
        ("hardware:\n- name: pdu1\n  kind: pdu\n  rack: {name: [a, {b: c}]}",
         ["hardware.yaml:4: hardware[0].rack.name: '…' is not allowed: text, or a mapping of an interface's fields"]),
        ("hardware:\n- name: pdu1\n  kind: pdu\n  colour: blue",
         ["hardware.yaml:4: field: 'colour' is not allowed: unknown column; --column THEIRS=OURS says what it is, "
          "--column THEIRS= leaves it out"]),
        ("hardware:\n- name: pdu1\n  name: pdu2",
         ["hardware.yaml:3: hardware[0].name: 'name' is not allowed: it is given twice; first at hardware.yaml:2"]),
        ("hardware:\n- name: pdu1\n  kind: pdu\n  eth0_address: 10.3.0.4\n  eth0: {mac: 00:c0:b7:00:00:01, "
         "address: 10.3.0.5}",
         ["hardware.yaml:5: eth0_address: '10.3.0.5' is not allowed: each column once; first '10.3.0.4' at "
          "hardware.yaml:4"]),
        ("hardware:\n- name: pdu1\n  kind: pdu\n  eth0:\n    mac: 00:c0:b7:00:00:01\n    address: 10.3.0.1",
         ["hardware.yaml:6: eth0_address: '10.3.0.1' is not allowed: another address: it is the gateway of subnet "
          "infra"]),
    ],
)  # fmt: skip
def test_invalid_yaml_list_is_reported_by_line(
    hardware: HardwareList, text: str, expected: list[str]
) -> None:
    """With the line of the value, not of its row."""
    assert of_yaml(hardware, text) == expected


def test_columns_are_renamed_and_left_out_by_options(hardware: HardwareList) -> None:
    """Spaces, capitals and common synonyms are known; `--column` renames any other or leaves it out."""
    (hardware.folder / "hardware.csv").write_text(
        "Hostname,Device Type,IPMI MAC Address,iDRAC IP,Asset tag,Feet\n"
        "gpu1,Compute Node,2CEA.7F00.0002,10.3.0.11/24,4711,r2\n"
    )
    (hardware.folder / "site.yaml").write_text(hardware.site_text)
    errors: list[InputError] = []
    given = {"Asset tag": "", "Feet": "rack"}
    records = read_list(str(hardware.folder / "hardware.csv"), given, errors)
    site = import_site(str(hardware.folder / "site.yaml"), records, errors).site
    (bmc,) = site.interfaces
    assert (bmc.device, bmc.name, bmc.mac, str(bmc.address)) == (
        "gpu1",
        "bmc",
        "2c:ea:7f:00:00:02",
        "10.3.0.11",
    )
    assert (site.nodes[0].rack, bmc.host_name) == ("r2", "gpu1-bmc")


def test_hardware_in_two_lists_is_reported_in_the_second(hardware: HardwareList) -> None:
    """Each value that is there twice is reported: name, interface and address."""
    hardware.write()
    (hardware.folder / "more.csv").write_text(
        "name,kind,eth0_mac,eth0_address\npdu1,pdu,02:00:00:00:00:01,10.3.0.4\n"
    )
    errors: list[InputError] = []
    records = [
        r for f in ("hardware.csv", "more.csv") for r in read_list(str(hardware.folder / f), {}, errors)
    ]
    with pytest.raises(InputErrors) as caught:
        import_site(str(hardware.folder / "site.yaml"), records, errors)
    assert {(e.where or "").rpartition("/")[2] for e in caught.value.errors} == {"more.csv:2"}
    assert len(caught.value.errors) == 3


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        (["--column", "Foo=rack"], "--column: 'Foo=rack' is not allowed: a column that a list has"),
        (["--kind", "YY=toaster"], "--kind: 'YY=toaster' is not allowed: THEIRS= one of: ipu-machine, "),
        (
            ["--kind", "YY=pdu"],
            "--kind: 'YY=pdu' is not allowed: a kind that is in the lists, such as: compute, ",
        ),
        (["--kind", "pdu=pdu", "--column", "mtu="], None),
    ],
)
def test_option_that_applies_to_nothing_is_refused(
    hardware: HardwareList, capsys: pytest.CaptureFixture[str], option: list[str], expected: str | None
) -> None:
    """A mistyped column or kind isn't ignored."""
    hardware.write()
    list_, site = str(hardware.folder / "hardware.csv"), str(hardware.folder / "site.yaml")
    assert main(["site", "import", list_, "--site", site, *option]) == (2 if expected else 0)
    assert (expected or "") in capsys.readouterr().err


class TestWriting:
    """The directory is written as a whole, or not at all."""

    def test_existing_files_are_kept(self, hardware: HardwareList) -> None:
        """A directory that isn't empty is refused."""
        hardware.write()
        (hardware.folder / "out").mkdir()
        (hardware.folder / "out" / "site.yaml").write_text("mine")
        with pytest.raises(InputError, match="a directory that doesn't exist or is empty"):
            hardware.imported(hardware.folder / "out")
        assert [p.name for p in (hardware.folder / "out").iterdir()] == ["site.yaml"]

    def test_empty_directory_is_filled(self, hardware: HardwareList) -> None:
        """Nothing else is left beside it."""
        hardware.write()
        (hardware.folder / "out").mkdir()
        hardware.imported(hardware.folder / "out")
        assert load_site(hardware.folder / "out" / "site.yaml", links_needed=False).devices
        names = {p.name for p in hardware.folder.iterdir()}
        assert names == {"hardware.csv", "site.yaml", "out"}

    def test_current_directory_as_output_is_refused(
        self, hardware: HardwareList, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The directory would be replaced, and seem empty to its user."""
        hardware.write()
        (hardware.folder / "out").mkdir()
        monkeypatch.chdir(hardware.folder / "out")
        with pytest.raises(InputError, match=r"--output: '\.' is not allowed: a directory other than"):
            hardware.imported(Path())
        assert not any((hardware.folder / "out").iterdir())

    def test_included_files_are_copied(self, hardware: HardwareList) -> None:
        """The site file's tables are copied, so that the new directory is a complete site."""
        hardware.site_text += "racks: {csv: halls/racks.csv}\n"
        (hardware.folder / "halls").mkdir()
        (hardware.folder / "halls" / "racks.csv").write_text("name,power\nr1,a\nr2,b\n")
        hardware.write()
        hardware.imported(hardware.folder / "out")
        site = load_site(hardware.folder / "out" / "site.yaml", links_needed=False)
        assert {r.name: r.power for r in site.racks} == {"r1": "a", "r2": "b"}

    @pytest.mark.parametrize("spoil", ["flow", "end"])
    def test_site_file_that_cannot_be_extended_is_refused(self, hardware: HardwareList, spoil: str) -> None:
        """The new files are read back first; if they aren't valid, nothing is written."""
        hardware.write()
        text = hardware.site_text
        if spoil == "flow":
            import json

            from weft.app.yamltext import read_yaml

            text = json.dumps(read_yaml(text, "x")[0])
        else:
            text += "...\n"
        (hardware.folder / "site.yaml").write_text(text)
        with pytest.raises(InputError, match="--site"):
            hardware.imported(hardware.folder / "out")
        assert {p.name for p in hardware.folder.iterdir()} == {"hardware.csv", "site.yaml"}

    def test_table_in_both_list_and_site_file_is_refused(self, hardware: HardwareList) -> None:
        """Rows of the site file would be lost."""
        hardware.site_text += "devices:\n  - {name: pdu9, kind: pdu}\n"
        hardware.write()
        (error,) = hardware.errors()
        assert "devices: '…' is not allowed: nothing: the list fills this table" in error

    def test_empty_fields_of_the_site_file_count_as_missing(self, hardware: HardwareList) -> None:
        """As in `weft site check`: optional fields, a network, and a table that the list fills."""
        hardware.site_text = hardware.site_text.replace("    mtu: 9000\n", "    mtu:\n")
        hardware.site_text = hardware.site_text.replace(
            "    shared_with: [0123456789abcdef0123456789abcdef]\n", "    shared_with: ~\n"
        )
        hardware.site_text = f"racks:\n{hardware.site_text}  foo:\ndevices: # of the list\n"
        hardware.spoil("nas1", eth0_rate_gbps="")
        hardware.write()
        hardware.imported(hardware.folder / "out")
        site = load_site(hardware.folder / "out" / "site.yaml", links_needed=False)
        assert {r.name for r in site.racks} == {"r1", "r2"} and len(site.devices) == 4
        assert "foo" not in site.networks and site.networks["storage"].mtu == 1500

    @pytest.mark.parametrize("racks", ["[{name: [a]}]", "[{name: {a: b}}]", "[r1]", "all", "{a: b}"])
    def test_malformed_racks_are_reported(self, hardware: HardwareList, racks: str) -> None:
        """With the errors of `weft site check`."""
        hardware.site_text += f"racks: {racks}\n"
        hardware.write()
        assert any(line.split(": ")[1].startswith("racks") for line in hardware.errors())

    def test_tables_have_only_columns_that_are_used(self, hardware: HardwareList) -> None:
        """So that they are readable."""
        hardware.write()
        hardware.imported(hardware.folder / "out")
        with (hardware.folder / "out" / "devices.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == ["name", "kind", "rack", "ports", "port_gbps", "mtu"]
        assert [r["name"] for r in rows] == ["mgmt1", "tor1", "pdu1", "nas1"]


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "'=1", "''-x", "'quoted", "-", "-3.5"])
def test_formula_in_a_table_is_text_for_spreadsheets_and_read_back(text: str) -> None:
    written = table_csv(("name", "maintenance"), [{"name": "gpu01", "maintenance": text}])
    assert written.splitlines()[1].partition(",")[2].startswith("'") == (text not in ("-", "-3.5"))
    errors: list[InputError] = []
    [(row, _)] = rows_of(written, "nodes.csv", frozenset({"name", "maintenance"}), errors)
    assert (row["maintenance"], errors) == (text, [])


def test_site_with_networks_survives_the_api(hardware: HardwareList) -> None:
    """Sent, stored and shown it is the same site."""
    from weft.planning.site.parts import cut

    hardware.write()
    site: Site = hardware.imported().site
    assert load_site(dict(cut(site).document), links_needed=False) == site


SWITCHED = """
fabrics:
  roce:
    type: ethernet
    physical_network: physnet-data
    segments: {first: 1100, last: 1199}
    manager:
      driver: switches
      switching:
        switches: [{name: tor75, interface: eos, url: "https://10.3.1.2"}]
        parking: 4000
"""


def on_switches(tmp_path: Path, change: tuple[str, str] = ("", "")) -> Site:
    """The example list with a data network whose switches weft configures."""
    head = (LISTS / "ipupod64.yaml").read_text()
    data = "data:                            # IPU over Fabric: a VLAN a pod\n      physical_network: physnet-data\n"
    data += "      segments: {first: 1100, last: 1199}\n"
    assert data in head
    (tmp_path / "head.yaml").write_text(head.replace(data, "data:\n      fabric: roce\n") + SWITCHED)
    rows = list(csv.reader((LISTS / "ipupod64.csv").read_text().splitlines()[1:]))
    adapter = ("MAC", "Fabric", "GUID", "Port GUID", "PCI", "Switch", "Switch Port")
    rows[0] += ["Fabric", "Level", *(f"mlx5_0 {column}" for column in adapter)]
    for number, row in enumerate(rows[1:], 1):
        row.extend(["roce", "leaf"] if row[0] == "tor75" else ["", ""])
        guid = f"0x{0x0C42A10300000000 + number:016x}"
        server = "poplar" in row[1].lower()
        cells = [
            f"0c:42:a1:76:00:{number:02x}",
            "roce",
            guid,
            guid,
            "0000:c5:00.0",
            "tor75",
            f"Ethernet{number - 18}/1",
        ]
        row.extend(cells if server else [""] * len(adapter))
        if row[0] == "tor75":
            row[rows[0].index("Port Gbps")] = row[rows[0].index("MTU")] = ""
    text = "\n".join(",".join(row) for row in rows) + "\n"
    (tmp_path / "list.csv").write_text(text.replace(*change) if change[0] else text)
    errors: list[InputError] = []
    records = read_list(str(tmp_path / "list.csv"), {}, errors)
    return import_site(str(tmp_path / "head.yaml"), records, errors).site


def test_ipu_machines_get_vendor_port_names_on_a_fabric_of_switches(tmp_path: Path) -> None:
    """The list numbers the ports, or names them; the switch says what they are called."""
    site = on_switches(tmp_path)
    assert {m.rnic_switch_port for m in site.ipu_machines} == {f"Ethernet{n}/1" for n in range(9, 25)}
    assert site.switch_by_name["tor75"].ports == 32
    assert on_switches(tmp_path, (",tor75,9,", ",tor75,Ethernet9/1,")) == site


def test_unknown_port_of_a_switch_is_refused(tmp_path: Path) -> None:
    for change, expected in (
        ((",tor75,9,", ",tor75,99,"), "a port of tor75: Ethernet1/1 to Ethernet32/1, or 1 to 32"),
        (("Ethernet[1-32]/1", "32"), "a number on a switch of the list with its ports"),
    ):
        with pytest.raises(InputErrors) as refused:
            on_switches(tmp_path, change)
        assert expected in str(refused.value)


def test_infiniband_adapters_of_a_list_need_no_mac_address(hardware: HardwareList) -> None:
    """Their GUIDs identify them, on the site's only InfiniBand fabric."""
    row = hardware.rows["gpu1"]
    for column in ("mlx5_0_mac", "mlx5_0_fabric"):
        del row[column]
    hardware.columns.remove("mlx5_0_mac")
    hardware.write()
    site = hardware.imported().site
    assert [(h.name, h.fabric, h.mac) for h in site.node_by_name["gpu1"].hcas] == [("mlx5_0", "ib0", None)]


def test_full_host_names_lose_their_domain(hardware: HardwareList) -> None:
    """A column called FQDN has names with their domain; a dns_name has none."""
    del hardware.rows["pdu1"]["eth0_dns_name"]
    hardware.columns.remove("eth0_dns_name")
    hardware.spoil("pdu1", **{"eth0 FQDN": "power1.dc.example"})
    hardware.write()
    names = {i.device: i.host_name for i in hardware.imported().site.interfaces}
    assert names["pdu1"] == "power1"


def test_bond_in_a_list_keeps_its_links(hardware: HardwareList, tmp_path: Path) -> None:
    hardware.spoil("nas1", eth0_bond_macs="00A0.9800.0002", eth0_bond_ports="tor1/Ethernet32/1")
    hardware.write()
    hardware.imported(tmp_path / "out")
    rows = (tmp_path / "out" / "interfaces.csv").read_text().splitlines()
    (row,) = [r for r in rows if r.startswith("nas1")]
    assert row.endswith(",tor1,Ethernet31/1,100,00:a0:98:00:00:02,tor1/Ethernet32/1")
