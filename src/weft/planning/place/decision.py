"""What the engine decided, in integers; names and sentences are made when somebody reads them."""

from __future__ import annotations

from typing import NamedTuple

from weft.model.placement import Explanation, FilterReport
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
        """What each filter removed, and why these leaves: written from the figures above alone."""
        free, leaves, leftover = self.free, self.leaves, self.leftover
        reports: list[object] = [
            *self.reports,
            {"filter": "busy", "removed": self.healthy - free, "left": free},
        ]
        if self.apart:
            reports.append({"filter": "apart", "removed": self.apart, "left": free - self.apart})
        rest = f"{leftover} left over" if leftover else "nothing left over"
        if len(leaves) == 1:
            why = f"the tightest leaf that holds them all, {rest}"
            where = leaves[0]
        else:
            why = f"the least leaves + {self.beta:g}·(pods−1) = {self.cost / 1000:g}, {rest}"
            where = ", ".join(leaves[:8])
        taken = {"leaves": leaves, "pods": self.pods, "leftover": leftover, "why": "taken: " + why}
        # One validation of everything costs half of what the parts cost one by one.
        return Explanation.model_validate(
            {
                "considered": len(self.numbers.nodes),
                "filters": tuple(reports),
                "compared": (taken,),
                "chosen": f"{self.size} nodes on {where}: {why}.",
            }
        )
