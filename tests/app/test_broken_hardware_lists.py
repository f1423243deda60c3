"""Each column of a hardware list with each kind of mistake: one sentence with file, line and column; nothing is
written."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.amounts import share
from tests.helpers.hardwarelist import COLUMNS, GOOD, HardwareList
from weft.model.errors import InputErrors

LISTS = Path(__file__).parents[1] / "data" / "hardware" / "broken.txt"


def broken() -> Iterator[tuple[str, dict[str, str], str]]:
    """Each case: the mistake, the changed cells of a row of the valid list, and the expected sentence."""
    for line in LISTS.read_text().splitlines():
        if line and not line.startswith("#"):
            row, changes, sentence = line.split(" | ")
            yield row, dict(c.split("=") for c in changes.split(", ")), sentence


@pytest.fixture
def hardware(tmp_path: Path) -> HardwareList:
    return HardwareList(tmp_path)


@pytest.mark.parametrize(("row", "cells", "sentence"), list(broken()))
def test_broken_list_gives_one_sentence_and_changes_nothing(
    hardware: HardwareList, row: str, cells: dict[str, str], sentence: str
) -> None:
    """The sentence names line, column, value and what is allowed; no file is written."""
    hardware.spoil(row, **cells)
    hardware.write()
    before = sorted(hardware.folder.iterdir())
    assert hardware.errors(hardware.folder / "out") == [f"hardware.csv:{sentence}"]
    assert sorted(hardware.folder.iterdir()) == before


def test_valid_list_gives_no_errors(hardware: HardwareList) -> None:
    """The control: without a change there are no errors, and the site has every row."""
    hardware.write()
    assert hardware.errors() == []
    assert dict(hardware.imported().rows) == {
        "interfaces": 6,
        "devices": 4,
        "ipu_machines": 2,
        "nodes": 2,
        "hcas": 1,
        "racks": 2,
    }


@pytest.mark.parametrize("address", ["10.3.0.4/garbage", "10.3.0.4/", "10.3.0.4/33"])
def test_address_with_other_text_after_it_is_refused(hardware: HardwareList, address: str) -> None:
    """Only a prefix length may follow, as inventories write it."""
    hardware.spoil("pdu1", eth0_address=address, eth0_network="infra")
    hardware.write()
    assert any(
        f"hardware.csv:4: eth0_address: '{address}' is not allowed" in line for line in hardware.errors()
    )
    hardware.spoil("pdu1", eth0_address="10.3.0.4/24")
    hardware.write()
    assert hardware.errors() == []


def test_rnic_on_a_management_switch_is_reported(hardware: HardwareList) -> None:
    """Its data would be a hundred times slower."""
    hardware.spoil("ipum1", rnic_switch="mgmt1", rnic_port="6")
    hardware.write()
    [line] = hardware.errors()
    assert line.startswith(
        "hardware.csv:6: rnic_switch: 'mgmt1' is not allowed: a switch with ports of 100 Gb/s"
    )
    assert line.endswith("the rate of an IPU-Machine's RNIC; mgmt1 has 1")


def test_rnic_behind_a_switch_with_small_mtu_is_reported(hardware: HardwareList) -> None:
    """An adapter's switch must carry the MTU of its data network."""
    roce = (
        "  roce: {type: ethernet, physical_network: physnet-d, mtu: 9000, manager: {driver: switches}, "
        "segments: {first: 1100, last: 1199}}\n"
    )
    data = "{physical_network: physnet-d, segments: {first: 1100, last: 1199}, addresses"
    hardware.site_text = hardware.site_text.replace("ipu_pods:\n", f"{roce}ipu_pods:\n").replace(
        data, "{fabric: roce, addresses"
    )
    hardware.spoil("tor1", mtu="1500")
    hardware.write()
    said = "a switch with an mtu of 9000 or more, that of the data network of IPU-POD pod1; tor1 has 1500"
    assert [t for t in hardware.errors() if t.startswith("hardware.csv:6") and said in t], hardware.errors()


def test_bmc_network_behind_switches_with_small_mtu_is_reported(hardware: HardwareList) -> None:
    gateways = "    vlan: 13\n    subnets:"
    hardware.site_text = hardware.site_text.replace(
        gateways, gateways.replace("    subnets", "    mtu: 9000\n    subnets")
    )
    hardware.write()
    lines = hardware.errors()
    said = "is not allowed: a switch with an mtu of 9000 or more, that of network ipu-gw; mgmt1 has 1500"
    assert len(lines) == 4 and all(t.endswith(said) for t in lines), lines


