"""The supervisor with small real processes: starting, failing, stopping, crashes, and foreign processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.waiting import wait_for
from weftlab.checks import file_is_there
from weftlab.processes import belongings, look, read_records, write_record
from weftlab.service import Service, Step
from weftlab.supervisor import JobError, Supervisor

SLEEP = "import time; time.sleep(600)"


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    made = Supervisor(tmp_path / "run")
    yield made
    made.stop()


def service(folder: Path, name: str, code: str, **more: Any) -> Service:
    return Service(name, (sys.executable, "-c", code), folder / f"{name}.log", cwd=folder / name, **more)


def pid_in(path: Path) -> int:
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def test_services_start_in_dependency_order(supervisor: Supervisor, tmp_path: Path) -> None:
    """A service starts when those it needs are ready, steps run in between, and each is reported."""
    begun: list[str] = []
    ready = tmp_path / "ready"
    first = service(
        tmp_path,
        "first",
        f"import time, pathlib; time.sleep(0.3); pathlib.Path({str(ready)!r}).touch(); time.sleep(600)",
        ready=file_is_there(ready, "not yet"),
    )
    step = Step("step", lambda: begun.append(str(ready.exists())), after=("first",))
    second = service(tmp_path, "second", SLEEP, after=("step",))
    supervisor.run([second, step, first])
    assert begun == ["True"]
    assert [(s.name, s.up) for s in supervisor.status([first, second])] == [("first", True), ("second", True)]


def test_service_that_dies_at_start_is_named_with_its_last_log_lines(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """The error has the name, the exit code and the end of the log."""
    dying = service(
        tmp_path, "dying", "print('the disk is full', flush=True); raise SystemExit(7)", ready=lambda: "no"
    )
    slow = service(tmp_path, "slow", SLEEP, ready=lambda: "never", timeout=600)
    with pytest.raises(JobError) as caught:
        supervisor.run([dying, slow])
    assert caught.value.name == "dying"
    assert "ended with exit code 7" in str(caught.value)
    assert "the disk is full" in str(caught.value)
    (state, _) = supervisor.status([dying, slow])
    assert (state.up, state.why) == (False, "has ended")
    assert "the disk is full" in state.logs


def test_service_that_is_never_ready_is_reported_with_its_reason(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    """After its time limit the error has the answer of the service's own check."""
    stuck = service(tmp_path, "stuck", SLEEP, ready=lambda: "the queue is not declared", timeout=0.2)
    with pytest.raises(JobError, match="the queue is not declared"):
        supervisor.run([stuck])


def test_missing_program_is_reported(supervisor: Supervisor, tmp_path: Path) -> None:
    """The error names service and program; there is no traceback."""
    with pytest.raises(JobError, match="can't start no-such-program"):
        supervisor.run([Service("none", ("no-such-program",), tmp_path / "none.log")])


def test_failed_step_is_named(supervisor: Supervisor) -> None:
    """Its exception becomes an error with the step's name."""

    def fail() -> None:
        raise RuntimeError("table exists")

    with pytest.raises(JobError, match="schema: RuntimeError: table exists"):
        supervisor.run([Step("schema", fail)])


def test_running_service_is_not_started_twice(supervisor: Supervisor, tmp_path: Path) -> None:
    """Also by another process's supervisor."""
    one = service(tmp_path, "one", SLEEP)
    supervisor.run([one])
    before = supervisor.record("one")
    Supervisor(supervisor.folder).run([one])
    assert supervisor.record("one") == before


def test_descendants_of_a_service_end_with_it(supervisor: Supervisor, tmp_path: Path) -> None:
    """Children, and grandchildren in sessions of their own; also when another process stops the service."""
    pids = [tmp_path / "child", tmp_path / "away"]
    code = f"""
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
away = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], start_new_session=True)
open({str(pids[0])!r}, "w").write(f"{{child.pid}}\\n")
open({str(pids[1])!r}, "w").write(f"{{away.pid}}\\n")
time.sleep(600)
"""
    supervisor.run([service(tmp_path, "parent", code)])
    found = [pid_in(path) for path in pids]
    stop = "import sys, pathlib, weftlab.supervisor as s; s.Supervisor(pathlib.Path(sys.argv[1])).stop()"
    subprocess.run([sys.executable, "-c", stop, str(supervisor.folder)], check=True, timeout=60)
    assert not [pid for pid in found if (p := look(pid)) is not None and p.alive]
    assert read_records(supervisor.folder) == []


def test_service_that_ignores_sigterm_is_killed(supervisor: Supervisor, tmp_path: Path) -> None:
    """After its grace period."""
    ready = tmp_path / "ready"
    code = (
        "import signal, time, pathlib; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"pathlib.Path({str(ready)!r}).touch(); time.sleep(600)"
    )
    supervisor.run([service(tmp_path, "deaf", code, grace=0.2, ready=file_is_there(ready, "not yet"))])
    (record,) = read_records(supervisor.folder)
    supervisor.stop()
    assert (found := look(record.pid)) is None or not found.alive
    assert read_records(supervisor.folder) == []


def test_remains_of_a_crashed_service_are_found(supervisor: Supervisor, tmp_path: Path) -> None:
    """Its leader was killed with SIGKILL; the child in its session is still stopped, once."""
    pid = tmp_path / "pid"
    code = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}])
