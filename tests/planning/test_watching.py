"""Which cleaning the observed steps of a machine belong to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from weft.planning.watching import GAP, follow
from weft.ports.cleanings import WatchedCleaning
from weft.ports.occupants import SeenMachine

START = datetime(2026, 11, 22, 21, tzinfo=UTC)
ERASE, EXPRESS = ("deploy.erase_devices",), ("deploy.erase_devices_metadata",)
DONE = SeenMachine(state="available", changed="2026-11-22T21:30:00+00:00", agent="a1")


def going(plan: tuple[str, ...] | None = None, state: str = "cleaning", agent: str = "a1") -> SeenMachine:
    return SeenMachine(
        use=f"Ironic has it in state {state}", state=state, automated=True, plan=plan, agent=agent
    )


def watch(*looks: SeenMachine, every: float = 5.0) -> WatchedCleaning | None:
    """What is known after these looks, each answered at once."""
    known, at = None, START
    for seen in looks:
        known = follow(known, seen, at, at)
        at += timedelta(seconds=every)
    return known


RUN = (going(agent=""), going(None, "clean wait", ""), going(ERASE), going(ERASE, "clean wait"), going())
"""As Ironic's agent does: power on, boot, its first step, which takes longest, and the tear-down."""


def test_fully_watched_cleaning_has_its_steps() -> None:
    known = watch(*RUN, DONE, DONE, SeenMachine(use="deploying", state="deploying", agent="a1"))
    since, looked = START + timedelta(seconds=10), START + timedelta(seconds=25)
    assert known == WatchedCleaning(ERASE, "a1", since, looked, DONE.changed)


LOST = {
    "aborted": (*RUN, SeenMachine(state="clean failed", agent="a1"), going(), DONE),
    "aborted between two looks; the next one boots its agent": (
        *RUN,
        going(None, "clean wait"),
        going(),
        DONE,
    ),
    "another agent has reported its steps since": (*RUN, replace(DONE, agent="a2")),
    "set to manageable by a person": (*RUN, SeenMachine(state="manageable", agent="a1"), DONE),
    "a cleaning requested by a person": (SeenMachine(state="cleaning", plan=ERASE, agent="a1"), DONE),
    "its steps were never seen": (*RUN[:2], RUN[4], DONE),
    "free all the time": (DONE, DONE),
}


@pytest.mark.parametrize("looks", LOST.values(), ids=LOST.keys())
def test_steps_of_an_interrupted_or_unseen_cleaning_do_not_count(looks: tuple[SeenMachine, ...]) -> None:
    assert watch(*looks) is None


def test_changed_plan_replaces_the_earlier_one() -> None:
    """An agent that was updated reboots, and Ironic starts again with the new agent's steps."""
    known = watch(*RUN[:4], going(EXPRESS, agent="a2"), replace(DONE, agent="a2"))
    assert known is not None and (known.plan, known.since) == (EXPRESS, START + timedelta(seconds=20))


def test_long_gap_ends_the_watch() -> None:
    seconds = GAP.total_seconds()
    assert watch(*RUN, DONE, every=seconds) is not None
    assert watch(*RUN, DONE, every=seconds + 1) is None
    known = watch(*RUN)
    assert known is not None
    late = known.looked + GAP + timedelta(seconds=1)
    assert follow(known, DONE, late - timedelta(seconds=5), late) is None, "an answer that came late"


def test_briefly_unlisted_machine_changes_nothing() -> None:
    known = watch(*RUN)
    assert watch(*RUN, SeenMachine(use="Ironic doesn't list it")) == known
    assert watch(*RUN, SeenMachine(), DONE) is not None


def test_watched_cleaning_is_kept_until_the_next_has_steps() -> None:
    """The machine itself says which cleaning was its last one."""
    first = watch(*RUN, DONE)
    assert watch(*RUN, DONE, going(agent="a1"), going(None, "clean wait", "a1")) == first
    again = watch(*RUN, DONE, going(EXPRESS, agent="a2"))
    assert again is not None and (again.plan, again.ended) == (EXPRESS, "")
