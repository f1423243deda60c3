"""Debian's mpirun, with a launch agent that starts each host's daemon here in a namespace with that host name."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from tests.helpers.paths import ROOT

SECONDS = 60
_AGENT = """#!/bin/sh
host=$1
shift
exec unshare --uts sh -c "hostname $host; exec sh -c \\"\\$0\\"" "$*"
"""


def install() -> None:
    """Installs Debian's packages if they are missing."""
    subprocess.run([ROOT / "tools/packages.sh", "openmpi-bin"], check=True, timeout=900)


def ranks(folder: Path, count: int, *words: str) -> dict[int, str]:
    """Rank -> host on which Open MPI starts it, for a job with `count` ranks.

    Args:
        words: for mpirun, such as `--hostfile FILE`.
    """
    agent = folder / "agent"
    agent.write_text(_AGENT)
    agent.chmod(0o755)
    show = ["sh", "-c", "echo $OMPI_COMM_WORLD_RANK $(hostname)"]
    mpirun = [
        "mpirun.openmpi",
        "--allow-run-as-root",
        "--oversubscribe",
        "--mca",
        "plm_rsh_agent",
        str(agent),
    ]
    done = subprocess.run(
        [*mpirun, "-np", str(count), *words, *show],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    pairs = [line.split() for line in done.stdout.splitlines()]
    assert max(Counter(rank for rank, _ in pairs).values()) == 1
    return {int(rank): host for rank, host in pairs}
