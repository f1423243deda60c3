"""Nova's host aggregates, read only.

Source: Nova's api-ref "List Aggregates": all of them in one answer, without pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from weft.drivers.openstack.session import Sessions
from weft.model.errors import UnknownError
from weft.planning.site.aggregates import KEY, Aggregate


def read_aggregates(sessions: Sessions) -> list[Aggregate]:
    """With the service user's own token. Raises `OutsideError`."""
    asked = "list host aggregates"
    compute = sessions.own().compute
    rows = compute.rows(asked, compute.ask(asked, "GET", "/os-aggregates"), "aggregates")
    try:
        return [_aggregate(row) for row in rows]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnknownError(asked, "Nova", f"a malformed answer ({type(error).__name__}: {error})") from error


def _aggregate(row: Mapping[str, Any]) -> Aggregate:
    metadata, hosts = cast(Mapping[str, str], row["metadata"]), cast(list[str], row["hosts"])
    flavors = frozenset(f.strip() for f in metadata[KEY].split(",") if f.strip()) if KEY in metadata else None
    return Aggregate(str(row["name"]), frozenset(map(str, hosts)), flavors)
