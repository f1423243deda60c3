"""Other systems' rules, for comparison: what they would choose in the same state. None looks ahead more than one step.

Sources: Kueue's best fit is `pkg/cache/scheduler/tas_flavor_snapshot.go` (lowest level where one domain fits, the
tightest such domain; below it the largest first, the last one the tightest that holds the rest).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.model.localityorder import Level
from weft.planning.place.choose import Policy, Takes
from weft.planning.place.solver import Pool
from weft.planning.place.weighinput import Tree


def first_fit(pool: Pool, required: Level, preferred: Level, need: int) -> Takes | None:
    """The first nodes in tree order inside the first domain of the required level that holds them."""
    del preferred
    for leaves in _domains(pool, required):
        if sum(pool.free[leaf] for leaf in leaves) >= need:
            return _in_order(pool, leaves, need)
    return None


def best_fit(pool: Pool, required: Level, preferred: Level, need: int) -> Takes | None:
    """Kueue's rule: the tightest domain of the lowest level that holds all; inside it the largest first."""
    del preferred
    tight = _tightest([(pool.free[leaf], leaf) for leaf in range(len(pool.free))], need)
    if tight is not None:
        return ((tight, need),)
    if required in ("node", "leaf"):
        return None
    block = _tightest(list(zip(pool.block_free, range(pool.blocks), strict=True)), need)
    if block is not None:
        return _largest_first(pool, [block], need)
    if required == "block" or need > pool.total:
        return None
    blocks = _greedy([(pool.block_free[p], p) for p in range(pool.blocks)], need)
    return _largest_first(pool, [p for p, _ in blocks], need)


POLICIES: dict[str, Policy | None] = {
    "first-fit": first_fit,
    "best-fit": best_fit,
    "weft": None,
}
"""Rules by the name that `--compare` takes; None is weft's own."""


def by_rule(
    rule: Policy, pool: Pool, tree: Tree, required: Level, preferred: Level, need: int
) -> Takes | None:
    """What the rule chooses. It knows only leaves and blocks; halls and buildings are tried one after the other."""
    if required not in ("hall", "building") or not tree.deep:
        return rule(pool, required, preferred, need)
    depth = 2 if required == "hall" else 1
    domains = [path[:depth] for path in tree.paths]
    inside = [
        pool.with_rooms({leaf: 0 for leaf, mine in enumerate(domains) if mine != one})
        for one in dict.fromkeys(domains)
    ]
    if rule is best_fit:
        inside.sort(key=lambda p: p.total)
    return next((rule(part, "site", preferred, need) for part in inside if part.total >= need), None)


def _domains(pool: Pool, required: Level) -> Iterable[Sequence[int]]:
    if required in ("node", "leaf"):
        return [(leaf,) for leaf in range(len(pool.free))]
    if required == "block":
        return [range(pool.block_start[p], pool.block_start[p + 1]) for p in range(pool.blocks)]
    return [range(len(pool.free))]


def _in_order(pool: Pool, leaves: Iterable[int], need: int) -> Takes:
    takes: list[tuple[int, int]] = []
    for leaf in leaves:
        take = min(need, pool.free[leaf])
        if take:
            takes.append((leaf, take))
            need -= take
        if not need:
            break
    return tuple(takes)


def _tightest(rooms: Iterable[tuple[int, int]], need: int) -> int | None:
    return min(((free, i) for free, i in rooms if free >= need), default=(0, None))[1]


def _greedy(rooms: Sequence[tuple[int, int]], need: int) -> list[tuple[int, int]]:
    """(domain, take): the largest first; as soon as one holds the rest, the tightest that does."""
    left = sorted(((free, i) for free, i in rooms if free), key=lambda r: (-r[0], r[1]))
    taken: list[tuple[int, int]] = []
    while need > 0:
        tight = _tightest(left, need)
        free, chosen = left[0] if tight is None else next(r for r in left if r[1] == tight)
        left.remove((free, chosen))
        taken.append((chosen, min(free, need)))
        need -= min(free, need)
    return taken


def _largest_first(pool: Pool, blocks: Sequence[int], need: int) -> Takes:
    takes: list[tuple[int, int]] = []
    for block in blocks:
        leaves = range(pool.block_start[block], pool.block_start[block + 1])
        part = min(need, pool.block_free[block])
        takes += _greedy([(pool.free[leaf], leaf) for leaf in leaves], part)
        need -= part
    return tuple(sorted(takes))
