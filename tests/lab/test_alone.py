"""Processes that a program starts end with it, however it ends (`weftlab.alone`)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

STARTS = """\
import os, subprocess, sys, time
daemon = subprocess.Popen(["sleep", "600"], start_new_session=True, env={})
print(os.readlink("/proc/self"), flush=True)
open(sys.argv[1], "w").write("started")
time.sleep(float(sys.argv[2]))
sys.exit(7)
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[[float], subprocess.Popen[str]]:
    """Starts a program that starts a daemon, then sleeps and exits with 7; returns when the daemon runs."""

    def run(seconds: float) -> subprocess.Popen[str]:
        started = tmp_path / "started"
        words = [
            sys.executable,
            "-m",
            "weftlab.alone",
            sys.executable,
            "-c",
            STARTS,
            str(started),
            str(seconds),
        ]
        environment = {k: v for k, v in os.environ.items() if k not in ("WEFT_ALONE", "WEFT_TEST_LAB")}
        program = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        while not started.exists():
            assert program.poll() is None
            time.sleep(0.01)
        return program

    return run


def _descendants(pid: int) -> set[int]:
    """Descendants of a process, by the pids of this namespace."""
    parents = {int(p.name): _parent(p) for p in Path("/proc").iterdir() if p.name.isdigit()}
    found, size = {pid}, 0
    while size != len(found):
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


def _parent(process: Path) -> int:
    try:
        return int(process.joinpath("stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def _wait_gone(pids: set[int]) -> None:
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        time.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_program_leaves_no_daemon(
    number: signal.Signals, start: Callable[[float], subprocess.Popen[str]]
) -> None:
    """Its daemon has a session of its own and none of its environment."""
    program = start(600)
    below = _descendants(program.pid)
    assert len(below) == 3  # the first process of the namespace, the program, and its daemon
    program.send_signal(number)
    program.wait()
    _wait_gone(below)


def test_ended_program_leaves_no_daemon_and_keeps_its_exit_code(
    start: Callable[[float], subprocess.Popen[str]],
) -> None:
    program = start(0.3)
    below = _descendants(program.pid)
    assert program.wait() == 7
    _wait_gone(below)
    assert program.stdout is not None
    assert int(program.stdout.read()) > 1  # in its own namespace the program isn't the first process
