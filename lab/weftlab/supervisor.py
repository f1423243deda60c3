"""Starts jobs in parallel by their dependencies, names the job that failed, and stops everything from any process.

There is no daemon: what was started is written down (`processes.Record`), so that a later `weft lab down`, or one
after a crash, finds it. A process id that was reused in the meantime is never signalled.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from weftlab.processes import (
    Process,
    Record,
    belongings,
    everyone,
    leader,
    read_records,
    record_of,
    write_record,
)
from weftlab.service import Job, Service, order

POLL = 0.05
MOMENT = 0.5
PATIENCE = 30.0  # seconds that the kernel may take to end what was killed
TAIL = 12


class JobError(Exception):
    """A job that failed: `name` of it, `why`, and the last lines of its `logs`, all in `str()`."""

    def __init__(self, name: str, why: str, logs: str = "") -> None:
        self.name, self.why, self.logs = name, why, logs
        super().__init__(f"{name}: {why}" + (f"\n{logs}" if logs else ""))


@dataclass(frozen=True, slots=True)
class State:
    """State of a service: `up`, or `why` not, with the last lines of its log."""

    name: str
    up: bool
    pid: int | None
    why: str = ""
    logs: str = ""


def tail(paths: Sequence[Path], lines: int = TAIL) -> str:
    """The last lines of each file that has any, each under its name."""
    out: list[str] = []
    for path in paths:
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            with path.open("rb") as file:
                file.seek(max(0, size - 16_384))
                last = file.read().decode(errors="replace").splitlines()[-lines:]
            if last:
                out.append(f"--- {path}\n" + "\n".join(last))
    return "\n".join(out)


class Supervisor:
    """Jobs of one lab.

    Args:
        folder: where the records are kept; one lab, one folder.
        report: called with the name of each job that is ready or done, and the seconds it took.
    """

    def __init__(self, folder: Path, report: Callable[[str, float], None] | None = None) -> None:
        self.folder = folder
        self._report: Callable[[str, float], None] = report or (lambda name, seconds: None)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._giving_up = threading.Event()
        self._lock = threading.Lock()

    def run(self, jobs: Sequence[Job]) -> None:
        """Start and do all jobs, each as soon as what it needs is ready.

        A service that runs already is left alone (and waited for). Raises `JobError` for the first that fails;
        running services are left running for inspection: the caller decides whether to `stop`. An interrupt doesn't
        wait for steps in progress.
        """
        ordered = order(tuple(jobs))
        self.folder.mkdir(parents=True, exist_ok=True)
        self._giving_up.clear()
        first = max((r.sequence for r in self.records()), default=0) + 1
        pool = ThreadPoolExecutor(max_workers=max(1, len(ordered)), thread_name_prefix="lab")
        try:
            self._walk(pool, dict(enumerate(ordered, first)))
        except BaseException as error:
            self._giving_up.set()  # what still waits for something to get ready ends too
            pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
            raise
        pool.shutdown()

    def _walk(self, pool: ThreadPoolExecutor, todo: dict[int, Job]) -> None:
        ready: set[str] = set()
        running: dict[Future[None], str] = {}
        while todo or running:
            for number, job in list(todo.items()):
                if ready.issuperset(job.after):
                    running[pool.submit(self._one, job, number)] = todo.pop(number).name
            # For a moment at a time: a signal that arrives right before the wait doesn't end it (`weft.ending`).
            done, _ = wait(running, timeout=MOMENT, return_when=FIRST_COMPLETED)
            for future in done:
                name = running.pop(future)
                future.result()
                ready.add(name)

    def _one(self, job: Job, sequence: int) -> None:
        begun = time.monotonic()
        if isinstance(job, Service):
            self.start(job, sequence)
            self.await_ready(job)
        elif job.done is None or not job.done():
            try:
                job.run()
            except JobError:
                raise
            except Exception as error:
                raise JobError(job.name, f"{type(error).__name__}: {error}") from error
        self._report(job.name, time.monotonic() - begun)

    def start(self, service: Service, sequence: int = 0) -> None:
        """Start it in a session of its own and write it down; if it runs already, do nothing.

        Raises `JobError` if it can't be started.
        """
        record = self.record(service.name)
        if record is not None and leader(record) is not None:
            return
        if record is not None:
            self._end([record])
        folder = service.cwd or self.folder
        folder.mkdir(parents=True, exist_ok=True)
        service.log.parent.mkdir(parents=True, exist_ok=True)
        with service.around(), service.log.open("ab") as log, _stdin(service.stdin) as stdin, self._lock:
            if self._giving_up.is_set():  # `stop` has listed the processes, or is about to
                raise JobError(service.name, "given up before it was started")
            try:
                child = subprocess.Popen(
                    service.argv,
                    stdin=stdin,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    cwd=folder,
                    env=_environment(service),
                    start_new_session=True,
                )
            except OSError as error:
                raise JobError(service.name, f"can't start {service.argv[0]}: {error.strerror}") from error
            self._children[service.name] = child
            # Popen returns after the exec, in the new session; until it is reaped its /proc entry stays.
            write_record(
                self.folder,
                record_of(
                    service.name,
                    child.pid,
                    folder.resolve(),
                    service.stop,
                    service.grace,
                    sequence,
                    daemons=tuple(str(path.resolve()) for path in service.daemons),
                    last=service.last,
                ),
            )

    def await_ready(self, service: Service) -> None:
        """Wait until it is ready. Raises `JobError` when it ends before, or isn't ready in time."""
        end = time.monotonic() + service.timeout
        why: str | None = "not ready"
        while not self._giving_up.is_set():
            if not self.alive(service.name):
                raise JobError(service.name, self._how_it_ended(service.name), tail(_logs(service)))
            why = service.ready() if service.ready else None
            if why is None:
                return
            if time.monotonic() > end:
                why = f"not ready after {service.timeout:.0f} s: {why}"
                raise JobError(service.name, why, tail(_logs(service)))
            time.sleep(POLL)
        raise JobError(service.name, "given up, because another job failed")

    def _how_it_ended(self, name: str) -> str:
        child = self._children.get(name)
        code = child.poll() if child else None
        if code is None:
            return "has ended"
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def records(self) -> list[Record]:
        """Records of all processes that were started and not ended."""
        return read_records(self.folder)

    def record(self, name: str) -> Record | None:
        """The record of a job's process, or None."""
        return next((r for r in self.records() if r.name == name), None)

    def alive(self, name: str) -> bool:
        """Whether the recorded process of that name runs, and is the same."""
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            return False
        record = self.record(name)
        return record is not None and leader(record) is not None

    def status(self, services: Sequence[Service]) -> list[State]:
        """Each service, and each of its members, in the order given."""
        with ThreadPoolExecutor(max_workers=16) as pool:
            rows = list(pool.map(self._state, services))
        return [state for row in rows for state in row]

    def _state(self, service: Service) -> list[State]:
        record = self.record(service.name)
        if record is None:
            own = State(service.name, False, None, "not started")
        elif not self.alive(service.name):
            own = State(service.name, False, None, "has ended", tail(_logs(service)))
        else:
            why = service.ready() if service.ready else None
            own = State(service.name, why is None, record.pid, why or "", tail(_logs(service)) if why else "")
        return [own, *(self._member(service, name) for name in service.members)]

    def _member(self, service: Service, name: str) -> State:
        record = self.record(name)
        if record is not None and leader(record) is not None:
            return State(name, True, record.pid)
        log = service.log.with_name(f"{name}.log")
        return State(name, False, None, "has ended" if record else "not started", tail((log,)))

    def stop(
        self, names: Sequence[str] | None = None, giving_up: bool = True, by: signal.Signals | None = None
    ) -> None:
        """End what was started (all, or those named), and wait until nothing of it is left.

        Safe to repeat, from any process. Raises `JobError` if something can't be ended.

        Args:
            giving_up: a `run` in another thread of this process is to end too.
            by: signal instead of each service's own.
        """
        if giving_up:
            self._giving_up.set()
        with self._lock:  # what is being started is written down by then
            chosen = [r for r in self.records() if names is None or r.name in names]
        self._end([r for r in chosen if not r.last], by)
        self._end([r for r in chosen if r.last], by)

    def _end(self, records: Sequence[Record], by: signal.Signals | None = None) -> None:
        """Signal all at once (none needs another one to end well), then kill what is left of each."""
        table = everyone()
        left: dict[Record, set[tuple[int, int]]] = {}
        for record in sorted(records, key=lambda r: r.sequence, reverse=True):
            ours = belongings(record, table)
            left[record] = {(p.pid, p.started) for p in ours}
            first = leader(record)
            asked = by or record.stop
            gently = first is not None and asked != signal.SIGKILL
            for pid in [first.pid] if first and gently else [p.pid for p in ours]:
                _signal(pid, asked)
        begun = time.monotonic()
        while left:
            waited = time.monotonic() - begun
            table = everyone()
            left = {r: known for r, known in left.items() if self._remains(r, known, waited, table)}
            time.sleep(POLL if left else 0)

    def _remains(
        self, record: Record, known: set[tuple[int, int]], waited: float, table: list[Process]
    ) -> bool:
        """Whether a process of it still lives, including those seen earlier that left its session and parent."""
        self._reap(record.name)
        ours = {p.pid for p in table if (p.pid, p.started) in known and p.alive}
        ours |= {p.pid for p in belongings(record, table)}
        if not ours:
            (self.folder / f"{record.name}.json").unlink(missing_ok=True)
            return False
        if waited > record.grace + PATIENCE:
            raise JobError(record.name, f"can't be ended: {sorted(ours)} are still there")
        if waited > record.grace or (leader(record) is None and waited > 1):
            for pid in ours:
                _signal(pid, signal.SIGKILL)
        return True

    def _reap(self, name: str) -> None:
        child = self._children.get(name)
        if child is not None and child.poll() is not None:
            del self._children[name]


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _logs(service: Service) -> tuple[Path, ...]:
    return (service.log, *service.logs)


def _environment(service: Service) -> dict[str, str]:
    """A small part of the caller's environment: a lab must not depend on the shell that started it."""
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TZ") if name in os.environ}
    return {"LC_ALL": "C.UTF-8", **keep, **service.env}


@contextlib.contextmanager
def _stdin(fifo: Path | None) -> Generator[int]:
    if fifo is None:
        yield subprocess.DEVNULL
        return
    fifo.parent.mkdir(parents=True, exist_ok=True)
    if not fifo.is_fifo():
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo, 0o600)
    # Read and write: the process is its own writer, so the end of file never comes.
    number = os.open(fifo, os.O_RDWR)
    try:
        yield number
    finally:
        os.close(number)
