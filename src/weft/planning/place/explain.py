"""Sentences and tables that say why: from the choice that was made, never from a second opinion."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model.placement import Candidate, FilterReport, PlacementRequest
from weft.planning.place.choose import Choice, Home, Room, Weights, choose
from weft.planning.topology import Topology

MOST_LEAVES_SHOWN = 8


def compared(
    request: PlacementRequest, topology: Topology, rooms: Sequence[Room], choice: Choice, weights: Weights
) -> tuple[Candidate, ...]:
    """The winner, then what it was compared with: few leaves at any price, few pods at any price, the next leaf."""
    winner = _candidate(topology, choice, "taken: " + _why(choice, weights))
    if request.near:
        return (winner,)
    units = request.count // request.slice
    others = [
        ("fewest leaves", choose(rooms, units, Weights(0), request.required)),
        ("one pod", choose(rooms, units, weights, "pod")),
        ("next leaf", _next_leaf(rooms, units, choice)),
    ]
    found: dict[tuple[str, ...], Candidate] = {winner.leaves: winner}
    for what, other in others:
        if other is not None:
            candidate = _candidate(topology, other, f"{what}: {_against(other, choice, weights)}")
            found.setdefault(candidate.leaves, candidate)
    return tuple(found.values())


def why_chosen(request: PlacementRequest, topology: Topology, choice: Choice, weights: Weights) -> str:
    """One sentence on the winner."""
    names = _leaf_names(topology, choice)
    shown = ", ".join(names[:MOST_LEAVES_SHOWN]) + (" …" if len(names) > MOST_LEAVES_SHOWN else "")
    leaves = "1 leaf" if len(names) == 1 else f"{len(names)} leaves"
    beside = " beside the nodes that stay" if request.near else ""
    return f"{request.count} nodes on {leaves} ({shown}){beside}: {_why(choice, weights)}."


def refusal_reason(
    request: PlacementRequest,
    topology: Topology,
    rooms: Sequence[Room],
    home: Home,
    reports: Sequence[FilterReport],
) -> str:
    """One sentence: how many there are of how many, and what stood in the way."""
    total = sum(r.free for r in rooms)
    if total < request.count:
        removed = ", ".join(f"{r.filter} {r.removed}" for r in reports if r.removed)
        return f"{request.count} nodes are wanted and {total} are free for this order" + (
            f" (removed by: {removed})." if removed else "."
        )
    if request.required == "node":
        return f"{request.count} nodes can't be on one node: locality.required is node."
    most, where = _most_in_one(request, topology, rooms, home)
    return (
        f"{total} nodes are free for this order, but at most {most} of the {request.count} inside one "
        f"{request.required} ({where}), and locality.required is {request.required}."
    )


def _most_in_one(
    request: PlacementRequest, topology: Topology, rooms: Sequence[Room], home: Home
) -> tuple[int, str]:
    by_leaf = request.required == "leaf"
    names = list(topology.leaves if by_leaf else topology.pods)
    free: dict[int, int] = {}
    for room in rooms:
        domain = room.leaf if by_leaf else room.pod
        free[domain] = free.get(domain, 0) + room.free
    stay = set(home.leaves) if by_leaf else set(home.pods)
    if len(stay) > 1:
        return 0, "the nodes that stay are in several"
    if stay:
        domain = stay.pop()
        return free.get(domain, 0), f"{names[domain]}, where the nodes that stay are"
    domain = min(free, key=lambda d: (-free[d], d))
    return free[domain], names[domain]


def _why(choice: Choice, weights: Weights) -> str:
    rest = "nothing left over" if choice.leftover == 0 else f"{choice.leftover} free nodes stay behind"
    if len(choice.takes) == 1:
        return f"the tightest leaf that holds them all, {rest}"
    return f"the least leaves + {weights.pod:g}·(pods−1), {choice.pods} pod{'s' if choice.pods > 1 else ''}, {rest}"


def _against(other: Choice, choice: Choice, weights: Weights) -> str:
    mine = len(choice.takes) + weights.pod * (choice.pods - 1)
    theirs = len(other.takes) + weights.pod * (other.pods - 1)
    if theirs > mine:
        return f"costs {theirs:g} against {mine:g}"
    if theirs < mine:
        return f"costs {theirs:g} against {mine:g}, but is not inside the preferred level"
    if other.leftover > choice.leftover:
        return f"same cost, leaves {other.leftover} free nodes behind against {choice.leftover}"
    return "as good; ties go to broken leaves, the fullest pod, then the name"


def _next_leaf(rooms: Sequence[Room], need: int, choice: Choice) -> Choice | None:
    taken = {leaf for leaf, _ in choice.takes}
    return choose([r for r in rooms if r.leaf not in taken], need, Weights(), "leaf")


def _candidate(topology: Topology, choice: Choice, why: str) -> Candidate:
    return Candidate(
        leaves=_leaf_names(topology, choice), pods=choice.pods, leftover=choice.leftover, why=why
    )


def _leaf_names(topology: Topology, choice: Choice) -> tuple[str, ...]:
    names = list(topology.leaves)
    return tuple(names[leaf] for leaf, _ in choice.takes)
