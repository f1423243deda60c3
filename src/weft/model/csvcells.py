"""Cells of CSV files that spreadsheets would take for formulas.

A name or a remark from elsewhere may begin with `=`, `+`, `-` or `@`, which a spreadsheet computes when it opens the
file. An apostrophe before it makes it text there; weft's readers remove that apostrophe again.

Source: OWASP, "CSV Injection".
"""

from __future__ import annotations

import re

_FORMULA = re.compile(r"'*[\t\r ]*[=+\-@]")
_HARMLESS = re.compile(r"[+-]|[+-]?\d+(\.\d+)?")
"""A sign alone, and numbers."""


def cell_text(text: str) -> str:
    """A cell that no spreadsheet computes; `cell_value` reads it back."""
    return f"'{text}" if _is_formula(text) else text


def cell_value(cell: str) -> str:
    """What was written with `cell_text`; other cells as they are."""
    return cell[1:] if cell.startswith("'") and _is_formula(cell[1:]) else cell


def _is_formula(text: str) -> bool:
    return _FORMULA.match(text) is not None and _HARMLESS.fullmatch(text) is None
