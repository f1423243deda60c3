"""Reads complete lists of a BMC's Redfish, with requests to nothing but that BMC.

Source: DMTF's Redfish Specification (DSP0266), "Resource collection responses": `Members`, each with `@odata.id`,
`Members@odata.count` of all pages, `Members@odata.nextLink`. sushy itself reads only the first page, and leaves out
members that it can't read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

from sushy import connector, exceptions

MOST = 256
"""Most members of a list that are read."""


class PartialListError(ValueError):
    """Not all of a list can be read; the text says what is missing."""


class BoundConnector(connector.Connector):
    """Follows links of a BMC's documents on that BMC alone: every request carries weft's user and password."""

    def _op(self, method: str, path: str = "", *given: Any, **named: Any) -> Any:
        whole, own = urlsplit(urljoin(self._url, path)), urlsplit(self._url)
        if (whole.scheme, whole.netloc) != (own.scheme, own.netloc):
            raise PartialListError(f"a link leads to another host, {whole.netloc[:60]}: it isn't followed")
        return super()._op(method, path, *given, **named)


@dataclass(slots=True)
class Listed:
    """Attributes:
    members: as sushy's resources.
    missing: what isn't among them; empty: nothing.
    """

    members: list[Any] = field(default_factory=list[Any])
    missing: str = ""


def members_of(collection: Any) -> Listed:
    """The members of a collection, from all its pages.

    Raises TypeError or AttributeError for a document of another shape, and what sushy raises but for a member that
    isn't there.
    """
    rows, announced, missing = _rows(collection)
    found = Listed(missing=missing)
    for row in rows:
        path = row.get("@odata.id")
        if not isinstance(path, str) or not path:
            found.missing = found.missing or "a member has no @odata.id"
            continue
        try:
            found.members.append(collection.get_member(path.rstrip("/")))
        except exceptions.ResourceNotFoundError:
            continue
    gone = len(rows) - len(found.members)
    if gone and not found.missing:
        found.missing = f"{gone} of {len(rows)} aren't there"
    if announced > len(rows) and not found.missing:
        found.missing = f"it announces {announced}, and lists {len(rows)}"
    return found


def _rows(collection: Any) -> tuple[list[Mapping[str, Any]], int, str]:
    """The links of all pages, the number that is announced, and what is missing."""
    page, asked = collection.json, set[str]()
    rows: list[Mapping[str, Any]] = []
    announced = 0
    while True:
        given = page.get("Members", [])
        if not isinstance(given, list) or not all(isinstance(row, Mapping) for row in cast(list[Any], given)):
            raise TypeError("Members is no list of links")
        rows += cast(list[Mapping[str, Any]], given)
        count, link = page.get("Members@odata.count"), page.get("Members@odata.nextLink")
        announced = max(announced, count) if type(count) is int else announced
        if len(rows) > MOST:
            return [], 0, f"more than {MOST}"
        if link is None:
            return rows, announced, ""
        if not isinstance(link, str) or link in asked:
            return rows, announced, "its next page can't be read"
        asked.add(link)
        page = collection._conn.get(link).json()
