"""Finds pods, networks and the site by names, ids, numbers, nodes, addresses and what they have outside."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from uuid import UUID

from weft.engine.base.database import Database
from weft.model.ids import uuid_of
from weft.model.kinds import every_kind
from weft.planning.fabric.search import numbers_of

_MAC = re.compile(r"[0-9a-f]{2}([:-][0-9a-f]{2}){5}", re.IGNORECASE)
LONGEST_READ = 5_000
"""Milliseconds that the database may take for a search."""


@dataclass(frozen=True, slots=True)
class OwnerHit:
    """A pod, a network or the site.

    Attributes:
        what: which of its values is the one that was searched for.
    """

    id: UUID
    kind: str
    name: str
    project_id: str
    state: str
    what: str


def search_owners(database: Database, text: str, project_id: str | None, limit: int) -> list[OwnerHit]:
    """What has exactly this value, by name; no more than `limit`. What was released is found by its id and by numbers
    that it still keeps.

    Args:
        project_id: only of this project, and only by what it may know; None: of all.
    """
    values = {
        "text": text,
        "id": uuid_of(text),
        "numbers": numbers_of(text),
        "address": _address(text),
        "mac": text.lower().replace("-", ":") if _MAC.fullmatch(text) else None,
        "kinds": [str(kind) for kind in every_kind() if kind.row.shown is not None],
        "project_id": project_id,
        "limit": limit,
    }
    with database.transaction() as tx:
        tx.run("search_at_most", milliseconds=f"{LONGEST_READ}ms")
        rows = tx.rows("searched_owners", **values)
    return [OwnerHit(**row) for row in rows]


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text))
    except ValueError:
        return None
