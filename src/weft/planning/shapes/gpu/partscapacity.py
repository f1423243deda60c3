"""What could be ordered in parts of nodes: accelerators that are left, and the most servers of each flavor. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from weft.model.placement import Occupancy, PlacementRequest
from weft.model.site import AcceleratorCount, Flavor, Site
from weft.planning.fabric.topology import NO_FABRIC, Topology
from weft.planning.place import filters
from weft.planning.place.marks import marks_of
from weft.planning.place.room import Room
from weft.planning.place.shares import rooms_of
from weft.planning.queue.capacityrow import CapacityRow, Largest, RowLimit
from weft.planning.shapes.gpu.request import share_of
from weft.planning.shapes.shape import CapacityAsked


def parts_rows(asked: CapacityAsked) -> Iterator[CapacityRow]:
    """A row for each type of accelerator of each cloud, without a fabric and on each with virtual functions."""
    site, end = asked.site, asked.now + asked.duration
    occupancy = asked.book.occupancy(asked.health, asked.project, asked.now, asked.now, end)
    for fabric in (NO_FABRIC, *sorted({h.fabric for n in site.nodes for h in n.hcas if h.vfs})):
        for cloud in sorted(site.clouds):
            by_type: dict[str, dict[str, Flavor]] = {}
            for name, flavor in sorted(site.clouds[cloud].flavors.items()):
                if flavor.accelerators is not None:
                    by_type.setdefault(flavor.accelerators.type, {})[name] = flavor
            for type_, flavors in sorted(by_type.items()):
                if asked.accelerator in (None, type_):
                    yield _row(site, occupancy, asked.project, fabric, cloud, type_, flavors)


def _row(
    site: Site,
    occupancy: Occupancy,
    project: str,
    fabric: str,
    cloud: str,
    type_: str,
    flavors: dict[str, Flavor],
) -> CapacityRow:
    topology = Topology.of(site, fabric)
    functions = int(fabric != NO_FABRIC)
    numbers = {name: i for i, name in enumerate(topology.locations)}

    def rooms(wanted: AcceleratorCount, flavor: Flavor) -> list[Room]:
        share = share_of(flavor, functions)
        request = PlacementRequest(
            pod="capacity",
            project=project,
            count=1,
            cloud=cloud,
            fabric=fabric,
            hcas_per_node=functions,
            accelerators=wanted,
            share=share,
        )
        nodes, _ = filters.eligible(request, site, topology, occupancy)
        return rooms_of(wanted, share, fabric, occupancy, nodes, numbers)

    largest: list[Largest] = []
    for name, flavor in flavors.items():
        assert flavor.accelerators is not None
        count = sum(r.servers for r in rooms(flavor.accelerators, flavor))
        largest.append(Largest(count, flavor=name, accelerators=flavor.accelerators.count))
    one = AcceleratorCount(type=type_, count=1)
    free = rooms(one, Flavor(accelerators=one))
    marks, _ = filters.of_kind(site, fabric, cloud, functions, one)
    kind = [site.node_by_name[name] for name in marks_of(site).in_order(marks)]
    counts = [
        RowLimit("nodes", len(kind)),
        RowLimit("nodes in part use", sum(n.name in occupancy.parts for n in kind)),
    ]
    if functions:
        counts.append(RowLimit("virtual functions", free=sum(r.free_functions for r in free)))
    for what, some in (
        ("drained nodes", occupancy.drained),
        ("nodes with failed checks", occupancy.failing),
    ):
        if number := sum(n.name in some for n in kind):
            counts.append(RowLimit(what, number))
    return CapacityRow(
        shape="parts",
        cloud=cloud,
        place_kind="fabric",
        place=fabric,
        unit="accelerators",
        accelerators=one,
        total=sum(a.type == type_ for n in kind for a in n.accelerators),
        free=sum(len(r.devices) for r in free),
        orders="servers",
        largest=tuple(largest),
        counts=tuple(counts),
    )
