"""Reads a document whose long tables were uploaded before in parts; only one part at a time is in memory as text."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from weft.app.explain import MOST_ERRORS, validate, validate_rows
from weft.app.yamltext import Positions, without_nulls
from weft.model.base import Document
from weft.model.errors import ConflictError, InputError, InputErrors
from weft.model.sitefile import TABLES
from weft.model.siteparts import PartsInclude
from weft.planning.site.lean import Shared, lean

MOST_BYTES = 512 << 20
"""Most bytes of all parts of a document together."""
Rows = tuple[Document, ...]


class PartSource(Protocol):
    """Store of uploaded parts (`weft.engine.rows.siteparts.Sites`)."""

    def known(self, table: str, digest: str) -> Rows | None:
        """The rows of a part that the active site has in this table."""
        ...

    def weigh(self, digests: Collection[str]) -> tuple[int, int]:
        """How many of these parts are stored, and their total bytes."""
        ...

    def bodies(self, digests: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Parts in this order, without missing ones."""
        ...


class PartedTables:
    """The tables of a document that are in parts.

    Attributes:
        rows: table -> its rows, from valid parts.
        errors: problems in the others; `more` counts further ones.
    """

    def __init__(self, source: PartSource) -> None:
        self._source = source
        self._shared: Shared = {}
        self.rows: dict[str, Rows] = {}
        self.errors: list[InputError] = []
        self.more = 0

    def take(self, data: dict[str, Any]) -> None:
        """Read every such table and remove it from the document.

        Raises `InputErrors` for an invalid list of parts, `ConflictError` if parts are missing.
        """
        names = {
            table: validate(PartsInclude, data[table], Positions(), (table,)).parts
            for table in TABLES
            if isinstance(data.get(table), Mapping)
        }
        self._check([digest for digests in names.values() for digest in digests])
        for table, digests in names.items():
            del data[table]
            self.rows[table] = self._read(table, digests)

    def _check(self, digests: list[str]) -> None:
        """Check that digests are unique, all are stored, and their total is within the limit."""
        if not digests:
            return
        seen: set[str] = set()
        if duplicate := next((digest for digest in digests if digest in seen or seen.add(digest)), None):
            raise InputErrors(
                [InputError("parts", duplicate, "each part once: no two rows of a site are the same")]
            )
        count, size = self._source.weigh(digests)
        if count < len(digests):
            raise _missing(len(digests) - count)
        if size > MOST_BYTES:
            raise InputErrors([InputError("parts", f"{size >> 20} MiB", f"at most {MOST_BYTES >> 20} MiB")])

    def _read(self, table: str, digests: Sequence[str]) -> Rows:
        known = {digest: self._source.known(table, digest) for digest in digests}
        bodies = self._source.bodies([digest for digest in digests if known[digest] is None])
        rows: list[Document] = []
        first = 0
        for digest in digests:
            part = known[digest]
            if part is None:
                sent, body = next(bodies, ("", b""))
                if sent != digest:  # it was removed after the check
                    raise _missing(1)
                items = without_nulls(json.loads(body))
                part = self._parse(table, items, first)
                first += len(items)
            else:
                first += len(part)
            rows += part
        return tuple(rows)

    def _parse(self, table: str, items: list[Any], first: int) -> Rows:
        """The rows; none if one of them is wrong."""
        rows, errors, more = validate_rows(TABLES[table], table, items, first)
        room = max(0, MOST_ERRORS - len(self.errors))
        self.errors += errors[:room]
        self.more += more + len(errors[room:])
        lean(rows, self._shared)
        return rows


def _missing(count: int) -> ConflictError:
    return ConflictError(
        f"parts: {count} of the document's parts are not stored: ask which are missing (POST "
        "/v1/site/parts/missing), upload those, and send the document again"
    )
