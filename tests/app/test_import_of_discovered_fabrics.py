"""`weft site import --fabric`: ibnetdiscover's output gives switches, cables and GUIDs to the hosts of a list."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.hardwarelist import SITE
from tests.helpers.paths import SMALL
from tests.planning.fabric.simulatedfabric import discover
from weft.app.sitefile import load_site
from weft.cli.main import main
from weft.model.observedfabric import ObservedNode
from weft.planning.fabric.ibnetdiscover import parse_ibnetdiscover
from weft.planning.hardware.discovered import Discovered

TWO_FABRICS = SITE.replace("ipu_pods:", "  ib1: {physical_network: ib1, segments: {first: 101, last: 226}, "
                           "manager: {driver: opensm}}\nipu_pods:")  # fmt: skip
HOSTS = (
    "name,kind,rack,mlx5_0_pci,mlx5_0_port_guid\n"
    "gpu01,compute,r1,0000:0c:00.0,\n"
    "gpu02,compute,r1,0000:0c:00.0,\n"
    f"gpu03,compute,r2,0000:0c:00.0,{0x31:#018x}\n"
)
LEAF1, LEAF2, SPINE = 0x100, 0x200, 0x300


def record(kind: str, guid: int, name: str, ports: int, lines: list[str]) -> str:
    letter = "S" if kind == "Switch" else "H"
    attribute = "switchguid" if kind == "Switch" else "caguid"
    head = (
        f'{attribute}=0x{guid:x}({guid:x})\n{kind}\t{ports} "{letter}-{guid:016x}"\t\t# "{name}" lid 1 lmc 0'
    )
    return "\n".join([head, *lines]) + "\n"


def fabric(
    leaf1: str = "leaf01", gpu03: str = "MT4129 ConnectX7   Mellanox Technologies", more: str = ""
) -> str:
    """Output with two leaves, a spine, three hosts, an aggregation node of the spine, and a leaf without hosts."""
    hosts = [
        (0x10, "gpu01 mlx5_0", LEAF1, 1),
        (0x20, "gpu02.dc.example mlx5_0", LEAF1, 2),
        (0x30, gpu03, LEAF2, 1),
    ]
    hosts.append((0x40, "Mellanox Technologies Aggregation Node", SPINE, 41))
    switches = [
        (LEAF1, leaf1, 39),
        (LEAF2, "leaf02", 39),
        (0x400, "leaf03", 39),
        (SPINE, "MF0;spine01:MQM8700/U1", 0),
    ]
    text = ""
    for guid, name, uplink in switches:
        lines = [
            f'[{p}]\t"H-{g:016x}"[1]({g + 1:x})\t# "{n}" lid 1 4xHDR' for g, n, at, p in hosts if at == guid
        ]
        if uplink:
            lines.append(f'[{uplink}]\t"S-{SPINE:016x}"[{guid >> 8}]\t# "spine" lid 1 4xHDR')
        else:
            lines += [f'[{g >> 8}]\t"S-{g:016x}"[{up}]\t# "leaf" lid 1 4xHDR' for g, _, up in switches if up]
        text += record("Switch", guid, name, 41, lines)
    for guid, name, at, port in hosts:
        text += record(
            "Ca", guid, name, 1, [f'[1]({guid + 1:x})\t"S-{at:016x}"[{port}]\t# lid 1 lmc 0 "x" lid 1 4xHDR']
        )
    return text + more


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "head.yaml").write_text(SITE)
    (tmp_path / "hosts.csv").write_text(HOSTS)
    (tmp_path / "ib0.txt").write_text(fabric())
    return tmp_path


def imported(capsys: pytest.CaptureFixture[str], *more: str, fabric: str = "ib0.txt") -> tuple[int, str]:
    lists = ["hosts.csv", *(m for m in more if m.endswith(".csv"))]
    rest = [m for m in more if m not in lists]
    code = main(["site", "import", *lists, "--site", "head.yaml", "--fabric", fabric, *rest])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_discovered_fabric_completes_a_list(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Switches with levels, hosts' GUIDs (found by description or port GUID) and all cables, in a file each."""
    code, said = imported(capsys, "--output", "out")
    assert code == 0, said
    site = load_site(folder / "out" / "site.yaml")
    assert {s.name: (s.level, s.ports, s.guid) for s in site.switches} == {
        "leaf01": ("leaf", 41, LEAF1), "leaf02": ("leaf", 41, LEAF2), "leaf03": ("leaf", 41, 0x400),
        "spine01": ("spine", 41, SPINE),
    }  # fmt: skip
    hcas = {n.name: [(h.name, h.fabric, h.guid, h.port_guid, h.pci) for h in n.hcas] for n in site.nodes}
    assert hcas == {
        "gpu01": [("mlx5_0", "ib0", 0x10, 0x11, "0000:0c:00.0")],
        "gpu02": [("mlx5_0", "ib0", 0x20, 0x21, "0000:0c:00.0")],
        "gpu03": [("mlx5_0", "ib0", 0x30, 0x31, "0000:0c:00.0")],
    }
    assert {(k.a, k.a_port, k.b, k.b_port) for k in site.links} == {
        ("gpu01/mlx5_0", 1, "leaf01", 1), ("gpu02/mlx5_0", 1, "leaf01", 2), ("gpu03/mlx5_0", 1, "leaf02", 1),
        ("leaf01", 39, "spine01", 1), ("leaf02", 39, "spine01", 2), ("leaf03", 39, "spine01", 4),
    }  # fmt: skip
    capsys.readouterr()
    assert main(["site", "check", "out/site.yaml", "--fabric", "ib0.txt", "--fabric-name", "ib0"]) == 1
    out = capsys.readouterr().out
    assert "gpu03/mlx5_0" in out, "the adapter of a host that hasn't set its name is reported"
    assert "wrong name" not in out.replace("wrong name: gpu03", ""), (
        "a managed switch's description has its name"
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HOSTS.replace(f"{0x31:#018x}", ""), "left out: ib0.txt: adapter 0x0000000000000031 ('MT4129 ConnectX7   "
         "Mellanox Technologies') on port 1 of leaf02: no host of the lists has "
         "this GUID, and its host has given it no name"),
        (HOSTS.replace("gpu01", "gpu09"), "left out: ib0.txt: adapter 0x0000000000000011 ('gpu01 mlx5_0') on port 1 of"
         " leaf01: no host of the lists has this name or GUID"),
    ],
)  # fmt: skip
def test_adapter_of_an_unlisted_host_is_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    """It is named with its switch port; the listed host then has no GUIDs, which is an error of its row."""
    (folder / "hosts.csv").write_text(text)
    code, said = imported(capsys)
    assert sentence in said
    assert code == 2
    assert "mlx5_0_port_guid: missing: port GUID (InfiniBand) or MAC address of gpu0" in said


