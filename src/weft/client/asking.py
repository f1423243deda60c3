"""Paths, pages and waiting: how the parts of the client ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from weft.client.transport import Json, Transport
from weft.model.errors import InputError, PermanentError

PAGE = 500
"""Rows that are asked for at once."""
LONGEST_WAIT = 45.0
"""Seconds that one request waits; shorter than the time-outs of usual proxies."""


def part(field: str, name: str) -> str:
    """A name as one part of a path. Raises `InputError` for what would be another path."""
    if name in ("", ".", ".."):
        raise InputError(field, name, "a name or an id")
    return quote(name, safe="")


def with_query(path: str, **given: Any) -> str:
    """A path with parameters; None is left out."""
    query = urlencode({name: value for name, value in given.items() if value is not None})
    return f"{path}?{query}" if query else path


def matching(revision: int | None) -> dict[str, str] | None:
    """Headers that limit a change to this revision or generation; None for any."""
    return None if revision is None else {"If-Match": f'"{revision}"'}


class Pages:
    """The pages of one list, none of them twice."""

    def __init__(self) -> None:
        self._seen: set[object] = set()

    def after(self, answer: Json) -> Any:
        """Where the page after this one begins; None: this is the last one.

        Raises `PermanentError` if it begins where another did: a proxy that drops queries always gives the first page.
        """
        following = answer.get("next")
        if following is not None and following in self._seen:
            seen = f"a page that begins at {following!r} for the second time"
            raise PermanentError(
                "list page after page", "weft", seen, "look at what is in front of weft's API"
            )
        self._seen.add(following)
        return following


def listed(ask: Callable[..., Json], path: str, rows: str, **given: Any) -> list[Json]:
    """All rows of a list, page after page.

    Args:
        ask: `Transport.ask`.
        rows: the member of an answer with its rows.
        given: further parameters; None is left out.
    """
    found, pages = list[Json](), Pages()
    while True:
        answer = ask("GET", with_query(path, **given))
        found += answer[rows]
        if (following := pages.after(answer)) is None:
            return found
        given["marker"] = following


def whole(ask: Callable[..., Json], path: str, rows: str, *kept: str, **given: Any) -> Json:
    """The document of a list's first page, with the rows of all pages.

    Args:
        ask, rows, given: as `listed`.
        kept: members of the first page that are parameters of the others, so that all are of one moment.
    """
    pages = Pages()
    first = ask("GET", with_query(path, **given))
    following = pages.after(first)
    while following is not None:
        same = {name: first[name] for name in kept}
        answer = ask("GET", with_query(path, **{**given, **same, "marker": following}))
        first[rows] += answer[rows]
        following = pages.after(answer)
    first.pop("next", None)
    return first


def events(weft: Transport, of: str, query: Mapping[str, Any], wait: float = 0.0) -> list[Json]:
    """Events of what is at a path, page after page; only the first one is waited for."""
    answer = weft.ask("GET", f"{of}/events?{urlencode(query)}", extra_time=wait)
    found, pages = answer["events"], Pages()
    while (following := pages.after(answer)) is not None:
        answer = weft.ask("GET", f"{of}/events?after={following}")
        found += answer["events"]
    return found


def waiting(until: Sequence[str], wait: float) -> tuple[str, float]:
    """The query that waits for one of these states, and its seconds; an empty one without states."""
    if not until:
        return "", 0.0
    wait = min(wait, LONGEST_WAIT)
    return "?" + urlencode({"until": ",".join(until), "wait": f"{wait:g}"}), wait
