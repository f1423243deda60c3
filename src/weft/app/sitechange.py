"""The document of a site whose rows were edited in place, from the active one: only parts with such rows are read."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

from pydantic import ValidationError

from weft.app.explain import validate_rows
from weft.app.sitetrace import Cells
from weft.model.base import Document
from weft.model.site import BOOTABLE, Accelerator, Hca, Node
from weft.model.sitefile import TABLES, AcceleratorRow, HcaRow
from weft.planning.fabric.topology import natural
from weft.planning.site.parts import ends, named, part_of, pieces, rows_of

MOST_PARTS = 64
"""Parts that are read for a change."""
_LEAST_PARTS = 8
"""A table of fewer parts might be short enough now to be in the document."""

Fetch = Callable[[str], list[Any]]
"""The rows of a part of the active site. Raises `NotFoundError` if it has no such part."""


@dataclass(frozen=True)
class SiteChange:
    """A document, those of its parts that are new, and the first node of each part of its nodes."""

    document: dict[str, Any]
    parts: dict[str, bytes]
    starts: tuple[str, ...]


def changed(
    document: Mapping[str, Any], starts: Sequence[str], edits: Sequence[tuple[str, Cells]], fetch: Fetch
) -> SiteChange | None:
    """The document with these edits; None: the rows aren't valid, or more than values has changed.

    Args:
        document: of the active site.
        starts: the first node of each part of its nodes.
        edits: table and cells of rows that nodes have, or that are nodes.
    """
    digests = named(document, "nodes") or ()
    if len(digests) < _LEAST_PARTS or len(starts) != len(digests):
        return None
    there_already = frozenset(digests)
    by_node = _valid(edits)
    if by_node is None:
        return None
    only = next(iter(document["clouds"])) if len(document["clouds"]) == 1 else None
    first = [natural(name) for name in starts]
    wanted: dict[int, set[str]] = defaultdict(set)
    for name in by_node:
        wanted[bisect_right(first, natural(name)) - 1].add(name)
    if len(wanted) > MOST_PARTS or -1 in wanted:
        return None
    found: dict[str, str] = {}
    parts: dict[str, bytes] = {}
    number = 0
    while number < len(digests):
        if number not in wanted:
            found[digests[number]] = starts[number]
            number += 1
            continue
        rows: list[Node] = []
        while True:  # until a part that ends there whatever follows
            there = _rows(digests[number], fetch)
            left = wanted.get(number, set()) - {row.name for row in there or ()}
            edited = [_with(row, by_node.get(row.name, ()), only) for row in there or ()]
            if not there or left or None in edited:
                return None
            rows += cast(list[Node], edited)
            number += 1
            if number == len(digests) or ends(rows[-1]):
                break
        for digest, piece, _ in pieces(rows):
            found[digest] = cast(Node, piece[0]).name
            if digest not in there_already:
                parts[digest] = part_of(piece)
    return SiteChange({**document, "nodes": {"parts": list(found)}}, parts, tuple(found.values()))


def _valid(edits: Sequence[tuple[str, Cells]]) -> dict[str, list[Document]] | None:
    """Node -> its rows, those of the table `nodes` first; None: a row is invalid."""
    found: dict[str, list[Document]] = defaultdict(list)
    for table in ("nodes", "hcas", "accelerators"):
        rows, errors, _ = validate_rows(
            TABLES[table], table, [cells for of, cells in edits if of == table], 0
        )
        if errors:
            return None
        for row in rows:
            found[row.node if isinstance(row, HcaRow | AcceleratorRow) else cast(Node, row).name].append(row)
    return found


def _rows(digest: str, fetch: Fetch) -> list[Node] | None:
    """The nodes of a part; None if this version writes them in another way."""
    try:
        rows = rows_of("nodes", json.dumps(fetch(digest)).encode())
    except ValidationError:
        return None
    return cast(list[Node], list(rows)) if sha256(part_of(rows)).hexdigest() == digest else None


def _with(node: Node, rows: Sequence[Document], only: str | None) -> Node | None:
    """The node with these rows in place of its own, as `weft.app.sitefile` puts them together; None: it has others."""
    for row in rows:
        if isinstance(row, Node):
            cloud = row.cloud or (only if row.role in BOOTABLE else None)
            own = {"hcas": node.hcas, "accelerators": node.accelerators, "cloud": cloud}
            node = row.model_copy(update=own)
            continue
        model, table, name = (
            (Hca, "hcas", "name") if isinstance(row, Hca) else (Accelerator, "accelerators", "pci")
        )
        devices = list(getattr(node, table))
        places = [i for i, one in enumerate(devices) if getattr(one, name) == getattr(row, name)]
        if len(places) != 1:
            return None
        devices[places[0]] = model.model_construct(
            **{field: getattr(row, field) for field in model.model_fields}
        )
        node = node.model_copy(update={table: tuple(devices)})
    return node
