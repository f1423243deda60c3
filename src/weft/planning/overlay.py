"""A mapping with many successive versions, each of which costs only what changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, filterfalse
from math import isqrt
from typing import Self, TypeVar

K = TypeVar("K")
V = TypeVar("V")
FEW = 64


class Overlay(Mapping[K, V]):
    """Immutable: what changed lies over a dictionary that versions share, until it is worth copying that.

    A claim replaces a handful of entries among 100,000; copying them all took most of its time.
    """

    __slots__ = ("_base", "_over", "_size")

    def __init__(self, base: Mapping[K, V] | None = None) -> None:
        self._base: dict[K, V] = {} if base is None else dict(base)
        self._over: dict[K, V | None] = {}
        self._size = len(self._base)

    def with_changes(self, changed: Mapping[K, V | None]) -> Self:
        """A version with these values; None removes the key."""
        other = object.__new__(type(self))
        over = {**self._over, **changed}
        if len(over) <= FEW + isqrt(len(self._base)):
            other._base, other._over = self._base, over
        else:
            base = self._base | over
            other._base = {key: value for key, value in base.items() if value is not None}
            other._over = {}
        came = sum((value is not None) - (key in self) for key, value in changed.items())
        other._size = self._size + came
        return other

    def __getitem__(self, key: K) -> V:
        found = self._over[key] if key in self._over else self._base[key]
        if found is None:
            raise KeyError(key)
        return found

    def __contains__(self, key: object) -> bool:
        over = self._over
        return over[key] is not None if key in over else key in self._base  # pyright: ignore[reportArgumentType]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        over = self._over
        added = (key for key, value in over.items() if value is not None)
        return chain(filterfalse(over.__contains__, self._base), added)
