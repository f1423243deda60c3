"""Numbers in use outside of weft's records, and replacements for a plan whose number was taken."""

from __future__ import annotations

from collections.abc import Mapping

from weft.model.plan import Allotment, Plan, UsedNumbers
from weft.model.ranges import Range
from weft.model.resources import Graph, Resource
from weft.model.site import Site
from weft.model.spaces import SEGMENT, VLAN
from weft.model.specs import NetworkSpec, SegmentSpec, ServerSpec
from weft.planning.fabric.datanetwork import data_networks
from weft.planning.fabric.segments import lowest_free
from weft.planning.kept import kept
from weft.planning.shapes.resolve import shape_of


@kept
def physical_networks(site: Site, cloud: str) -> frozenset[str]:
    """Physical networks on which weft creates networks in a cloud."""
    rails = {site.fabrics[h.fabric].physical_network for n in site.nodes if n.cloud == cloud for h in n.hcas}
    data = {d.physical_network for d in data_networks(site).values() if d.cloud == cloud}
    vlans = site.clouds[cloud].management.vlans
    return frozenset({*(vlans[:1] if vlans else ()), *rails, *data})


def with_segments(
    site: Site,
    used: UsedNumbers,
    configured: Mapping[str, frozenset[int]],
    vlans: Mapping[str, frozenset[int]],
) -> UsedNumbers:
    """The used numbers, with those observed to be in use added.

    Args:
        configured: fabric -> numbers that its managers have configured.
        vlans: physical network of a cloud -> VLANs on it: of a fabric's, the numbers of its segments.
    """
    none: frozenset[int] = frozenset()

    def on(physical_network: str) -> frozenset[int]:
        return vlans.get(physical_network, none)

    segments = {
        name: used.segments.get(name, none) | configured.get(name, none) | on(fabric.physical_network)
        for name, fabric in site.fabrics.items()
    }
    management = {
        name: used.vlans.get(name, none) | on(numbered[0])
        for name, cloud in site.clouds.items()
        if (numbered := cloud.management.vlans) is not None
    }
    own = (v for v in data_networks(site).values() if v.fabric is None)
    data = {v.space: v.taken(used) | on(v.physical_network) for v in own}
    return used.model_copy(
        update={"segments": segments, "vlans": management, "spaces": {**used.spaces, **data}}
    )


def renumbered(plan: Plan, key: str, site: Site, used: UsedNumbers) -> Plan | None:
    """The plan with another number for a network whose number is taken outside; None: none is left, or weft doesn't
    allocate it.

    Args:
        key: the network's.
        used: what can't be allocated, including the taken number and the plan's own.
    """
    spec = plan.graph.by_key()[key].spec
    assert isinstance(spec, NetworkSpec)
    old, numbers = spec.segment, plan.allotment
    found = _space(plan, key, site, used)
    if found is None or old is None:
        return None
    space, allowed, taken = found
    new = lowest_free(allowed, taken | {old})
    if new is None:
        return None
    changed: dict[str, object] = {"numbers": {**numbers.numbers, space: new}}
    is_segment = space.startswith(SEGMENT)
    if is_segment and numbers.segment is not None:
        changed["segment"] = site.fabrics[space.removeprefix(SEGMENT)].words.text(new)
    allotment = Allotment.model_validate({**numbers.model_dump(), **changed})
    resources = tuple(_with_number(r, key, old, new, is_segment) for r in plan.graph.resources)
    found = plan.model_copy(update={"allotment": allotment, "graph": Graph(resources=resources)})
    return _with_files(found, site) if plan.order.locality.file else found


def _with_files(plan: Plan, site: Site) -> Plan:
    """The plan with the user data of its servers made again: their files of locality have the segment's number."""
    again = shape_of(plan.order).graph(plan, site).by_key()
    resources: list[Resource] = []
    for one in plan.graph.resources:
        other = again[one.key].spec if one.key in again else None
        if isinstance(one.spec, ServerSpec) and isinstance(other, ServerSpec):
            spec = one.spec.model_copy(update={"user_data": other.user_data})
            resources.append(one.model_copy(update={"spec": spec}))
        else:
            resources.append(one)
    return plan.model_copy(update={"graph": Graph(resources=tuple(resources))})


def _space(plan: Plan, key: str, site: Site, used: UsedNumbers) -> tuple[str, Range, frozenset[int]] | None:
    """Where the network's number is from: its space, the range of that, and what is used of it."""
    none: frozenset[int] = frozenset()
    spec = plan.graph.by_key()[key].spec
    assert isinstance(spec, NetworkSpec)
    if spec.segment is None:
        return None
    if spec.port_security and spec.segment == plan.vlan:
        vlans = site.clouds[plan.cloud].management.vlans
        return vlans and (VLAN + plan.cloud, vlans[1], used.vlans.get(plan.cloud, none))
    if plan.segment == spec.segment and plan.fabric in site.fabrics:
        space = SEGMENT + plan.fabric
        return space, site.fabrics[plan.fabric].segments, used.segments.get(plan.fabric, none)
    data = data_networks(site).get(plan.fabric)
    if data is not None and plan.allotment.numbers.get(data.space) == spec.segment:
        return data.space, data.allowed, data.taken(used)
    return None


def _with_number(resource: Resource, key: str, old: int, new: int, is_segment: bool) -> Resource:
    spec = resource.spec
    if resource.key == key and isinstance(spec, NetworkSpec):
        return resource.model_copy(update={"spec": spec.model_copy(update={"segment": new})})
    if is_segment and isinstance(spec, SegmentSpec) and spec.number == old:
        return resource.model_copy(update={"spec": spec.model_copy(update={"number": new})})
    return resource
