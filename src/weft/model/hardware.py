"""A list of hardware as it was found somewhere: a spreadsheet, an inventory, the hardware itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Cell:
    """One value.

    Attributes:
        text: as it was written, without spaces around it.
        column: what its source calls it, for errors.
        place: `file:line`, or where in an inventory.
        also: description of a switch's port that was heard by LLDP: its name, perhaps, where `text` is an alias.
    """

    text: str
    column: str
    place: str
    also: str | None = None


@dataclass(frozen=True, slots=True)
class HardwareRecord:
    """One piece of hardware.

    Attributes:
        place: `file:line`, or where in an inventory.
        cells: column (`weft.planning.hardware.columns`) -> value; empty ones are left out.
        notes: what its source doesn't say of it, a sentence each.
    """

    place: str
    cells: Mapping[str, Cell] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def text(self, column: str) -> str | None:
        """A cell's text; None if it is empty."""
        cell = self.cells.get(column)
        return cell.text if cell else None
