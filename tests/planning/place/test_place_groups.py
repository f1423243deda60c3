"""Groups of pods that have the room together: the same, in the same order, however many there are to pass over."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from weft.planning.place.swaps import FEW_GROUPS, groups


@given(st.lists(st.integers(0, 9), min_size=13, max_size=14), st.integers(4, 7), st.integers(0, 70))
@settings(max_examples=60, deadline=None)
def test_groups_are_those_of_all_combinations(rooms: list[int], q: int, need: int) -> None:
    """Against going through all of them."""
    able = list(enumerate(rooms))
    every = list(combinations(able, q))
    assert len(every) > FEW_GROUPS
    assert list(groups(able, q, need)) == [g for g in every if sum(room for _, room in g) >= need]


@given(st.lists(st.integers(0, 9), max_size=6), st.integers(2, 7), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_few_pods_are_gone_through(rooms: list[int], q: int, need: int) -> None:
    """None if there are fewer pods than that."""
    able = list(enumerate(rooms))
    found = list(groups(able, q, need))
    assert found == [g for g in combinations(able, q) if sum(room for _, room in g) >= need]
