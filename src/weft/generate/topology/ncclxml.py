"""NCCL's topology file: refused, since weft has read no PCI address in a server.

A virtual machine's addresses are QEMU's, not the host's, which the site has; and what the file says of a device, NCCL
doesn't look up any more: a bridge that is missing in it makes transfers slower, also on a whole machine, where NCCL
finds everything by itself.
"""

from __future__ import annotations

from weft.model.errors import ConflictError
from weft.model.messages import topology as messages
from weft.planning.fabric.podtopology import PodTopology


def topology_file(pod: PodTopology) -> str:
    """Raises `ConflictError`."""
    what = "the PCI addresses"
    raise ConflictError(messages.TOPOLOGY_UNREAD(pod=pod.pod, format="nccl-xml", what=what))
