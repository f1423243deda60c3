"""Processes as Linux shows them under /proc, and the records by which the lab knows its own again.

A process number alone says nothing: it is used again. A record therefore has the start time (field 22 of
/proc/PID/stat, in clock ticks since boot) and the boot's id beside it, see proc(5).
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any


def interrupt_on_sigterm() -> None:
    """SIGTERM ends this process as SIGINT does: it takes down what it has started. Further ones change nothing."""

    def heard(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, heard)


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc: its parent, its session, its state letter, its start in ticks since boot, its threads."""

    pid: int
    parent: int
    session: int
    state: str
    started: int
    threads: int = 1

    @property
    def alive(self) -> bool:
        """Whether a thread of it lives: until its last thread has ended, a killed process is a zombie, and listens."""
        return self.state not in "ZX" or self.threads > 1


@dataclass(frozen=True, slots=True)
class Record:
    """A process that was started: enough to find it again, and to tell it from another one.

    Attributes:
        name: of the service.
        pid, started, boot: the process; `boot` is the kernel's boot id.
        session: session that it and its children are in.
        folder: its working folder.
        stop, grace: how to end it.
        sequence: place in the order of starting; stopping goes backwards.
        member: True for a process that another service forked: it ends with that one.
        last: True for one that is ended after all others.
        daemons: pid files of processes that left the session on purpose, as PostgreSQL's server does; such a
            process is the service's if it works in the folder of its pid file.
    """

    name: str
    pid: int
    started: int
    boot: str
    session: int
    folder: str
    stop: int
    grace: float
    sequence: int
    member: bool = False
    daemons: tuple[str, ...] = ()
    last: bool = False


def look(pid: int) -> Process | None:
    """The process with that number now, or None."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name in brackets may hold spaces and brackets of its own: count from the last one.
    fields = text[text.rindex(")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[3]), fields[0], int(fields[19]), int(fields[17]))


def everyone() -> list[Process]:
    """Every process of the machine that can be seen."""
    found = (look(int(p.name)) for p in Path("/proc").iterdir() if p.name.isdigit())
    return [p for p in found if p is not None]


def boot_id() -> str:
    """Linux' id of the present boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def record_of(
    name: str, pid: int, folder: Path, stop: int, grace: float, sequence: int, **more: Any
) -> Record:
    """The record of a process that runs now. Raises ProcessLookupError if it has ended."""
    process = look(pid)
    if process is None:
        raise ProcessLookupError(pid)
    session, started = process.session, process.started
    return Record(name, pid, started, boot_id(), session, str(folder), stop, grace, sequence, **more)


def write_record(folder: Path, record: Record) -> None:
    """Put it into `folder`/NAME.json, whole or not at all."""
    path = folder / f"{record.name}.json"
    new = path.with_suffix(".new")
    new.write_text(json.dumps(asdict(record)))
    new.replace(path)


def read_records(folder: Path) -> list[Record]:
    """All records in a folder, in the order of starting; one that can't be read is left out."""
    out: list[Record] = []
    for path in folder.glob("*.json"):
        try:
            found: dict[str, Any] = json.loads(path.read_text())
            # A lab that another version of this code started must still be found and ended.
            values = {f.name: found[f.name] for f in fields(Record) if f.name in found}
            values["daemons"] = tuple(found.get("daemons", ()))
            out.append(Record(**values))
        except (OSError, ValueError, TypeError):
            continue
    return sorted(out, key=lambda r: (r.sequence, r.name))


def leader(record: Record) -> Process | None:
    """The recorded process itself if it is still the same one and runs."""
    process = look(record.pid)
    same = process is not None and process.started == record.started and record.boot == boot_id()
    return process if same and process is not None and process.alive else None


def belongings(record: Record, table: list[Process] | None = None) -> list[Process]:
    """Everything that lives of what the record started: its session, and descendants that left the session.

    A session outlives its leader. If the leader's number now belongs to a foreign process, nothing is ours; if the
    number is unused, a member of the session is ours only if it is younger than the leader was and works inside the
    service's folder.
    """
    if record.boot != boot_id():
        return []
    table = everyone() if table is None else table
    ours = {p.pid for p in table if p.pid in _daemons(record)}
    first = next((p for p in table if p.pid == record.pid), None)
    if first is None or first.started == record.started:
        ours |= {
            p.pid
            for p in table
            if p.session == record.session
            and p.started >= record.started
            and (first is not None or _works_in(p.pid, record.folder))
        }
        if first is not None:
            ours.add(first.pid)
    return [p for p in _with_children(ours, table) if p.alive]


def _daemons(record: Record) -> set[int]:
    found: set[int] = set()
    for path in map(Path, record.daemons):
        try:
            pid = int(path.read_text().split("\n", 1)[0])
        except (OSError, ValueError):
            continue
        if _works_in(pid, str(path.parent)):
            found.add(pid)
    return found


def _with_children(ours: set[int], table: list[Process]) -> Iterator[Process]:
    grown = True
    while grown:
        children = {p.pid for p in table if p.parent in ours}
        grown = not children <= ours
        ours = ours | children
    return (p for p in table if p.pid in ours)


def _works_in(pid: int, folder: str) -> bool:
    try:
        here = str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return False
    return here == folder or here.startswith(folder + os.sep)
