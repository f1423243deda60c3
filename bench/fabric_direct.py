"""OpenSM alone, for comparison: rename the file, SIGHUP, and read every table directly, with one MAD client.

Runs in the simulator's environment; each line on standard input is a round, answered with its seconds:

    MEMBER,MEMBER... PKEY     members of the key (none: the partition is deleted)
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

from weft.fabricagent.config import DiagnosticPrograms, ManagerPort
from weft.fabricagent.wire import TableReading, Wire


def main(partitions: Path, pid: int) -> None:
    wire = Wire(ManagerPort(), DiagnosticPrograms())
    base = partitions.read_text()
    hosts = sorted(wire.hosts())
    before = {r.port_guid: r.keys for r in wire.read()}
    print("ready", flush=True)
    for line in sys.stdin:
        members_text, _, key = line.strip().rpartition(" ")
        members = {int(m, 16) for m in members_text.split(",") if m}
        # A deletion affects the ports that have the key now: those of the previous round.
        wanted = {g: before[g] | ({int(key, 16) | 0x8000} if g in members else set()) for g in hosts}
        text = base
        if members:
            text += f"Bench={key} :\n" + ",\n".join(f"{m:#x}=full" for m in sorted(members)) + ";\n"
        first = sorted(members) or hosts[:16]
        begun = time.perf_counter()
        new = partitions.with_name("bench")
        new.write_text(text)
        new.replace(partitions)
        os.kill(pid, signal.SIGHUP)
        while not all(exact(r, wanted[r.port_guid]) for r in wire.poll(first)):
            time.sleep(0.001)
        while not all(exact(r, wanted[r.port_guid]) for r in wire.poll(hosts)):
            time.sleep(0.001)
        print(time.perf_counter() - begun, flush=True)
    wire.close()


def exact(reading: TableReading, keys: frozenset[int] | set[int]) -> bool:
    return not reading.unreachable and reading.keys == reading.leaf_keys == keys


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
