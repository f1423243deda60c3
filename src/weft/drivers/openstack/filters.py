"""Filters of listings: split to fit into URLs, and compared with rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

Filters = Mapping[str, str | Sequence[str]]
"""Name of a filter -> its value, or alternative values."""
LONGEST = 2000
"""Characters of a filter's values in a URL: a stock uWSGI takes 4,096 bytes of a request's line and headers, its token
included."""


def in_urls(only: Filters) -> Iterator[Filters]:
    """The filters, split so that each part fits into a URL: each has as many values of the longest filter as fit."""
    many = {name: values for name, values in only.items() if not isinstance(values, str)}
    if not many:
        yield only
        return
    name = max(many, key=lambda one: len(many[one]))
    some: list[str] = []
    for value in dict.fromkeys(many[name]):
        if some and sum(len(name) + len(one) + 2 for one in (*some, value)) > LONGEST:
            yield {**only, name: some}
            some = []
        some.append(value)
    if some and all(many.values()):
        yield {**only, name: some}


def texts_of(value: object) -> set[str]:
    """A field's value or values, in the form that filters compare; services' databases ignore case."""
    found: set[str] = set()
    for one in cast(Sequence[object], value) if isinstance(value, list | tuple) else (value,):
        if isinstance(one, dict):
            found |= {f"{k}={v}".lower() for k, v in cast(dict[str, Any], one).items()}
        elif one is not None:
            found.add(str(one).lower())
    return found
