"""The table of formats: how each is called, what it needs of a pod, and what writes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from weft.generate.topology import environment, kubernetes, mpi, slurm
from weft.generate.topology.text import left_out
from weft.model.errors import ConflictError
from weft.model.ids import FULL_MEMBER
from weft.model.messages import topology as messages
from weft.planning.fabric.podtopology import PodTopology

_TEXT, _YAML, _JSON = "text/plain; charset=utf-8", "application/yaml", "application/json"


def _nccl_file(pod: PodTopology) -> str:
    """NCCL's topology file: refused with `ConflictError`, since weft has read no PCI address in a server.

    A virtual machine's addresses are QEMU's, not the host's, which the site has; and what the file says of a device,
    NCCL doesn't look up any more: a bridge that is missing in it makes transfers slower, also on a whole machine, where
    NCCL finds everything by itself.
    """
    what = "the PCI addresses"
    raise ConflictError(messages.TOPOLOGY_UNREAD(pod=pod.pod, format="nccl-xml", what=what))


@dataclass(frozen=True, slots=True)
class TopologyFormat:
    """One row.

    Attributes:
        what: for people.
        media_type: of HTTP.
        places: it needs servers' places on a fabric, and leaves out servers without; else names, or the fabric's type.
        fabric: it needs an RDMA network on a fabric.
    """

    what: str
    media_type: str
    write: Callable[[PodTopology], str]
    places: bool = True
    fabric: bool = True


def _document(pod: PodTopology) -> str:
    infiniband = pod.type == environment.INFINIBAND and pod.segment is not None
    document: dict[str, Any] = {
        "pod": pod.pod,
        "id": pod.id,
        "state": pod.state,
        "generation": pod.generation,
        "site": pod.site,
        "site_generation": pod.site_generation,
        "fabric": pod.fabric,
        "fabric_type": pod.type or None,
        "pkey": f"0x{pod.segment | FULL_MEMBER:04x}" if infiniband and pod.segment is not None else None,
        "pkey_index": None,
        "vlan": pod.segment if pod.type == environment.ETHERNET else None,
        "accelerators": pod.accelerators or None,
        "levels": list(pod.levels),
        "servers": [
            {
                "name": s.name,
                "number": s.number,
                "id": s.id,
                "node": s.node,
                "path": list(s.path),
                "nvlink_domain": s.nvlink_domain or None,
                **({"nowhere": s.nowhere} if s.nowhere else {}),
            }
            for s in pod.servers
        ],
        "left_out": dict(pod.left_out),
    }
    return json.dumps(document, indent=2) + "\n"


FORMATS: Mapping[str, TopologyFormat] = {
    "slurm-conf": TopologyFormat("topology.conf of Slurm for topology/tree", _TEXT, slurm.tree_conf),
    "slurm-block-conf": TopologyFormat(
        "topology.conf of Slurm for topology/block, by NVLink domain", _TEXT, slurm.block_conf
    ),
    "slurm-yaml": TopologyFormat("topology.yaml of Slurm, from 25.05", _YAML, slurm.topology_yaml),
    "kubernetes": TopologyFormat("kubectl label commands, in topograph's names", _TEXT, kubernetes.kubectl),
    "nodefeature": TopologyFormat("NodeFeatures of Node Feature Discovery", _YAML, kubernetes.node_features),
    "kueue": TopologyFormat("Topology of Kueue", _YAML, kubernetes.kueue),
    "topograph": TopologyFormat("graph of topograph", _JSON, kubernetes.graph),
    "hostfile": TopologyFormat("host file of Open MPI", _TEXT, mpi.hostfile, places=False, fabric=False),
    "hostfile-mpich": TopologyFormat(
        "host file of MPICH and Intel MPI", _TEXT, mpi.hydra_hostfile, places=False, fabric=False
    ),
    "rankfile": TopologyFormat("rank file of Open MPI", _TEXT, mpi.rankfile, places=False, fabric=False),
    "nccl-env": TopologyFormat("environment of NCCL", _TEXT, environment.nccl, places=False),
    "nccl-xml": TopologyFormat("topology file of NCCL", "application/xml", _nccl_file, places=False),
    "ucx": TopologyFormat("environment of UCX", _TEXT, environment.ucx, places=False),
    "weft-check": TopologyFormat(
        "expected values of weft-check in the servers", _JSON, environment.weft_check, places=False
    ),
    "json": TopologyFormat("all that is known, for programs", _JSON, _document, places=False, fabric=False),
}


def written(pod: PodTopology, name: str) -> str:
    """The pod's topology in a format of `FORMATS`.

    Raises `ConflictError` if the pod has nothing that the format describes, or weft doesn't know it.
    """
    row = FORMATS[name]
    if not pod.servers:
        raise ConflictError(messages.TOPOLOGY_NOT_IN_FORCE(pod=pod.pod, state=pod.state))
    if row.fabric and not pod.type:
        others = ", ".join(other for other, format_ in FORMATS.items() if not format_.fabric)
        raise ConflictError(messages.TOPOLOGY_NO_FABRIC(pod=pod.pod, format=name, formats=others))
    if row.places and not pod.located:
        raise ConflictError(messages.TOPOLOGY_NO_PLACE(pod=pod.pod, fabric=pod.fabric))
    return row.write(pod)


def omitted(pod: PodTopology, name: str) -> dict[str, str]:
    """Name of each server that isn't in the file -> why."""
    return left_out(pod, FORMATS[name].places)
