"""Caches for results of pure functions of a site, and of other values that change seldom: sites are frozen, and the
same ones are used repeatedly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Generic, ParamSpec, TypeVar

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


class Latest(Generic[T]):
    """The last results of a computation by its inputs: the same object for as long as the inputs stay the same.

    For results that depend on more than the site, such as the nodes that are held: the inputs are read each time, the
    result is kept. Callers share a result and must not change it. Two threads may compute the same result twice.

    Args:
        most: results that are kept; the oldest go first.
    """

    def __init__(self, most: int = SITES) -> None:
        self._recent: deque[tuple[tuple[object, ...], tuple[object, ...], T]] = deque(maxlen=most)

    def of(self, same: tuple[object, ...], equal: tuple[object, ...], make: Callable[[], T]) -> T:
        """The result that `make` returned for these inputs before, else what it returns now.

        Args:
            same: large immutable inputs, compared by identity.
            equal: the other inputs, compared by value.
        """
        for objects, values, found in tuple(self._recent):
            alike = len(objects) == len(same) and all(a is b for a, b in zip(objects, same, strict=True))
            if alike and values == equal:
                return found
        found = make()
        self._recent.append((same, equal, found))
        return found
