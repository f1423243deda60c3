"""Tests whether frames that pods send arrive where they must, and nowhere else, on fabrics with a prober."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.engine.base.world import World
from weft.engine.hold.held import Held
from weft.engine.rows.records import Change, ResourceRecord, RowState
from weft.model.errors import TemporaryError
from weft.model.fabric import SegmentCheck
from weft.model.fabrictypes import Mode
from weft.model.problem import Problem, render
from weft.model.resources import Kind
from weft.model.site import Site
from weft.model.specs import PortSpec, SegmentSpec
from weft.ports.prober import Tried

TRIED = "tried"
"""Fact of a segment: its number, and ids of tested ports."""


@dataclass(frozen=True, slots=True)
class OfFabric:
    """Marks a request as one to a fabric, which takes long, whatever the batch is about."""

    ask: Callable[[], Any]

    def __call__(self) -> Any:
        return self.ask()


def tried(records: Sequence[ResourceRecord], world: World, site: Site) -> SegmentCheck:
    """Test each segment that is wanted, on fabrics with a prober."""
    problems: list[Problem] = []
    notes: list[Problem] = []
    looked_at: dict[str, int] = {}
    for record in records:
        prober = world.probers.get(record.resource.where)
        if prober is None or record.kind is not Kind.SEGMENT or not record.wanted:
            continue
        segment = record.resource.spec
        assert isinstance(segment, SegmentSpec)
        addresses = dict(_addresses(records, site, record.resource.where))
        found = prober.check(segment, addresses, _before(record))
        problems += found.problems
        notes += found.notes
        looked_at |= found.looked_at
    return SegmentCheck(tuple(problems), looked_at, tuple(notes))


def tried_first(held: Held, world: World) -> Generator[Callable[[], Any], Any, None]:
    """A move before servers are requested: test what can only be tested while no guest has the adapters.

    Raises `TemporaryError` if something isn't as it must be; what couldn't be tested doesn't keep servers from being
    started.
    """
    records = held.resources()
    found: Mapping[str, Tried] = yield OfFabric(partial(_try_first, records, world))
    for record in [r for r in held.resources() if r.key in found]:
        check, ports = found[record.key].check, found[record.key].ports
        held.note([_noted(record, ports)])
        if check.problems:
            of = f"fabric {record.resource.where}"
            raise TemporaryError("test frames before servers are there", of, render(check.problems))
        seen = ", ".join(f"{n} {what}" for what, n in sorted(check.looked_at.items()))
        held.note((), [("step", f"before servers are there: {seen}", record.key)])


def _try_first(records: Sequence[ResourceRecord], world: World) -> Mapping[str, Tried]:
    """Key of an existing segment with ports that will be guests' own -> the test's result."""
    found: dict[str, Tried] = {}
    for record in records:
        prober, segment = world.probers.get(record.resource.where), record.resource.spec
        if prober is None or not isinstance(segment, SegmentSpec) or not record.wanted:
            continue
        whole = any(m.mode is Mode.ACCESS for m in segment.members)
        if whole and record.state is RowState.SETTLED:
            found[record.key] = prober.begin(segment)
    return found


def _noted(record: ResourceRecord, ports: Collection[str]) -> Change:
    """The segment's row, with the ports that were fully tested before servers were there."""
    facts = {**record.facts, TRIED: _document(record, _before(record) | {*ports})}
    state, reason, asked = record.state, record.reason, record.asked
    return Change(record.key, state, None, reason, record.differences, facts, record.attempts, asked)


def carried(record: ResourceRecord, facts: Mapping[str, object]) -> Mapping[str, object]:
    """Observed facts, with what was noted of the same resource and can't be observed."""
    return {**facts, TRIED: _document(record, _before(record))} if TRIED in record.facts else facts


def _document(record: ResourceRecord, ports: Collection[str]) -> Mapping[str, object]:
    segment = record.resource.spec
    return {"number": segment.number if isinstance(segment, SegmentSpec) else 0, "ports": sorted(ports)}


def _before(record: ResourceRecord) -> frozenset[str]:
    """Tested ports that are still members of the same segment; a port that left and returned is another server's."""
    segment, noted = record.resource.spec, record.facts.get(TRIED)
    if not isinstance(segment, SegmentSpec) or noted is None or noted["number"] != segment.number:
        return frozenset()
    return frozenset(map(str, noted["ports"])) & {*segment.ports}


def _addresses(records: Sequence[ResourceRecord], site: Site, fabric: str) -> Iterator[tuple[str, str]]:
    """Port's id and address of each whole adapter; Nova decides which adapter a port gets."""
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
