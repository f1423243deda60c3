"""A subnet manager that joins: its arrival doesn't hang on an unanswered request."""

from __future__ import annotations

import subprocess

from weftlab.fabric.arrival import _end_late  # pyright: ignore[reportPrivateUsage]


def test_request_without_an_answer_is_ended() -> None:
    """ibsim drops some answers, and the client itself has no time limit."""
    asked = subprocess.Popen(["sleep", "600"])
    _end_late(asked, seconds=0.2)
    assert asked.returncode is not None and asked.returncode < 0


def test_late_answer_is_returned() -> None:
    asked = subprocess.Popen(["sleep", "0.1"])
    _end_late(asked, seconds=30)
    assert asked.returncode == 0
