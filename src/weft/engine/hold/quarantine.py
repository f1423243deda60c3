"""Nodes that an owner held by a worker keeps from being assigned, because something of it wasn't seen clean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from weft.engine.hold.fence import Fence
from weft.engine.hold.heldnotes import HeldNotes


class Quarantine:
    """Quarantines nodes for an owner. Args: outside: `VisitLane.outside` of the visit."""

    def __init__(
        self, fence: Fence, notes: HeldNotes, outside: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._fence, self._notes, self._outside = fence, notes, outside

    def add(self, nodes: Mapping[str, str]) -> None:
        """Keep nodes from being assigned. Args: nodes: node -> reason."""
        if not nodes:
            return
        owner_id, gate = self._fence.owner.id, self._fence.database.gate
        if nodes.keys() - self.nodes():
            self._notes.flush()
            with self._outside():
                gate.foretell()
        with self._notes.write() as tx:
            for node, reason in sorted(nodes.items()):  # owners that share them lock them in the same order
                if tx.run("quarantine", node=node, reason=reason, at=tx.now(), pod_id=owner_id, by=""):
                    self._fence.insert_events(tx, [("quarantine", f"{node}: {reason}", None)])
        gate.hurry()

    def nodes(self) -> frozenset[str]:
        """Names of all quarantined nodes, whatever the reason."""
        return frozenset(row["node"] for row in self._fence.database.rows("quarantines"))

    def set_aside(self) -> frozenset[str]:
        """Nodes in quarantine because something of this owner wasn't seen clean."""
        return frozenset(
            row["node"] for row in self._fence.database.rows("set_aside", owner_id=self._fence.owner.id)
        )
