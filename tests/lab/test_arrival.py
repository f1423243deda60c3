"""A subnet manager that joins: a question of it that is never answered ends all the same."""

from __future__ import annotations

import subprocess

from weftlab.fabric.arrival import _end_late  # pyright: ignore[reportPrivateUsage]


def test_question_without_an_answer_is_ended() -> None:
    """ibsim drops some answers, and the client has no time limit of its own."""
    asked = subprocess.Popen(["sleep", "600"])
    _end_late(asked, seconds=0.2)
    assert asked.returncode is not None and asked.returncode < 0


def test_question_that_is_answered_late_keeps_its_answer() -> None:
    asked = subprocess.Popen(["sleep", "0.1"])
    _end_late(asked, seconds=30)
    assert asked.returncode == 0
