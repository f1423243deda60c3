"""The second stage: every node sends at once to a partner behind another leaf, compared with the pairs alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import NamedTuple

from weft.planning.bandwidth.candidates import LeafOf
from weft.planning.bandwidth.values import Measured, Outcome, Pair

KEPT = 0.9
"""Share of its rate alone that a leaf keeps when all send; below, its uplinks carry less than its adapters send."""


class LeafLoss(NamedTuple):
    """What the senders of a leaf lose when all send.

    Attributes:
        alone, together: medians in Gb/s of the same pairs; None: no pair was measured in both stages.
        pairs: how many were measured in both; `unmeasured`: how many were not.
    """

    leaf: str
    alone: float | None
    together: float | None
    pairs: int
    unmeasured: int

    @property
    def kept(self) -> float | None:
        """Share of the rate that is left; None: not known."""
        return None if not self.alone or self.together is None else self.together / self.alone

    @property
    def slow(self) -> bool | None:
        """Whether it keeps less than `KEPT`; None: not known."""
        return None if self.kept is None else self.kept < KEPT


def compare_stages(
    alone: Mapping[Pair, Outcome], together: Mapping[Pair, Outcome], leaf_of: LeafOf
) -> tuple[LeafLoss, ...]:
    """Losses by the sender's leaf, sorted by name; pairs of unknown leaves, and within a leaf, are left out."""
    both: dict[str, list[tuple[float, float]]] = {}
    unmeasured: dict[str, int] = {}
    for pair, outcome in together.items():
        leaf, other = leaf_of(pair.sender, pair.rail), leaf_of(pair.receiver, pair.rail)
        if leaf is None or other is None or leaf == other:
            continue
        before = alone.get(pair)
        if isinstance(outcome, Measured) and isinstance(before, Measured):
            both.setdefault(leaf, []).append((before.gbps, outcome.gbps))
        else:
            unmeasured[leaf] = unmeasured.get(leaf, 0) + 1
    return tuple(
        LeafLoss(
            leaf,
            median(a for a, _ in both[leaf]) if leaf in both else None,
            median(t for _, t in both[leaf]) if leaf in both else None,
            len(both.get(leaf, ())),
            unmeasured.get(leaf, 0),
        )
        for leaf in sorted({*both, *unmeasured})
    )
