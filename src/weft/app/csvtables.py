"""Rows from CSV files (RFC 4180, UTF-8, a header line) with the line of each; lines that begin with `#` are skipped."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.model.errors import InputError


def read_rows(
    path: Path, shown: str, columns: frozenset[str], errors: list[InputError]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Each row as column -> text (empty cells left out) and its `file:line`; what is wrong goes to `errors`."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        errors.append(InputError("csv", shown, f"it must be UTF-8; byte {error.start} is not", shown))
        return
    rows = _rows(text, shown, errors)
    header, where = next(rows, (None, shown))
    if header is None:
        errors.append(
            InputError("csv", shown, "the file is empty; its first line must name the columns", where)
        )
        return
    names = [name.strip() for name in header]
    if not _good_header(names, where, columns, errors):
        return
    for cells, line in rows:
        if len(cells) != len(names):
            errors.append(InputError("csv", ",".join(cells), f"{len(names)} cells, as in the header", line))
            continue
        yield {n: c.strip() for n, c in zip(names, cells, strict=True) if c.strip()}, line


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
            # Where the row begins: a quote that isn't closed is only missed at the end of the file.
            errors.append(InputError("csv", shown, f"it must be CSV: {error}", f"{shown}:{before + 1}"))
            return
        start, before = before + 1, reader.line_num
        if any(c.strip() for c in cells) and not cells[0].lstrip().startswith("#"):
            yield cells, f"{shown}:{start}"


def _good_header(names: list[str], where: str, columns: frozenset[str], errors: list[InputError]) -> bool:
    good = True
    for index, name in enumerate(names):
        if name not in columns:
            errors.append(
                InputError("csv", name, f"unknown column; known here: {', '.join(sorted(columns))}", where)
            )
        elif name in names[:index]:
            errors.append(InputError("csv", name, "the column is there twice", where))
        else:
            continue
        good = False
    return good
