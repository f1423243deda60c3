"""What was discovered of hardware, with the lists: it fills what they leave out, and must not contradict them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weft.model.errors import InputError
from weft.model.hardware import Cell, Record
from weft.model.ids import format_guid
from weft.planning.hardware.columns import ATTRIBUTES, interface_called, interfaces_of
from weft.planning.hardware.tables import plain_mac
from weft.planning.hardware.where import address_of
from weft.planning.site.inspected import Inventory, read_inspection
from weft.planning.site.neighbours import neighbours_of


def of_ironic(document: Any, place: str) -> Record:
    """What an inspection found: `bmc` and every interface by its name. Raises ValueError for anything else."""
    if not isinstance(document, Mapping) or not isinstance(document.get("inventory"), Mapping):
        raise ValueError("there is no inventory in it")
    seen, more = read_inspection(document["inventory"], document.get("plugin_data"))
    names: dict[str, str] = {}
    cells = {c: Cell(text, f"{c} (inspection)", place) for c, text in _cells(seen, names)}
    if more.parsed_lldp is not None:
        for heard in neighbours_of(document):
            interface = _called(heard.local, names)
            for attribute, text in (("switch", heard.device), ("port", heard.port)):
                cells[f"{interface}_{attribute}"] = Cell(text, f"{interface}_{attribute} (LLDP)", place)
    return Record(place, cells)


def _called(written: str, names: dict[str, str]) -> str:
    try:
        return interface_called(written, names)
    except ValueError as error:
        raise ValueError(f"interface {written!r} needs {error}") from None


def _cells(seen: Inventory, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Column and text. Agents without a BMC report 0.0.0.0."""
    if (address := address_of(seen.bmc_address or "")) and int(address):
        yield "bmc_address", str(address)
    if seen.bmc_mac:
        yield "bmc_mac", seen.bmc_mac
    for one in seen.interfaces:
        name = _called(one.name, names)
        if one.mac_address:
            yield f"{name}_mac", one.mac_address
        if one.guid is not None:
            yield f"{name}_port_guid", format_guid(one.guid)
        if one.pci_address:
            yield f"{name}_pci", one.pci_address


def completed(
    records: Sequence[Record], discovered: Mapping[str, Record], errors: list[InputError]
) -> list[Record]:
    """The records with what was discovered of them; contradictions are added to `errors`.

    Args:
        discovered: name of the hardware -> what was found; interfaces that no list mentions are left out.
    """
    known = {record.text("name") for record in records}
    for name, found in discovered.items():
        if name not in known:
            errors.append(InputError("name", name, "the name of a machine of the lists", found.place))
    return [_complete(r, discovered.get(r.text("name") or ""), errors) for r in records]


def _complete(record: Record, found: Record | None, errors: list[InputError]) -> Record:
    if found is None:
        return record
    cells = dict(record.cells)
    for column, cell in _renamed(record, found).items():
        mine = record.cells.get(column)
        if mine is None:
            if _mentions(record, column):
                cells[column] = cell
        elif _plain(column, mine.text) != _plain(column, cell.text):
            allowed = f"{_plain(column, cell.text)}, as {cell.place} has it"
            errors.append(InputError(mine.column, mine.text, allowed, mine.place))
    return Record(record.place, cells)


def _renamed(record: Record, found: Record) -> dict[str, Cell]:
    """With interfaces called as the list calls those of the same MAC address: a kernel's names are its own.

    One that has a name of the list, but is another one of the list's by its MAC addresses, is left out.
    """
    by_mac = {
        _plain("mac", cell.text): column.removesuffix("_mac")
        for column, cell in record.cells.items()
        if column.endswith("_mac")
    }
    same = {
        i: name
        for i in interfaces_of(found.cells)
        if (name := by_mac.get(_plain("mac", found.cells[f"{i}_mac"].text)))
    }
    renamed: dict[str, Cell] = {}
    for column, cell in found.cells.items():
        parts = _parts(column)
        if parts is None:
            renamed[column] = cell
        elif parts[0] in same:
            renamed[f"{same[parts[0]]}_{parts[1]}"] = cell
        elif parts[0] not in same.values():
            renamed[column] = cell
    return renamed


def _parts(column: str) -> tuple[str, str] | None:
    """Interface and attribute of a column."""
    attribute = max((a for a in ATTRIBUTES if column.endswith(f"_{a}")), key=len, default=None)
    return None if attribute is None else (column[: -len(attribute) - 1], attribute)


def _mentions(record: Record, column: str) -> bool:
    """Whether the list says anything of this column's interface; a host's BMC counts as mentioned."""
    parts = _parts(column)
    if parts is None:
        return False
    return parts[0] == "bmc" or any(f"{parts[0]}_{a}" in record.cells for a in ATTRIBUTES)


def _plain(column: str, text: str) -> str:
    """Different ways to write the same are the same."""
    if column.endswith("mac"):
        return plain_mac(text).lower()
    if column.endswith("_address"):
        return str(address_of(text) or text)
    return text.lower() if column.endswith(("_pci", "_guid")) else text
