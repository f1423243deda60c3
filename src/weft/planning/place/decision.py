"""What the engine decided, in integers; names and sentences are made when somebody reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.model.placement import Candidate, Explanation, FilterReport
from weft.planning.place.state import Numbers


@dataclass(frozen=True, slots=True)
class Decision:
    """Nodes for a pod, and the figures that the explanation needs, as they were at that moment.

    Attributes:
        bits: (leaf, bits of its nodes), in tree order.
        cost: leaves + β·(pods−1), in thousandths of a leaf.
        leftover: units that stay behind on the leaves used.
        version: of the engine's state that was decided on.
    """

    numbers: Numbers
    pod: str
    project: str
    count: int
    bits: tuple[tuple[int, int], ...]
    cost: int
    leftover: int
    pods: int
    version: int
    static: tuple[FilterReport, ...]
    removed: Mapping[str, int]
    eligible: int
    free: int
    apart: int
    beta: float

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names in tree order."""
        return tuple(name for leaf, bits in self.bits for name in self.numbers.names(leaf, bits))

    @property
    def leaves(self) -> tuple[str, ...]:
        return tuple(self.numbers.leaves[leaf] for leaf, _ in self.bits)

    def explanation(self) -> Explanation:
        """What each filter removed, and why these leaves."""
        reports = list(self.static)
        left = self.eligible
        for name, removed in self.removed.items():
            left -= removed
            reports.append(FilterReport.model_construct(filter=name, removed=removed, left=left, examples=()))
        busy = left - self.free
        reports.append(FilterReport.model_construct(filter="busy", removed=busy, left=self.free, examples=()))
        if self.apart:
            reports.append(
                FilterReport.model_construct(
                    filter="apart", removed=self.apart, left=self.free - self.apart, examples=()
                )
            )
        leaves = self.leaves
        rest = f"{self.leftover} left over" if self.leftover else "nothing left over"
        if len(leaves) == 1:
            why = f"the tightest leaf that holds them all, {rest}"
        else:
            why = f"the least leaves + {self.beta:g}·(pods−1) = {self.cost / 1000:g}, {rest}"
        taken = Candidate.model_construct(
            leaves=leaves, pods=self.pods, leftover=self.leftover, why="taken: " + why
        )
        return Explanation.model_construct(
            considered=len(self.numbers.nodes),
            filters=tuple(reports),
            compared=(taken,),
            chosen=f"{self.count} nodes on {', '.join(leaves[:8])}: {why}.",
        )
