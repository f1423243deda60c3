"""A process that is asked to end ends, whichever thread the signal reaches, and whenever it comes."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import signal, sys, threading, time
{made}
other = threading.Thread(target=time.sleep, args=(3600,), daemon=True)
other.start()
def shoot():
    {first}
    signal.pthread_kill(other.ident, signal.SIGTERM)
killer = threading.Thread(target=shoot, daemon=True)
killer.start()
{second}
{wait}
print("ended")
"""
WEFT = ("from weft.ending import EndSignal; ended = EndSignal()", "ended.wait()")
OPENVIPU = ("from openvipu.program import wait_for_signal", "wait_for_signal()")
WAITING = ("time.sleep(0.2)  # the main thread waits by then, most likely", "")
BEFORE = ("", "killer.join()")


def ends(made: str, wait: str, first: str, second: str) -> bool:
    text = PROGRAM.format(made=made, wait=wait, first=first, second=second)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout == "ended\n"


@pytest.mark.parametrize("when", [WAITING, BEFORE], ids=["while it waits", "before it waits"])
def test_signal_in_another_thread_ends_the_program(when: tuple[str, str]) -> None:
    assert ends(*WEFT, *when)


def test_signal_ends_openvipu_programs() -> None:
    assert ends(*OPENVIPU, *WAITING)


@pytest.mark.parametrize("program", [WEFT, OPENVIPU], ids=["weft", "openvipu"])
def test_sighup_ends_nothing(program: tuple[str, str]) -> None:
    """It is logged; a later SIGTERM still ends the process."""
    made, wait = program
    log = "import logging; logging.basicConfig(level=logging.INFO, stream=sys.stdout)"
    hung_up = "time.sleep(0.2); signal.pthread_kill(other.ident, signal.SIGHUP); time.sleep(0.2)"
    text = PROGRAM.format(made=f"{log}\n{made}", wait=wait, first=hung_up, second="")
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=True
    )
    assert "SIGHUP: " in done.stdout and done.stdout.endswith("ended\n")
