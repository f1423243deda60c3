"""How a subnet manager joins a simulated fabric without hanging itself or the others.

On a real host the kernel's umad ends an unanswered question after its timeout. The simulator's has no timeouts, so an
OpenSM of which one question is dropped never ends a sweep again. Two of its questions are dropped (3.3.23):

* SubnGet(SMInfo) to a manager that has set IsSM and has not found its own port yet (`osm_sminfo_rcv.c`,
  osm_sminfo_rcv_process). IsSM makes the port send trap 144, on which the master sweeps and asks at once. Therefore
  the others stand still until the new one answers.
* Trap 144 from a standby of higher priority to the master (`osm_req.c`, osm_send_trap144): it waits for the trap's
  repress, which ibsim drops (`sim_mad.c`, process_packet): the master hands over, and the new one never ends its first
  sweep. Therefore a manager that comes later has a lower priority, and one that comes back stays standby. A master that
    lowers its own priority hands over, and back, without any trap (`Faults.lower`).
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from pathlib import Path

from weft.fabricagent.config import OpenSm
from weft.fabricagent.opensm import OpenSmProcess
from weftlab.layout import LabError

PATIENCE = 60.0
"""Seconds after which the others go on in any case; `ready` then says what is wrong with the new one."""
PAUSE = 0.05
QUIET = 0.3
STALL = 3.0
HIGHEST = 14
"""`sm_priority` of a manager that is alone."""


def manager(folder: Path) -> int | None:
    """Process of the opensm that keeps its things there, or None if it does not run."""
    log = folder / "opensm.log"
    settings = OpenSm(
        partitions_file=folder / "partitions.conf", log_file=log, pid_file=folder / "opensm.pid"
    )
    return OpenSmProcess(settings).pid()


@contextlib.contextmanager
def arrival(program: str, folder: Path, others: Sequence[Path], client: Mapping[str, str]) -> Generator[None]:
    """Start the manager of `folder` within the block, with the priority in its file `priority`. The block ends when
    the manager answers SMInfo; then the other managers continue.

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
    for old in ("opensm.log", "opensm.pid"):  # they must not look like the new one's, not even for a moment
        (folder / old).unlink(missing_ok=True)
    _await_quiet(running)
    stopped = [pid for pid in running.values() if not _stands(pid)]
    _signal(stopped, signal.SIGSTOP)
    try:
        yield
        if stopped:
            _await_answer([program, "-t", "200", "-D", "0"], folder, client, stopped)
    finally:
        _signal(stopped, signal.SIGCONT)


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _stands(pid: int) -> bool:
    """Whether the process is stopped already; whatever stopped it must continue it."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1] == "T"
    return True


def _await_quiet(folders: Iterable[Path]) -> None:
    """Wait until no log has grown for a while: a manager that is stopped in a sweep leaves answers to be taken."""
    end = time.monotonic() + PATIENCE
    logs = [folder / "opensm.log" for folder in folders]
    while time.monotonic() < end and any(time.time() - log.stat().st_mtime < QUIET for log in logs):
        time.sleep(PAUSE)


def _await_answer(question: list[str], folder: Path, client: Mapping[str, str], stopped: list[int]) -> None:
    """Wait until the manager answers a question on its own port, or has ended.

    The question isn't killed before ibsim has certainly connected it: a client that is gone before ends ibsim. If ibsim
    waits for one of the stopped to take an answer (a datagram socket holds eleven), that one continues until the
    question has ended.
    """
    end = time.monotonic() + PATIENCE
    seen = False
    while time.monotonic() < end:
        running = manager(folder) is not None
        if seen and not running:
            return
        seen = seen or running
        if running:
            asked = subprocess.Popen(
                question,
                cwd=folder,
                env={**os.environ, **client},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            try:
                asked.wait(STALL)
            except subprocess.TimeoutExpired:
                _signal(stopped, signal.SIGCONT)
                _end_late(asked)
                _signal(stopped, signal.SIGSTOP)
            if asked.returncode == 0:
                return
        time.sleep(PAUSE)


def _end_late(asked: subprocess.Popen[bytes], seconds: float = PATIENCE) -> None:
    """Wait for a question; one whose answer ibsim has dropped would wait without end: it is ended after so long."""
    try:
        asked.wait(seconds)
    except subprocess.TimeoutExpired:
        asked.kill()
        asked.wait()
