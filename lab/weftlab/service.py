"""What the lab runs, as values: a `Service` is a process that stays, a `Step` is work that ends.

Both are `Job`s of one graph: `after` names the jobs that must be ready (or done) before.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from weftlab.layout import LabError

Check = Callable[[], str | None]
"""None if ready, else one short sentence on why not (yet)."""


@dataclass(frozen=True, slots=True)
class Service:
    """A process that the supervisor starts, watches and stops.

    Attributes:
        name: unique in the lab; names the record, the log and the row in `weft lab status`.
        argv: program and arguments.
        log: file that standard output and standard error are appended to.
        env: added to a minimal environment (PATH, HOME, LANG); nothing else is inherited.
        cwd: working folder, made if missing; none: the folder of the supervisor's records. It must be inside the
            lab's state, since a process whose leader is gone is known as the lab's own by it.
        logs: further files that the program writes itself; their last lines are shown too when it fails.
        ready: asked until it returns None; none: ready as soon as it runs.
        after: names of jobs that must be ready before this one starts.
        members: names of processes that this service forks and records itself (`supervisor.write_record`);
            each is a row of its own in the status.
        stdin: a fifo to be opened for reading *and* writing, so that the program never sees its end
            (ibsim spins at end of file); none: /dev/null.
        timeout: seconds until a service that isn't ready counts as failed.
        stop: signal that asks it to end.
        grace: seconds after which what is left of its session is killed.
        last: it is ended only after everything else, because others would start it again.
        daemons: pid files of processes that it starts outside of its session, see `processes.Record`.
        around: context manager held while the process is started; it exits before `ready` is first called.
    """

    name: str
    argv: tuple[str, ...]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    logs: tuple[Path, ...] = ()
    ready: Check | None = None
    after: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    stdin: Path | None = None
    timeout: float = 90.0
    stop: signal.Signals = signal.SIGTERM
    grace: float = 10.0
    last: bool = False
    daemons: tuple[Path, ...] = ()
    around: Callable[[], AbstractContextManager[None]] = nullcontext


@dataclass(frozen=True, slots=True)
class Step:
    """Work that must be done once, in the order of the graph, such as filling a database.

    Attributes:
        run: does it; an exception is the failure of the step.
        done: called first; True: there is nothing to do.
    """

    name: str
    run: Callable[[], None]
    after: tuple[str, ...] = ()
    done: Callable[[], bool] | None = None


Job = Service | Step


def wait_until(check: Check, seconds: float, pause: float = 0.5) -> None:
    """Poll until the result is None. Raises `LabError` with the last result.

    Args:
        pause: seconds between two looks: longer where a look costs the service that is waited for.
    """
    end = time.monotonic() + seconds
    while (why := check()) is not None:
        if time.monotonic() > end:
            raise LabError(f"not ready after {seconds:.0f} s: {why}")
        time.sleep(pause)


def order(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """The jobs in an order in which each comes after those it needs.

    Raises ValueError for a name given twice, a needed job that isn't there, or a circle.
    """
    by_name: dict[str, Job] = {}
    for job in jobs:
        if job.name in by_name:
            raise ValueError(f"two jobs are named {job.name}")
        by_name[job.name] = job
    done: dict[str, Job] = {}

    def visit(job: Job, above: tuple[str, ...]) -> None:
        if job.name in done:
            return
        if job.name in above:
            raise ValueError(f"jobs wait for each other: {' -> '.join((*above, job.name))}")
        for name in job.after:
            if name not in by_name:
                raise ValueError(f"{job.name} waits for {name}, which is not there")
            visit(by_name[name], (*above, job.name))
        done[job.name] = job

    for job in jobs:
        visit(job, ())
    return tuple(done.values())


def without(jobs: tuple[Job, ...], names: frozenset[str]) -> tuple[Job, ...]:
    """The jobs without those named; what waited for one of them waits for what that one waited for."""
    gone = {j.name: j.after for j in jobs if j.name in names}

    def bridge(after: tuple[str, ...]) -> tuple[str, ...]:
        out: list[str] = []
        for name in after:
            out.extend(bridge(gone[name]) if name in gone else (name,))
        return tuple(dict.fromkeys(out))

    return tuple(replace(j, after=bridge(j.after)) for j in jobs if j.name not in names)
