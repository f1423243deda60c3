"""Starting openvipu's programs for a measurement, and reading how much memory they take."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def program(module: str, *arguments: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A running program and its first line, which it prints when it is ready."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(30)


def resident_kib(process: subprocess.Popen[str]) -> int:
    """Resident memory of a process in KiB (Linux)."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1])


def cpu_seconds(process: subprocess.Popen[str]) -> float:
    """Processor time that a process took so far, in seconds (Linux, 100 ticks a second)."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
