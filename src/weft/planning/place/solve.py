"""The best leaves of a pool: one leaf in a few operations, several without a scan wherever that is provably exact."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence

from weft.planning.place.exact import LEAF, cheapest_shapes
from weft.planning.place.pairs import best_pair, pair_in_pod, pair_of_pods
from weft.planning.place.pool import Pool
from weft.planning.place.subset import least_leftover
from weft.planning.place.swaps import swapped


def one_leaf(pool: Pool, need: int) -> int | None:
    """The tightest leaf for `need`; of equals a broken one, in the fullest pod, first in tree order."""
    above = pool.levels >> (2 * need)
    if not above:
        return None
    level = 2 * need + (above & -above).bit_length() - 1
    pod = fullest(pool, pool.pods_with[level], level >> 1)
    bits = pool.bucket[pod][level]
    return pool.pod_start[pod] + (bits & -bits).bit_length() - 1


def next_leaf(pool: Pool, leaf: int) -> int:
    """The leaf that comes after this one by the same rule; -1 if there is none."""
    starts, bucket, room, pod = pool.pod_start, pool.bucket, pool.free[leaf], pool.pod_of[leaf]
    level = 2 * room + (room == pool.full[leaf])
    bits = bucket[pod][level] ^ (1 << (leaf - starts[pod]))
    if not bits:
        pods = pool.pods_with[level] ^ (1 << pod)
        if not pods:
            above = pool.levels >> (level + 1)
            if not above:
                return -1
            level += (above & -above).bit_length()
            pods = pool.pods_with[level]
        pod = fullest(pool, pods, level >> 1)
        bits = bucket[pod][level]
    return starts[pod] + (bits & -bits).bit_length() - 1


def fullest(pool: Pool, pods: int, room: int) -> int:
    """The pod that has least room of a bitset of pods, each of which has at least this room."""
    pod = pods.bit_length() - 1
    if pods != 1 << pod:
        count, ranked = pool.pods, pool.ranked
        for i in range(bisect_left(ranked, room * count), len(ranked)):
            pod = ranked[i] % count
            if pods >> pod & 1:
                break
    return pod


def two_leaves(pool: Pool, need: int, closed: Sequence[Container[int]]) -> tuple[int, int] | None:
    """The tightest leaf and the next one (-1: there is none) among the leaves that none of these has."""
    leaf = one_leaf(pool, need)
    if leaf is None:
        return None
    two = leaf, next_leaf(pool, leaf)
    for some in closed:
        if two[0] in some or two[1] in some:
            break
    else:
        return two
    found: list[int] = []
    for leaf in _in_order(pool, need):
        for some in closed:
            if leaf in some:
                break
        else:
            found.append(leaf)
            if len(found) == 2:
                return found[0], found[1]
    return (found[0], -1) if found else None


def _in_order(pool: Pool, need: int) -> Iterator[int]:
    """The leaves that have the room, in the order in which they would be chosen."""
    starts, count, ranked = pool.pod_start, pool.pods, pool.ranked
    above, level = pool.levels >> (2 * need), 2 * need - 1
    while above:
        step = (above & -above).bit_length()
        level += step
        above >>= step
        pods = pool.pods_with[level]
        at = bisect_left(ranked, (level >> 1) * count) if pods & (pods - 1) else 0
        while pods:
            pod = pods.bit_length() - 1
            if pods != 1 << pod:
                pod = ranked[at] % count
                at += 1
                if not pods >> pod & 1:
                    continue
            pods ^= 1 << pod
            bits, start = pool.bucket[pod][level], starts[pod]
            while bits:
                yield start + (bits & -bits).bit_length() - 1
                bits &= bits - 1


def one_pod(pool: Pool, need: int) -> list[int] | None:
    """The fewest leaves inside one pod, and of those the least leftover."""
    if need > pool.total:
        return None
    pods = _with_room(pool, need)
    found = _tightest(pool, pods, pool.fewest(need), need)
    return found or (_tightest(pool, pods, _fewest_in_one(pool, pods, need), need) if pods else None)


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
    if beta == 0:
        return LEAF * fewest, _anywhere(pool, need, fewest)
    single = None
    if not home:
        pods = _with_room(pool, need)
        inside = _tightest(pool, pods, fewest, need)
        if inside is not None:
            return LEAF * fewest, inside
        if pods:
            single = _fewest_in_one(pool, pods, need)
            # Two pods cost at least this much: below it, the one pod is the optimum.
            if LEAF * single < LEAF * fewest + beta:
                inside = _tightest(pool, pods, single, need)
                assert inside is not None
                return LEAF * single, inside
        if fewest == 2 and (single is None or LEAF * single > LEAF * 2 + beta):
            pair = pair_of_pods(pool, need)
            if pair:
                return LEAF * 2 + beta, pair
    return _over_pods(pool, need, beta, home, fewest, single)


def _with_room(pool: Pool, need: int) -> list[int]:
    """The pods that have room for all, the fullest first."""
    count, ranked = pool.pods, pool.ranked
    return [key % count for key in ranked[bisect_left(ranked, need * count) :]]


def _fewest_in_one(pool: Pool, pods: Sequence[int], need: int) -> int:
    """The least number of leaves that one of these pods needs; each has the room."""
    return min([bisect_left(pool.prefix(pod), need) for pod in pods])


def _tightest(pool: Pool, pods: Sequence[int], leaves: int, need: int) -> list[int] | None:
    """The set of `leaves` leaves in one of these pods that leaves least over; None if no pod has one with the room."""
    if leaves == 2:
        return _pair(pool, pods, need)
    found, leftover, doubtful = swapped(pool, need, ((1, leaves),), pods)
    if doubtful:
        useful = ((False, _useful(pool, p, need - pool.prefix(p)[leaves - 1])) for p in doubtful)
        picked = least_leftover(useful, pool.most_roomy, need, ((1, leaves),))
        if picked is not None and picked[0] < leftover:
            return picked[1]
    return found


def _pair(pool: Pool, pods: Sequence[int], need: int) -> list[int] | None:
    """The same for two leaves, told from the rooms that there are."""
    least, best = 1 << 60, (0, 0)
    for pod in pods:
        if sum(pool.sorted_rooms(pod)[-2:]) >= need:
            beyond, larger = best_pair(pool, pod, need)
            if beyond < least:
                least, best = beyond, (pod, larger)
                if not beyond:
                    break
    return None if least == 1 << 60 else pair_in_pod(pool, best[0], best[1], need + least - best[1])


def _anywhere(pool: Pool, need: int, leaves: int) -> list[int]:
    """`leaves` leaves, whatever their pods, that leave least over."""
    least = need - pool.most(leaves - 1)
    members = [leaf for key in pool.ranked for leaf in _useful(pool, key % pool.pods, least)]
    picked = least_leftover([(True, members)], pool.most_roomy, need, [(0, leaves)])
    assert picked is not None
    return picked[1]


def _over_pods(
    pool: Pool, need: int, beta: int, home: frozenset[int], fewest: int, single: int | None
) -> tuple[int, list[int]]:
    """The exact best set over any number of pods: the shapes from the cheapest, until one has the room."""
    pods = [key % pool.pods for key in pool.ranked if key >= pool.pods]
    first: tuple[int, int] | None = None
    if not home:
        # No set has fewer leaves than `fewest`, nor fewer pods than have the room: mostly both can be had.
        first = max(2, _fewest_pods(pool, pods, need)), fewest
        cost = LEAF * fewest + beta * (first[0] - 1)
        if single is None or LEAF * single > cost:
            found = _of_shapes(pool, need, [first], pods, home)
            if found is not None:
                return cost, found
        else:
            first = None
    paid = [pool.prefix(p) for p in pods if p not in home]
    free = [pool.prefix(p) for p in pods if p in home]
    extra = beta if home and not free else 0  # no pod of the order has room: the first new one isn't free
    for cost, shapes in cheapest_shapes(paid, free, need, beta, fewest, single):
        found = None if shapes == [first] else _of_shapes(pool, need, shapes, pods, home)
        if found is not None:
            return cost + extra, found
    raise AssertionError("all leaves together have the room")


def _fewest_pods(pool: Pool, pods: Sequence[int], need: int) -> int:
    """The least number of these pods, the fullest first, that have room for `need`."""
    for number, pod in enumerate(reversed(pods), 1):
        need -= pool.pod_free[pod]
        if need <= 0:
            return number
    raise AssertionError("all leaves together have the room")


def _of_shapes(
    pool: Pool, need: int, shapes: Sequence[tuple[int, int]], pods: Sequence[int], home: frozenset[int]
) -> list[int] | None:
    """The least leftover over shapes that cost the same; None if none of them has the room."""
    known: list[int] | None = None
    leftover = 0
    if not home:
        known, leftover, pods = swapped(pool, need, shapes, pods)
        if not pods:
            return known
    most_pods, most_leaves = max(q for q, _ in shapes), max(j for _, j in shapes)
    least = max(need - pool.most(most_leaves - 1), 1)
    if home:
        pods = sorted(pods, key=lambda p: p not in home)
    else:
        # The most roomy others must have the rest.
        others = sum([pool.pod_free[p] for p in pods[len(pods) - most_pods + 1 :]]) if most_pods > 1 else 0
        pods = [p for p in pods if pool.pod_free[p] + others >= need]
    roomy = 0
    for here in pool.pods_with[2 * least :]:
        roomy |= here
    left = ((p in home, _useful(pool, p, least)) for p in pods if roomy >> p & 1)
    picked = least_leftover(left, pool.most_roomy, need, shapes)
    if picked is None or (known is not None and leftover <= picked[0]):
        return known
    return picked[1]


def _useful(pool: Pool, pod: int, least: int) -> list[tuple[int, int]]:
    """The pod's leaves, with their room, that have at least this room, but some (with less, even the most roomy others
    don't make up the sum): broken ones first, then in tree order.
    """
    start, full, least = pool.pod_start[pod], pool.full, max(least, 1)
    rooms = pool.free[start : pool.pod_start[pod + 1]]
    useful = [pair for pair in enumerate(rooms, start) if pair[1] >= least]
    whole = [pair for pair in useful if pair[1] == full[pair[0]]]
    return [pair for pair in useful if pair[1] != full[pair[0]]] + whole if whole else useful


def fill(free: Sequence[int], leaves: Iterable[int], need: int) -> tuple[tuple[int, int], ...]:
    """How much to take of each leaf, in tree order; what is left over stays together on the most roomy one."""
    chosen = sorted(leaves)
    leftover = sum(free[leaf] for leaf in chosen) - need
    largest = max(chosen, key=lambda leaf: free[leaf])
    return tuple((leaf, free[leaf] - leftover if leaf == largest else free[leaf]) for leaf in chosen)
