"""Waiting orders as rows; their documents are fetched and checked only when a row has changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from weft.engine.base.database import Tx
from weft.engine.base.documents import read
from weft.engine.base.unreadable import READING, UnreadableError, unreadable
from weft.engine.queue.waiter import Resolving, Waiter
from weft.model.order import Order


@dataclass(slots=True)
class Waitlist:
    """Reads waiting orders, and caches them: processing the queue reads all of them several times.

    Attributes:
        unreadable: orders of the last reading whose rows can't be read, with version and reason: they must not block
            the others.
    """

    unreadable: dict[UUID, tuple[str, UnreadableError]] = field(
        default_factory=dict[UUID, tuple[str, UnreadableError]]
    )
    _known: dict[UUID, tuple[str, Order, Resolving]] = field(
        default_factory=dict[UUID, tuple[str, Order, Resolving]]
    )

    def read(self, tx: Tx) -> dict[UUID, Waiter]:
        """All orders that wait now, in the order of their arrival."""
        rows = tx.rows("waiting_pods")
        self._known = {r["id"]: k for r in rows if (k := self._known.get(r["id"])) and k[0] == r["version"]}
        self.unreadable = {}
        versions = {r["id"]: r["version"] for r in rows}
        changed = [pod_id for pod_id in versions if pod_id not in self._known]
        for row in tx.rows("orders_of", ids=changed) if changed else ():
            try:
                self._known[row["id"]] = (versions[row["id"]], read(Order, row["ordered"]), Resolving())
            except READING as error:
                why = unreadable(f"order {row['id']}", error)
                self.unreadable[row["id"]] = (versions[row["id"]], why)
        for row in rows:
            if row["parked"] is not None and row["id"] in self._known:
                tx.run("unpark", id=row["id"])
        return {r["id"]: Waiter.of(r, *self._known[r["id"]][1:]) for r in rows if r["id"] in self._known}
