"""GPUs and InfiniBand cables in hardware lists become rows of `accelerators` and `links`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.hardwarelist import HardwareList
from weft.app.hardwarelists import read_lists
from weft.app.siteimport import import_site
from weft.model.errors import InputError, InputErrors
from weft.model.site import Accelerator, Site

EIGHT = " ".join(f"0000:{bus}:00.0" for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df"))
LEAVES = (
    "name,kind,fabric,level,ports\n"
    "leaf01,switch,ib0,leaf,40\nleaf02,switch,ib0,leaf,40\nspine01,switch,ib0,spine,40\n"
)


@pytest.fixture
def hardware(tmp_path: Path) -> HardwareList:
    return HardwareList(tmp_path)


def site_of(hardware: HardwareList, **lists: str) -> Site:
    """The site of the valid list and the given ones (file name: text). Raises `InputErrors`."""
    hardware.write()
    for name, text in lists.items():
        (hardware.folder / f"{name}.csv").write_text(text)
    errors: list[InputError] = []
    files = [str(hardware.folder / f"{name}.csv") for name in ("hardware", *lists)]
    return import_site(str(hardware.folder / "site.yaml"), read_lists(files, {}, errors), errors).site


def gpus_of(site: Site, node: str = "gpu1") -> tuple[Accelerator, ...]:
    return next(n for n in site.nodes if n.name == node).accelerators


def wrong(hardware: HardwareList, **lists: str) -> list[str]:
    with pytest.raises(InputErrors) as raised:
        site_of(hardware, **lists)
    return [str(e).replace(f"{hardware.folder}/", "") for e in raised.value.errors]


def test_gpu_columns_become_accelerators(hardware: HardwareList) -> None:
    """One row for each PCI address; `gpu_numa` has one NUMA node for all, or one for each."""
    hardware.spoil(
        "gpu1", gpus="8", gpu_type="h100", gpu_pci=EIGHT, gpu_numa="0 0 0 0 1 1 1 1", gpu_switch="plx"
    )
    found = gpus_of(site_of(hardware))
    assert [a.pci for a in found] == EIGHT.split()
    assert [a.numa for a in found] == [0] * 4 + [1] * 4
    assert {(a.type, a.switch) for a in found} == {("h100", "plx")}


def test_usual_column_names_of_gpus_are_read(hardware: HardwareList) -> None:
    """As in spreadsheets: addresses separated by semicolons; without a NUMA node it is 0."""
    pci = "0000:1b:00.0; 0000:43:00.0"
    cells = {"GPU Model": "h100", "GPU Count": "2", "GPU PCI addresses": pci}
    hardware.spoil("gpu1", **cells)
    found = gpus_of(site_of(hardware))
    assert [(a.type, a.pci, a.numa) for a in found] == [
        ("h100", p, 0) for p in ("0000:1b:00.0", "0000:43:00.0")
    ]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ({"gpus": "8", "gpu_type": "h100"},
         "hardware.csv:9: gpu_pci: missing: the PCI addresses of gpu1's GPUs, such as 0000:1b:00.0"),
        ({"gpu_pci": EIGHT}, "hardware.csv:9: gpu_type: missing: type of gpu1's GPUs that orders use, such as h100"),
        ({"gpus": "4", "gpu_type": "h100", "gpu_pci": EIGHT},
         "hardware.csv:9: gpus: '4' is not allowed: 8, as many as gpu_pci of gpu1 has addresses"),
        ({"gpu_type": "h100", "gpu_pci": EIGHT, "gpu_numa": "0 1"},
         "hardware.csv:9: gpu_numa: '0 1' is not allowed: one value for all GPUs, or one for each of the 8"),
        ({"gpu_type": "h100", "gpu_pci": "0000:1b:00.0 1b:00"},
         "hardware.csv:9: gpu_pci: '1b:00' is not allowed: a PCI address is domain:bus:slot.function, such as "
         "0000:c5:00.0"),
        ({"gpu_type": "h100", "gpu_pci": "0000:c5:00.0"},
         "hardware.csv:9: gpu_pci: '0000:c5:00.0' is not allowed: a PCI address in node gpu1 must be unique; "
         "gpu1/mlx5_0 already has it"),
    ],
)  # fmt: skip
def test_invalid_gpu_columns_are_reported_by_cell(
    hardware: HardwareList, cells: dict[str, str], expected: str
) -> None:
    """One sentence with line and column."""
    hardware.spoil("gpu1", **cells)
    assert wrong(hardware) == [expected]


def test_host_may_have_zero_gpus_in_a_list(hardware: HardwareList) -> None:
    """`gpus` may be 0 for a host; a PDU may have none of these columns."""
    hardware.spoil("poplar1", gpus="0")
    assert gpus_of(site_of(hardware), "poplar1") == ()
    hardware.spoil("pdu1", gpus="2")
    assert wrong(hardware) == [
        "hardware.csv:4: gpus: '2' is not allowed: none: pdu1 is of kind pdu, which has no gpus"
    ]


@pytest.mark.parametrize("port", ["7", "Port 7", "IB1/7", "1/7"])
def test_infiniband_adapter_with_a_switch_port_has_a_cable(hardware: HardwareList, port: str) -> None:
    """`_switch` and `_port` of an adapter make a row of links; the port's number is that of ibnetdiscover."""
    hardware.spoil("gpu1", mlx5_0_switch="Leaf01.dc.example", mlx5_0_port=port)
    links = site_of(hardware, switches=LEAVES).links
    assert [(k.a, k.a_port, k.b, k.b_port) for k in links] == [("gpu1/mlx5_0", 1, "leaf01", 7)]


