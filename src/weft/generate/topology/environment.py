"""Variables for NCCL and UCX: only those whose values weft knows; what is left out is said, with where to read it.

weft knows the pod's P_Key and the DSCP of RoCE's packets. It reads nothing within a server: names of devices, the index
of the P_Key in a port's table (each port, each virtual function has its own) and the index of a GID are left out. A
wrong one makes a job hang: index 0 is the default partition's, in which two limited members don't reach each other.

Sources: NCCL (environment variables; `NCCL_IB_TC` is the traffic class, DSCP times 4), UCX (`UCX_IB_PKEY` is 0 to
0x7fff, without membership bit; `UCX_IB_TRAFFIC_CLASS`).
"""

from __future__ import annotations

import json

from weft.generate.topology.text import heading
from weft.model.ids import FULL_MEMBER
from weft.planning.fabric.podtopology import PodTopology

INFINIBAND, ETHERNET = "infiniband", "ethernet"


def nccl(pod: PodTopology) -> str:
    """Lines of /etc/nccl.conf, or of an environment file."""
    lines = _heading(pod, "NCCL environment")
    if pod.type == INFINIBAND and pod.segment is not None:
        key = f"0x{pod.segment | FULL_MEMBER:04x}"
        lines += [
            f"# left out: NCCL_IB_PKEY: it is the index of P_Key {key} in the ports' tables, which weft has not read;",
            "#   without it NCCL uses index 0, usually the default partition, and hangs. In a server: weft-pkeys, or",
            f"#   grep -il {key} /sys/class/infiniband/*/ports/1/pkeys/*",
        ]
    if pod.type == ETHERNET:
        lines.append(
            "# left out: NCCL_IB_GID_INDEX: weft has not read the GIDs; NCCL from 2.21 finds it by itself"
        )
        if pod.dscp is not None:
            lines.append(f"NCCL_IB_TC={pod.dscp * 4}")
    lines.append(f"# left out: NCCL_IB_HCA: {_devices(pod)}")
    return "\n".join([*lines, ""])


def ucx(pod: PodTopology) -> str:
    """Lines of an environment file."""
    lines = _heading(pod, "UCX environment")
    if pod.type == INFINIBAND and pod.segment is not None:
        lines.append(f"UCX_IB_PKEY=0x{pod.segment:x}")
    if pod.type == ETHERNET:
        lines.append("# left out: UCX_IB_GID_INDEX: weft has not read the GIDs; UCX finds it by itself")
        if pod.dscp is not None:
            lines.append(f"UCX_IB_TRAFFIC_CLASS={pod.dscp * 4}")
    lines.append(f"# left out: UCX_NET_DEVICES: {_devices(pod)}")
    return "\n".join([*lines, ""])


def weft_check(pod: PodTopology) -> str:
    """Expected values for weft-check in the pod's servers: the P_Key with full membership, without its index."""
    keys = (
        [f"0x{pod.segment | FULL_MEMBER:04x}"] if pod.type == INFINIBAND and pod.segment is not None else []
    )
    return json.dumps({"version": 1, **({"pkeys": keys} if keys else {})}, indent=2) + "\n"


def _heading(pod: PodTopology, what: str) -> list[str]:
    key = pod.type == INFINIBAND and pod.segment is not None
    return heading(pod, what, places=False, more=[f"P_Key 0x{pod.segment:x}"] if key else [])


def _devices(pod: PodTopology) -> str:
    if pod.bare_metal:
        return "weft has not read the names of devices; a machine may have adapters of other networks, too"
    return "weft has not read the names of devices; a virtual machine has no other adapters than the pod's"
