"""A site that differs from a checked one only in a few rows: it needn't be checked again as a whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from weft.app.siteparts import PartedTables, PartSource
from weft.engine.rows.siteparts import SiteRecord
from weft.model.site import Node, Site
from weft.planning.site.parts import named

ALONE = frozenset({"maintenance", "serial", "product_uuid"})
"""Fields of a node that no check of a site reads, and that don't change its order of rows."""
_OTHERS = tuple(name for name in Node.model_fields if name not in ALONE)


def edited(record: SiteRecord, document: Mapping[str, Any], parts: PartSource) -> Site | None:
    """The site of a document that differs from `record` only in fields of nodes that are in `ALONE`; None: it differs
    in more.

    Args:
        record: of a site that this version has checked as a whole.

    Raises `InputErrors`, `ConflictError` for parts that can't be read, as `load_site`.
    """
    active = record.cut.document
    if not isinstance(document.get("nodes"), Mapping) or named(active, "nodes") is None:
        return None
    try:
        if _but_nodes(document) != _but_nodes(active):
            return None
    except RecursionError:  # nested so deeply that checking it as a whole refuses it
        return None
    tables = PartedTables(parts)
    tables.take({"nodes": document["nodes"]})
    before, rows = record.site.nodes, tables.rows["nodes"]
    if tables.errors or len(rows) != len(before):
        return None
    nodes = list(before)
    for index, row in enumerate(rows):
        if row is before[index]:
            continue
        if not all(getattr(row, name) == getattr(before[index], name) for name in _OTHERS):
            return None
        if row != before[index]:
            assert isinstance(row, Node)
            nodes[index] = row
    return record.site.model_copy(update={"nodes": tuple(nodes)})


def _but_nodes(document: Mapping[str, Any]) -> str:
    """The document without its nodes as JSON text, to compare: in Python true equals 1, and a tuple no list."""
    return json.dumps({name: value for name, value in document.items() if name != "nodes"}, sort_keys=True)
