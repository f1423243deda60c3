"""What the engine decided, in integers; names and sentences are made when somebody reads them."""

from __future__ import annotations

from typing import NamedTuple

from weft.model.placement import Explanation, FilterReport
from weft.planning.place.choose import Weights
from weft.planning.place.sharing import Terms
from weft.planning.place.state import Numbers


class Decision(NamedTuple):
    """Nodes for a pod, and the figures that the explanation needs, as they were at that moment.

    Attributes:
        bits: (leaf, bits of its nodes), in tree order.
        cost: leaves, further pods, halls and buildings at their weights, and preferences; thousandths of a leaf.
        leftover: units that stay behind on the leaves used.
        terms: what it asks of its leaves.
        size: how many nodes the order is for; more are held if it has spares.
        version: of the engine's state that was decided on.
        reports: what each filter removed whose result doesn't depend on the order.
        healthy: nodes that passed those filters, `free` of them not busy, `apart` of these on leaves shared with
            projects that the order keeps away from.
        halls: number of buildings, halls and pods that it is in.
        preferences: the part of the cost that preferences are.
        one_numa: nodes that have what is wanted on one NUMA node; -1 if that doesn't matter.
    """

    numbers: Numbers
    pod: str
    terms: Terms
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
    weights: Weights
    halls: tuple[int, int, int] = (1, 1, 1)
    preferences: int = 0
    one_numa: int = -1

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names in tree order."""
        return tuple(name for leaf, bits in self.bits for name in self.numbers.names(leaf, bits))

    @property
    def leaves(self) -> tuple[str, ...]:
        """Names in tree order."""
        names = self.numbers.leaves
        return tuple([names[leaf] for leaf, _ in self.bits])

    @property
    def spares(self) -> tuple[str, ...]:
        """Nodes that are kept idle: on the leaves that have fewest of the pod, so that the others are together."""
        beyond = sum([bits.bit_count() for _, bits in self.bits]) - self.size
        found: list[str] = []
        for leaf, bits in sorted(self.bits, key=lambda b: b[1].bit_count()):
            if beyond > len(found):
                found += self.numbers.names(leaf, bits)[len(found) - beyond :]
        return tuple(found)

    @property
    def working(self) -> tuple[str, ...]:
        """The nodes less the spares, in tree order."""
        spares = set(self.spares)
        return tuple(n for n in self.nodes if n not in spares)

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
            why = f"the least {self._costs()} = {self.cost / 1000:g}, {rest}"
            where = ", ".join(leaves[:8])
        if self.preferences or self.terms.gbps or self.terms.exclusive or self.one_numa >= 0:
            why += self._besides()
        if self.size != sum([bits.bit_count() for _, bits in self.bits]):
            where += f", and {', '.join(self.spares)} spare"
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

    def _costs(self) -> str:
        weights = self.weights
        buildings, halls, _ = self.halls
        more = f" + {weights.hall:g}·(halls−1)" if halls > 1 else ""
        more += f" + {weights.building:g}·(buildings−1)" if buildings > 1 else ""
        return f"leaves + {weights.pod:g}·(pods−1){more}" + (" + preferences" if self.preferences else "")

    def _besides(self) -> str:
        parts: list[str] = []
        if self.preferences:
            parts.append(f"preferences cost {self.preferences / 1000:g}")
        if self.terms.exclusive:
            parts.append("shared with no other project")
        if self.terms.gbps:
            parts.append(f"the uplinks keep {self.terms.gbps} Gb/s for each node")
        if self.one_numa >= 0:
            parts.append(f"{self.one_numa} of {self.size} nodes have it all on one NUMA node")
        return "; " + "; ".join(parts)
