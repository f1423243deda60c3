"""Host files and rank files of MPI, leaf by leaf: neighbouring ranks are on neighbouring servers.

Sources: mpirun(1) of Open MPI 4.1 (`name slots=8`; `rank 0=name slot=0-11`), hydra of MPICH (`name:8`).
"""

from __future__ import annotations

from weft.generate.topology.text import heading
from weft.model.errors import ConflictError
from weft.model.messages import topology as messages
from weft.planning.fabric.podtopology import PodTopology


def hostfile(pod: PodTopology) -> str:
    """For Open MPI: a slot for each accelerator."""
    slots = f" slots={pod.accelerators}" if pod.accelerators else ""
    more = [] if slots else ["the number of accelerators is not known: without slots"]
    lines = heading(pod, "Open MPI hostfile", places=False, more=more)
    return "\n".join([*lines, *(f"{server.name}{slots}" for server in pod.servers), ""])


def hydra_hostfile(pod: PodTopology) -> str:
    """For MPICH and Intel MPI."""
    slots = f":{pod.accelerators}" if pod.accelerators else ""
    more = [] if slots else ["the number of accelerators is not known: one process each"]
    lines = heading(pod, "MPICH (hydra) hostfile", places=False, more=more)
    return "\n".join([*lines, *(f"{server.name}{slots}" for server in pod.servers), ""])


def rankfile(pod: PodTopology) -> str:
    """For Open MPI: a rank for each accelerator, on an equal share of the server's cores in their order.

    Raises `ConflictError` where the number of cores or accelerators isn't known: machines count their cores themselves.
    """
    ranks, cores = pod.accelerators, 0 if pod.bare_metal else pod.cores
    if not ranks or cores < ranks:
        what = "cores and accelerators"
        raise ConflictError(messages.TOPOLOGY_UNREAD(pod=pod.pod, format="rankfile", what=what))
    notes = [
        "which cores are near which accelerator is not known: each rank has an equal share of them, in their order",
        "each of the flavor's vCPUs counts as a core; where they are threads of cores, use mpirun --use-hwthread-cpus",
    ]
    lines = heading(pod, "Open MPI rankfile", places=False, more=notes)
    share = cores // ranks
    for host, server in enumerate(pod.servers):
        for rank in range(ranks):
            first, last = rank * share, (rank + 1) * share - 1
            slot = str(first) if first == last else f"{first}-{last}"
            lines.append(f"rank {host * ranks + rank}={server.name} slot={slot}")
    return "\n".join([*lines, ""])
