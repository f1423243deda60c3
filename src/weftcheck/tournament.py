"""Which pairs of nodes are measured at the same time: each node in one pair at a time, so that none slows itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

WHOLE = 64
"""Most nodes for which every pair is measured. Beyond, a third of the rounds is, and the rest for suspects alone."""
SUSPECT = 0.25
"""Share of slow pairs, of a node on a rail in one direction, that makes it a suspect: half a leaf's worth."""

Match = tuple[int, int]
Way = tuple[int, int, int]
"""Sender, receiver, rail."""


class Schedule(NamedTuple):
    """Rounds of pairs of nodes, by position. `rest`: only for suspects."""

    first: list[list[Match]]
    rest: list[list[Match]]


def rounds(count: int) -> list[list[Match]]:
    """Every two of `count` nodes meet once; of an odd number, one rests in each round (the circle method)."""
    size = count + count % 2
    around = list(range(1, size))
    found: list[list[Match]] = []
    for _ in range(max(0, size - 1)):
        ring = [0, *around]
        pairs = [(ring[i], ring[size - 1 - i]) for i in range(size // 2)]
        found.append([(min(a, b), max(a, b)) for a, b in pairs if max(a, b) < count])
        around = around[1:] + around[:1]
    return [one for one in found if one]


def schedule(count: int, seed: str) -> Schedule:
    """The rounds of a test; which third comes first is chosen by the seed, and the same for the same seed."""
    whole = rounds(count)
    if count <= WHOLE:
        return Schedule(whole, [])
    order = sorted(range(len(whole)), key=lambda i: sha256(f"{seed} {i}".encode()).digest())
    most = -(-len(whole) // 3)
    return Schedule([whole[i] for i in order[:most]], [whole[i] for i in order[most:]])


def suspects(measured: Iterable[Way], slow: Iterable[Way]) -> set[int]:
    """Nodes to be measured with all others.

    An adapter of theirs has a quarter of its pairs slow in one direction, or a pair is slow without such a node.
    """
    total: dict[tuple[int, int, bool], int] = {}
    bad: dict[tuple[int, int, bool], int] = {}
    slow = list(slow)
    for ways, counts in ((measured, total), (slow, bad)):
        for sender, receiver, rail in ways:
            for key in ((sender, rail, True), (receiver, rail, False)):
                counts[key] = counts.get(key, 0) + 1
    found = {key[0] for key, number in bad.items() if number >= max(2, SUSPECT * total.get(key, 0))}
    alone = {end for a, b, _ in slow if a not in found and b not in found for end in (a, b)}
    return found | alone


def packed(matches: Iterable[Match]) -> list[list[Match]]:
    """Any pairs in rounds in which each node is in one pair at most."""
    found: list[tuple[set[int], list[Match]]] = []
    for a, b in matches:
        free = next((entry for entry in found if not entry[0] & {a, b}), None)
        if free is None:
            free = (set(), [])
            found.append(free)
        free[0].update((a, b))
        free[1].append((a, b))
    return [one for _, one in found]


def across(leaves: Sequence[str]) -> list[Match]:
    """Everyone sends to one and receives from one, behind another leaf wherever that is possible.

    Args:
        leaves: each node's leaf. Empty result: all are on one leaf.
    """
    if len(set(leaves)) < 2:
        return []
    order = sorted(range(len(leaves)), key=lambda i: (leaves[i], i))
    largest = max(leaves.count(leaf) for leaf in set(leaves))
    shift = max(largest, 1) % len(order)
    pairs = [(a, order[(place + shift) % len(order)]) for place, a in enumerate(order)]
    return [(a, b) for a, b in pairs if a != b and leaves[a] != leaves[b]]