def test_contradictions_between_list_and_fabric_are_reported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A GUID, a cable and a switch's fabric, each with the cell of the list."""
    (folder / "hosts.csv").write_text(
        "name,kind,fabric,level,ports,guid,mlx5_0_pci,mlx5_0_guid,mlx5_0_port_guid,mlx5_0_switch,mlx5_0_port\n"
        f"gpu01,compute,,,,,0000:0c:00.0,{0x12:#018x},{0x11:#018x},,\n"
        "gpu02,compute,,,,,0000:0c:00.0,,,leaf01,7\n"
        f"gpu03,compute,,,,,0000:0c:00.0,,{0x31:#018x},,\n"
        f"leaf02,switch,ib1,leaf,40,{LEAF2:#018x},,,,,\n"
    )
    code, said = imported(capsys)
    assert code == 2
    assert (
        "hosts.csv:2: mlx5_0_guid: '0x0000000000000012' is not allowed: 0x0000000000000010, as ib0.txt has it"
        in said
    )
    assert "hosts.csv:5: fabric: 'ib1' is not allowed: ib0, as ib0.txt has it" in said
    (folder / "hosts.csv").write_text(
        (folder / "hosts.csv").read_text().replace("12,0x", "10,0x").replace("ib1", "")
    )
    code, said = imported(capsys, "--output", "out")
    assert code == 2
    assert "the cable of gpu02/mlx5_0 port 1 goes to leaf01 port 2, expected leaf01 port 7" in said
    assert not (folder / "out").exists()


@pytest.mark.parametrize("name", ["Quantum Mellanox Technologies", "leaf02"])
def test_switch_without_a_unique_name_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """The sentence has its GUID; a row of the list with that GUID gives it a name."""
    (folder / "ib0.txt").write_text(fabric(leaf1=name))
    code, said = imported(capsys)
    assert code == 2
    assert f"ib0.txt: switch: '{name}' is not allowed: a name of its own" in said
    assert "give switch 0x0000000000000100 one in the lists" in said
    (folder / "more.csv").write_text(
        f"name,kind,fabric,guid\nl1,switch,ib0,{LEAF1:#018x}\nl2,switch,ib0,{LEAF2:#018x}\n"
    )
    code, said = imported(capsys, "more.csv", "--output", "out")
    assert code == 0, said
    names = [row["name"] for row in csv.DictReader((folder / "out" / "switches.csv").open())]
    assert names == ["l1", "l2", "spine01", "leaf03"]