def test_half_of_a_twin_port_is_not_guessed(hardware: HardwareList) -> None:
    """`1/7/2` is port 14 of one switch and port 7 of another, so the number is required."""
    hardware.spoil("gpu1", mlx5_0_switch="leaf01", mlx5_0_port="1/7/2")
    assert wrong(hardware, switches=LEAVES) == [
        "hardware.csv:9: mlx5_0_port: '1/7/2' is not allowed: the port's number, as ibnetdiscover has it: "
        "7, Port 7 or IB1/7"
    ]


def test_list_of_cables_becomes_links(hardware: HardwareList) -> None:
    """Without names and kinds; ends with domains and in any case, adapters in three spellings; each cable once."""
    cables = (
        "Source,Source port,Destination,Destination port,rate_gbps\n"
        "gpu1 mlx5_0,,leaf01,1,200\n"
        "GPU1.dc.example,mlx5_0,LEAF01,Port 1,200\n"
        "leaf01,1,gpu1/mlx5_0,1,200\n"
        "leaf01,31,spine01,1,\n"
        "leaf02,31,spine01,2,\n"
    )
    links = site_of(hardware, switches=LEAVES, cables=cables).links
    assert [(k.a, k.a_port, k.b, k.b_port, k.rate_gbps) for k in links] == [
        ("gpu1/mlx5_0", 1, "leaf01", 1, 200),
        ("leaf01", 31, "spine01", 1, None),
        ("leaf02", 31, "spine01", 2, None),
    ]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("gpu1,,leaf01,1,", "cables.csv:2: a: 'gpu1' is not allowed: the adapter of gpu1 too: gpu1/mlx5_0"),
        ("leaf01,,spine01,1,", "cables.csv:2: a_port: missing: the port's number, as ibnetdiscover has it: 7, Port 7 or"
         " IB1/7"),
        ("leaf01,3,,1,", "cables.csv:2: b: missing: the cable's end: a switch, or host/adapter"),
        ("leaf01,3,leaf09,1,", "cables.csv:2: b: 'leaf09' is not allowed: a switch of the site, or node/adapter"),
        ("leaf01,41,leaf02,1,", "cables.csv:2: a_port: 41 is not allowed: switch leaf01 has ports 1 to 40"),
        ("gpu1/mlx5_9,,leaf02,1,", "cables.csv:2: a: 'gpu1/mlx5_9' is not allowed: a switch of the site, or "
         "node/adapter"),
        ("leaf01,3,leaf02,3,fast", "cables.csv:2: rate_gbps: 'fast' is not allowed: a whole number"),
    ],
)  # fmt: skip
def test_invalid_cable_is_reported_by_cell(hardware: HardwareList, row: str, expected: str) -> None:
    """One sentence with the cable's line and column."""
    assert wrong(hardware, switches=LEAVES, cables=f"a,a_port,b,b_port,rate_gbps\n{row}\n") == [expected]


def test_unknown_column_of_a_cable_is_refused(hardware: HardwareList) -> None:
    """A cable has ends and a rate; a name (its label) and a kind are allowed."""
    cables = "name,kind,rack,a,a_port,b,b_port\nc1,cable,,leaf01,5,leaf02,5\nc2,link,r1,leaf01,6,leaf02,6\n"
    assert wrong(hardware, switches=LEAVES, cables=cables) == [
        "cables.csv:3: rack: 'r1' is not allowed: none: a cable has no rack"
    ]
