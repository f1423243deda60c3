"""What was discovered of hardware, with the lists: it fills what they leave out, and must not contradict them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from weft.model.errors import InputError
from weft.model.hardware import Cell, HardwareRecord
from weft.model.ids import format_guid, parse_guid
from weft.model.site import plain_port
from weft.planning.hardware.columns import ATTRIBUTES, interface_called, interfaces_of
from weft.planning.hardware.switches import Switches
from weft.planning.hardware.where import address_of, plain_mac, plain_pci
from weft.planning.site.inspected import InspectedInventory, read_inspection
from weft.planning.site.lldpfiles import neighbours_of


def of_ironic(document: Any, place: str) -> HardwareRecord:
    """What an inspection found: `bmc` and every interface by its name. Raises ValueError for anything else."""
    if not isinstance(document, Mapping) or not isinstance(document.get("inventory"), Mapping):
        raise ValueError("there is no inventory in it")
    seen, more = read_inspection(document["inventory"], document.get("plugin_data"))
    names: dict[str, str] = {}
    cells = {c: Cell(text, f"{c} (inspection)", place) for c, text in _cells(seen, names)}
    if more.parsed_lldp is not None:
        for heard in neighbours_of(document):
            interface = _called(heard.local, names)
            column = f"{interface}_switch"
            cells[column] = Cell(heard.device, f"{column} (LLDP)", place)
            column = f"{interface}_port"
            cells[column] = Cell(heard.port, f"{column} (LLDP)", place, heard.described)
    return HardwareRecord(place, cells)


def _called(written: str, names: dict[str, str]) -> str:
    try:
        return interface_called(written, names)
    except ValueError as error:
        raise ValueError(f"interface {written!r} needs {error}") from None


def _cells(seen: InspectedInventory, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(column, text) of each cell. Agents on hosts without a BMC report its address as 0.0.0.0, which is left out."""
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
    records: Sequence[HardwareRecord],
    discovered: Mapping[str, HardwareRecord],
    errors: list[InputError],
    notes: list[str] | None = None,
) -> list[HardwareRecord]:
    """The records with what was discovered of them; contradictions are added to `errors`.

    Args:
        discovered: name of the hardware -> what was found; interfaces that no list mentions are left out.
        notes: what couldn't be compared is appended, a sentence each.
    """
    known = {record.text("name") for record in records}
    for name, found in discovered.items():
        if name not in known:
            errors.append(InputError("name", name, "the name of a machine of the lists", found.place))
    said = notes if notes is not None else []
    switches = Switches(records)
    seen = {name: switches.named(found) for name, found in discovered.items()}
    return [_complete(r, seen.get(r.text("name") or ""), errors, said) for r in records]


def _complete(
    record: HardwareRecord, found: HardwareRecord | None, errors: list[InputError], notes: list[str]
) -> HardwareRecord:
    if found is None:
        return record
    notes += found.notes
    notes += _unseen(record, found)
    cells = dict(record.cells)
    for column, cell in _renamed(record, found).items():
        mine = record.cells.get(column)
        if mine is None:
            if _mentions(record, column):
                cells[column] = cell
        elif _plain(column, mine.text) != _plain(column, cell.text):
            shown = cell.text if column.endswith(("_switch", "_port")) else _plain(column, cell.text)
            allowed = f"{shown}, as {cell.place} has it"
            errors.append(InputError(mine.column, mine.text, allowed, mine.place))
    return HardwareRecord(record.place, cells)


def _renamed(record: HardwareRecord, found: HardwareRecord) -> dict[str, Cell]:
    """The cells with the list's names of interfaces, matched by MAC address: the kernel's names may differ.

    An interface whose name is in the list, but with another MAC address, is left out.
    """
    same = _same(record, found)
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


def _same(record: HardwareRecord, found: HardwareRecord) -> dict[str, str]:
    """Interface as it was found -> the list's, by MAC address or port GUID; or each is the only InfiniBand adapter that
    the other side doesn't have."""
    known: dict[tuple[str, str], str] = {}
    for column, cell in record.cells.items():
        for attribute in ("mac", "port_guid"):
            if column.endswith(f"_{attribute}"):
                known[attribute, _plain(column, cell.text)] = column.removesuffix(f"_{attribute}")
    same: dict[str, str] = {}
    for one in sorted(interfaces_of(found.cells)):
        for attribute in ("mac", "port_guid"):
            cell = found.cells.get(f"{one}_{attribute}")
            if cell and (name := known.get((attribute, _plain(f"_{attribute}", cell.text)))):
                same[one] = name
    theirs = {found.cells[f"{i}_port_guid"].text for i in _infiniband(found) - same.keys()}
    mine = [
        i
        for i in _adapters(record)
        if f"{i}_mac" not in record.cells and f"{i}_port_guid" not in record.cells
    ]
    if len(theirs) == 1 and len(mine) == 1:
        same |= dict.fromkeys(_infiniband(found) - same.keys(), mine[0])
    return same


def _infiniband(found: HardwareRecord) -> frozenset[str]:
    return frozenset(i for i in interfaces_of(found.cells) if f"{i}_port_guid" in found.cells)


def _adapters(record: HardwareRecord) -> list[str]:
    """The list's adapters on fabrics."""
    return [c.removesuffix("_fabric") for c in record.cells if c.endswith("_fabric")]


def _unseen(record: HardwareRecord, found: HardwareRecord) -> Iterator[str]:
    """MAC addresses of the list that weren't found, if any were found at all: one may be wrong."""
    seen = {
        _plain("mac", cell.text) for c, cell in found.cells.items() if c.endswith("_mac") and c != "bmc_mac"
    }
    for column, cell in record.cells.items():
        if not column.endswith("_mac") or column == "bmc_mac" or column in found.cells or not seen:
            continue
        if _plain("mac", cell.text) not in seen:
            what = f"{record.text('name')}'s {column.removesuffix('_mac')} ({cell.text})"
            yield f"{found.place}: {what} isn't among the interfaces that it lists"


def _parts(column: str) -> tuple[str, str] | None:
    """Interface and attribute of a column."""
    attribute = max((a for a in ATTRIBUTES if column.endswith(f"_{a}")), key=len, default=None)
    return None if attribute is None else (column[: -len(attribute) - 1], attribute)


def _mentions(record: HardwareRecord, column: str) -> bool:
    """Whether the list says anything of this column's interface; a host's BMC counts as mentioned."""
    parts = _parts(column)
    if parts is None:
        return False
    return parts[0] == "bmc" or any(f"{parts[0]}_{a}" in record.cells for a in ATTRIBUTES)


def _plain(column: str, text: str) -> str:
    """A normalized text: different spellings of the same value compare equal."""
    if column.endswith("mac"):
        return plain_mac(text).lower()
    if column.endswith("_address"):
        return str(address_of(text) or text)
    if column.endswith(("_switch", "_port")):
        return plain_port(text).casefold()
    if column.endswith("guid"):
        try:
            return format_guid(parse_guid(text))
        except ValueError:
            return text.lower()
    return plain_pci(text).lower() if column.endswith("_pci") else text
