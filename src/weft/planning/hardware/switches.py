"""Switches of hardware lists, and their ports, by the names that lists, inventories and switches use. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.model.hardware import HardwareRecord
from weft.model.site import PORT_PATTERN, port_names
from weft.planning.hardware.where import several
from weft.planning.site.neighbours import LldpNeighbour, Names, PortNames


class Switches:
    """Finds the hardware of a list by the names that other sources use."""

    def __init__(self, records: Sequence[HardwareRecord]) -> None:
        names = [name for r in records if (name := r.text("name"))]
        self._names = Names(names)
        self._written = Names((*names, *(switch for r in records for switch, _ in _cabled(r))))
        self._ports = PortNames(
            (
                *((self.find(switch), port) for r in records for switch, port in _cabled(r)),
                *((r.text("name") or "", port) for r in records for port in ports_of(r)),
            )
        )

    def find(self, said: str) -> str:
        """Name in the list of a piece of hardware, whose name may have a domain and any case; if unknown, as given."""
        return self._names.find(said)

    def named(self, found: HardwareRecord) -> HardwareRecord:
        """A record of what was heard by LLDP, with switches and ports named as in the list."""
        cells = dict(found.cells)
        for column, cell in found.cells.items():
            if not column.endswith("_switch"):
                continue
            switch = self._written.find(cell.text)
            cells[column] = replace(cell, text=switch)
            port = found.cells.get(at := f"{column.removesuffix('_switch')}_port")
            if port is not None:
                said = LldpNeighbour("", switch, port.text, None, port.also)
                cells[at] = replace(port, text=self._ports.find(self.find(switch), said))
        return HardwareRecord(found.place, cells, found.notes)


def _cabled(record: HardwareRecord) -> Iterator[tuple[str, str]]:
    """Switch and port of each interface."""
    for column, cell in record.cells.items():
        port = (
            record.cells.get(f"{column.removesuffix('_switch')}_port") if column.endswith("_switch") else None
        )
        if port is not None:
            yield cell.text, port.text


_ENDS = re.compile(r"[^\[]*\d-[^\[]*\d")


def listed_ports(text: str) -> str:
    """A list's ports as the site file has them, separated by blanks. Raises ValueError for a number of ports, and for a
    range that isn't in brackets: either would be the name of a single port."""
    found = several(text)
    if len(found) == 1 and (found[0].isdecimal() or _ENDS.fullmatch(found[0])):
        raise ValueError(
            f"the ports' names, a range of them in brackets: {PORT_PATTERN}; [1-48] without letters"
        )
    return " ".join(found)


def ports_of(record: HardwareRecord) -> tuple[str, ...]:
    """Names of a switch's ports; none if it isn't a switch, or they are invalid, which is reported with its row."""
    text = record.text("ports") or ""
    if text.isdecimal():  # of a fabric's switch: how many it has
        return ()
    try:
        return port_names(tuple(several(text)))
    except ValueError:
        return ()
