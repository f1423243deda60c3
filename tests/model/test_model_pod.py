"""The states of a pod: one table, and nothing outside of it is possible."""

from __future__ import annotations

import itertools

import pytest

from weft.model.errors import ConflictError
from weft.model.pod import ENDED, TRANSITIONS, PodState, check_transition


@pytest.mark.parametrize(("old", "new"), list(itertools.product(PodState, PodState)))
def test_only_what_the_table_says_is_possible(old: PodState, new: PodState) -> None:
    """Every pair of states: staying and the table's steps are allowed, everything else is a conflict."""
    if new is old or new in TRANSITIONS[old]:
        check_transition(old, new)
    else:
        with pytest.raises(ConflictError, match=f"a pod can't go from {old} to {new}"):
            check_transition(old, new)


def test_every_state_is_reached_and_left() -> None:
    """From PENDING every state can be reached, and from every state RELEASED."""
    reached = {PodState.PENDING}
    while more := {new for old in reached for new in TRANSITIONS[old]} - reached:
        reached |= more
    assert reached == set(PodState)
    for state in PodState:
        following = {state}
        while more := {new for old in following for new in TRANSITIONS[old]} - following:
            following |= more
        assert PodState.RELEASED in following


def test_release_is_always_possible_and_never_undone() -> None:
    """From every state that isn't already on the way out a release can be asked; from there it only ends.

    An order that waits has nothing to take back: it is RELEASED at once.
    """
    for state in set(PodState) - {PodState.PENDING, PodState.RELEASING, PodState.RELEASED}:
        assert PodState.RELEASING in TRANSITIONS[state]
    assert PodState.RELEASED in TRANSITIONS[PodState.PENDING]
    assert set(TRANSITIONS[PodState.RELEASING]) == {PodState.RELEASED}
    assert not TRANSITIONS[PodState.RELEASED]
    assert {PodState.RELEASED} == ENDED


def test_every_step_has_its_reason() -> None:
    """The picture in the docs is made of these sentences."""
    assert all(why for following in TRANSITIONS.values() for why in following.values())
