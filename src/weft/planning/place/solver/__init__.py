"""The solver: which leaves of a pool a gang takes, exactly, and which it would have taken instead.

Others use these names alone. A pool is the free room of each leaf; costs are counted in `LEAF`.
"""

from weft.planning.place.solver.exact import LEAF
from weft.planning.place.solver.nextto import next_to
from weft.planning.place.solver.pool import Pool
from weft.planning.place.solver.runnersup import NEXT_DOMAIN, NEXT_LEAF, Rival, other_sets, rivals, tightest
from weft.planning.place.solver.solve import fill, one_block, one_leaf, several, two_leaves

__all__ = [
    "LEAF",
    "NEXT_DOMAIN",
    "NEXT_LEAF",
    "Pool",
    "Rival",
    "fill",
    "next_to",
    "one_block",
    "one_leaf",
    "other_sets",
    "rivals",
    "several",
    "tightest",
    "two_leaves",
]
