"""A process that uses networking-generic-switch can end, even if the library doesn't load."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.landing

PROGRAM = """
from concurrent.futures import ThreadPoolExecutor
from weft.drivers.switches.genericdevice import library
with ThreadPoolExecutor(1) as pool:
    print(pool.submit(library).result()[1].__name__)
"""

STUCK = """
import sys, threading
class Stuck:
    def find_spec(self, name, path=None, target=None):
        if name == "networking_generic_switch":
            threading.Event().wait()
sys.meta_path.insert(0, Stuck())
from weft.drivers.switches import genericdevice
from weft.model.errors import PermanentError
from weft.model.site import SwitchAccess
from weft.drivers.switches.access import SwitchCredentials
from weft.drivers.switches.vlans import Batch
genericdevice.LOAD_SECONDS = 0.05
access = SwitchAccess(name="leaf1", interface="generic", device_type="netmiko_juniper", url="ssh://127.0.0.1")
device = genericdevice.GenericDevice(access, 4000, (), lambda: SwitchCredentials("weft", "secret"), None)
for _ in range(2):
    try:
        device.send([(101, Batch({101: "weft"}))])
    except PermanentError as error:
        print(error)
"""
"""A package whose import never ends, as if its storage didn't answer."""


def test_threads_that_loaded_the_library_end() -> None:
    """Importing it in a pool's thread left the process waiting forever."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.strip()) == (0, "GenericSwitchException"), done.stderr


def test_slowly_loading_library_is_an_error_and_blocks_no_caller() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STUCK], check=False, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 2 and all(t.startswith("load networking-generic-switch (") for t in lines), lines
    assert all("weft-pods[generic-switch]" in t and "secret" not in t for t in lines)
