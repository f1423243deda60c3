"""Which pairs a test of some nodes should have measured, whatever its document has. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from weft.model.bandwidth import WHOLE, PlannedAdapter, PlannedNode
from weft.planning.bandwidth.values import NotRun, Outcome, Pair

NOT_TRIED = NotRun("NOT_TRIED")
_THIRD = 0.9
"""Share of a third of the partners that must be measured: rounds of an odd number of nodes leave one of them out."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The nodes of a test as weft knows them.

    Attributes:
        leaves: (node, rail) -> leaf of the adapter; none that isn't known.
        devices: (node, rail) -> name of the adapter on its host.
    """

    nodes: tuple[PlannedNode, ...]
    leaves: Mapping[tuple[str, int], str]
    devices: Mapping[tuple[str, int], str]

    @property
    def adapters(self) -> dict[tuple[str, int], PlannedAdapter]:
        """All, by node and rail."""
        return {(node.name, one.rail): one for node in self.nodes for one in node.adapters}

    def leaf_of(self, node: str, rail: int) -> str | None:
        """The leaf of a node on a rail, for `weft.planning.bandwidth.judge`; None: unknown."""
        return self.leaves.get((node, rail))


def complete(planned: Planned, measured: Mapping[Pair, Outcome]) -> dict[Pair, Outcome]:
    """What was measured, and `NOT_TRIED` for what wasn't and should have been.

    Up to 64 nodes every pair should be; beyond, each adapter sends to a third of its partners at least. Pairs that the
    plan doesn't have are left out.
    """
    there = planned.adapters
    rails: dict[int, list[str]] = {}
    for node, rail in there:
        rails.setdefault(rail, []).append(node)
    found: dict[Pair, Outcome] = {}
    for rail, nodes in sorted(rails.items()):
        least = (
            math.floor(_THIRD * (len(planned.nodes) - 1) / 3) if len(planned.nodes) > WHOLE else len(nodes)
        )
        for sender in nodes:
            pairs = [Pair(sender, other, rail) for other in nodes if other != sender]
            tried = [p for p in pairs if p in measured]
            expected: Collection[Pair] = tried if len(tried) >= least else pairs
            found.update({pair: measured.get(pair, NOT_TRIED) for pair in expected})
    return found
