"""`weft site design --guids`: real GUIDs instead of placeholders; every row is checked before anything is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.app.sitefile import load_site
from weft.cli.main import main

ROWS = [
    "node1,mlx5_0,0xb8599f0300000100,0xb8599f0300000101,0000:0c:00.0",
    "node1,mlx5_1,b859:9f03:0000:0110,0xb8599f0300000111,0000:4b:00.0",
    "node2,mlx5_0,0xb8599f0300000200,0xb8599f0300000201,",
    ",leaf1,0xb8599f0300100001,,",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def design(capsys: pytest.CaptureFixture[str], rows: list[str]) -> tuple[int, str]:
    Path("guids.csv").write_text("\n".join(["node,name,guid,port_guid,pci", *rows]) + "\n")
    options = ["--servers", "4", "--radix", "4", "--rails", "2", "--guids", "guids.csv", "--output", "out"]
    code = main(["site", "design", *options])
    said = capsys.readouterr()
    return code, said.out + said.err


def leaf(capsys: pytest.CaptureFixture[str]) -> str:
    """The name of a leaf in this design."""
    assert (
        main(["site", "design", "--servers", "4", "--radix", "4", "--rails", "2", "--output", "names"]) == 0
    )
    assert "note: GUIDs and PCI addresses of 8 adapters are placeholders" in capsys.readouterr().out
    return load_site("names/site.yaml").switches[0].name


def test_listed_guids_replace_placeholders(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In any spelling; other devices keep their placeholders, and their number is reported."""
    name = leaf(capsys)
    code, said = design(capsys, [row.replace("leaf1", name) for row in ROWS])
    assert code == 0, said
    assert "note: GUIDs and PCI addresses of 5 adapters are placeholders" in said
    site = load_site("out/site.yaml")
    assert {s.name: s.guid for s in site.switches}[name] == 0xB8599F0300100001
    adapters = {(n.name, h.name): h for n in site.nodes for h in n.hcas}
    first, second = adapters["node1", "mlx5_0"], adapters["node1", "mlx5_1"]
    assert (first.guid, first.port_guid, first.pci) == (
        0xB8599F0300000100,
        0xB8599F0300000101,
        "0000:0c:00.0",
    )
    assert second.guid == 0xB8599F0300000110
    assert adapters["node2", "mlx5_0"].port_guid == 0xB8599F0300000201
    assert adapters["node4", "mlx5_1"].guid >> 40 == 0x020000


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("node9,mlx5_0,0xb8599f0300000900,0xb8599f0300000901,",
         "guids.csv:6: node: 'node9/mlx5_0' is not allowed: of this"
         " design: node1/mlx5_0 to node4/mlx5_1"),
        ("node2,mlx5_1,0xb8599f03000002,0xb8599f0300000211,",
         "guids.csv:6: guid: '0xb8599f03000002' is not allowed: a GUID is"
         " 16 hex digits, leading zeros included, such as 0x0002c90300300001; this has 14"),
        ("node2,mlx5_1,0xb8599f0300000210,,",
         "guids.csv:6: port_guid: missing: Port GUID"),
        ("node2,mlx5_1,0xb8599f0300000210,0xb8599f0300000101,",
         "guids.csv:6: port_guid: '0xb8599f0300000101' is not allowed:"
         " each GUID once; guids.csv:2 has it too"),
        ("node2,mlx5_1,0xb8599f0300000100,0xb8599f0300000211,",
         "guids.csv:6: guid: '0xb8599f0300000100' is not allowed:"
         " each GUID once; guids.csv:2 has it too"),
        (",leaf1-rail1,0xb8599f0300000100,,",
         "guids.csv:6: guid: '0xb8599f0300000100' is not allowed:"
         " each GUID once; guids.csv:2 has it too"),
        ("node1,mlx5_0,0xb8599f0300000210,0xb8599f0300000211,",
         "guids.csv:6: name: 'mlx5_0' is not allowed: each switch and"
         " adapter once"),
        (",leaf99,0xb8599f0300100009,,",
         "guids.csv:6: name: 'leaf99' is not allowed: a switch of this design, such as"),
        (",leaf1,0xb8599f0300100009,0xb8599f0300100009,",
         "guids.csv:6: port_guid: "),
    ],
)  # fmt: skip
def test_invalid_row_is_reported_and_nothing_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str], row: str, sentence: str
) -> None:
    """One sentence with line and column."""
    code, said = design(capsys, [*ROWS[:3], "", row])
    assert code == 2
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not Path("out").exists()


def test_missing_list_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["site", "design", "--servers", "4", "--guids", "nothere.csv"]) == 2
    assert "--guids: 'nothere.csv' is not allowed: an existing CSV file" in capsys.readouterr().err
