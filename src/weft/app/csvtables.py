"""Rows from CSV files (RFC 4180, UTF-8, a header line) with the line of each; lines that begin with `#` are skipped."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from weft.model.csvcells import cell_value
from weft.model.errors import InputError

CsvLine = tuple[dict[str, Any], str]
"""Column -> text, and its `file:line`."""


def read_rows(
    path: Path,
    shown: str,
    columns: frozenset[str],
    errors: list[InputError],
    seen: Callable[[bytes], None] = lambda _: None,
) -> Iterator[CsvLine]:
    """Each row of a file with these allowed columns, without empty cells; problems are added to `errors`.

    Args:
        seen: called with the file's bytes.
    """
    body = path.read_bytes()
    seen(body)
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        errors.append(InputError("csv", shown, f"must be UTF-8; byte {error.start} is not", shown))
        return
    yield from rows_of(text, shown, columns, errors)


def rows_of(
    text: str, shown: str, columns: frozenset[str] | None, errors: list[InputError]
) -> Iterator[CsvLine]:
    """Each row of a table; problems are added to `errors`.

    Args:
        shown: name of the file in errors.
        columns: allowed columns, empty cells are omitted; None: any, including unnamed ones.
    """
    rows = _rows(text, shown, errors)
    header, where = next(rows, (None, shown))
    if header is None:
        if not errors:
            allowed = "the file is empty; its first line must name the columns"
            errors.append(InputError("csv", shown, allowed, where))
        return
    names = [name.strip() for name in header]
    if not _good_header(names, where, columns, errors):
        return
    for cells, line in rows:
        if len(cells) != len(names):
            errors.append(InputError("csv", ",".join(cells), f"{len(names)} cells, as in the header", line))
            continue
        row = zip(names, (cell_value(c.strip()) for c in cells), strict=True)
        yield {name: cell for name, cell in row if cell or columns is None}, line


def _rows(text: str, shown: str, errors: list[InputError]) -> Iterator[tuple[list[str], str]]:
    """Rows that hold anything, each with the line on which it starts."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    before = 0
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            # Where the row begins: an unclosed quote is only noticed at the end of the file.
            errors.append(InputError("csv", shown, f"must be CSV: {error}", f"{shown}:{before + 1}"))
            return
        start, before = before + 1, reader.line_num
        if any(c.strip() for c in cells) and not cells[0].lstrip().startswith("#"):
            yield cells, f"{shown}:{start}"


def _good_header(
    names: list[str], where: str, columns: frozenset[str] | None, errors: list[InputError]
) -> bool:
    if len(names) == 1 and (";" in names[0] or "\t" in names[0]):
        errors.append(InputError("csv", names[0], "columns separated by commas", where))
        return False
    good = True
    for index, name in enumerate(names):
        if columns is not None and name not in columns:
            errors.append(
                InputError("csv", name, f"unknown column; known here: {', '.join(sorted(columns))}", where)
            )
        elif name in names[:index] and (name or columns is not None):
            errors.append(InputError("csv", name, "the column appears twice", where))
        else:
            continue
        good = False
    return good
