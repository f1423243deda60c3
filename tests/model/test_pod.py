"""Phases and conditions of pods, and the state that sums them up."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.errors import ConflictError
from weft.model.pod import (
    DECIDES,
    ENDED,
    MEANS,
    TRANSITIONS,
    Aspect,
    Cause,
    Condition,
    Phase,
    PodState,
    Truth,
    changed,
    check_transition,
    find,
    summary,
)
from weft.testing import examples

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def condition(aspect: Aspect, status: Truth, message: str = "", since: datetime = NOW) -> Condition:
    return Condition(type=aspect, status=status, reason=Cause.DONE, message=message, since=since)


@pytest.mark.parametrize(("old", "new"), list(itertools.product(Phase, Phase)))
def test_only_listed_transitions_are_possible(old: Phase, new: Phase) -> None:
    """For every pair of phases: staying and the table's transitions are allowed, anything else is a conflict."""
    if new is old or new in TRANSITIONS[old]:
        check_transition(old, new)
    else:
        with pytest.raises(ConflictError, match=f"a pod can't go from {old} to {new}"):
            check_transition(old, new)


def test_phases_only_go_forward() -> None:
    """No transition leads back, each phase is reachable, and all but the last lead to a release."""
    order = list(Phase)
    for phase, following in TRANSITIONS.items():
        assert all(order.index(new) > order.index(phase) for new in following)
        assert all(why for why in following.values())
    assert {new for following in TRANSITIONS.values() for new in following} == set(Phase) - {Phase.ORDERED}
    assert all(Phase.RELEASING in TRANSITIONS[p] for p in (Phase.BUILDING, Phase.SERVING))
    assert Phase.RELEASED in TRANSITIONS[Phase.ORDERED], "a waiting order is withdrawn without a release"
    assert set(TRANSITIONS[Phase.RELEASING]) == {Phase.RELEASED} and not TRANSITIONS[Phase.RELEASED]
    assert {PodState.RELEASED} == ENDED


@pytest.mark.parametrize("state", PodState)
def test_every_state_is_reachable_by_summary(state: PodState) -> None:
    """Each has a meaning, and a condition that explains it."""
    assert summary(*examples.how(state, NOW)) is state
    assert MEANS[state] and DECIDES[state]


_some = st.lists(
    st.builds(condition, st.sampled_from(Aspect), st.sampled_from(["true", "false", "unknown"])),
    unique_by=lambda c: c.type,
).map(tuple)


@given(st.sampled_from(Phase), _some)
def test_summary_claims_only_what_conditions_show(phase: Phase, conditions: tuple[Condition, ...]) -> None:
    """READY only if Ready is true and nothing failed; FAILED doesn't hide a release; unknown isn't fine."""
    state = summary(phase, conditions)
    ready, failed = find(conditions, Aspect.READY), find(conditions, Aspect.FAILED)
    if state is PodState.READY:
        assert phase is Phase.SERVING and ready and ready.status == "true"
        assert failed is None or failed.status != "true"
    if phase in (Phase.RELEASING, Phase.RELEASED):
        assert state == phase.upper()
    elif failed is not None and failed.status == "true":
        assert state is PodState.FAILED


def test_condition_keeps_its_time_while_status_is_unchanged() -> None:
    """A new message keeps the time."""
    first = changed((), condition(Aspect.READY, "false", "a port is not there"))
    later = NOW + timedelta(minutes=5)
    second = changed(first, condition(Aspect.READY, "false", "a server is not there", later))
    assert [(c.message, c.since) for c in second] == [("a server is not there", NOW)]
    third = changed(second, condition(Aspect.READY, "true", since=later), condition(Aspect.WIRED, "true"))
    assert [(c.type, c.since) for c in third] == [(Aspect.WIRED, NOW), (Aspect.READY, later)]
    assert changed(third, without=[Aspect.READY]) == third[:1]
