"""The part of the audit that reads a fabric: numbers in weft's range that no live owner's segment explains."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from weft.engine.audit.findings import Findings, about
from weft.engine.audit.outside import OutsideFabric
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.model.errors import WeftError
from weft.model.fabric import PortSeen, Snapshot
from weft.model.site import Site
from weft.planning.fabric.functions import own_ports

_NOT_WEFTS = "nothing: weft doesn't configure this fabric; see Neutron's port and its ML2 driver"
_NOT_OURS = "nothing: it doesn't carry weft's mark; someone must look at it"
_RUNS = "stop what runs there, or take the function's address off at its host: a server may run that the cloud forgot"

OwnedNumbers = Mapping[int, tuple[OwnerRecord, frozenset[str]]]
"""Number of a segment -> the live owner that has it, or is about to gain or lose it, and ids of its members."""


@dataclass(frozen=True)
class WireAudit:
    """The audit of one fabric.

    Attributes:
        released: numbers that were released during the audit: the reading may still show them.
        reported: numbers that the audit reports as strays.
        repairs: whether weft configures the fabric.
        unread: numbers of owners whose rows can't be read, which is a finding of its own.
    """

    site: Site
    fabric: str
    owned: OwnedNumbers
    released: Collection[int]
    reported: Collection[object]
    findings: Findings
    repairs: bool = True
    unread: Collection[int] = ()

    def check(self, wire: OutsideFabric) -> set[UUID]:
        """Add to the findings; returns the owners whose loop has something to repair."""
        self._check_managers(wire)
        fabric = self.site.fabrics[self.fabric]
        mine, words, snapshot = fabric.segments, fabric.words, wire.snapshot
        self.findings.checked[f"host ports of {self.fabric}"] = len(snapshot.ports)
        self.findings.checked[f"segments of {self.fabric}"] = len(snapshot.segments)
        explained = {*self.owned, *self.released, *self.reported, *self.unread}
        for number, segment in sorted(snapshot.segments.items()):
            if number in mine and number not in explained:
                text = f"segment {segment or '(no name)'} is not weft's, but within weft's range"
                self._add("foreign", "segment", words.text(number), text, repair=_NOT_OURS)
        self._check_functions(snapshot)
        sick: set[UUID] = set()
        for port in sorted(snapshot.ports.values(), key=lambda p: p.port):
            if port.unread:
                self._add("unknown", "membership", port.name, port.unread, id=port.port)
            else:
                sick |= self._check_port(port)
        return sick

    @property
    def _passed_over(self) -> frozenset[int]:
        return frozenset((*self.released, *self.unread))

    def _check_functions(self, snapshot: Snapshot) -> None:
        """Report virtual functions without an owner that are up: the next owner would share the port with what runs
        there."""
        held = frozenset[str]().union(*(members for _, members in self.owned.values()))
        try:
            up = snapshot.functions
        except WeftError as error:
            self._add("unknown", "membership", f"virtual functions of {self.fabric}", str(error))
            return
        names = own_ports(self.site, self.fabric) if up else {}
        for port in sorted(up.keys() & names.keys() - held):
            seen = snapshot.ports.get(port)
            if seen is not None and seen.numbers & self._passed_over:
                continue
            ends = (self.site.port_by_id.get((self.fabric, p)) for p in sorted(up[port]))
            behind = ", ".join(f"{end[0].name}/{end[1].name}" for end in ends if end) or "an unknown port"
            text = f"no live pod holds virtual function {names[port]}, and its port is up behind {behind}"
            self._add("foreign", "membership", names[port], text, id=port, repair=_RUNS)

    def _check_managers(self, wire: OutsideFabric) -> None:
        said = (f"{m.name}: {p}" for m in wire.status.managers for p in m.problems)
        for problem in (*wire.status.problems, *said):
            repair = "the fabric's operator must check it"
            self._add("different", "fabric manager", self.fabric, problem, repair=repair)

    def _check_port(self, port: PortSeen) -> set[UUID]:
        fabric, sick = self.site.fabrics[self.fabric], set[UUID]()
        unowned: dict[str, list[int]] = {}
        for number in sorted(n for n in port.numbers - self._passed_over if n in fabric.segments):
            owner, members = self.owned.get(number, (None, frozenset[str]()))
            if port.port in members:
                continue
            where = next(p.name for p in port.places if number in p.numbers)
            if owner is None:
                unowned.setdefault(where, []).append(number)
                continue
            segment, id_ = fabric.words.named(number), f"{port.port} {fabric.words.text(number)}"
            sick.add(owner.id)
            text, named = (
                f"{where} has {segment} of {owner}, but is not a member",
                about(owner.owner, owner.name),
            )
            self._add(
                "different",
                "membership",
                port.name,
                text,
                id=id_,
                **named,
                repair="its loop repairs it" if self.repairs else _NOT_WEFTS,
                repairable=self.repairs,
            )
        # One finding for each port: a trunk of all numbers would have hundreds.
        for where, numbers in unowned.items():
            listed = fabric.words.listed(numbers)
            text = f"{where} has {listed}, within weft's range, but no live pod holds "
            text += "that number" if len(numbers) == 1 else "those numbers"
            id_ = f"{port.port} {listed.partition(' ')[2]}"
            self._add("foreign", "membership", port.name, text, id=id_, repair=_NOT_OURS)
        return sick

    def _add(self, category: str, kind: str, subject: str, what: str, **more: Any) -> None:
        self.findings.add(category, kind, self.fabric, subject, what, **more)
