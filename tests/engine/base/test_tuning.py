"""What survives a full collection of Python's collector isn't scanned again for an hour."""

from __future__ import annotations

import subprocess
import sys

import pytest

WATCHED = """
import gc, weakref
from weft.engine.base.tuning import WHOLE_SECONDS, Survivors

class Node: pass

def pair():
    one, other = Node(), Node()
    one.other, other.other = other, one
    return one

now = [0.0]
gc.callbacks.append(Survivors(lambda: now[0]))
site = [[number] for number in range(100_000)]
held = pair()
gc.collect()
print("frozen", gc.get_freeze_count() > 100_000, len(gc.get_objects()) < 10_000)
young, old = weakref.ref(pair()), weakref.ref(held)
del held
gc.collect(1)
print("young", young() is None)
gc.collect()
print("old", old() is None)
single = Node(); gc.collect(); gone = weakref.ref(single); del single
print("counted", gone() is None)
now[0] = WHOLE_SECONDS
gc.collect()
print("hour", old() is None, gc.get_freeze_count() > 100_000)
"""


def test_survivors_are_scanned_once_an_hour_and_cycles_among_them_end_then() -> None:
    """In a process of its own, whose collector may be tuned."""
    run = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [
        "frozen True True",
        "young True",
        "old False",
        "counted True",
        "hour True True",
    ]


KEEPS = """
import gc, sys
from unittest import mock
from weft.engine.base.tuning import Survivors
{imports}

class Begun(Exception): pass

with mock.patch("{last}", side_effect=Begun):
    try:
        {call}
    except Begun:
        print(sum(isinstance(one, Survivors) for one in gc.callbacks))
"""
PROCESSES = {
    "serve": (
        "import weft.api.server as m",
        "weft.api.server.keystone",
        "m.serve(mock.MagicMock(certificate=None, policy=None, log_level=20))",
    ),
    "worker": (
        "import weft.app.wiring as m",
        "weft.app.wiring.shared_services",
        "m.worker(mock.MagicMock(log_level=20))",
    ),
    "worker of serve": (
        "import weft.app.workerprocess as m",
        "weft.app.workerprocess.shared_services",
        "m.work(mock.MagicMock(log_level=20), mock.MagicMock())",
    ),
}


@pytest.mark.parametrize("process", PROCESSES)
def test_process_keeps_survivors_before_it_reads_a_site(process: str) -> None:
    """Each process that reads sites of 16,000 nodes, and once. Agents read none, and don't have the engine."""
    imports, last, call = PROCESSES[process]
    text = KEEPS.format(imports=imports, last=last, call=call)
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert run.stdout.split() == ["1"], run.stderr[-1000:]
