"""The best leaves of a pool: one leaf in a few operations, several without a scan wherever that is provably exact."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import combinations
from math import comb

from weft.planning.place.exact import LEAF, cheapest_shapes
from weft.planning.place.pool import Pool
from weft.planning.place.subset import least_leftover

MOST_TRIED = 400
"""So many sets of pods are tried one by one before the general search is taken."""


def one_leaf(pool: Pool, need: int) -> int | None:
    """The tightest leaf for `need`; of equals a broken one, in the fullest pod, first in tree order."""
    above = pool.levels >> (2 * need)
    if not above:
        return None
    level = 2 * need + (above & -above).bit_length() - 1
    pods = pool.pods_with[level]
    pod = pods.bit_length() - 1
    if pods != 1 << pod:
        count, ranked = pool.pods, pool.ranked
        for i in range(bisect_left(ranked, (level >> 1) * count), len(ranked)):
            pod = ranked[i] % count
            if pods >> pod & 1:
                break
    bits = pool.bucket[pod][level]
    return pool.pod_start[pod] + (bits & -bits).bit_length() - 1


def one_leaf_within(pool: Pool, need: int, allowed: Sequence[int], pods: int) -> int | None:
    """The same among allowed leaves only.

    Args:
        allowed: by pod, bitset of its leaves that are allowed.
        pods: bitset of the pods that have an allowed leaf.
    """
    above = pool.levels >> (2 * need)
    level = 2 * need
    count = pool.pods
    while above:
        step = (above & -above).bit_length()
        level += step
        above >>= step
        here = pool.pods_with[level - 1] & pods
        if here:
            ranked = pool.ranked
            for i in range(bisect_left(ranked, ((level - 1) >> 1) * count), len(ranked)):
                pod = ranked[i] % count
                if here >> pod & 1 and (bits := pool.bucket[pod][level - 1] & allowed[pod]):
                    return pool.pod_start[pod] + (bits & -bits).bit_length() - 1
    return None


def tightest_of_pods(pool: Pool, pods: Iterable[int]) -> int | None:
    """The leaf of these pods that has least room, but some; of equals a broken one, in the fullest pod."""
    best: tuple[int, int, int] | None = None
    for pod in pods:
        if pool.pod_free[pod]:
            row = pool.bucket[pod]
            level = next(i for i, bits in enumerate(row) if bits)
            if best is None or (level, pool.pod_free[pod], pod) < best:
                best = level, pool.pod_free[pod], pod
    if best is None:
        return None
    bits = pool.bucket[best[2]][best[0]]
    return pool.pod_start[best[2]] + (bits & -bits).bit_length() - 1


def one_pod(pool: Pool, need: int) -> list[int] | None:
    """The fewest leaves inside one pod, and of those the least leftover."""
    found = _fewest_in_one_pod(pool, need)
    return _tightest(pool, found[1], found[0], need) if found else None


def several(
    pool: Pool, need: int, beta: int, home: frozenset[int] = frozenset()
) -> tuple[int, list[int]] | None:
    """The leaves of least cost, and of those the least leftover: (cost in thousandths of a leaf, leaves).

    Args:
        home: pods that cost nothing, because the order's pod stands on them already.
    """
    if need > pool.total:
        return None
    fewest = pool.fewest(need)
    if not home:
        found = _fewest_in_one_pod(pool, need)
        # Two pods cost at least this much: below it, the one pod is the optimum.
        if found and (LEAF * found[0] < LEAF * fewest + beta):
            return LEAF * found[0], _tightest(pool, found[1], found[0], need)
        # No set has fewer leaves than `fewest`, nor fewer pods than have the room: if both can be had, it is optimal.
        pods = max(2, _fewest_pods(pool, need))
        if beta and not (found and LEAF * found[0] <= LEAF * fewest + beta):
            few = _few_pods(pool, need, fewest, pods)
            if few is not None:
                return LEAF * fewest + beta * (pods - 1), few
    if beta == 0:
        return LEAF * fewest, _anywhere(pool, need, fewest)
    return _over_pods(pool, need, beta, home, fewest)


def _fewest_in_one_pod(pool: Pool, need: int) -> tuple[int, list[int]] | None:
    """The least number of leaves that one pod needs, and the pods that need no more, the fullest first."""
    count, ranked = pool.pods, pool.ranked
    best, pods = 1 << 60, list[int]()
    for i in range(bisect_left(ranked, need * count), len(ranked)):
        pod = ranked[i] % count
        leaves = bisect_left(pool.prefix(pod), need)
        if leaves < best:
            best, pods = leaves, [pod]
        elif leaves == best:
            pods.append(pod)
    return (best, pods) if pods else None


def _tightest(pool: Pool, pods: Sequence[int], leaves: int, need: int) -> list[int]:
    """The set of `leaves` leaves in one of these pods that leaves least over; each pod has one that fits."""
    histogram = pool.histogram
    open_pods: list[int] = []
    forced: tuple[int, int] | None = None
    for pod in pods:
        prefix = pool.prefix(pod)
        last = need - prefix[leaves - 1]
        if histogram[last] and pool.has_room(pod, last):
            return _with_last(pool, pod, leaves, last)
        slack = prefix[leaves] - need
        if not _forced(pool, pod, leaves, slack):
            open_pods.append(pod)
        elif forced is None or slack < forced[0]:
            forced = slack, pod
    if leaves >= 2:
        for pod in open_pods:
            if pair := _pair(pool, pod, leaves, need):
                return pair
    best = (forced[0], pool.order(forced[1])[:leaves]) if forced else None
    seen: set[tuple[int, ...]] = set()
    for pod in open_pods:
        members = _useful(pool, pod, need - pool.prefix(pod)[leaves - 1])
        sizes = [pool.free[leaf] for leaf in members]
        if (key := tuple(sorted(sizes))) in seen:
            continue
        seen.add(key)
        picked = least_leftover([sizes], [False], need, [(1, leaves)])
        chosen = [members[i] for _, i in picked]
        leftover = sum(pool.free[leaf] for leaf in chosen) - need
        if best is None or leftover < best[0]:
            best = leftover, chosen
            if not leftover:
                break
    assert best is not None
    return best[1]


def _with_last(pool: Pool, pod: int, leaves: int, room: int) -> list[int]:
    """The most roomy leaves of the pod, the last of them one with exactly this room."""
    largest = pool.order(pod)[:leaves]
    last = pool.with_room(pod, room)
    return largest if last is None or last in largest else [*largest[:-1], last]


def _forced(pool: Pool, pod: int, leaves: int, slack: int) -> bool:
    """Whether no other set of so many leaves has the room: the most roomy are alike and the next has too little."""
    free, order = pool.free, pool.order(pod)
    room = free[order[leaves - 1]]
    if free[order[0]] != room:
        return False
    low = room - slack
    row = pool.bucket[pod]
    return not any(row[2 * max(low, 1) : 2 * room])


def _pair(pool: Pool, pod: int, leaves: int, need: int) -> list[int] | None:
    """All but two of the most roomy leaves, and two others that make the sum exact."""
    order, free = pool.order(pod), pool.free
    rest = need - pool.prefix(pod)[leaves - 2]
    low, high = leaves - 2, len(order) - 1
    while low < high:
        room = free[order[low]] + free[order[high]]
        if room == rest:
            return [*order[: leaves - 2], order[low], order[high]]
        if room > rest:
            low += 1
        else:
            high -= 1
    return None


def _anywhere(pool: Pool, need: int, leaves: int) -> list[int]:
    """`leaves` leaves, whatever their pods, that leave least over."""
    least = need - pool.most(leaves - 1)
    members = [leaf for key in pool.ranked for leaf in _useful(pool, key % pool.pods, least)]
    picked = least_leftover([[pool.free[leaf] for leaf in members]], [False], need, [(1, leaves)])
    return [members[i] for _, i in picked]


def _fewest_pods(pool: Pool, need: int) -> int:
    """The least number of pods that have room for `need`; all together must have it."""
    pods = 0
    while need > 0:
        pods += 1
        need -= pool.pod_free[pool.ranked[-pods] % pool.pods]
    return pods


def _few_pods(pool: Pool, need: int, leaves: int, count: int) -> list[int] | None:
    """The least leftover over `count` pods with `leaves` leaves; None if there is no such set, or too many to try."""
    pods = _worth_pairing(pool, need, count)
    if comb(len(pods), count) > MOST_TRIED:
        return None
    feasible = False
    pod_free = pool.pod_free
    for some in combinations(pods, count):
        if sum([pod_free[p] for p in some]) < need:
            continue
        found = _these_pods(pool, some, need, leaves)
        if found:
            return found
        feasible = feasible or found is not None
    if not feasible:
        return None
    least = need - pool.most(leaves - 1)
    members = [_useful(pool, p, least) for p in pods]
    sizes = [[pool.free[leaf] for leaf in row] for row in members]
    picked = least_leftover(sizes, [False] * len(pods), need, [(count, leaves)])
    return [members[g][i] for g, i in picked]


def _these_pods(pool: Pool, pods: Sequence[int], need: int, leaves: int) -> list[int] | None:
    """Leaves of these with nothing left over, if one step finds them; [] if there is room but something is left
    over; None if there is not the room.
    """
    free = pool.free
    every = [leaf for pod in pods for leaf in pool.order(pod)[:leaves]]
    every.sort(key=free.__getitem__, reverse=True)
    del every[leaves:]
    slack = sum([free[leaf] for leaf in every]) - need
    if slack <= 0:
        return every if slack == 0 else None
    lowest = free[every[-1]]
    for i in range(leaves - 1, -1, -1):
        room = free[every[i]] - slack
        if 0 < room < lowest and (i == 0 or free[every[i - 1]] != free[every[i]]) and pool.histogram[room]:
            for pod in pods:
                last = pool.with_room(pod, room) if pool.has_room(pod, room) else None
                if last is not None:
                    return [*every[:i], *every[i + 1 :], last]
    return []


def _worth_pairing(pool: Pool, need: int, pods: int) -> list[int]:
    """Pods that can be among so many with room for `need`, as the most roomy others have the rest; fullest first."""
    count, ranked = pool.pods, pool.ranked
    others = sum(pool.pod_free[key % count] for key in ranked[len(ranked) - pods + 1 :]) if pods > 1 else 0
    return [key % count for key in ranked[bisect_left(ranked, max(need - others, 1) * count) :]]


def _over_pods(pool: Pool, need: int, beta: int, home: frozenset[int], fewest: int) -> tuple[int, list[int]]:
    """The exact best set over any number of pods."""
    pods = [p for key in pool.ranked if pool.pod_free[p := key % pool.pods]]
    pods.sort(key=lambda p: p not in home)
    charge = [p in home for p in pods]
    cost, shapes = cheapest_shapes([pool.prefix(p) for p in pods], charge, need, beta, fewest)
    if home and not any(charge):
        cost += beta  # no pod of the order has room: the first new one isn't free
    if not home:
        pods = _worth_pairing(pool, need, max(q for q, _ in shapes))
        charge = [False] * len(pods)
    least = need - pool.most(max(j for _, j in shapes) - 1)
    members = [_useful(pool, p, least) for p in pods]
    sizes = [[pool.free[leaf] for leaf in row] for row in members]
    picked = least_leftover(sizes, charge, need, shapes)
    return cost, [members[g][i] for g, i in picked]


def _useful(pool: Pool, pod: int, least: int) -> list[int]:
    """The pod's leaves that have at least this room (with less, even the most roomy others don't make up the sum):
    broken ones first, then in tree order.
    """
    free, full = pool.free, pool.full
    useful = [leaf for leaf in pool.order(pod) if free[leaf] >= least]
    useful.sort(key=lambda leaf: (free[leaf] == full[leaf], leaf))
    return useful


def fill(free: Sequence[int], leaves: Iterable[int], need: int) -> tuple[tuple[int, int], ...]:
    """How much to take of each leaf, in tree order; what is left over stays together on the most roomy one."""
    chosen = sorted(leaves)
    leftover = sum(free[leaf] for leaf in chosen) - need
    largest = max(chosen, key=lambda leaf: free[leaf])
    return tuple((leaf, free[leaf] - leftover if leaf == largest else free[leaf]) for leaf in chosen)
