"""A site file is read as a whole, or refused with file, line, field, value and what is allowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.helpers.paths import SMALL
from tests.helpers.sitefolder import Folder
from weft.app.sitefile import load_site
from weft.model.errors import InputErrors


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_small_example_site_is_valid() -> None:
    """16 nodes under 4 leaves, each with its adapters and accelerators."""
    site = load_site(SMALL / "site.yaml")
    compute = [n for n in site.nodes if n.role == "compute"]
    assert len(compute) == 16
    assert {(len(n.hcas), len(n.accelerators), n.cloud) for n in compute} == {(4, 8, "main")}
    assert [s.name for s in site.switches if s.level == "leaf"] == ["leaf01", "leaf02", "leaf03", "leaf04"]
    assert site.fabrics["ib"].segments.numbers() == range(101, 227)


def test_site_survives_json(folder: Folder) -> None:
    """The API reads what `site activate` sends as the same site."""
    site = load_site(folder.site)
    document = json.loads(json.dumps(site.model_dump(mode="json")))
    assert load_site(document) == site


def test_rows_in_any_order_are_the_same_site(folder: Folder) -> None:
    """With the rows of every CSV file in reverse order."""
    before = load_site(folder.site)
    for file in folder.path.glob("*.csv"):
        header, *rows = file.read_text().splitlines()
        file.write_text("\n".join([header, *reversed(rows)]) + "\n")
    assert load_site(folder.site) == before


def test_csv_may_have_any_column_order_comments_blanks_and_a_bom(folder: Folder) -> None:
    before = load_site(folder.site)
    rows = [line.split(",") for line in (folder.path / "racks.csv").read_text().splitlines()]
    turned = [",".join(reversed(r)) for r in rows]
    text = "\r\n".join([turned[0], "# the cold aisle", "", *turned[1:], ""])
    (folder.path / "racks.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert load_site(folder.site) == before


def test_inline_rows_and_includes_may_be_mixed(folder: Folder) -> None:
    """Each error still has its own file and line."""
    folder.replace(
        "site.yaml",
        "nodes: {csv: nodes.csv}",
        "nodes:\n  - name: login01\n    role: service\n  - {csv: nodes.csv}\n  - {name: bad name, role: chief}",
    )
    # One line became four, so the last row is on line 43.
    line = (folder.site.read_text().splitlines()).index("  - {name: bad name, role: chief}") + 1
    assert folder.errors() == [
        f"site.yaml:{line}: nodes[19].name: 'bad name' is not allowed: "
        "letters, digits, '.', '_' and '-', starting and ending with a letter or digit, at most 63 characters",
        f"site.yaml:{line}: nodes[19].role: 'chief' is not allowed: "
        "'compute', 'poplar', 'controller', 'subnet-manager' or 'service'",
    ]
    folder.replace("site.yaml", "  - {name: bad name, role: chief}\n", "")
    assert "login01" in load_site(folder.site).node_by_name


def test_adapters_inline_and_in_the_table_are_added_up(folder: Folder) -> None:
    """A duplicate among both is found."""
    folder.replace(
        "site.yaml",
        "nodes: {csv: nodes.csv}",
        "nodes:\n"
        "  - {csv: nodes.csv}\n"
        "  - name: extra\n"
        "    rack: rack1\n"
        "    hcas:\n"
        "      - {name: mlx5_0, fabric: ib, guid: 0xb8599f0300000100, port_guid: 00000000000000a1, pci: 0000:05:00.0}",
    )
    folder.append("links.csv", "extra/mlx5_0,1,leaf01,20")
    line = folder.site.read_text().splitlines().index("    hcas:") + 2
    assert folder.errors() == [
        f"site.yaml:{line}: nodes[18].hcas[0].guid: '0xb8599f0300000100' is not allowed: "
        "a node GUID must be unique; gpu01/mlx5_0 already has it"
    ]
    folder.replace("site.yaml", "guid: 0xb8599f0300000100", "guid: 0000:0000:0000:00a0")
    hca = load_site(folder.site).node_by_name["extra"].hcas[0]
    assert (hca.guid, hca.port_guid, hca.pci) == (0xA0, 0xA1, "0000:05:00.0")


def test_all_errors_are_reported_with_their_lines(folder: Folder) -> None:
    """Three files with a mistake each give three sentences."""
    folder.replace("switches.csv", "leaf02,ib,leaf,40", "leaf02,ib,leaf,400")
    folder.replace("hcas.csv", "gpu03,mlx5_1,ib,0xb8599f0300000310", "gpu03,mlx5_1,ib,0xZZ")
    folder.replace("site.yaml", "prefix: 24\n    rdma_addresses", "prefix: 64\n    rdma_addresses")
    assert folder.errors() == [
        "site.yaml:11: clouds.main.management.prefix: '64' is not allowed: 29 or less",
        "switches.csv:3: switches[1].ports: '400' is not allowed: 254 or less",
        "hcas.csv:11: hcas[9].guid: '0xZZ' is not allowed: "
        "a GUID is 16 hex digits and not zero, such as 0x0002c90300300001",
    ]


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        (
            "site.yaml",
            "    external_network: public",
            "    external_networks: public",
            "site.yaml:6: clouds.main.external_networks: 'public' is not allowed: unknown field; did you mean "
            "external_network? known here: bios_settings, cleaning_steps, deployment, external_network, firmware, "
            "firmware_unchanged, flavors, hosts_kept_free, images, machine_owners, machines_by, management, profile, "
            "rdma_addresses, rdma_prefix, storage",
        ),
        (
            "site.yaml",
            "    external_network: public",
            "    external_networks:",
            "site.yaml:6: clouds.main.external_networks: 'null' is not allowed: unknown field; did you mean "
            "external_network? known here: bios_settings, cleaning_steps, deployment, external_network, firmware, "
            "firmware_unchanged, flavors, hosts_kept_free, images, machine_owners, machines_by, management, profile, "
            "rdma_addresses, rdma_prefix, storage",
        ),
        (
            "site.yaml",
            "    rdma_addresses: 10.128.0.0/16",
            "    rdma_prefix: 24",
            "site.yaml:13: clouds.main.rdma_prefix: 'rdma_prefix' is not allowed: "
            "it is given twice; first at site.yaml:12",
        ),
        (
            "site.yaml",
            "    physical_network: physnet-ib\n",
            "",
            "site.yaml:25: fabrics.ib.physical_network: missing: "
            "Name of the physical network in Neutron",
        ),
        (
            "site.yaml",
            "10.128.0.0/16",
            "10.128.0.1/16",
            "site.yaml:12: clouds.main.rdma_addresses: '10.128.0.1/16' is not allowed: "
            "an IPv4 network such as 10.1.0.0/24, without host bits",
        ),
        (
            "site.yaml",
            '"https://sm1.example.net:8443"',
            "http://sm1.example.net",
            "site.yaml:32: fabrics.ib.manager.agents[0].url: 'http://sm1.example.net' is not allowed: "
            "a URL that begins with https://",
        ),
        ("site.yaml", "last: 0xe2", "last: many", "site.yaml:28: fabrics.ib.segments.last: 'many' is not allowed: "
         "a whole number"),
        ("site.yaml", "driver: opensm", "driver: !opensm x", "site.yaml:30: fabrics.ib.manager.driver: '!opensm' "
         "is not allowed: tags are not used here"),
        ("nodes.csv", "name,rack,role", "name,rack,rolle", "nodes.csv:1: csv: 'rolle' is not allowed: "
         "unknown column; known here: cloud, cores, dedicated_cores, host, ipu_pod, labels, machine, maintenance, "
         "memory_mib, name, numa_nodes, nvlink_domain, product_uuid, rack, role, serial, servers, sockets"),
        ("nodes.csv", "name,rack,role", "name,rack,rack", "nodes.csv:1: csv: 'rack' is not allowed: "
         "the column appears twice"),
        ("nodes.csv", "gpu05,rack2,compute", "gpu05,rack2", "nodes.csv:6: csv: 'gpu05,rack2' is not allowed: "
         "3 cells, as in the header"),
        ("nodes.csv", "gpu05,rack2,compute", '"gpu05,rack2,compute', "nodes.csv:6: csv: 'nodes.csv' "
         "is not allowed: must be CSV: unexpected end of data"),
        ("site.yaml", "racks: {csv: racks.csv}", "racks: {csv: ../racks.csv}", "site.yaml:38: racks.csv: "
         "'../racks.csv' is not allowed: the file must be inside the site file's directory"),
        ("site.yaml", "racks: {csv: racks.csv}", "racks: {csv: /etc/passwd}", "site.yaml:38: racks.csv: "
         "'/etc/passwd' is not allowed: the file must be inside the site file's directory"),
        ("site.yaml", "racks: {csv: racks.csv}", "racks: {csv: rax.csv}", "site.yaml:38: racks.csv: 'rax.csv' "
         "is not allowed: there is no such file in ."),
        ("site.yaml", "racks: {csv: racks.csv}", "racks: {csv: racks.csv, delimiter: ;}", "site.yaml:38: racks.csv: "
         "'csv, delimiter' is not allowed: an include has one field, csv, with a file's name"),
        ("site.yaml", "racks: {csv: racks.csv}", "racks: racks.csv", "site.yaml:38: racks: 'racks.csv' "
         "is not allowed: a list"),
        ("site.yaml", "name: small\n", "name: {a: [\n", "site.yaml:5: document: \"did not find expected ',' or ']'\" "
         "is not allowed: while parsing a flow sequence"),
    ],
)  # fmt: skip
def test_bad_value_gives_one_sentence(folder: Folder, file: str, old: str, new: str, expected: str) -> None:
    """With file, line, field, value and what is allowed."""
    folder.replace(file, old, new)
    assert folder.errors() == [expected]


def test_link_out_of_the_directory_is_not_followed(folder: Folder, tmp_path: Path) -> None:
    """A symbolic link to a file elsewhere is outside, too."""
    (tmp_path / "elsewhere.csv").write_text("name\nrack1\n")
    (folder.path / "racks.csv").unlink()
    (folder.path / "racks.csv").symlink_to(tmp_path / "elsewhere.csv")
    assert folder.errors() == [
        "site.yaml:38: racks.csv: 'racks.csv' is not allowed: the file must be inside the site file's directory"
    ]


def test_unreadable_file_is_reported(tmp_path: Path) -> None:
    """A missing file, a directory, binary data, and an empty file: one sentence each."""
    binary, empty = tmp_path / "binary.yaml", tmp_path / "empty.yaml"
    binary.write_bytes(b"name: \xff\xfe")
    empty.write_text("# nothing yet\n")
    for path, expected in (
        (tmp_path / "none.yaml", f"file: '{tmp_path}/none.yaml' is not allowed: an existing file"),
        (tmp_path, f"file: '{tmp_path}' is not allowed: an existing file"),
        (binary, f"file: '{binary}' is not allowed: must be UTF-8; byte 6 is not"),
        (empty, f"{empty}:1: document: 'nothing' is not allowed: must be a mapping of fields"),
    ):
        with pytest.raises(InputErrors) as caught:
            load_site(path)
        assert str(caught.value) == expected


def test_includes_are_refused_outside_files(folder: Folder) -> None:
    """A document sent to the API can't make the server read a file."""
    document = load_site(folder.site).model_dump(mode="json")
    document["racks"] = {"csv": "racks.csv"}
    with pytest.raises(InputErrors, match=r"racks: 'a mapping' is not allowed: a list"):
        load_site(document)


