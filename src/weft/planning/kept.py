"""Pure functions of a site whose results are kept: a site is frozen, and one is asked about again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from weft.model.site import Site

P = ParamSpec("P")
T = TypeVar("T")
SITES = 4
"""So many sites are remembered, the one that came first is forgotten: one is in force, others are being looked at."""


def kept(make: Callable[Concatenate[Site, P], T]) -> Callable[Concatenate[Site, P], T]:
    """The function with its results kept, by the site's identity and the other arguments, which must be hashable.

    Callers share the result: it must not be changed. Two threads may make the same twice; both get the same values.
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
