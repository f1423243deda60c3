"""What tenants of GPU nodes can't do with the machines and adapters that they ordered."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.fabrictypes import FabricKind
from weft.model.plan import Plan
from weft.model.specs import SegmentSpec, ServerSpec


def limits_of(plan: Plan) -> Iterator[str]:
    """Limits of what was ordered. Sources: Neutron's "SR-IOV", "Trunking" and Nova's "SR-IOV live migration"."""
    if any(isinstance(r.spec, ServerSpec) and r.spec.by == "ironic" for r in plan.graph.resources):
        yield "Machines deployed by Ironic without Nova: Nova shows no servers for them, and quotas don't count them."
        yield "Use weft to inspect and operate them (`weft pod show`, `reboot`, `rescue`, `console`)."
    segment = next((r.spec for r in plan.graph.resources if isinstance(r.spec, SegmentSpec)), None)
    if segment is None:
        return
    servers = [r.spec for r in plan.graph.resources if isinstance(r.spec, ServerSpec)]
    novas = [s for s in servers if s.bare_metal and s.by == "nova"]
    if novas and len(segment.members) > len(novas):
        yield "Machines deployed by Nova: which of a machine's adapters gets which of its RDMA addresses is Ironic's"
        yield "choice. Machines that weft deploys by Ironic, without Nova, have each address on its own rail."
    if plan.order.fabric.hcas == "shared":
        yield "Virtual functions (SR-IOV): security groups don't filter their traffic, each is in the pod's segment"
        yield "alone, and no VXLAN network can be on them. Live migration, where the cloud's release has it, takes them"
        yield "off the guest meanwhile; weft keeps a server out of the segment while it isn't on its node."
    elif plan.order.nodes.kind != "bare_metal":
        yield "Whole adapters (PCI passthrough): security groups don't filter their traffic, no VXLAN network can be on"
        yield "them, and their servers can't be live-migrated."
    if segment.fabric_type is FabricKind.ETHERNET:
        yield "RoCE in the pod's VLAN, at layer 2: the RDMA network has no gateway and no router, and floating IPs lead"
        yield "to the management network only. The adapters can't use other VLANs (Neutron's trunk ports): frames"
        yield "with tags of the guest's own reach no port."