def test_partial_discovery_is_imported_and_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The output says that hardware may be missing."""
    message = "src/query_smp.c:241; send_mad failed; dport (DR path slid 0; dlid 0; 0,1,3)\n"
    (folder / "ib0.txt").write_text(fabric(more=message))
    code, said = imported(capsys, "--json")
    assert code == 0
    document = json.loads(said)
    assert any(
        "the discovery is partial, hardware may be missing: src/query_smp.c" in s
        for s in document["left_out"]
    )
    assert document["rows"]["links"] == 6


def test_fabric_of_a_discovery_must_be_one_of_the_site_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With two fabrics it must be named; a fabric that isn't InfiniBand or isn't in the file is refused."""
    assert imported(capsys, fabric="ib9=ib0.txt")[1].endswith(
        "--fabric: 'ib9' is not allowed: FABRIC=FILE with an InfiniBand fabric of head.yaml: ib0\n"
    )
    (folder / "head.yaml").write_text(TWO_FABRICS)
    code, said = imported(capsys)
    assert code == 2
    assert "FABRIC=FILE with an InfiniBand fabric of head.yaml: ib0, ib1" in said
    code, said = imported(capsys, fabric="ib1=ib0.txt")
    assert code == 0, said
    code, said = imported(capsys, "--fabric", "ib1=ib0.txt", fabric="ib1=ib0.txt")
    assert "--fabric: 'ib1' is not allowed: each fabric once" in said
    code, said = imported(capsys, fabric="ib1=nothere.txt")
    assert code == 2
    assert "nothere.txt" in said


@pytest.mark.fabric
def test_discovery_of_the_simulated_small_site_imports_to_the_same_site(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From its tables without switches, links and GUIDs, and ibnetdiscover's output on ibsim."""
    monkeypatch.chdir(tmp_path)
    site = load_site(SMALL / "site.yaml")
    Path("ib.txt").write_text(discover(site, tmp_path / "sim"))
    head = (SMALL / "site.yaml").read_text().partition("\nracks:")[0]
    Path("head.yaml").write_text(f"{head}\nracks: {{csv: racks.csv}}\n")
    Path("racks.csv").write_text((SMALL / "racks.csv").read_text())
    with Path("hosts.csv").open("w", newline="") as out:
        names = sorted({h.name for n in site.nodes for h in n.hcas})
        columns = [
            "name",
            "kind",
            "rack",
            "gpu_type",
            "gpu_pci",
            "gpu_numa",
            *(f"{h}_{a}" for h in names for a in ("pci", "rate_gbps")),
        ]
        rows = csv.DictWriter(out, columns)
        rows.writeheader()
        for node in site.nodes:
            row = {"name": node.name, "kind": node.role, "rack": node.rack or ""}
            if node.accelerators:
                row |= {"gpu_type": node.accelerators[0].type, "gpu_pci": " ".join(a.pci for a in node.accelerators),
                        "gpu_numa": " ".join(str(a.numa) for a in node.accelerators)}  # fmt: skip
            for hca in node.hcas:
                row |= {f"{hca.name}_pci": hca.pci, f"{hca.name}_rate_gbps": str(hca.rate_gbps)}
            rows.writerow(row)
    code = main(
        ["site", "import", "hosts.csv", "--site", "head.yaml", "--fabric", "ib.txt", "--output", "out"]
    )
    assert code == 0, capsys.readouterr()
    got = load_site(tmp_path / "out" / "site.yaml")
    assert {s.name: (s.level, s.guid) for s in got.switches} == {
        s.name: (s.level, s.guid) for s in site.switches
    }
    assert {(k.a, k.a_port, k.b, k.b_port) for k in got.links} == {
        (k.a, k.a_port, k.b, k.b_port) for k in site.links
    }
    assert {h.guid: (h.port_guid, h.pci) for n in got.nodes for h in n.hcas} == {
        h.guid: (h.port_guid, h.pci) for n in site.nodes for h in n.hcas
    }
    assert [n.accelerators for n in got.nodes] == [n.accelerators for n in site.nodes]
    assert main(["site", "check", "out/site.yaml", "--fabric", "ib.txt"]) == 0


@pytest.mark.parametrize("output", [[], ["--output", "out"]])
def test_links_of_the_site_file_beside_a_discovery_are_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], output: list[str]
) -> None:
    """The table would be there twice: reported with its line, both when checking and when writing."""
    links = "links:\n- {a: gpu01/mlx5_0, a_port: 1, b: leaf01, b_port: 1}\n"
    (folder / "head.yaml").write_text(SITE + links)
    code, said = imported(capsys, *output)
    assert code == 2
    assert (
        f"head.yaml:{SITE.count(chr(10)) + 1}: links: '…' is not allowed: nothing: --fabric fills this table"
        in said
    )
    assert not (folder / "out").exists()


