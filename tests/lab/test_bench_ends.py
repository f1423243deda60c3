"""Interrupted benches: queued work is dropped, and separate processes end with the bench."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from bench.threads import apart, threads
from tests.helpers.waiting import wait_for
from weftlab.processes import everyone

APART = """\
import sys
import time
from pathlib import Path
from bench.threads import apart
from weftlab.processes import interrupt_on_sigterm


def measured(begun):
    Path(begun).touch()
    time.sleep(600)


if __name__ == "__main__":
    interrupt_on_sigterm()
    apart(measured, sys.argv[1])
"""


def test_queued_work_is_dropped_when_a_bench_is_interrupted() -> None:
    going_on, done = threading.Event(), list[int]()

    def first() -> None:
        going_on.wait(60)
        done.append(0)

    with pytest.raises(KeyboardInterrupt), threads(1) as pool:
        pool.submit(first)
        for number in range(1, 10):
            pool.submit(done.append, number)
        threading.Timer(0.1, going_on.set).start()
        raise KeyboardInterrupt
    assert done == [0]


def test_separate_process_returns_its_result_or_error() -> None:
    assert apart(len, "abc") == 3
    with pytest.raises(ValueError, match="invalid literal"):
        apart(int, "no number")


def test_separate_process_ends_with_its_parent(tmp_path: Path) -> None:
    program, begun = tmp_path / "program.py", tmp_path / "begun"
    program.write_text(APART)
    root = Path(__file__).parents[2]
    asked = subprocess.Popen(
        [sys.executable, program, begun],
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for(begun.exists)
    asked.send_signal(signal.SIGTERM)
    asked.wait(60)
    wait_for(lambda: not [p for p in everyone() if p.session == asked.pid and p.alive])