def test_empty_or_binary_include_is_refused(folder: Folder) -> None:
    """A CSV file without a header, and one that isn't UTF-8."""
    (folder.path / "racks.csv").write_text("")
    (folder.path / "links.csv").write_bytes(b"a,a_port\n\xff")
    assert folder.errors() == [
        "racks.csv: csv: 'racks.csv' is not allowed: the file is empty; its first line must name the columns",
        "links.csv: csv: 'links.csv' is not allowed: must be UTF-8; byte 9 is not",
    ]


@pytest.mark.parametrize("first", ["0101", "0065", "1_01"])
def test_ambiguous_number_is_refused(folder: Folder, first: str) -> None:
    """`0101` could be 257, 65 or 101: P_Keys are usually meant in hex, YAML reads octal."""
    folder.replace("site.yaml", "first: 0x65", f"first: {first}")
    [line] = folder.errors()
    assert (
        "segments.first" in line and "a number in decimal without zeros in front, or in hex with 0x" in line
    )


@pytest.mark.parametrize(("said", "reason"), [("no", None), ("false", None), ('"0"', None), ("fan", "fan")])
def test_node_is_in_maintenance_only_for_a_reason(folder: Folder, said: str, reason: str | None) -> None:
    """`maintenance: no` isn't a reason."""
    document = load_site(folder.site).model_dump(mode="json")
    document["nodes"][0]["maintenance"] = said.strip('"')
    assert load_site(document).nodes[0].maintenance == reason
    document["nodes"][0]["maintenance"] = False
    assert load_site(document).nodes[0].maintenance is None
