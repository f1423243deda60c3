"""Whether what pods send arrives where it must, and nowhere else, where there is somebody who can try it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.engine.records import ResourceRecord
from weft.engine.world import World
from weft.model.fabric import Check
from weft.model.problem import Problem
from weft.model.resources import Kind, PortSpec, SegmentSpec
from weft.model.site import Site


def tried(records: Sequence[ResourceRecord], world: World, site: Site) -> Check:
    """Of each segment that is wanted, on fabrics that can be tried."""
    problems: list[Problem] = []
    notes: list[Problem] = []
    looked_at: dict[str, int] = {}
    for record in records:
        prober = world.probers.get(record.resource.where)
        if prober is None or record.kind is not Kind.SEGMENT or not record.wanted:
            continue
        segment = record.resource.spec
        assert isinstance(segment, SegmentSpec)
        found = prober.check(segment, dict(_addresses(records, site, record.resource.where)))
        problems += found.problems
        notes += found.notes
        looked_at |= found.looked_at
    return Check(tuple(problems), looked_at, tuple(notes))


def _addresses(records: Sequence[ResourceRecord], site: Site, fabric: str) -> Iterator[tuple[str, str]]:
    """Port's id and address of each whole adapter; which one a port has got, Nova decides."""
    for record in records:
        spec, node = record.resource.spec, site.node_by_name.get(record.resource.node or "")
        if not isinstance(spec, PortSpec) or node is None or not record.wanted or not spec.address:
            continue
        slot = _slot(record.facts)
        for hca in node.hcas_on(fabric):
            if slot and str(hca.pci).lower() == slot:
                yield hca.port_id, spec.address


def _slot(facts: Mapping[str, object]) -> str:
    return str(facts.get("pci_slot") or "").lower()
