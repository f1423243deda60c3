"""Columns of a host's GPUs in hardware lists: one row of the table `accelerators` each. Pure.

`gpu_pci` lists their addresses; `gpu_numa` and `gpu_switch` (PCIe switch) have one value for all, or one each.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.hardware import HardwareRecord
from weft.planning.hardware.columns import GPU_COLUMNS
from weft.planning.hardware.network import Wrong
from weft.planning.hardware.where import plain_pci, several

Values = dict[str, tuple[str | None, str]]
"""Field -> text, and its column in the list."""


def gpu_rows(record: HardwareRecord, node: str, wrong: Wrong) -> Iterator[Values]:
    """A row for each GPU of a host; none, with a problem, if the columns don't say which GPUs they are."""
    cells = {c: record.cells[c] for c in sorted(GPU_COLUMNS & record.cells.keys())}
    if not cells or (list(cells) == ["gpus"] and cells["gpus"].text == "0"):
        return
    addresses = [plain_pci(word) for word in words(record, "gpu_pci")]
    if not addresses:
        wrong(record, "gpu_pci", None, f"the PCI addresses of {node}'s GPUs, such as 0000:1b:00.0")
        return
    if "gpu_type" not in cells:
        wrong(record, "gpu_type", None, f"type of {node}'s GPUs that orders use, such as h100")
        return
    if "gpus" in cells and cells["gpus"].text != str(len(addresses)):
        wrong(
            record,
            "gpus",
            cells["gpus"].text,
            f"{len(addresses)}, as many as gpu_pci of {node} has addresses",
        )
        return
    numas = _each(record, "gpu_numa", len(addresses), wrong)
    switches = _each(record, "gpu_switch", len(addresses), wrong)
    if numas is None or switches is None:
        return
    for pci, numa, switch in zip(addresses, numas, switches, strict=True):
        values: Values = {"node": (node, "name"), "type": (cells["gpu_type"].text, cells["gpu_type"].column)}
        for name, text in (("pci", pci), ("numa", numa), ("switch", switch)):
            cell = cells.get(f"gpu_{name}")
            if text is not None:
                values[name] = (text, cell.column if cell else f"gpu_{name}")
        yield values


def words(record: HardwareRecord, column: str) -> list[str]:
    """Values of a cell that holds several, separated by blanks, commas or semicolons."""
    return several(record.text(column) or "")


def _each(record: HardwareRecord, column: str, count: int, wrong: Wrong) -> list[str | None] | None:
    """The value of each GPU; None if they are neither one nor as many."""
    found = words(record, column)
    if len(found) <= 1:
        return [found[0] if found else None] * count
    if len(found) != count:
        wrong(record, column, record.text(column), f"one value for all GPUs, or one for each of the {count}")
        return None
    return list(found)
