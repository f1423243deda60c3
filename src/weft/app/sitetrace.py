"""What a site's files were when they were read last, as digests; and which rows of them were edited in place since.

A trace holds no value of a file: lines are digested in groups, and so are the names by which their rows are known. A
file whose groups have the same names, in the same order, has the same rows with other values.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from hashlib import blake2b, sha256
from itertools import islice
from pathlib import Path

from pydantic import Base64Bytes

from weft.app.sitefile import MOST_BYTES, read_text
from weft.model.base import Document

NAMES = {"nodes": ("name",), "hcas": ("node", "name"), "accelerators": ("node", "pci")}
"""Tables whose rows may be edited in place, and the columns that name a row."""
GROUP = 16
"""Lines that are digested together."""
_SIZE = 16
MOST_EDITED = 4096
"""Rows of one file that may be in groups that changed."""

Cells = dict[str, str]


class FileTrace(Document):
    """A file that was read.

    Attributes:
        place: path in the document of the table that its rows are in; empty for the site file.
        name: as the site file names it.
        target: the file itself, symlinks resolved.
        groups: digests of groups of lines; empty: the file can't be edited in place.
        names: digests of the names in each group.
    """

    place: tuple[str, ...]
    name: str
    target: str
    digest: str
    lines: int = 0
    groups: Base64Bytes = b""
    names: Base64Bytes = b""


class Tracer:
    """Traces each file from the same bytes that are parsed; given to `weft.app.sitefile.load_site`."""

    def __init__(self) -> None:
        self.files: list[FileTrace] = []

    def __call__(self, place: Sequence[str | int], name: str, path: Path, body: bytes) -> None:
        found = trace(tuple(map(str, place)), name, os.path.realpath(path), body)
        self.files.append(found)


def trace(place: tuple[str, ...], name: str, target: str, body: bytes) -> FileTrace:
    """The trace of a file; with digests of its groups of lines if it is a table whose rows may be edited in place."""
    names = NAMES.get(place[0]) if len(place) == 1 else None
    lines = _lines(body) if names is not None else []
    columns = _columns(lines[0], names) if lines and names is not None else []
    groups, named = bytearray(), bytearray()
    for number, group in enumerate(_groups(lines if columns else ())):
        groups += _short(b"\n".join(group))
        named += _short(_names(number, group, columns))
    return FileTrace.trusted(
        {
            "place": place,
            "name": name,
            "target": target,
            "digest": _digest(body),
            "lines": len(lines),
            "groups": bytes(groups),
            "names": bytes(named),
        }
    )


def edits(
    files: Sequence[FileTrace], site_file: Path
) -> tuple[list[tuple[str, Cells]], list[FileTrace]] | None:
    """Rows of groups that changed, by table, and the traces of the files as they are now; None: more has changed.

    Raises `OSError`, `InputErrors` for files that can't be read.
    """
    rows: list[tuple[str, Cells]] = []
    now: list[FileTrace] = []
    folder = site_file.parent
    for one in files:
        path = folder / one.name if one.place else site_file
        target = Path(os.path.realpath(path))
        if str(target) != one.target or not target.is_file() or target.stat().st_size > MOST_BYTES:
            return None
        body = path.read_bytes() if one.place else read_text(path).encode()
        if _digest(body) == one.digest:
            now.append(one)
            continue
        found = _edited(one, body)
        if found is None:
            return None
        rows += ((one.place[0], row) for row in found)
        now.append(trace(one.place, one.name, one.target, body))
    return rows, now


def _edited(was: FileTrace, body: bytes) -> list[Cells] | None:
    """The rows in groups that changed; None if not only values have."""
    lines = _lines(body) if was.groups else []
    if not lines or len(lines) != was.lines:
        return None
    columns = _columns(lines[0], NAMES[was.place[0]])
    if not columns:
        return None
    header = [cell.strip() for cell in lines[0].decode().split(",")]
    rows: list[Cells] = []
    for number, group in enumerate(_groups(lines)):
        here = slice(number * _SIZE, (number + 1) * _SIZE)
        if _short(b"\n".join(group)) == was.groups[here]:
            continue
        if _short(_names(number, group, columns)) != was.names[here]:
            return None
        for line in group[not number :]:
            cells = line.decode().split(",")
            if _is_left_out(line):
                continue
            if len(cells) != len(header):
                return None
            given = zip(header, (cell.strip() for cell in cells), strict=True)
            rows.append({name: cell for name, cell in given if cell})
        if len(rows) > MOST_EDITED:
            return None
    return rows


def _lines(body: bytes) -> list[bytes]:
    """The lines of a file without quotes, whose cells are what is between commas; none: it has some, or isn't UTF-8."""
    if b'"' in body or b"\0" in body or body.count(b"\r") != body.count(b"\r\n"):
        return []
    try:
        body.decode("utf-8-sig")
    except UnicodeDecodeError:
        return []
    return body.removeprefix(b"\xef\xbb\xbf").splitlines()


def _groups(lines: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    rest = iter(lines)
    while group := list(islice(rest, GROUP)):
        yield group


def _columns(header: bytes, names: Sequence[str]) -> list[int]:
    """Where the naming columns are; none if one is missing, or this isn't the header."""
    if _is_left_out(header):
        return []
    there = [cell.strip() for cell in header.decode().split(",")]
    return [there.index(name) for name in names] if all(name in there for name in names) else []


def _names(number: int, group: Sequence[bytes], columns: Sequence[int]) -> bytes:
    """The names of the rows of a group; the first one begins with the header."""
    found = list(group[: not number])
    for line in group[not number :]:
        cells = line.split(b",")
        named = [cells[i].strip() if i < len(cells) else b"" for i in columns]
        found.append(b"#" if _is_left_out(line) else b",".join(named))
    return b"\n".join(found)


def _is_left_out(line: bytes) -> bool:
    """Whether it is a comment, or has nothing in it."""
    return line.lstrip().startswith(b"#") or not line.replace(b",", b"").strip()


def _digest(body: bytes) -> str:
    return sha256(body).hexdigest()


def _short(text: bytes) -> bytes:
    return blake2b(text, digest_size=_SIZE).digest()