def test_all_mistakes_are_reported_at_once(hardware: HardwareList) -> None:
    """Errors in columns, in values and between rows, in the order of their lines."""
    hardware.spoil("mgmt1", mtu="12")
    hardware.spoil("pdu1", kind="toaster")
    hardware.spoil("ipum1", bmc_vlan="14")
    hardware.write()
    assert [s.partition(": ")[0] for s in hardware.errors()] == [f"hardware.csv:{n}" for n in (2, 4, 6)]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            b"",
            "hardware.csv: csv: '{file}' is not allowed: the file is empty; its first line must name the columns",
        ),
        (b"name,kind\n", "hardware.csv: hardware: missing: at least one piece of hardware"),
        (
            b"name,kind\npdu1,pdu,r1\n",
            "hardware.csv:2: csv: 'pdu1,pdu,r1' is not allowed: 2 cells, as in the header",
        ),
        (b"name,name\npdu1,pdu\n", "hardware.csv:1: csv: 'name' is not allowed: the column appears twice"),
        (
            b'name,kind\n"pdu1,pdu\n',
            "hardware.csv:2: csv: '{file}' is not allowed: must be CSV: unexpected end of data",
        ),
        (
            b"name,kind,\npdu1,pdu,x\n",
            "hardware.csv:1: column: '' is not allowed: a name: the column has values",
        ),
        (
            b"name;kind;rack\npdu1;pdu;r1\n",
            "hardware.csv:1: csv: 'name;kind;rack' is not allowed: columns separated by commas",
        ),
        (
            b"name\tkind\npdu1\tpdu\n",
            "hardware.csv:1: csv: 'name\\tkind' is not allowed: columns separated by commas",
        ),
        (b"name,kind\n\xff,pdu\n", "file: '{file}' is not allowed: must be UTF-8; byte 10 is not"),
    ],
)
def test_file_that_is_not_a_list_is_refused(hardware: HardwareList, text: bytes, sentence: str) -> None:
    """Files as spreadsheets and people break them; the first sentence says what is wrong."""
    hardware.write()
    (hardware.folder / "hardware.csv").write_bytes(text)
    with pytest.raises(InputErrors) as caught:
        hardware.imported()
    lines = str(caught.value.errors[0]).replace(f"{hardware.folder}/", "")
    assert lines == sentence.format(file="hardware.csv")


STRANGE = (
    "\x00", "\x1b[31m", "\u202e1", "\u00bd", "é", "-1", "1e9", "NaN", "1_000", "0x", "${HOME}", "=1+1", "null",
    "[1]", "{a: b}", "!!x", "x" * 5000, "9" * 400,
)  # fmt: skip
"""Values that spreadsheets, exports and people put into cells."""


MORE_COLUMNS = [*COLUMNS, "agent_port", "cloud", "nova_host", "role", "colour"]


@pytest.mark.parametrize("column", MORE_COLUMNS)
def test_arbitrary_cell_is_accepted_or_reported_with_its_place(hardware: HardwareList, column: str) -> None:
    """Whether the row's list has the column or not: one printable line for each mistake, and no file unless all
    is valid."""
    rows = [*[name for name, cells in GOOD.items() if column in cells][:1], "pdu1", "gpu1"]
    for row in dict.fromkeys(rows):
        line = list(GOOD).index(row) + 2
        for value in share(STRANGE, MORE_COLUMNS.index(column) + line):
            hardware.rows[row] = {"name": row, **GOOD[row], column: value}
            hardware.columns = [*COLUMNS, *([column] if column not in COLUMNS else [])]
            hardware.write()
            lines = hardware.errors(hardware.folder / "out")
            if not lines:
                shutil.rmtree(hardware.folder / "out")
                continue
            for sentence in lines:
                assert sentence.startswith("hardware.csv:"), (row, value, lines)
                assert sentence.isprintable() and len(sentence) < 1000, (row, value, sentence)
            here = (f"hardware.csv:{line}: ", "hardware.csv:1: ")
            assert any(s.startswith(here) or row in s for s in lines), (row, value, lines)
            assert not (hardware.folder / "out").exists()
        hardware.rows[row] = {"name": row, **GOOD[row]}
