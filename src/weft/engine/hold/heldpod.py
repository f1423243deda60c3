"""A pod held by a worker: what every owner has, and its nodes."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import cast

from psycopg.types.json import Jsonb

from weft.engine.base.database import Database, Row
from weft.engine.base.documents import message_text
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.book.partholds import bind_functions, bound_slots
from weft.engine.hold.fence import Event, Fence
from weft.engine.hold.held import Held
from weft.engine.hold.heldnotes import HeldNotes
from weft.engine.rows.records import Change, PodRecord
from weft.model.fabric import Membership
from weft.model.messages import maintenance, pods
from weft.model.messages.message import Message, for_tenant
from weft.model.plan import Plan
from weft.model.receipt import ReceiptItem
from weft.model.resources import Resource
from weft.planning.shapes.resolve import shape_of

SegmentPorts = Mapping[str, tuple[Membership, ...]]
"""Key of a segment -> ports that are or were in it."""


class HeldPod(Held):
    """One pod, held by this worker under a token.

    Attributes:
        nodes: those that leave, and those whose adapters are out of the segment.
    """

    def __init__(self, database: Database, pod: PodRecord, leave: threading.Event | None = None) -> None:
        super().__init__(database, pod, leave)
        self.nodes = HeldNodes(self.fence, self.notes)

    @property
    def pod(self) -> PodRecord:
        """`owner` as a `PodRecord`."""
        return cast(PodRecord, self.owner)

    def whole_plan(self) -> Plan:
        """The plan with its whole graph, which no other step of a visit needs."""
        row = self.fence.database.row("pod_by_id", id=self.pod.id)
        assert row is not None, "a pod that a worker holds has a row"
        return PodRecord.of(row).plan

    def note(self, changes: Iterable[Change] = (), events: Iterable[Event] = ()) -> None:
        """As `Held.note`, but first record which virtual functions Nova has bound."""
        changes = list(changes)
        shares = shape_of(self.pod.order).shares_nodes
        if shares and (bound := bound_slots((c.key, c.facts) for c in changes)):
            with self.notes.write() as tx:  # before the rows: after a crash in between both are done again
                bind_functions(tx, self.pod.id, bound)
        super().note(changes, events)


class HeldNodes:
    """The nodes of a pod that don't simply stay: those that leave it, and those that can't be in its segment now.

    `Holdings.nodes` has those that it still holds.
    """

    def __init__(self, fence: Fence, notes: HeldNotes) -> None:
        self._fence, self._notes = fence, notes

    def withhold(self, nodes: Mapping[str, str], segment: Resource | None) -> None:
        """Note why nodes' adapters are out of the segment (an empty reason: they are in it), and update the segment."""
        if segment is not None:
            self._notes.flush()  # one statement writes a row once
            said = ("repair", "the adapters of the segment follow its servers", segment.key)
            self._notes.unwritten.events.append(said)
        owner = self._fence.owner
        self._notes.unwritten.watch(nodes, segment, f"pod {owner.name} ({owner.id})")
        if segment is not None:
            self._notes.flush()
            self._fence.forget()

    def withheld(self) -> frozenset[str]:
        """Nodes whose adapters are out of the segment."""
        return frozenset(row["node"] for row in self._rows("nodes_withheld"))

    def leaving(self) -> dict[str, SegmentPorts]:
        """Node that the pod still holds and doesn't want any more -> its ports that were in the pod's segments."""
        owner = self._fence.owner
        if owner.generation == 1:
            return {}  # only a change leaves nodes
        rows = self._rows("nodes_leaving")
        try:
            return {
                row["node"]: {
                    key: tuple(map(Membership.model_validate, ms)) for key, ms in row["ports"].items()
                }
                for row in rows
            }
        except READING as error:
            raise unreadable(f"the nodes that leave pod {owner.name} ({owner.id})", error) from error

    def cleared(self) -> frozenset[str]:
        """Nodes of `leaving` that an operator has cleared: nothing runs on them."""
        return frozenset(row["node"] for row in self._rows("nodes_leaving") if row["cleared"])

    def leaving_for(self, seconds: float) -> frozenset[str]:
        """Nodes of `leaving` whose generation has at least this age."""
        # Without a time it is older than the history that is kept.
        at = self._fence.at
        old = (
            r
            for r in self._rows("nodes_leaving")
            if r["at"] is None or (at - r["at"]).total_seconds() >= seconds
        )
        return frozenset(row["node"] for row in old)

    def leaves_since(self) -> datetime | None:
        """When the newest of the generations of `leaving` was made; None: it is older than the history that is kept, or
        there is none."""
        return max((row["at"] for row in self._rows("nodes_leaving") if row["at"] is not None), default=None)

    def why_drained_out(self) -> Message | None:
        """What its project reads of a drain for which weft released it; None: it was released for something else."""
        codes = [maintenance.POD_ENDS_FOR_DRAIN.name]
        row = self._fence.database.row("event_of_code", owner_id=self._fence.owner.id, codes=codes)
        return None if row is None else for_tenant(message_text(row["message"]))

    def _rows(self, name: str) -> list[Row]:
        return self._fence.database.rows(name, pod_id=self._fence.owner.id)

    def give_back(self, nodes: Collection[str], items: Sequence[ReceiptItem], left: bool = False) -> None:
        """Free single nodes, read back clean, before the end.

        Args:
            items: what was read of them, for the receipt.
            left: only what a change has left: of shared nodes the pod may keep other parts.
        """
        said: dict[str, str] = {}
        pod_id = self._fence.owner.id
        self._fence.check_ahead()
        with self._notes.write() as tx:
            now = tx.now()
            for node in sorted(nodes):
                if left and tx.run("give_back_parts", node=node, pod_id=pod_id):
                    said[node] = pods.PART_FREE(node=node)
                elif tx.run("give_back_node", node=node, pod_id=pod_id):
                    said[node] = pods.NODE_FREE(node=node)
            if not said:
                return
            read = Jsonb([i.model_dump(mode="json") for i in items])
            tx.run("insert_given_back", owner_id=pod_id, nodes=list(said), at=now, items=read)
            tx.run("touch_queue", at=now)
            self._fence.insert_events(tx, [("release", what, None) for what in said.values()])

    def servers_on(self, nodes: Collection[str]) -> frozenset[str]:
        """Ids of all pods' servers on these nodes, where several share them."""
        rows = self._fence.database.rows("servers_on", nodes=list(nodes))
        return frozenset(id_ for row in rows for id_ in row["ids"])
