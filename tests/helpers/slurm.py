"""Debian's slurmctld in namespaces of its own: what it makes of a topology.conf. Nothing is left running.

It needs an address besides loopback: with that alone every client's call retries for minutes. The state is in a folder
of the test, and the only node addresses are in a network namespace that ends with the process.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.helpers.paths import ROOT

SECONDS = 60
_CONF = """ClusterName=c
SlurmctldHost=ctl(10.9.9.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/pid
{plugin}
NodeName={nodes} NodeAddr=10.9.9.1 CPUs=8 State=UNKNOWN
PartitionName=p Nodes=ALL
"""
_RUN = """set -eu
hostname ctl
ip link set lo up
ip link add d0 type veth peer name d1
ip link set d0 up
ip link set d1 up
ip addr add 10.9.9.1/24 dev d0
export SLURM_CONF={folder}/slurm.conf
slurmctld -D -c > {folder}/log 2>&1 &
for i in $(seq 100); do
  timeout 5 scontrol ping 2> /dev/null | grep -q 'is UP' && break
  kill -0 $! || break
  sleep 0.1
done
timeout 20 scontrol -o show topology
"""


@dataclass(frozen=True)
class SlurmTree:
    """What `scontrol show topology` says.

    Attributes:
        nodes: leaf switch -> its nodes.
        switches: other switch -> what is below it.
        log: of slurmctld.
    """

    log: str
    nodes: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    switches: dict[str, set[str]] = field(default_factory=dict[str, set[str]])


def install() -> None:
    """Debian's packages, where they are missing."""
    packages = ("slurmctld", "slurm-client", "iproute2")
    subprocess.run([ROOT / "tools/packages.sh", *packages], check=True, timeout=900)


def read_by_slurm(folder: Path, topology: str, nodes: str) -> SlurmTree:
    """The tree that slurmctld makes of a topology.conf of topology/tree.

    Args:
        nodes: all nodes of the cluster, as a host list.
    """
    (folder / "state").mkdir()
    plugin = "TopologyPlugin=topology/tree"
    (folder / "slurm.conf").write_text(_CONF.format(folder=folder, plugin=plugin, nodes=nodes))
    (folder / "topology.conf").write_text(topology)
    script = folder / "run.sh"
    script.write_text(_RUN.format(folder=folder))
    unshare = shutil.which("unshare") or "unshare"
    words = [unshare, "-n", "-p", "-f", "--kill-child", "--mount-proc", "--uts", "-m", "sh", str(script)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=SECONDS)
    tree = SlurmTree((folder / "log").read_text())
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{tree.log}"
    for line in done.stdout.splitlines():
        fields = dict(one.split("=", 1) for one in line.split())
        if int(fields["Level"]) == 0:
            tree.nodes[fields["SwitchName"]] = expanded(fields["Nodes"])
        else:
            tree.switches[fields["SwitchName"]] = expanded(fields["Switches"])
    return tree


def expanded(hosts: str) -> set[str]:
    """The names in a host list."""
    found: set[str] = set()
    for one in re.findall(r"[^,\[]+(?:\[[^\]]*\])?", hosts):
        prefix, _, ranges = one.partition("[")
        if not ranges:
            found.add(prefix)
        for part in ranges.rstrip("]").split(",") if ranges else ():
            first, _, last = part.partition("-")
            found |= {f"{prefix}{n:0{len(first)}d}" for n in range(int(first), int(last or first) + 1)}
    return found