open({str(pid)!r}, "w").write(f"{{child.pid}}\\n")
time.sleep(600)
"""
    one = service(tmp_path, "crashing", code)
    supervisor.run([one])
    child = pid_in(pid)
    record = supervisor.record("crashing")
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    wait_for(lambda: not supervisor.alive("crashing"))
    process = look(child)
    assert process is not None and process.alive
    assert [s.why for s in supervisor.status([one])] == ["has ended"]
    supervisor.stop()
    process = look(child)
    assert process is None or not process.alive
    supervisor.stop()


def test_reused_pid_is_never_signalled(supervisor: Supervisor, tmp_path: Path) -> None:
    """A pid that belongs to another process (other start time or boot) isn't signalled."""
    stranger = subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
    try:
        supervisor.run([service(tmp_path, "one", SLEEP)])
        record = supervisor.record("one")
        assert record is not None
        taken = replace(record, name="old", pid=stranger.pid, session=stranger.pid)
        for wrong in (replace(taken, started=0), replace(taken, boot="another")):
            assert belongings(wrong) == []
            write_record(supervisor.folder, wrong)
            assert not supervisor.alive("old")
            supervisor.stop(["old"])
            assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_foreign_session_behind_a_dead_leader_is_left_alone(supervisor: Supervisor, tmp_path: Path) -> None:
    """The recorded leader is gone, and processes of that session id work in another folder."""
    pid = tmp_path / "pid"
    code = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], cwd="/")
open({str(pid)!r}, "w").write(f"{{child.pid}}\\n")
"""
    gone = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    gone.wait()
    child = pid_in(pid)
    try:
        supervisor.run([service(tmp_path, "one", SLEEP)])
        record = supervisor.record("one")
        assert record is not None
        assert belongings(replace(record, pid=gone.pid, session=gone.pid, started=0)) == []
    finally:
        os.kill(child, signal.SIGKILL)


def test_daemon_is_found_by_its_pid_file(supervisor: Supervisor, tmp_path: Path) -> None:
    """A process that left its parent and session, as PostgreSQL's server does, ends with the service."""
    data = tmp_path / "data"
    data.mkdir()
    code = f"""
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    child = subprocess.Popen([sys.executable, "-c", {SLEEP!r}], cwd={str(data)!r}, start_new_session=True)
    open({str(data / "pid")!r}, "w").write(f"{{child.pid}}\\n")
    os._exit(0)
time.sleep(600)
"""
    supervisor.run([service(tmp_path, "server", code, daemons=(data / "pid",))])
    daemon = pid_in(data / "pid")
    record = supervisor.record("server")
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    supervisor.stop()
    process = look(daemon)
    assert process is None or not process.alive


def test_stdin_fifo_stays_open(supervisor: Supervisor, tmp_path: Path) -> None:
    """A program that reads commands gets what is written to its fifo, and no end of file."""
    fifo, out = tmp_path / "commands", tmp_path / "out"
    code = f"import sys; open({str(out)!r}, 'w').write(sys.stdin.readline()); import time; time.sleep(600)"
    supervisor.run([service(tmp_path, "reader", code, stdin=fifo)])
    fifo.write_text("Unlink\n")
    wait_for(lambda: out.exists() and out.read_text() == "Unlink\n")
    assert supervisor.alive("reader")


def test_recorded_children_are_listed_separately(supervisor: Supervisor, tmp_path: Path) -> None:
    """Processes that a service forks and records are listed, and reported when one dies although the service
    lives."""
    code = f"""
import os, sys, time
from pathlib import Path
from weftlab.processes import record_of, write_record
pid = os.fork()
if pid == 0:
    time.sleep(600)
write_record(Path({str(supervisor.folder)!r}), record_of("member", pid, Path.cwd(), 9, 1.0, 99, member=True))
os.wait()
time.sleep(600)
"""
    fleet = service(tmp_path, "fleet", code, members=("member",))
    supervisor.run([fleet])
    wait_for(lambda: supervisor.alive("member"))
    record = supervisor.record("member")
    assert record is not None
    os.kill(record.pid, signal.SIGKILL)
    wait_for(lambda: not supervisor.alive("member"))
    assert [(s.name, s.up) for s in supervisor.status([fleet])] == [("fleet", True), ("member", False)]


def test_stop_ends_a_start_that_is_still_waiting(supervisor: Supervisor, tmp_path: Path) -> None:
    """`run` ends with an error, although its service never gets ready."""
    failed: list[JobError] = []

    def start() -> None:
        try:
            supervisor.run([service(tmp_path, "stuck", SLEEP, ready=lambda: "never", timeout=600)])
        except JobError as error:
            failed.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    wait_for(lambda: supervisor.alive("stuck"))
    supervisor.stop()
    thread.join(60)
    assert [e.name for e in failed] == ["stuck"]


def test_interrupt_does_not_wait_for_steps_or_start_services(tmp_path: Path) -> None:
    """A signal during a step of minutes stops running services, and later ones aren't started."""
    # In another process, so that a late signal can't interrupt the test run itself.
    run = "from tests.lab.test_supervisor import interrupted; interrupted(Path(sys.argv[1]))"
    code = f"import sys; from pathlib import Path; {run}"
    words = ["env", "--default-signal=INT", sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(
        words, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "as expected\n"), done.stderr


def interrupted(tmp_path: Path) -> None:
    """Runs a graph whose step interrupts its own process."""
    supervisor, going_on, over = Supervisor(tmp_path / "run"), threading.Event(), threading.Event()

    def step() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        going_on.wait(60)

    def last() -> None:
        over.set()

    later = service(tmp_path, "later", SLEEP, after=("one", "step"))
    graph = [service(tmp_path, "one", SLEEP), Step("step", step, after=("one",)), later]
    with pytest.raises(KeyboardInterrupt):
        supervisor.run([*graph, Step("last", last, after=("later",))])
    assert not going_on.is_set(), "the step still runs, but isn't waited for"
    supervisor.stop()
    going_on.set()
    with pytest.raises(JobError, match="given up"):
        supervisor.start(later)
    assert not over.is_set() and supervisor.records() == []
    print("as expected")
