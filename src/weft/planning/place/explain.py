"""Sentences and tables that say why: from the choice that was made, never from a second opinion."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model.placement import Candidate, FilterReport, PlacementRequest
from weft.planning.fabric.topology import NO_POD, Topology
from weft.planning.place.choose import Home, Room, Weights, pool_of
from weft.planning.place.fit import Decided
from weft.planning.place.reasons import (
    TIGHTEST,
    WITHOUT_REGARD,
    against,
    besides,
    chosen,
    least_cost,
    left_over,
)
from weft.planning.place.rivals import rivals
from weft.planning.place.sharing import Terms
from weft.planning.words import some


def compared(
    request: PlacementRequest, topology: Topology, rooms: Sequence[Room], found: Decided, weights: Weights
) -> tuple[Candidate, ...]:
    """The winner, then what it was compared with; the same as an engine names in the same state."""
    choice = found.choice
    winner = _candidate(
        topology, choice.takes, choice.pods, choice.leftover, "taken: " + _why(request, found, weights)
    )
    if request.near:
        return (winner,)
    pool, numbers = pool_of(sorted((r for r in rooms if r.free > 0), key=lambda r: (r.pod, r.leaf)))
    inside = {leaf: i for i, leaf in enumerate(numbers)}
    leaves = [inside[leaf] for leaf, _ in choice.takes]
    mine = len(leaves), choice.pods, choice.leftover
    plain = not request.preferences and not request.bisection_gbps and not found.own and found.halls[1] == 1
    others: list[Candidate] = []
    for what, theirs, pods, leftover in rivals(
        pool, request.count // request.slice, leaves, request.required == "site"
    ):
        why = against((len(theirs), pods, leftover), mine, weights) if plain else WITHOUT_REGARD
        takes = [(numbers[leaf], 0) for leaf in theirs]
        others.append(_candidate(topology, takes, pods, leftover, f"{what}: {why}"))
    return (winner, *others)


def why_chosen(
    request: PlacementRequest, topology: Topology, found: Decided, weights: Weights, spares: Sequence[str]
) -> str:
    """One sentence on the winner."""
    names = _leaf_names(topology, found.choice.takes)
    return chosen(request.count, names, spares, bool(request.near), _why(request, found, weights))


def refusal_reason(
    request: PlacementRequest,
    topology: Topology,
    rooms: Sequence[Room],
    home: Home,
    reports: Sequence[FilterReport],
    free: int,
) -> str:
    """One sentence: how many there are of how many, and what stood in the way.

    Args:
        free: nodes that passed the filters; `rooms` has them by leaf, in slices.
    """
    wanted, size = request.count + request.spare, request.slice
    what = some(wanted, "node") + (f" ({request.spare} of them spare)" if request.spare else "")
    total = sum(r.free for r in rooms) * size
    if free < wanted:
        are, those = ("is" if n == 1 else "are" for n in (wanted, free))
        removed = ", ".join(f"{r.filter} {r.removed}" for r in reports if r.removed)
        return f"{what} {are} wanted and {free} {those} free for this order" + (
            f" (removed by: {removed})." if removed else "."
        )
    if total < wanted:
        return (
            f"{what} are wanted in groups of {size} inside a leaf, and {total} of the {free} that are free for this "
            f"order can be had so (locality.slice is {size})."
        )
    if request.required == "node":
        return f"{what} can't be on one node: locality.required is node."
    groups = f" in groups of {size}" if size > 1 else ""
    there = f"{some(total, 'node')} {'is' if total == 1 else 'are'} free for this order{groups}, but"
    if request.required != "site":
        most, where = _most_in_one(request, topology, rooms, home)
        if most < wanted or not request.bisection_gbps:
            return (
                f"{there} at most {most} of the {wanted} inside one "
                f"{request.required} ({where}), and locality.required is {request.required}."
            )
    return (
        f"{there} no leaves whose uplinks have {request.bisection_gbps} Gb/s left "
        f"for each of {what} inside one {request.required}."
    )


def _most_in_one(
    request: PlacementRequest, topology: Topology, rooms: Sequence[Room], home: Home
) -> tuple[int, str]:
    by_leaf = request.required == "leaf"
    level = {"building": 0, "hall": 1}.get(request.required)
    names = list(topology.leaves if by_leaf else topology.pods)
    free: dict[int | str, int] = {}

    def domain_of(leaf: int, pod: int) -> int | str:
        if by_leaf:
            return leaf
        return pod if level is None else topology.above.get(names[pod], (NO_POD, NO_POD))[level]

    for room in rooms:
        domain = domain_of(room.leaf, room.pod)
        free[domain] = free.get(domain, 0) + room.free * request.slice
    stay = {domain_of(x, 0) for x in home.leaves} if by_leaf else {domain_of(0, p) for p in home.pods}
    if len(stay) > 1:
        return 0, "the nodes that stay are in several"
    domain = stay.pop() if stay else min(free, key=lambda d: (-free[d], str(d) if isinstance(d, str) else d))
    name = domain if isinstance(domain, str) else names[domain]
    return free.get(domain, 0), f"{name}, where the nodes that stay are" if home.leaves else name


def _why(request: PlacementRequest, found: Decided, weights: Weights) -> str:
    choice = found.choice
    why = "one leaf that holds them all" if found.own else TIGHTEST
    if len(choice.takes) > 1 or found.preferences:
        why = least_cost(weights, found.halls, bool(request.preferences))
    terms = Terms(exclusive=request.exclusive, gbps=request.bisection_gbps)
    preferred = (found.preferences, choice.cost) if request.preferences else None
    one_numa = -1 if found.one_numa is None else found.one_numa
    own = f", {found.own} of {len(found.nodes)} nodes are set aside for the project" if found.own else ""
    return f"{why}, {left_over(choice.leftover)}{own}" + besides(preferred, terms, one_numa, len(found.nodes))


def _candidate(
    topology: Topology, takes: Sequence[tuple[int, int]], pods: int, leftover: int, why: str
) -> Candidate:
    return Candidate(leaves=_leaf_names(topology, takes), pods=pods, leftover=leftover, why=why)


def _leaf_names(topology: Topology, takes: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    names = list(topology.leaves)
    return tuple(names[leaf] for leaf, _ in takes)
