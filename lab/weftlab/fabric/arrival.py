"""How a subnet manager joins a simulated fabric without hanging itself or those that are there.

On a real host the kernel's umad ends a question without an answer after its time-out. The simulator's has no time-outs,
so an OpenSM whose question is dropped once never ends a sweep again. Two of its questions are dropped (3.3.23):

* SubnGet(SMInfo) to a manager that has set IsSM and has not found its own port yet (`osm_sminfo_rcv.c`,
  osm_sminfo_rcv_process). IsSM makes the port send trap 144, on which the master sweeps and asks at once. Therefore
  the others stand still until the new one answers.
* Trap 144 from a standby of higher priority to the master (`osm_req.c`, osm_send_trap144): it waits for the trap's
  repress, which ibsim drops (`sim_mad.c`, process_packet). Therefore who comes later has the lower priority, and a
  manager that comes back stays standby.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from weft.fabricagent.config import OpenSm
from weft.fabricagent.opensm import Process
from weftlab.layout import LabError

PATIENCE = 60.0
"""Seconds after which the others go on in any case; `ready` then says what is wrong with the new one."""
PAUSE = 0.05
HIGHEST = 14
"""`sm_priority` of a manager that is alone."""


def manager(folder: Path) -> int | None:
    """Process of the opensm that keeps its things there, or None if it does not run."""
    log = folder / "opensm.log"
    settings = OpenSm(
        partitions_file=folder / "partitions.conf", log_file=log, pid_file=folder / "opensm.pid"
    )
    return Process(settings).pid()


@contextlib.contextmanager
def arrival(program: str, folder: Path, others: Sequence[Path], client: Mapping[str, str]) -> Generator[None]:
    """The process of `folder` is started inside, with the priority in the file `priority`; at the end it answers
    SMInfo, and the others go on.

    Args:
        program: path of `sminfo`.
        others: folders of the fabric's other managers.
        client: environment of a client on the new manager's own port.

    Raises:
        LabError: after 15 takeovers in a row no lower priority is left.
    """
    running = {other: pid for other in others if (pid := manager(other)) is not None}
    lowest = min((int((other / "priority").read_text()) for other in running), default=HIGHEST + 1)
    if lowest == 0:
        raise LabError("no priority is left below the running subnet manager's: take the lab down and up")
    (folder / "priority").write_text(f"{lowest - 1}\n")
    stopped = [pid for pid in running.values() if _stop(pid)]
    try:
        yield
        if stopped:
            _answers(program, folder, client)
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _stop(pid: int) -> bool:
    """Stop it where it stands. False if somebody did before, whose it is to let it go on."""
    with contextlib.suppress(OSError):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] == "T":
            return False
        os.kill(pid, signal.SIGSTOP)
        return True
    return False


def _answers(program: str, folder: Path, client: Mapping[str, str]) -> None:
    """Wait until the manager answers a question on its own port, or has ended."""
    end = time.monotonic() + PATIENCE
    seen = False
    while time.monotonic() < end:
        running = manager(folder) is not None
        if seen and not running:
            return
        seen = seen or running
        if running and _asked(program, folder, client):
            return
        time.sleep(PAUSE)


def _asked(program: str, folder: Path, client: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            [program, "-t", "200", "-D", "0"],
            cwd=folder,
            env={**os.environ, **client},
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0
