"""Whether what pods send arrives where it must, and nowhere else, where there is somebody who can try it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from weft.engine.held import Held
from weft.engine.records import Change, ResourceRecord, RowState
from weft.engine.world import World
from weft.model.errors import TemporaryError
from weft.model.fabric import Check
from weft.model.fabrictypes import Mode
from weft.model.problem import Problem, render
from weft.model.resources import Kind
from weft.model.site import Site
from weft.model.specs import PortSpec, SegmentSpec
from weft.ports.prober import Tried

TRIED = "tried"
"""Of a segment's facts: its number, and ids of ports."""


@dataclass(frozen=True, slots=True)
class OfFabric:
    """Something to be asked of a fabric, whatever the batch is of: it takes its time."""

    ask: Callable[[], Any]

    def __call__(self) -> Any:
        return self.ask()


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
        addresses = dict(_addresses(records, site, record.resource.where))
        found = prober.check(segment, addresses, _before(record))
        problems += found.problems
        notes += found.notes
        looked_at |= found.looked_at
    return Check(tuple(problems), looked_at, tuple(notes))


def tried_first(held: Held, world: World) -> Generator[Callable[[], Any], Any, None]:
    """What can only be tried while no guest has the adapters: a move before servers are asked for.

    Raises `TemporaryError` if something isn't as it must be; what nobody could try keeps no server from being started.
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
    """Key of a segment -> what was found out. Only of those that are there, with ports that will be guests' own."""
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
    """The segment's row, with ports of which all was known before servers were there."""
    facts = {**record.facts, TRIED: _document(record, _before(record) | {*ports})}
    state, reason, asked = record.state, record.reason, record.asked
    return Change(record.key, state, None, reason, record.differences, facts, record.attempts, asked)


def carried(record: ResourceRecord, facts: Mapping[str, object]) -> Mapping[str, object]:
    """What a look found out, with what was noted of the same thing and no look can say."""
    return {**facts, TRIED: _document(record, _before(record))} if TRIED in record.facts else facts


def _document(record: ResourceRecord, ports: Collection[str]) -> Mapping[str, object]:
    segment = record.resource.spec
    return {"number": segment.number if isinstance(segment, SegmentSpec) else 0, "ports": sorted(ports)}


def _before(record: ResourceRecord) -> frozenset[str]:
    """Of those that are members still, of the same segment: who left and came back is another server's."""
    segment, noted = record.resource.spec, record.facts.get(TRIED)
    if not isinstance(segment, SegmentSpec) or noted is None or noted["number"] != segment.number:
        return frozenset()
    return frozenset(map(str, noted["ports"])) & {*segment.ports}


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
