"""A periodic thread: errors and defects don't end it, and its pulse shows a lasting lack of success."""

from __future__ import annotations

import threading

import pytest

from weft.engine.base.periodic import Periodic
from weft.engine.base.pulse import Pulse
from weft.model.errors import UnknownError


@pytest.mark.parametrize("error", [UnknownError("read", "a fabric", "no answer"), KeyError("name")])
def test_failed_turn_is_followed_by_another(error: Exception) -> None:
    again, now, turns = threading.Event(), [0.0], list[int]()
    pulse = Pulse(lambda: now[0])

    def turn() -> float:
        turns.append(1)
        if len(turns) == 1:
            raise error
        again.set()
        return 60.0

    one = Periodic("one", turn, pulse, 5.0, first=0.0, again=0.0, defect=0.0)
    one.start()
    assert again.wait(60)
    one.stop()
    assert pulse.checks() == {"one": "ok"} and len(turns) == 2
    now[0] = 6.0
    assert "no turn for 6 s" in pulse.checks()["one"]


def test_thread_can_be_stopped_while_it_waits() -> None:
    pulse = Pulse()
    one = Periodic("one", lambda: 60.0, pulse, 5.0, first=60.0)
    one.start()
    one.stop(5.0)
    assert not any(t.name == "one" and t.is_alive() for t in threading.enumerate())
