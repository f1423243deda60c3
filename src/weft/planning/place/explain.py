"""Sentences and tables that say why: from the choice that was made, never from a second opinion."""

from __future__ import annotations

from collections.abc import Sequence

from weft.model.placement import Candidate, FilterReport, PlacementRequest
from weft.planning.place.choose import Choice, Home, Room, Weights, choose
from weft.planning.place.fit import Decided
from weft.planning.topology import NO_POD, Topology

MOST_LEAVES_SHOWN = 8


def compared(
    request: PlacementRequest, topology: Topology, rooms: Sequence[Room], found: Decided, weights: Weights
) -> tuple[Candidate, ...]:
    """The winner, then what it was compared with: few leaves at any price, few pods at any price, the next leaf."""
    choice = found.choice
    winner = _candidate(topology, choice, "taken: " + _why(request, found, weights))
    if request.near:
        return (winner,)
    units = request.count // request.slice
    others = [
        ("fewest leaves", choose(rooms, units, Weights(0), request.required)),
        ("one pod", choose(rooms, units, weights, "pod")),
        ("next leaf", _next_leaf(rooms, units, choice)),
    ]
    candidates: dict[tuple[str, ...], Candidate] = {winner.leaves: winner}
    for what, other in others:
        if other is not None:
            against = _against(other, choice, weights)
            if request.preferences or request.bisection_gbps or found.own:
                against = "without regard to preferences, uplinks and whose the nodes are"
            candidate = _candidate(topology, other, f"{what}: {against}")
            candidates.setdefault(candidate.leaves, candidate)
    return tuple(candidates.values())


def why_chosen(
    request: PlacementRequest, topology: Topology, found: Decided, weights: Weights, spares: Sequence[str]
) -> str:
    """One sentence on the winner."""
    names = _leaf_names(topology, found.choice)
    shown = ", ".join(names[:MOST_LEAVES_SHOWN]) + (" …" if len(names) > MOST_LEAVES_SHOWN else "")
    leaves = "1 leaf" if len(names) == 1 else f"{len(names)} leaves"
    beside = " beside the nodes that stay" if request.near else ""
    spare = f", and {', '.join(spares)} spare," if spares else ""
    return f"{request.count} nodes{spare} on {leaves} ({shown}){beside}: {_why(request, found, weights)}."


def refusal_reason(
    request: PlacementRequest,
    topology: Topology,
    rooms: Sequence[Room],
    home: Home,
    reports: Sequence[FilterReport],
) -> str:
    """One sentence: how many there are of how many, and what stood in the way."""
    total, wanted = sum(r.free for r in rooms), request.count + request.spare
    what = f"{wanted} nodes" + (f" ({request.spare} of them spare)" if request.spare else "")
    if total < wanted:
        removed = ", ".join(f"{r.filter} {r.removed}" for r in reports if r.removed)
        return f"{what} are wanted and {total} are free for this order" + (
            f" (removed by: {removed})." if removed else "."
        )
    if request.required == "node":
        return f"{what} can't be on one node: locality.required is node."
    if request.required != "site":
        most, where = _most_in_one(request, topology, rooms, home)
        if most < wanted or not request.bisection_gbps:
            return (
                f"{total} nodes are free for this order, but at most {most} of the {wanted} inside one "
                f"{request.required} ({where}), and locality.required is {request.required}."
            )
    return (
        f"{total} nodes are free for this order, but no leaves whose uplinks have {request.bisection_gbps} Gb/s left "
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
        free[domain] = free.get(domain, 0) + room.free
    stay = {domain_of(x, 0) for x in home.leaves} if by_leaf else {domain_of(0, p) for p in home.pods}
    if len(stay) > 1:
        return 0, "the nodes that stay are in several"
    domain = stay.pop() if stay else min(free, key=lambda d: (-free[d], str(d) if isinstance(d, str) else d))
    name = domain if isinstance(domain, str) else names[domain]
    return free.get(domain, 0), f"{name}, where the nodes that stay are" if home.leaves else name


def _why(request: PlacementRequest, found: Decided, weights: Weights) -> str:
    choice = found.choice
    rest = "nothing left over" if choice.leftover == 0 else f"{choice.leftover} free nodes stay behind"
    why = "the tightest leaf that holds them all"
    if len(choice.takes) > 1 or request.preferences:
        buildings, halls, pods = found.halls
        why = f"the least leaves + {weights.pod:g}·(pods−1)"
        why += f" + {weights.hall:g}·(halls−1)" if halls > 1 else ""
        why += f" + {weights.building:g}·(buildings−1)" if buildings > 1 else ""
        why += " + preferences" if request.preferences else ""
        why += f", {pods} pod{'s' if pods > 1 else ''}" + (f", {halls} halls" if halls > 1 else "")
    parts = [why, rest]
    if request.preferences:
        parts.append(f"preferences cost {found.preferences / 1000:g} of {choice.cost / 1000:g}")
    if found.own:
        parts.append(f"{found.own} of {len(found.nodes)} nodes are set aside for the project")
    if request.exclusive:
        parts.append("shared with no other project")
    if request.bisection_gbps:
        parts.append(f"the uplinks keep {request.bisection_gbps} Gb/s for each node")
    if found.one_numa is not None:
        parts.append(f"{found.one_numa} of {len(found.nodes)} nodes have it all on one NUMA node")
    return ", ".join(parts)


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
