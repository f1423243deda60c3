"""What may make pairs slow, each with the pairs that it would make slow. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.planning.bandwidth.values import Pair, SlowCauseKind, Subject

LeafOf = Callable[[str, int], str | None]
"""Node and rail -> the leaf switch of the adapter; None: not known."""
LinksOf = Callable[[Pair], Iterable[str]]
"""Pair -> names of the cables between switches that its packets take, where routing has one path for each pair."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Candidates:
    """Subjects with their pairs, as positions in a list of pairs.

    Attributes:
        subjects: none without pairs.
        positions: of all subjects' pairs, one subject after the other.
        starts: where each subject's begin.
    """

    subjects: tuple[Subject, ...]
    positions: Ints
    starts: Ints

    @staticmethod
    def of(
        pairs: Sequence[Pair], leaf_of: LeafOf | None = None, links_of: LinksOf | None = None
    ) -> Candidates:
        """All candidates of a list of pairs.

        A leaf's pairs are those that leave it or come into it; pairs whose leaf isn't known belong to no leaf.

        Args:
            links_of: None: paths aren't known, or a pair has several (ECMP, adaptive routing), so that no link is a
                candidate.
        """
        found: dict[Subject, list[int]] = {}
        for position, pair in enumerate(pairs):
            for subject in _subjects(pair, leaf_of, links_of):
                found.setdefault(subject, []).append(position)
        subjects = tuple(sorted(found, key=_order))
        sizes = [len(found[s]) for s in subjects]
        flat = [position for s in subjects for position in found[s]]
        starts = np.concatenate(([0], np.cumsum(sizes)[:-1])) if sizes else np.zeros(0)
        return Candidates(subjects, np.array(flat, dtype=np.int64), starts.astype(np.int64))

    def count(self, mask: NDArray[np.bool_]) -> Ints:
        """How many pairs of each subject are set in a mask over the pairs."""
        if not self.subjects:
            return np.zeros(0, dtype=np.int64)
        return np.add.reduceat(mask[self.positions].astype(np.int64), self.starts)

    def pairs_of(self, index: int) -> Ints:
        """Positions of the pairs of one subject."""
        end = self.starts[index + 1] if index + 1 < len(self.starts) else len(self.positions)
        return self.positions[self.starts[index] : end]


def _subjects(pair: Pair, leaf_of: LeafOf | None, links_of: LinksOf | None) -> Iterable[Subject]:
    yield Subject(SlowCauseKind.SENDER, pair.sender, pair.rail)
    yield Subject(SlowCauseKind.RECEIVER, pair.receiver, pair.rail)
    yield Subject(SlowCauseKind.RAIL, "", pair.rail)
    yield Subject(SlowCauseKind.ALL, "")
    for node in (pair.sender, pair.receiver):
        yield Subject(SlowCauseKind.ADAPTER, node, pair.rail)
        yield Subject(SlowCauseKind.NODE, node)
    if leaf_of is not None:
        here, there = leaf_of(pair.sender, pair.rail), leaf_of(pair.receiver, pair.rail)
        if here is not None and there is not None and here != there:
            yield Subject(SlowCauseKind.LEAF, here)
            yield Subject(SlowCauseKind.LEAF, there)
    if links_of is not None:
        for name in dict.fromkeys(links_of(pair)):
            yield Subject(SlowCauseKind.LINK, name)


def _order(subject: Subject) -> tuple[int, str, str, int]:
    return subject.kind.size, subject.kind.value, subject.name, -1 if subject.rail is None else subject.rail


def partners(pairs: Iterable[Pair]) -> Mapping[int, int]:
    """Rail -> number of nodes that have a pair on it."""
    nodes: dict[int, set[str]] = {}
    for pair in pairs:
        nodes.setdefault(pair.rail, set()).update((pair.sender, pair.receiver))
    return {rail: len(found) for rail, found in nodes.items()}