CABLED = (
    "name,kind,rack,mlx5_0_pci,mlx5_0_port_guid,mlx5_0_switch,mlx5_0_port\n"
    "gpu01,compute,r1,0000:0c:00.0,,leaf01,IB1/1\n"
    "gpu02,compute,r1,0000:0c:00.0,,leaf01,2\n"
    f"gpu03,compute,r2,0000:0c:00.0,{0x31:#018x},leaf02,Port 1\n"
)


def test_host_cables_of_a_list_and_switch_cables_of_a_discovery_are_combined(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither alone connects the leaves with hosts; a host's cable that contradicts the discovery is an error."""
    (folder / "hosts.csv").write_text(CABLED)
    code, said = imported(capsys, "--output", "out")
    assert code == 0, said
    assert len(load_site(folder / "out" / "site.yaml").links) == 6
    (folder / "hosts.csv").write_text(CABLED.replace("IB1/1", "IB1/7"))
    code, said = imported(capsys)
    assert code == 2
    assert "the cable of gpu01/mlx5_0 port 1 goes to leaf01 port 1, expected leaf01 port 7" in said


def test_discovered_fabric_that_is_not_connected_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result must be one fabric."""
    (folder / "hosts.csv").write_text(CABLED)
    text = fabric().replace("[39]", "[38]", 1)
    apart = [
        line
        for line in text.split("\n")
        if not line.startswith(("[38]", "[39]")) and f'S-{0x100:016x}"[3' not in line
    ]
    (folder / "ib0.txt").write_text("\n".join(apart))
    code, said = imported(capsys)
    assert code == 2
    assert "a fabric must be connected" in said


def test_listed_port_of_an_adapter_with_several_is_imported(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Adapters with several planes: cables of the other ports are left out, the import isn't refused."""
    text = fabric().replace(
        f'[1](11)\t"S-{LEAF1:016x}"[1]\t# lid 1 lmc 0 "x" lid 1 4xHDR\n',
        f'[1](11)\t"S-{LEAF1:016x}"[1]\t# lid 1 lmc 0 "x" lid 1 4xHDR\n'
        f'[2](12)\t"S-{LEAF2:016x}"[9]\t# lid 1 lmc 0 "x" lid 1 4xHDR\n',
    )
    (folder / "ib0.txt").write_text(text)
    for guid, end in ((0x12, ("gpu01/mlx5_0", 2, "leaf02", 9)), (0x11, ("gpu01/mlx5_0", 1, "leaf01", 1))):
        (folder / "hosts.csv").write_text(
            HOSTS.replace("gpu01,compute,r1,0000:0c:00.0,", f"gpu01,compute,r1,0000:0c:00.0,{guid:#018x}")
        )
        code, said = imported(capsys, "--output", f"out{guid}")
        assert code == 0, said
        assert "it has several ports, and a site has the one whose port GUID the lists have" in said
        links = {(k.a, k.a_port, k.b, k.b_port) for k in load_site(folder / f"out{guid}" / "site.yaml").links}
        assert [k for k in links if k[0] == "gpu01/mlx5_0"] == [end]


def test_host_in_two_lists_is_reported_as_a_duplicate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its GUIDs go to the first row, which is complete: only the second is an error."""
    (folder / "more.csv").write_text("name,kind\ngpu01,compute\n")
    code, said = imported(capsys, "more.csv")
    assert code == 2
    assert "more.csv:2: name: 'gpu01' is not allowed: a name of a switch or node must be unique" in said
    assert "hosts.csv" not in said


class Counted(tuple[ObservedNode, ...]):
    """Counts how often it is iterated."""

    reads = 0

    def __iter__(self) -> Iterator[ObservedNode]:
        Counted.reads += 1
        return super().__iter__()


def test_unlisted_adapters_are_found_in_a_few_passes() -> None:
    """A search for each of 100,000 adapters would take an hour."""
    seen = parse_ibnetdiscover(fabric())
    nodes = Counted(seen.fabric.nodes)
    seen = replace(seen, fabric=seen.fabric.model_copy(update={"nodes": nodes}))
    one = Discovered("ib0", "ib0.txt", seen, [], [])
    for node in nodes:
        assert node.guid
    Counted.reads = 0
    one.added([])
    reads, left = Counted.reads, len(one.left_out)
    assert left == 3
    assert any("on port 1 of leaf01" in line for line in one.left_out)
    assert reads <= 6
