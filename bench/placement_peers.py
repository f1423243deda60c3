"""The real slurmctld (topology/tree) deciding on the same orders in the same run, if it is installed.

The nodes are cloud nodes that never come up (no slurmd): orders are allocated and stay in configuration, which is
enough for placement. A decision's time is the controller's own figure, `sdiag`'s last cycle of the main scheduler, with
one order in the queue.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.placement_common import Churn, topology
from bench.row import row
from weft.planning.place.ask import Ask
from weft.planning.place.choose import Weights
from weft.planning.place.engine import Engine
from weft.planning.queue.queue import least_leaves

NODES, PER_LEAF, PER_POD = 800, 20, 8
ORDERS = 60
_CONF = """\
ClusterName=bench
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}
SlurmdSpoolDir={folder}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SwitchType=switch/none
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SchedulerType=sched/builtin
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
TopologyPlugin=topology/tree
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SuspendProgram=/bin/true
ResumeProgram=/bin/true
SuspendTime=-1
ResumeTimeout=60000
NodeName=n[0-{last}] NodeAddr=127.0.0.1 CPUs=1 RealMemory=1000 State=CLOUD
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def slurm_rows() -> list[dict[str, Any]]:
    """Decision time, leaves and pods of slurmctld and weft on the same orders; nothing where it isn't installed."""
    if shutil.which("slurmctld") is None:
        print("# slurmctld is not installed (apt: slurm-wlm): not compared", flush=True)
        return []
    engine = Engine(topology(NODES, PER_LEAF, PER_POD), weights=Weights(0.5))
    orders = Churn(engine, 1, constraints=False)
    jobs: dict[str, str] = {}
    cycles: list[float] = []
    mine: list[float] = []
    figures = {"slurm": [0, 0], "weft": [0, 0]}
    least = counted = 0
    with tempfile.TemporaryDirectory(prefix="weft-slurm-") as folder, _slurmctld(Path(folder)) as run:
        while counted < ORDERS:
            live = {pod for pod, _ in orders.live}
            ask: Ask = orders.next()
            for pod in live - {pod for pod, _ in orders.live}:
                run("scancel", jobs.pop(pod))
            start = time.thread_time()
            decision = engine.place(ask)
            spent = time.thread_time() - start
            assert decision is not None
            orders.began(ask)
            jobs[ask.pod] = run(
                "sbatch", "--parsable", f"-N{ask.count}", "--exclusive", "-o/dev/null", "--wrap", "true"
            ).strip()
            nodes = _allocated(run, jobs[ask.pod])
            if orders.used < 0.8 * NODES:
                continue
            counted += 1
            cycles.append(_last_cycle(run))
            mine.append(spent * 1e6)
            leaves = {n // PER_LEAF for n in nodes}
            for name, used in (("slurm", leaves), ("weft", {x for x, _ in decision.bits})):
                figures[name][0] += len(used)
                figures[name][1] += len({x // PER_POD for x in used})
            least += least_leaves([PER_LEAF] * (NODES // PER_LEAF), ask.count)
    slurm, weft = figures["slurm"], figures["weft"]
    of = f"{counted} orders, 800 nodes, 92 % full"
    return [
        row(f"placement: decision and commit p50, {of}", statistics.median(mine), "µs", "", None,
            f"slurmctld {statistics.median(cycles):.0f} µs, its own figure"),
        row(f"placement: leaves ÷ least, {of}", weft[0] / least, "", "≤ slurmctld", weft[0] <= slurm[0],
            f"slurmctld {slurm[0] / least:.3f}"),
        row(f"placement: pods an order, {of}", weft[1] / counted, "", "≤ slurmctld", weft[1] <= slurm[1],
            f"slurmctld {slurm[1] / counted:.3f}"),
    ]  # fmt: skip


@contextmanager
def _slurmctld(folder: Path) -> Generator[Any]:
    """A separate controller on a free port; yields a function that runs a Slurm command."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "slurm.conf").write_text(_CONF.format(port=port, folder=folder, last=NODES - 1))
    lines = [
        f"SwitchName=l{x} Nodes=n[{x * PER_LEAF}-{(x + 1) * PER_LEAF - 1}]" for x in range(NODES // PER_LEAF)
    ]
    pods = NODES // PER_LEAF // PER_POD
    lines += [f"SwitchName=p{p} Switches=l[{p * PER_POD}-{(p + 1) * PER_POD - 1}]" for p in range(pods)]
    (folder / "topology.conf").write_text("\n".join([*lines, f"SwitchName=top Switches=p[0-{pods - 1}]", ""]))
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def run(*words: str) -> str:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    controller = subprocess.Popen(
        ["slurmctld", "-c", "-D"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            ping = subprocess.run(
                ["scontrol", "ping"], env=environment, capture_output=True, text=True, check=False
            )
            if "UP" in ping.stdout:
                break
            time.sleep(0.2)
        yield run
    finally:
        controller.terminate()
        controller.wait(30)


def _allocated(run: Any, job: str) -> list[int]:
    """The nodes that the controller chose, as soon as it has."""
    for _ in range(200):
        state, _, nodes = run("squeue", "-h", "-j", job, "-o", "%t %N").strip().partition(" ")
        if nodes and state != "PD":
            names = re.findall(r"(\d+)(?:-(\d+))?", nodes)
            return [n for first, last in names for n in range(int(first), int(last or first) + 1)]
        time.sleep(0.05)
    raise RuntimeError(f"slurmctld did not start job {job}")


def _last_cycle(run: Any) -> float:
    """Microseconds of the main scheduler's last cycle."""
    match = re.search(r"Last cycle:\s+(\d+)", run("sdiag"))
    assert match is not None
    return float(match[1])
