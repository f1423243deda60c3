"""Sentences that explain a choice, from its figures alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from weft.planning.place.choose import Weights
from weft.planning.place.sharing import Terms
from weft.planning.place.solver import LEAF
from weft.planning.words import first_names, some

WITHOUT_REGARD = "without regard to preferences, uplinks and halls"
TIGHTEST = "the tightest leaf that holds them all"
TIGHTEST_DOMAIN = "the tightest NVLink domain that holds them all"


@lru_cache(maxsize=1024)
def tightest(units: int) -> tuple[str, str]:
    """Why a single leaf with this many further units was chosen, for the sentence and for the table."""
    why = f"{TIGHTEST}, {left_over(units)}"
    return f": {why}.", "taken: " + why


def left_over(units: int) -> str:
    """A clause on the units that stay free on the leaves used."""
    if units == 1:
        return "1 free node stays behind"
    return f"{units} free nodes stay behind" if units else "nothing left over"


def least_cost(weights: Weights, halls: tuple[int, int, int], preferences: bool) -> str:
    """What a choice of several leaves, or one by preference, is the least of; `halls`: buildings, halls and blocks."""
    buildings, in_halls, blocks = halls
    why = f"the least leaves + {weights.block:g}·(blocks−1)"
    if in_halls > 1:
        why += f" + {weights.hall:g}·(halls−1)"
    if buildings > 1:
        why += f" + {weights.building:g}·(buildings−1)"
    if preferences:
        why += " + preferences"
    why += f", {blocks} blocks" if blocks > 1 else ", 1 block"
    return why + (f", {in_halls} halls" if in_halls > 1 else "")


def besides(preferred: tuple[int, int] | None, terms: Terms, one_numa: int, nodes: int) -> str:
    """What else is said about a choice, each after a comma.

    Args:
        preferred: cost of preferences, and total cost, in thousandths of a leaf; None: no preferences.
        one_numa: how many of the nodes have everything required on one NUMA node; below 0: not relevant.
    """
    said = ""
    if preferred is not None:
        said += f", preferences cost {preferred[0] / LEAF:g} of {preferred[1] / LEAF:g}"
    if terms.exclusive:
        said += ", shared with no other project"
    if terms.gbps:
        said += f", the uplinks keep {terms.gbps} Gb/s for each node"
    if one_numa >= 0:
        said += f", {one_numa} of {nodes} nodes have it all on one NUMA node"
    return said


def chosen(size: int, leaves: Sequence[str], spares: Sequence[str], beside: bool, why: str) -> str:
    """One sentence on the winner."""
    number = "1 leaf" if len(leaves) == 1 else f"{len(leaves)} leaves"
    spare = f", and {first_names(spares)} spare," if spares else ""
    near = " beside the nodes that stay" if beside else ""
    nodes = "1 node" if size == 1 else f"{size} nodes"
    return f"{nodes}{spare} on {number} ({first_names(leaves)}){near}: {why}."


def against(theirs: tuple[int, int, int], mine: tuple[int, int, int], weights: Weights) -> str:
    """Why another set of leaves wasn't taken; each is (leaves, blocks, leftover)."""
    cost, other = _cost(mine, weights), _cost(theirs, weights)
    if other > cost:
        return f"costs {other / LEAF:g} against {cost / LEAF:g}"
    if other < cost:
        return f"costs {other / LEAF:g} against {cost / LEAF:g}, but is not inside the preferred level"
    return as_dear(theirs[2], mine[2])


@lru_cache(maxsize=4096)
def as_dear(theirs: int, mine: int) -> str:
    """Why another set of leaves of the same cost wasn't taken; each by its leftover."""
    if theirs > mine:
        return f"same cost, leaves {some(theirs, 'free node')} behind against {mine}"
    return "as good; ties go to broken leaves, the fullest block, then the name"


def _cost(choice: tuple[int, int, int], weights: Weights) -> int:
    return LEAF * choice[0] + weights.beta * (choice[1] - 1)
