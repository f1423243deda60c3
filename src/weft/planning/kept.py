"""Caches results of pure functions of a site: sites are frozen, and the same ones are used repeatedly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from weft.model.site import Site

P = ParamSpec("P")
T = TypeVar("T")
SITES = 4
"""Maximum number of cached sites, oldest evicted first: one is active, others are being examined."""


def kept(make: Callable[Concatenate[Site, P], T]) -> Callable[Concatenate[Site, P], T]:
    """The function with cached results, by the site's identity and the other arguments, which must be hashable.

    Callers share the result and must not change it. Two threads may compute the same result twice.
    """
    recent: deque[tuple[Site, dict[object, T]]] = deque(maxlen=SITES)

    @wraps(make)
    def found(site: Site, *args: P.args, **kwargs: P.kwargs) -> T:
        results = next((results for known, results in tuple(recent) if known is site), None)
        if results is None:
            results = {}
            recent.append((site, results))
        key = args, tuple(sorted(kwargs.items()))
        if key not in results:
            results[key] = make(site, *args, **kwargs)
        return results[key]

    return found
