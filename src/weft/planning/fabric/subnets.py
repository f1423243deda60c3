"""Subnets that were cut from blocks, kept in order so that the first gap among thousands is found at once. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]


class SubnetSet(Set[str]):
    """A set of subnets, immutable; kept in ascending order, first address and prefix length of each in one number."""

    __slots__ = ("keys",)

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.keys = _keys(texts)

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and bool(np.isin(_keys([text]), self.keys).any())

    def __iter__(self) -> Iterator[str]:
        return (f"{IPv4Address(key >> 6)}/{key & 63}" for key in self.keys.tolist())

    def __len__(self) -> int:
        return len(self.keys)

    def with_changes(self, gone: Iterable[str], come: Iterable[str]) -> SubnetSet:
        """A copy without `gone`, all of which it has, and with `come`, none of which it has."""
        made = SubnetSet()
        made.keys = _among(np.delete(self.keys, np.searchsorted(self.keys, _keys(gone))), _keys(come))
        return made


def _keys(texts: Iterable[str]) -> Keys:
    """Sort keys of the subnets; texts that aren't networks are left out: they overlap nothing."""
    found: list[int] = []
    for text in texts:
        with suppress(ValueError):
            found.append(_key(IPv4Network(text, strict=False)))
    return np.array(sorted(found), np.int64)


def _key(network: IPv4Network) -> int:
    return int(network.network_address) << 6 | network.prefixlen


def _among(keys: Keys, more: Keys) -> Keys:
    return np.insert(keys, np.searchsorted(keys, more), more)


NO_SUBNETS = SubnetSet()


def cut(
    block: IPv4Network, prefix: int, size: int, used: Iterable[str], others: Iterable[IPv4Network] = ()
) -> IPv4Network | None:
    """The lowest subnet of the block with at least `size` addresses that overlaps none of `used` or `others`, or None.

    `prefix` is the usual prefix length; a pod that needs more addresses gets a larger subnet.
    """
    length = min(prefix, prefix_for(size))
    if length < block.prefixlen:
        return None
    keys = (used if isinstance(used, SubnetSet) else SubnetSet(used)).keys
    for other in others:
        keys = _among(keys, np.array([_key(other)], np.int64))
    firsts = keys >> 6
    lasts = firsts + (1 << (32 - (keys & 63))) - 1
    step = 1 << (32 - length)
    start, end = int(block.network_address), int(block.broadcast_address)
    # Where one could begin after each, at the next multiple of its size; these may overlap what an order names.
    begins = np.empty(len(firsts) + 1, np.int64)
    begins[0] = start
    begins[1:] = np.maximum(start, -(-(np.maximum.accumulate(lasts) + 1) // step) * step)
    fits = np.append(begins[:-1] + step <= firsts, True)
    found = int(begins[int(fits.argmax())])
    return IPv4Network((found, length)) if found + step - 1 <= end else None


def prefix_for(size: int) -> int:
    """The longest prefix length (smallest subnet) with at least `size` addresses in all."""
    return 32 - max(size - 1, 1).bit_length()
