"""Run a program in a process-ID namespace of its own, so that everything it starts ends with it.

`python -m weftlab.alone COMMAND…` runs a command this way; `enter()` does it for the calling program, as tests do
(pytest's `-p weftlab.alone`). The kernel ends what is left in the namespace once its first process has ended, and
that one ends when the process outside does, also by SIGKILL: daemons in sessions of their own, with other titles and
environments, included. Needs root; without it everything runs as before.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import types
from typing import NoReturn

INSIDE = "WEFT_ALONE"
"""Environment variable that is set inside the namespace: programs started there make no other one."""
FOREIGN = "WEFT_TEST_LAB"
"""Environment variable that names a lab started elsewhere, whose process ids would mean nothing in a namespace."""

_CLONE_NEWNS, _CLONE_NEWPID = 0x00020000, 0x20000000
_PR_SET_PDEATHSIG = 1
_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def enter() -> None:
    """Return in a new namespace; the calling process stays outside, and ends like the one that returns."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get(INSIDE) or os.environ.get(FOREIGN) or os.geteuid() != 0:
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS | _CLONE_NEWPID):  # a container that allows no namespaces
        return
    if (child := os.fork()) == 0:
        _first(libc)
    else:
        _stay_for(child)


def _stay_for(child: int) -> NoReturn:
    """Pass signals on to the child, and end with its exit code."""

    def pass_on(number: int, frame: types.FrameType | None) -> None:
        os.kill(child, number)

    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    while True:
        pid, status = os.wait()  # the namespace's first process also reaps orphans
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _first(libc: ctypes.CDLL) -> None:
    """The namespace's first process: it has the /proc of the namespace, and reaps orphans."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.environ[INSIDE] = "1"
    for words in (["--make-rprivate", "/"], ["-t", "proc", "proc", "/proc"]):
        subprocess.run(["mount", *words], check=True)
    if (child := os.fork()) != 0:
        _stay_for(child)


if __name__ == "__main__":
    enter()
    os.execvp(sys.argv[1], sys.argv[1:])
elif "pytest" in sys.modules:  # `-p weftlab.alone`: before pytest captures output
    enter()
