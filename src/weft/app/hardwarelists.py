"""Hardware in files: lists (CSV with any columns, YAML), each value with its line, and Ironic's inspection data."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from weft.app.csvtables import rows_of
from weft.app.sitefile import read_text
from weft.app.yamltext import Path as Path_
from weft.app.yamltext import Positions, dotted, read_yaml
from weft.model.errors import InputError, InputErrors
from weft.model.hardware import Cell, HardwareRecord
from weft.planning.hardware.columns import columns_of, says_nothing
from weft.planning.hardware.complete import of_ironic

ROOT = "hardware"
"""Field of a YAML list that has the pieces of hardware."""

Flat = dict[str, tuple[str, str]]
"""Column as written -> text, and its place."""


def read_lists(
    files: Sequence[str],
    given: Mapping[str, str],
    errors: list[InputError],
    texts: Mapping[str, str] | None = None,
) -> list[HardwareRecord]:
    """`read_list` for several files; each of the given columns must be in one of them.

    Args:
        texts: of files that were read already.
    """
    seen: set[str] = set()
    before = len(errors)
    read = texts or {}
    records = [record for file in files for record in read_list(file, given, errors, seen, read.get(file))]
    if len(errors) == before:
        errors += [
            InputError("--column", f"{theirs}={ours}", "a column that a list has")
            for theirs, ours in given.items()
            if theirs not in seen
        ]
    return records


def read_list(
    file: str,
    given: Mapping[str, str],
    errors: list[InputError],
    seen: set[str] | None = None,
    text: str | None = None,
) -> list[HardwareRecord]:
    """The hardware in a file; problems are added to `errors`.

    Args:
        given: columns as the file calls them -> what they are here; empty: left out.
        seen: the file's columns are added to it.
        text: of the file; None: it is read.
    """
    path = Path(file)
    try:
        text = read_text(path) if text is None else text
        is_json = text.lstrip()[:1] in ("[", "{")
        is_yaml = is_json or path.suffix.lower() in (".yaml", ".yml")
        if is_json and text.lstrip().startswith("["):
            text = f'{{"{ROOT}": {text}\n}}'  # JSON is YAML, and everything stays on its line
        rows = list((_yaml if is_yaml else _csv)(text, file, errors))
    except InputErrors as error:
        errors.extend(error.errors)
        return []
    if not rows and not errors:
        errors.append(InputError(ROOT, None, "at least one piece of hardware", file))
    header = list(dict.fromkeys(column for _, flat in rows for column in flat))
    if seen is not None:
        seen.update(header)
    where = f"{file}:1" if rows else file
    before = len(errors)
    names = columns_of(header, given, where, errors)
    if len(errors) > before and is_yaml:
        _at_first_use(errors, before, rows)
    return [_record(place, flat, names) for place, flat in rows]


def read_inspections(files: Sequence[str], errors: list[InputError]) -> dict[str, HardwareRecord]:
    """Name of a host -> what Ironic's inspection found; problems are added to `errors`.

    Args:
        files: as `baremetal node inventory save` writes them, each called after its host, such as gpu1.json.
    """
    found: dict[str, HardwareRecord] = {}
    for file in files:
        name = Path(file).stem
        try:
            if name in found:
                raise ValueError(f"one file per host; {name} has another")
            found[name] = of_ironic(json.loads(read_text(Path(file))), file)
        except InputErrors as error:
            errors.extend(error.errors)
        except (ValueError, RecursionError) as error:
            why = str(error).splitlines()[0] if str(error) else "nested too deeply"
            allowed = f"Ironic's inspection data, as `baremetal node inventory save` writes it ({why})"
            errors.append(InputError("--inspection", file, allowed))
    return found


def _record(place: str, flat: Flat, names: Mapping[str, str | None]) -> HardwareRecord:
    cells = {}
    for column, (text, where) in flat.items():
        name = names.get(column)
        if name is not None and text and not says_nothing(text):
            cells[name] = Cell(text, column, where)
    return HardwareRecord(place, cells)


def _csv(text: str, file: str, errors: list[InputError]) -> Iterator[tuple[str, Flat]]:
    for row, place in rows_of(text, file, None, errors):
        yield place, {name: (str(value), place) for name, value in row.items() if name or value}


def _yaml(text: str, file: str, errors: list[InputError]) -> Iterator[tuple[str, Flat]]:
    data, where = read_yaml(text, file)
    for name in data:
        if name != ROOT:
            allowed = f"unknown field; a list has one, {ROOT}, with the pieces of hardware"
            errors.append(InputError(name, "…", allowed, where.at((name,))))
    rows = data.get(ROOT)
    if not isinstance(rows, list):
        if not errors:
            errors.append(InputError(ROOT, rows, "a list of pieces of hardware", f"{file}:1"))
        return
    for index, row in enumerate(rows):
        path: Path_ = (ROOT, index)
        place = where.at(path) or file
        if not isinstance(row, dict):
            errors.append(InputError(dotted(path), row, "a mapping of fields", place))
            continue
        cells: Flat = {}
        for column, cell in _flat(row, path, where, errors):
            first = cells.setdefault(column, cell)
            if first is not cell:
                errors.append(
                    InputError(
                        column, cell[0], f"each column once; first {first[0]!r} at {first[1]}", cell[1]
                    )
                )
        yield place, cells


def _flat(
    row: dict[str, Any], path: Path_, where: Positions, errors: list[InputError], prefix: str = ""
) -> Iterator[tuple[str, tuple[str, str]]]:
    """`bmc: {mac: …}` is the column bmc_mac; a list of texts is one cell."""
    for name, value in row.items():
        inner = (*path, name)
        place = where.at(inner) or ""
        if value is None:
            continue
        if isinstance(value, dict) and not prefix:
            yield from _flat(value, inner, where, errors, f"{name}_")
        elif isinstance(value, list) and all(isinstance(v, str) for v in value):
            yield prefix + name, (" ".join(value), place)
        elif isinstance(value, str):
            yield prefix + name, (value.strip(), place)
        else:
            errors.append(
                InputError(dotted(inner), "…", "text, or a mapping of an interface's fields", place)
            )


def _at_first_use(errors: list[InputError], start: int, rows: list[tuple[str, Flat]]) -> None:
    """A YAML list has no header: report a wrong field where it is first used."""
    for i in range(start, len(errors)):
        one = errors[i]
        place = next((flat[str(one.value)][1] for _, flat in rows if str(one.value) in flat), one.where)
        errors[i] = InputError("field", one.value, one.allowed, place)
