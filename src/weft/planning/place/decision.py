"""What the engine decided, in integers; names and sentences are made when somebody reads them."""

from __future__ import annotations

from typing import NamedTuple

from weft.model.placement import Candidate, Explanation, FilterReport
from weft.planning.place.state import Numbers


class Decision(NamedTuple):
    """Nodes for a pod, and the figures that the explanation needs, as they were at that moment.

    Attributes:
        bits: (leaf, bits of its nodes), in tree order.
        cost: leaves + β·(pods−1), in thousandths of a leaf.
        leftover: units that stay behind on the leaves used.
        size: how many nodes.
        version: of the engine's state that was decided on.
        reports: what each filter removed whose result doesn't depend on the order.
        healthy: nodes that passed those filters, `free` of them not busy, `apart` of these on leaves shared with
            projects that the order keeps away from.
    """

    numbers: Numbers
    pod: str
    project: str
    size: int
    bits: tuple[tuple[int, int], ...]
    cost: int
    leftover: int
    pods: int
    version: int
    reports: tuple[FilterReport, ...]
    healthy: int
    free: int
    apart: int
    beta: float

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names in tree order."""
        return tuple(name for leaf, bits in self.bits for name in self.numbers.names(leaf, bits))

    @property
    def leaves(self) -> tuple[str, ...]:
        """Names in tree order."""
        names = self.numbers.leaves
        return tuple([names[leaf] for leaf, _ in self.bits])

    def explanation(self) -> Explanation:
        """What each filter removed, and why these leaves."""
        report, free = FilterReport, self.free
        reports = (*self.reports, report(filter="busy", removed=self.healthy - free, left=free, examples=()))
        if self.apart:
            reports = (
                *reports,
                report(filter="apart", removed=self.apart, left=free - self.apart, examples=()),
            )
        leaves = self.leaves
        rest = f"{self.leftover} left over" if self.leftover else "nothing left over"
        if len(leaves) == 1:
            why = f"the tightest leaf that holds them all, {rest}"
        else:
            why = f"the least leaves + {self.beta:g}·(pods−1) = {self.cost / 1000:g}, {rest}"
        taken = Candidate(leaves=leaves, pods=self.pods, leftover=self.leftover, why="taken: " + why)
        return Explanation(
            considered=len(self.numbers.nodes),
            filters=reports,
            compared=(taken,),
            chosen=f"{self.size} nodes on {', '.join(leaves[:8])}: {why}.",
        )
