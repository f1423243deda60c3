"""A pod held by a worker: what every owner has, and its nodes."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Row
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.book.partholds import bind_functions, bound_slots
from weft.engine.hold.fence import Event
from weft.engine.hold.held import Held, returned
from weft.engine.rows.records import Change, PodRecord
from weft.model.fabric import Membership
from weft.model.messages import pods
from weft.model.plan import Plan
from weft.model.receipt import ReceiptItem
from weft.model.resources import Resource
from weft.planning.shapes.resolve import shape_of

SegmentPorts = Mapping[str, tuple[Membership, ...]]
"""Key of a segment -> ports that are or were in it."""


class _Holdings(NamedTuple):
    """Nodes, and whether each is quarantined; spaces and numbers; and rows of what was given back before."""

    nodes: Mapping[str, bool]
    numbers: frozenset[tuple[str, int]]
    given_back: Sequence[Row]


class HeldPod(Held):
    """One pod, held by this worker under a token."""

    def __init__(self, database: Database, pod: PodRecord, leave: threading.Event | None = None) -> None:
        super().__init__(database, pod, leave)
        self._held: _Holdings | None = None

    @property
    def pod(self) -> PodRecord:
        """`owner` as a `PodRecord`."""
        return cast(PodRecord, self.owner)

    def whole_plan(self) -> Plan:
        """The plan with its whole graph, which no other step of a visit needs."""
        with self._database.statement() as tx:
            row = tx.row("pod_by_id", id=self.pod.id)
        assert row is not None, "a pod in a worker's hands has a row"
        return PodRecord.of(row).plan

    def note(self, changes: Iterable[Change] = (), events: Iterable[Event] = ()) -> None:
        """As for every owner; but first record which virtual functions Nova has bound."""
        changes = list(changes)
        shares = shape_of(self.pod.order).shares_nodes
        if shares and (bound := bound_slots((c.key, c.facts) for c in changes)):
            with self.write() as tx:  # before the rows: after a crash in between both are done again
                bind_functions(tx, self.pod.id, bound)
        super().note(changes, events)

    def withhold(self, nodes: Mapping[str, str], segment: Resource | None) -> None:
        """Note why nodes' adapters are out of the segment (an empty reason: they are in it), and update the segment."""
        if segment is not None:
            self.flush()  # one statement writes a row once
            self._notes.events.append(
                ("repair", "the adapters of the segment follow its servers", segment.key)
            )
        self._notes.watch(nodes, segment, f"pod {self.pod.name} ({self.pod.id})")
        if segment is not None:
            self.flush()
            self.forget()

    def withheld(self) -> frozenset[str]:
        """Nodes whose adapters are out of the segment."""
        with self._database.statement() as tx:
            return frozenset(r["node"] for r in tx.rows("nodes_withheld", pod_id=self.pod.id))

    def leaving(self) -> dict[str, SegmentPorts]:
        """Node that the pod still holds and doesn't want any more -> its ports that were in the pod's segments."""
        if self.pod.generation == 1:
            return {}  # only a change leaves nodes
        with self._database.statement() as tx:
            rows = tx.rows("nodes_leaving", pod_id=self.pod.id)
        try:
            return {
                row["node"]: {
                    key: tuple(map(Membership.model_validate, ms)) for key, ms in row["ports"].items()
                }
                for row in rows
            }
        except READING as error:
            raise unreadable(f"the nodes that leave pod {self.pod.name} ({self.pod.id})", error) from error

    def cleared(self) -> frozenset[str]:
        """Those of `leaving` of which an operator said that nothing runs on them."""
        with self._database.statement() as tx:
            rows = tx.rows("nodes_leaving", pod_id=self.pod.id)
        return frozenset(row["node"] for row in rows if row["cleared"])

    def leaving_for(self, seconds: float) -> frozenset[str]:
        """Those of `leaving` whose generation is at least so old."""
        with self._database.statement() as tx:
            rows = tx.rows("nodes_leaving", pod_id=self.pod.id)
        # Without a time it is older than the history that is kept.
        old = (r for r in rows if r["at"] is None or (self.at - r["at"]).total_seconds() >= seconds)
        return frozenset(row["node"] for row in old)

    def give_back_read(
        self, nodes: Collection[str], items: Sequence[ReceiptItem], left: bool = False
    ) -> None:
        """Free single nodes, read back clean, before the end.

        Args:
            items: what was read of them, for the receipt.
            left: only what a change has left: of shared nodes the pod may keep other parts.
        """
        said: dict[str, str] = {}
        self.check_ahead()
        with self.write() as tx:
            now = tx.now()
            for node in sorted(nodes):
                if left and tx.run("give_back_parts", node=node, pod_id=self.pod.id):
                    said[node] = pods.PART_FREE(node=node)
                elif tx.run("give_back_node", node=node, pod_id=self.pod.id):
                    said[node] = pods.NODE_FREE(node=node)
            if not said:
                return
            read = Jsonb([i.model_dump(mode="json") for i in items])
            tx.run("insert_given_back", owner_id=self.pod.id, nodes=list(said), at=now, items=read)
            tx.run("touch_queue", at=now)
            self.insert_events(tx, [("release", what, None) for what in said.values()])

    def servers_on(self, nodes: Collection[str]) -> frozenset[str]:
        """Ids of all pods' servers on these nodes, where several share them."""
        with self._database.statement() as tx:
            rows = tx.rows("servers_on", nodes=list(nodes))
        return frozenset(id_ for row in rows for id_ in row["ids"])

    def nodes(self) -> Mapping[str, bool]:
        """Nodes that the pod still holds (single ones may have been freed), and whether each is quarantined.

        Read once, until this visit writes.
        """
        return self._holdings().nodes

    def numbers(self) -> frozenset[tuple[str, int]]:
        """As of every owner; read together with `nodes`."""
        return self._holdings().numbers

    def given_back(self) -> tuple[tuple[str, ...], tuple[ReceiptItem, ...]]:
        """As of every owner; read together with `nodes`: only this worker adds to it."""
        return returned(self._holdings().given_back)

    def _holdings(self) -> _Holdings:
        if self._held is None:
            with self._database.statement() as tx:
                rows = tx.rows("nodes_and_numbers_of", pod_id=self.pod.id)
            self._held = _Holdings(
                {r["node"]: r["quarantined"] for r in rows if r["node"] is not None},
                frozenset((r["space"], r["number"]) for r in rows if r["space"] is not None),
                sorted((r for r in rows if r["id"] is not None), key=lambda r: r["id"]),
            )
        return self._held

    def forget(self) -> None:
        self._held = None
        super().forget()
