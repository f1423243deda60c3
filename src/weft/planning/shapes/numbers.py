"""Numbers that are in use outside of weft's book, and another one for a plan whose own was taken."""

from __future__ import annotations

from collections.abc import Mapping

from weft.model.plan import Allotment, Plan, UsedNumbers
from weft.model.resources import Graph, NetworkSpec, PartitionSpec, Resource
from weft.model.site import Range, Site
from weft.planning.fabric.segments import lowest_free

DATA = "data/"
"""Prefix of the spaces of the IPU-PODs' data VLANs in `Allotment.numbers`."""


def physical_networks(site: Site, cloud: str) -> frozenset[str]:
    """Neutron's names of all that weft makes networks on in a cloud."""
    rails = {site.fabrics[h.fabric].physical_network for n in site.nodes if n.cloud == cloud for h in n.hcas}
    data = {p.data.physical_network for p in site.ipu_pods.values() if p.cloud == cloud}
    return frozenset({site.clouds[cloud].management.physical_network, *rails, *data})


def with_segments(
    site: Site,
    used: UsedNumbers,
    pkeys: Mapping[str, frozenset[int]],
    segments: Mapping[str, frozenset[int]],
) -> UsedNumbers:
    """The same with what is seen to be in use.

    Args:
        pkeys: fabric -> P_Keys that its managers are told of.
        segments: physical network of a cloud -> VLANs on it. On InfiniBand the VLAN is the P_Key.
    """
    none: frozenset[int] = frozenset()

    def on(physical_network: str) -> frozenset[int]:
        return segments.get(physical_network, none)

    keys = {
        name: used.pkeys.get(name, none) | pkeys.get(name, none) | on(fabric.physical_network)
        for name, fabric in site.fabrics.items()
    }
    vlans = {
        name: used.vlans.get(name, none) | on(cloud.management.physical_network)
        for name, cloud in site.clouds.items()
    }
    data = {
        f"{DATA}{name}": used.spaces.get(f"{DATA}{name}", none) | on(pod.data.physical_network)
        for name, pod in site.ipu_pods.items()
    }
    return used.model_copy(update={"pkeys": keys, "vlans": vlans, "spaces": {**used.spaces, **data}})


def renumbered(plan: Plan, key: str, site: Site, used: UsedNumbers) -> Plan | None:
    """The plan with another number for a network whose own is taken outside; None: none is left, or it isn't weft's.

    Args:
        key: the network's.
        used: what can't be given out, the taken number and the plan's own included.
    """
    spec = plan.graph.by_key()[key].spec
    assert isinstance(spec, NetworkSpec)
    old, numbers = spec.segment, plan.allotment
    found = _space(plan, key, site, used)
    if found is None:
        return None
    field, allowed, taken = found
    new = lowest_free(allowed, taken | {old})
    if new is None:
        return None
    changed: dict[str, object] = {field: new}
    if field.startswith(DATA):
        changed = {"numbers": {**numbers.numbers, field: new}}
    allotment = Allotment.model_validate({**numbers.model_dump(), **changed})
    resources = tuple(_with_number(r, key, old, new, field == "pkey") for r in plan.graph.resources)
    return plan.model_copy(update={"allotment": allotment, "graph": Graph(resources=resources)})


def _space(plan: Plan, key: str, site: Site, used: UsedNumbers) -> tuple[str, Range, frozenset[int]] | None:
    """Where the network's number is from: field of the allotment, its range, and what is used of it."""
    none: frozenset[int] = frozenset()
    data = f"{DATA}{plan.fabric}"
    spec = plan.graph.by_key()[key].spec
    assert isinstance(spec, NetworkSpec)
    if spec.port_security and spec.segment == plan.allotment.vlan:
        management = site.clouds[plan.cloud].management
        return "vlan", management.segments, used.vlans.get(plan.cloud, none)
    if plan.allotment.pkey == spec.segment and plan.fabric in site.fabrics:
        return "pkey", site.fabrics[plan.fabric].segments, used.pkeys.get(plan.fabric, none)
    if plan.allotment.numbers.get(data) == spec.segment and plan.fabric in site.ipu_pods:
        return data, site.ipu_pods[plan.fabric].data.segments, used.spaces.get(data, none)
    return None


def _with_number(resource: Resource, key: str, old: int, new: int, is_pkey: bool) -> Resource:
    spec = resource.spec
    if resource.key == key and isinstance(spec, NetworkSpec):
        return resource.model_copy(update={"spec": spec.model_copy(update={"segment": new})})
    if is_pkey and isinstance(spec, PartitionSpec) and spec.pkey == old:
        return resource.model_copy(update={"spec": spec.model_copy(update={"pkey": new})})
    return resource
