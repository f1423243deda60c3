"""Debian's slurmctld in namespaces of its own, to see what it makes of a topology file.

It needs an address besides loopback, or every call of a client retries for minutes. Its state is in the test's
folder, nodes' addresses exist only in a network namespace, and all ends with the process.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
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
mount -t proc proc /proc
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
timeout 20 scontrol -o show {what}
"""
_NEWER = ("slurmctld", "slurm-client", "iproute2")
READS_YAML, READS_BLOCKS = "forky", "trixie"
"""Suites of Debian whose Slurm reads topology.yaml (26.05), and topology.conf with blocks (24.11)."""


@dataclass(frozen=True)
class SlurmTree:
    """Output of `scontrol show topology`.

    Attributes:
        nodes: leaf switch -> its nodes.
        switches: other switch -> switches below it.
        log: of slurmctld.
    """

    log: str
    nodes: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    switches: dict[str, set[str]] = field(default_factory=dict[str, set[str]])


def install() -> None:
    """Installs Debian's packages if they are missing."""
    packages = ("slurmctld", "slurm-client", "iproute2")
    subprocess.run([ROOT / "tools/packages.sh", *packages], check=True, timeout=900)


@contextmanager
def newer_root(folder: Path, suite: str) -> Generator[Path]:
    """A root of another Debian suite with its slurmctld; takes a minute. Mirrors may lack indexes of suites that
    change."""
    subprocess.run([ROOT / "tools/packages.sh", "mmdebstrap"], check=True, timeout=900)
    root = folder / suite
    words = ["mmdebstrap", "--variant=minbase", "--mode=root", f"--include={','.join(_NEWER)}"]
    expired = '--aptopt=Acquire::Check-Valid-Until "false"'
    done = subprocess.run(
        [*words, expired, suite, str(root)], check=False, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    yield root
    shutil.rmtree(root)


def read_by_slurm(folder: Path, topology: str, nodes: str) -> SlurmTree:
    """The tree that slurmctld reads from a topology.conf for topology/tree.

    Args:
        nodes: all nodes of the cluster, as a host list.
    """
    (folder / "topology.conf").write_text(topology)
    conf = _CONF.format(folder=folder, plugin="TopologyPlugin=topology/tree", nodes=nodes)
    shown, log = _shown(None, folder, conf, "topology")
    return _tree(shown, log)


def read_yaml(root: Path, topology: str, nodes: str) -> tuple[SlurmTree, dict[str, set[str]]]:
    """What the slurmctld of a `newer_root` reads from a topology.yaml: the cluster's tree, and the nodes of each
    block of `nvlink`."""
    folder = _folder(root)
    (folder / "topology.yaml").write_text(topology)
    conf = _CONF.format(folder="/s", plugin="", nodes=nodes)
    tree = _tree(*_shown(root, folder, conf, "topology"))
    if "topology: nvlink" not in topology:
        return tree, {}
    shown, _ = _shown(root, folder, conf + "PartitionName=n Nodes=ALL Topology=nvlink\n", "topology nvlink")
    return tree, _blocks(shown)


def read_blocks(root: Path, topology: str, nodes: str) -> dict[str, set[str]]:
    """Block -> nodes that the slurmctld of a `newer_root` reads from a topology.conf for topology/block."""
    folder = _folder(root)
    (folder / "topology.conf").write_text(topology)
    conf = _CONF.format(folder="/s", plugin="TopologyPlugin=topology/block", nodes=nodes)
    return _blocks(_shown(root, folder, conf, "topology")[0])


def _folder(root: Path) -> Path:
    folder = root / "s"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


def _blocks(shown: str) -> dict[str, set[str]]:
    rows = [dict(one.split("=", 1) for one in line.split()) for line in shown.splitlines()]
    return {row["BlockName"]: expanded(row["Nodes"]) for row in rows if "BlockName" in row}


def _shown(root: Path | None, folder: Path, conf: str, what: str) -> tuple[str, str]:
    """Output of `scontrol show WHAT` with this configuration, and slurmctld's log.

    Args:
        root: where both are; None for this machine.
        folder: the configuration's, as seen from outside of `root`.
    """
    inside = "/s" if root else str(folder)
    shutil.rmtree(folder / "state", ignore_errors=True)
    (folder / "state").mkdir()
    (folder / "slurm.conf").write_text(conf)
    (folder / "run.sh").write_text(_RUN.format(folder=inside, what=what))
    unshare = shutil.which("unshare") or "unshare"
    own = [unshare, "-n", "-p", "-f", "--kill-child", "--uts", "-m"]
    where = ["chroot", str(root), "sh", "/s/run.sh"] if root else ["sh", f"{inside}/run.sh"]
    done = subprocess.run([*own, *where], check=False, capture_output=True, text=True, timeout=SECONDS)
    log = (folder / "log").read_text()
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{log}"
    return done.stdout, log


def _tree(shown: str, log: str) -> SlurmTree:
    tree = SlurmTree(log)
    for line in shown.splitlines():
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
