"""A TOML file with the line of each of its values, which `tomllib` doesn't keep."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from weft.model.errors import InputError
from weft.model.errortable import Shown

LARGEST = 64 << 10
"""Most bytes of a file."""
LONGEST_STATEMENT = 200
"""Most lines of one value. After a longer one, no line is known."""
_AT = re.compile(r"\(at (?:line (\d+), column \d+|end of document)\)")

Path_ = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A file that was read.

    Attributes:
        values: its tables.
        lines: path of each table and value -> line, from 1.
    """

    path: Path
    values: Mapping[str, Any] = field(repr=False)
    lines: Mapping[Path_, int]

    @property
    def folder(self) -> Path:
        """The file's folder, which its relative paths start from."""
        return self.path.parent.absolute()

    def where(self, *path: str) -> str:
        """`FILE:LINE` of a value, or of the nearest table around it."""
        for length in range(len(path), 0, -1):
            if (line := self.lines.get(path[:length])) is not None:
                return f"{self.path}:{line}"
        return str(self.path)


def read_toml(path: Path, field: str) -> TomlFile:
    """Read a file. Raises `InputError`, which quotes nothing of it.

    Args:
        field: what named the file.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        why = error.strerror or str(error)
        raise InputError(field, str(path), f"a file that can be read ({why})") from None
    if len(data) > LARGEST:
        raise InputError(field, str(path), f"a file of at most {LARGEST} bytes")
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(field, Shown("a byte"), "a TOML file in UTF-8", f"{path}:{line}") from None
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        found = _AT.search(str(error))
        line = int(found[1]) if found and found[1] else text.count("\n") + 1
        # Never the line itself, which may have a secret: only those of the parser's messages that quote nothing of it.
        known = re.match(r"Cannot [a-z ]+|Expected [^:(]+|Unclosed [a-z ]+|Invalid [a-z ]+", str(error))
        why = known[0].strip().rstrip(" '") if known else "not TOML"
        raise InputError(field, Shown("this line"), f"TOML ({why})", f"{path}:{line}") from None
    lines: dict[Path_, int] = {}
    for name, line in _lines(text):
        lines.setdefault(name, line)
    return TomlFile(path, values, lines)


def _lines(text: str) -> Iterator[tuple[Path_, int]]:
    """Path and line of each table and value of a TOML text, up to the first value longer than `LONGEST_STATEMENT`."""
    table: Path_ = ()
    rows = text.split("\n")
    at = 0
    while at < len(rows):
        if not rows[at].strip() or rows[at].lstrip().startswith("#"):
            at += 1
            continue
        length, statement = _statement(rows, at)
        path = tuple(_path(statement))
        if rows[at].lstrip().startswith("["):
            table, outer = path, 0
        else:
            outer = len(table)
            path = (*table, *path)
        yield from ((path[:n], at + 1) for n in range(outer + 1, len(path) + 1))
        if not length:
            return
        at += length


def _statement(rows: list[str], at: int) -> tuple[int, Mapping[str, Any]]:
    """Number of lines of the statement that begins at a row, and its content; 0 and nothing if it is too long."""
    for length in range(1, min(LONGEST_STATEMENT, len(rows) - at) + 1):
        try:
            return length, tomllib.loads("\n".join(rows[at : at + length]))
        except (tomllib.TOMLDecodeError, RecursionError):
            continue
    return 0, {}


def _path(statement: Mapping[str, Any]) -> Iterator[str]:
    """The key of a statement that has one: `a.b = 1` is a and b, `[a.b]` as well."""
    level: Any = statement
    while isinstance(level, dict) and len(cast(dict[str, Any], level)) == 1:
        key, level = next(iter(cast(dict[str, Any], level).items()))
        yield key
