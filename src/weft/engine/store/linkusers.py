"""Users of a fabric by weft's records: pods, and tenants' own networks, with their segments' ports."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from weft.engine.base.database import Database
from weft.engine.base.documents import read
from weft.engine.base.postgres import stored
from weft.engine.base.unreadable import READING
from weft.model.resources import Resource
from weft.model.specs import SegmentSpec


@dataclass(frozen=True, slots=True)
class FabricUser:
    """A pod or network. Attributes: ports: ids of its physical ports; unread: one of its segments can't be read."""

    id: str
    kind: Literal["pod", "network"]
    name: str
    project_id: str
    ports: tuple[str, ...]
    unread: bool = False


def read_fabric_users(database: Database, fabric: str) -> tuple[FabricUser, ...]:
    """All users of a fabric, by id; one that is being released counts while it has a segment."""
    rows = database.rows("link_users", fabric=fabric)
    found: dict[str, FabricUser] = {}
    for row in rows:
        ports, before = _ports(row["document"]), found.get(row["id"])
        found[row["id"]] = FabricUser(
            row["id"],
            "pod" if row["kind"] == "pod" else "network",
            row["name"],
            row["project_id"],
            tuple(dict.fromkeys((*(before.ports if before else ()), *(ports or ())))),
            ports is None or (before is not None and before.unread),
        )
    return tuple(found.values())


@lru_cache(20_000)
def _ports(document: str) -> tuple[str, ...] | None:
    """Physical ports of a segment's members; None: it can't be read."""
    try:
        spec = read(Resource, stored(document)).spec
    except READING:
        return None
    if not isinstance(spec, SegmentSpec):
        return None
    return tuple(m.physical[0] for m in spec.members if len(m.physical) == 1)
