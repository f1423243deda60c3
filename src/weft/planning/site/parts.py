"""Cuts a site's document into parts that stay the same where the site does.

The rows' own hashes decide where parts end, so that an inserted row changes only its own part (content-defined
chunking, as rsync and restic cut files). Boundaries by name ranges would depend on each table's key, and boundaries by
number would move with every insertion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b, sha256
from operator import is_
from typing import Any

from pydantic import TypeAdapter

from weft.model.base import Document
from weft.model.site import Device, Interface, IpuMachine, Link, Node, Rack, Site, Switch
from weft.model.siteparts import PartsInclude

Rows = tuple[Document, ...]
Parts = Mapping[str, tuple[str, Rows]]
"""Digest -> the table, and the rows of the part."""

ROWS: dict[str, type[Document]] = {
    "racks": Rack,
    "switches": Switch,
    "links": Link,
    "nodes": Node,
    "ipu_machines": IpuMachine,
    "devices": Device,
    "interfaces": Interface,
}
"""Tables of a `Site` that may be cut, and the types of their rows."""

USUAL = 128 << 10
"""Average size of a part in bytes, and size of the longest table that is not cut. A change of one row sends one part
and the names of all parts: at 100,000 nodes both are about the same size with this value."""
LARGEST = 512 << 10
"""Maximum size in bytes of a part of several rows."""
SHORT = 64
"""A table of fewer parts may be short enough for the document; of so many parts it isn't cut again to find out."""


class DocumentParts(Mapping[str, bytes]):
    """Digest -> bytes, serialized on demand: the text of a large site takes many times the memory of its value.

    Attributes:
        rows: digest -> the table, and the rows of the part.
    """

    def __init__(self, rows: Parts) -> None:
        self.rows = rows

    def __getitem__(self, digest: str) -> bytes:
        return part_of(self.rows[digest][1])

    def __iter__(self) -> Iterator[str]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Cut:
    """A site's document, with short tables in it, and long ones as the digests of their parts."""

    document: dict[str, Any]
    parts: DocumentParts


def cut(site: Site, known: Parts | None = None) -> Cut:
    """The document of a site and its parts. Equal sites give equal bytes.

    Args:
        known: parts of a site that this one shares rows with, as objects: these aren't serialized again.
    """
    starts = {(table, id(rows[0])): (digest, rows) for digest, (table, rows) in (known or {}).items()}
    head = site.model_dump(mode="json", exclude=set(ROWS))
    parts: dict[str, tuple[str, Rows]] = {}
    for table in ROWS:
        rows: Rows = getattr(site, table)
        found = list(pieces(rows, {key[1]: part for key, part in starts.items() if key[0] == table}))
        if len(found) < SHORT:
            found = list(pieces(rows))
        if len(found) < SHORT and sum(size for _, _, size in found) <= USUAL:
            head[table] = [row.model_dump(mode="json") for row in rows]
            continue
        parts |= {digest: (table, piece) for digest, piece, _ in found}
        head[table] = PartsInclude(parts=tuple(digest for digest, _, _ in found)).model_dump()
    return Cut({name: head[name] for name in Site.model_fields if name in head}, DocumentParts(parts))


def named(document: Mapping[str, Any], table: str) -> tuple[str, ...] | None:
    """Digests of a table of a stored document; None if its rows are in the document."""
    value = document.get(table)
    return PartsInclude.model_validate(value).parts if isinstance(value, Mapping) else None


def part_of(rows: Rows) -> bytes:
    """The bytes of a part with these rows."""
    return b"[%b]" % b",".join(map(_text, rows))


def rows_of(table: str, body: bytes) -> Rows:
    """The rows of a part that `cut` made. Raises pydantic's `ValidationError` for anything else."""
    return _adapter(table).validate_json(body)


def pieces(
    rows: Sequence[Document], known: Mapping[int, tuple[str, Rows]] | None = None
) -> Iterator[tuple[str, Rows, int]]:
    """Digest, rows and bytes of each part.

    Args:
        known: parts by the identity of their first rows; of those that are in the table as they are, the bytes are
            given as 0.
    """
    start = size = skipped = 0
    hashed = sha256()
    for index, row in enumerate(rows):
        if index < skipped:
            continue
        if not size and known and (same := _unchanged(rows, index, known)):
            yield *same, 0
            start = skipped = index + len(same[1])
            continue
        text = _text(row)
        if size and size + len(text) + 2 > LARGEST:
            hashed.update(b"]")
            yield hashed.hexdigest(), tuple(rows[start:index]), size + 1
            start, size, hashed = index, 0, sha256()
        hashed.update(b"," if size else b"[")
        hashed.update(text)
        size += len(text) + 1
        if _ends(text) or index == len(rows) - 1:
            hashed.update(b"]")
            yield hashed.hexdigest(), tuple(rows[start : index + 1]), size + 1
            start, size, hashed = index + 1, 0, sha256()


def _unchanged(
    rows: Sequence[Document], start: int, known: Mapping[int, tuple[str, Rows]]
) -> tuple[str, Rows] | None:
    """The known part that begins here, if it would end where it does whatever follows."""
    digest, part = known.get(id(rows[start]), ("", ()))
    there = rows[start : start + len(part)]
    if not part or len(there) < len(part) or not all(map(is_, there, part)):
        return None
    return (digest, part) if ends(part[-1]) else None


def ends(row: Document) -> bool:
    """Whether a part ends after this row whatever comes next."""
    return _ends(_text(row))


def _ends(text: bytes) -> bool:
    """Whether a part ends after this row, with a probability that gives parts of the usual size."""
    return int.from_bytes(blake2b(text, digest_size=4).digest()) * USUAL < len(text) << 32


def _text(row: Document) -> bytes:
    return row.__pydantic_serializer__.to_json(row)


@cache
def _adapter(table: str) -> TypeAdapter[Rows]:
    rows: Any = tuple[ROWS[table], ...]  # pyright: ignore[reportInvalidTypeForm]
    return TypeAdapter(rows)
