"""Folders in memory that killed runs left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from tests.helpers.folders import folder_in_memory
from tests.helpers.paths import ROOT

HOLDS = """\
import sys, time
from tests.helpers.folders import folder_in_memory
with folder_in_memory(sys.argv[1]) as path:
    (path / "file").touch()
    print(path, flush=True)
    time.sleep(600)
"""


def test_next_run_removes_only_folders_of_killed_runs() -> None:
    """Otherwise runs ended by SIGKILL would fill the memory."""
    prefix = f"weft-test-{uuid4()}-"
    runs = [
        subprocess.Popen([sys.executable, "-c", HOLDS, prefix], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for _ in range(2)
    ]
    try:
        killed, running = (Path(run.stdout.readline().strip()) for run in runs if run.stdout)
        runs[0].kill()
        runs[0].wait()
        assert (killed / "file").exists()
        with folder_in_memory(prefix) as own:
            assert own.is_dir() and (running / "file").exists() and not killed.exists()
        assert not own.exists()
    finally:
        for run in runs:
            run.kill()
            run.communicate()
        with folder_in_memory(prefix) as last:
            assert list(last.parent.glob(f"{prefix}*/")) == [last]
        for lock in last.parent.glob(f"{prefix}*.lock"):
            lock.unlink()
