"""A process that speaks to a switch through networking-generic-switch comes to its end."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from concurrent.futures import ThreadPoolExecutor
from weft.drivers.switches.generic import _library
with ThreadPoolExecutor(1) as pool:
    print(pool.submit(_library).result()[1].__name__)
"""


def test_threads_that_loaded_the_library_end() -> None:
    """Importing it in a thread of a pool left the pool, and with it the process, waiting for ever."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.strip()) == (0, "GenericSwitchException"), done.stderr
