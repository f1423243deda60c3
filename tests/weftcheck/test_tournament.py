"""Rounds of pairs: complete, no node in two pairs of a round, and the same for the same seed."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weftcheck.tournament import Match, across, packed, rounds, schedule, suspects


def _disjoint(one: list[Match]) -> bool:
    return max(Counter(node for match in one for node in match).values(), default=1) == 1


@given(st.integers(0, 70))
def test_rounds_pair_every_two_nodes_once_and_no_node_twice_in_a_round(count: int) -> None:
    found = rounds(count)
    assert sorted(match for one in found for match in one) == [
        (a, b) for a in range(count) for b in range(a + 1, count)
    ]
    assert all(map(_disjoint, found))
    assert len(found) <= count + count % 2 - 1 or count < 2


@pytest.mark.parametrize("count", [2, 64])
def test_up_to_64_nodes_all_rounds_come_first(count: int) -> None:
    assert schedule(count, "x") == (rounds(count), [])


@settings(max_examples=10)
@given(st.integers(65, 130), st.text(max_size=5))
def test_beyond_64_nodes_a_third_of_the_rounds_comes_first_by_the_seed(count: int, seed: str) -> None:
    found = schedule(count, seed)
    assert sorted(found.first + found.rest) == sorted(rounds(count))
    partners = Counter(node for one in found.first for match in one for node in match)
    assert min(partners.values()) >= 20 and len(partners) == count
    assert found == schedule(count, seed)


def test_another_seed_chooses_another_third() -> None:
    assert schedule(100, "a").first != schedule(100, "b").first


def test_slow_adapter_makes_its_own_node_the_only_suspect() -> None:
    ways = [(a, b, 0) for a in range(80) for b in range(80) if a != b and (a * b) % 3 == 0]
    assert suspects(ways, [w for w in ways if 7 in w[:2]]) == {7}


def test_single_slow_pair_makes_both_ends_suspects() -> None:
    ways = [(a, b, 0) for a in range(80) for b in range(80) if a != b]
    assert suspects(ways, [(3, 4, 0)]) == {3, 4}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19)), max_size=40, unique=True))
def test_packed_rounds_have_every_pair_once_and_no_node_twice_in_a_round(matches: list[Match]) -> None:
    found = packed(matches)
    assert sorted(m for one in found for m in one) == sorted(matches)
    assert all(map(_disjoint, found))


@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_node_sends_and_receives_at_most_once_in_a_round_across_leaves(leaves: list[str]) -> None:
    found = across(leaves)
    assert all(leaves[a] != leaves[b] for a, b in found)
    for side in (0, 1):
        assert max(Counter(match[side] for match in found).values(), default=1) == 1


def test_round_across_leaves_has_every_node_if_the_leaves_are_equally_large() -> None:
    assert len(across(["a"] * 4 + ["b"] * 4 + ["c"] * 4)) == 12
    assert across(["a"] * 4) == []
