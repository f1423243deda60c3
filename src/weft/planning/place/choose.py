"""Which leaves: the exact optimum over free units counted per leaf.

The objective, in this order: (1) leaves + β·(blocks−1), (2) least leftover: free units that remain on the leaves used.
Among equals, a single leaf is a partly used one rather than an unused one, in the fullest block, first in tree order;
sets are ordered by similar fixed rules, so that equal states give equal answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from weft.model.localityorder import Level
from weft.model.site import PlacementPolicy
from weft.planning.place.solver import LEAF, Pool, fill, one_block, one_leaf, several

Takes = tuple[tuple[int, int], ...]
Policy = Callable[[Pool, Level, Level, int], Takes | None]
"""Another rule than weft's, to compare with: (pool, required, preferred, units) -> what to take of each leaf."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The operator's settings.

    Attributes:
        block: β, the cost of a further block, in leaves; 0.5 favors few leaves, 2 favors few blocks.
        hall: the cost of a further hall, in addition to its block; `building` in addition to its hall.
    """

    block: float = 0.5
    hall: float = 1.0
    building: float = 2.0

    @classmethod
    def of(cls, policy: PlacementPolicy) -> Self:
        """The settings of a site."""
        return cls(policy.block, policy.hall, policy.building)

    @property
    def beta(self) -> int:
        """The weight of a block, in thousandths of a leaf."""
        return round(self.block * LEAF)

    @property
    def levels(self) -> tuple[int, int, int]:
        """A building, a hall and a block, in thousandths of a leaf."""
        return round(self.building * LEAF), round(self.hall * LEAF), self.beta


@dataclass(frozen=True, slots=True)
class LeafChoice:
    """Leaves and how many units to take of each, in tree order.

    Attributes:
        cost: leaves + β·(blocks−1), in thousandths of a leaf; home leaves and blocks are free.
        leftover: room for this order that stays behind on the leaves used.
        blocks: number of blocks used.
    """

    takes: tuple[tuple[int, int], ...]
    cost: int
    leftover: int
    blocks: int


def from_pool(
    pool: Pool,
    need: int,
    weights: Weights,
    required: Level,
    preferred: Level,
    policy: Policy | None = None,
) -> LeafChoice | None:
    """The best leaves of a pool, or None if they don't fit inside the required level."""
    if need > pool.total or (required == "node" and need > 1):
        return None
    if policy is not None:
        takes = policy(pool, required, preferred, need)
        return None if takes is None else _choice(pool, [leaf for leaf, _ in takes], need, 0)
    leaf = one_leaf(pool, need)
    if leaf is not None:
        return LeafChoice(((leaf, need),), LEAF, pool.free[leaf] - need, 1)
    if required in ("node", "leaf"):
        return None
    if required == "block" or preferred == "block":
        inside = one_block(pool, need)
        if inside is not None:
            return _choice(pool, inside, need, LEAF * len(inside))
        if required == "block":
            return None
    best = several(pool, need, weights.beta)
    return None if best is None else _choice(pool, best[1], need, best[0])


def _choice(pool: Pool, leaves: Sequence[int], need: int, cost: int) -> LeafChoice:
    takes = fill(pool.free, leaves, need)
    leftover = sum(pool.free[leaf] for leaf in leaves) - need
    return LeafChoice(takes, cost, leftover, len({pool.block_of[leaf] for leaf in leaves}))
