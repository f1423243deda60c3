"""What an owner held by a worker still holds, and what it has returned before its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weft.engine.base.database import Row
from weft.engine.base.unreadable import READING, unreadable
from weft.engine.hold.fence import Fence
from weft.model.receipt import ReceiptItem


class _Read(NamedTuple):
    """What was read. `writes`: `Fence.writes` at the reading."""

    writes: int
    nodes: Mapping[str, bool]
    numbers: frozenset[tuple[str, int]]
    given_back: Sequence[Row]


class Holdings:
    """Nodes and numbers, read together, and again only after this visit has written: no other worker changes them."""

    def __init__(self, fence: Fence) -> None:
        self._fence = fence
        self._known: _Read | None = None

    def nodes(self) -> Mapping[str, bool]:
        """Nodes that a pod still holds (single ones may have been freed), and whether each is quarantined."""
        return self._read().nodes

    def numbers(self) -> frozenset[tuple[str, int]]:
        """Spaces and numbers held."""
        return self._read().numbers

    def given_back(self) -> tuple[tuple[str, ...], tuple[ReceiptItem, ...]]:
        """Nodes that were freed before the end, in order of time, and what was read then, also of numbers. Raises
        `UnreadableError`."""
        rows = self._read().given_back
        try:
            items = [ReceiptItem.model_validate(i) for r in rows for i in r["items"]]
        except READING as error:
            raise unreadable("what was read of nodes that were given back", error) from error
        return tuple(n for r in rows for n in r["nodes"]), tuple(items)

    def _read(self) -> _Read:
        writes = self._fence.writes
        if self._known is None or self._known.writes != writes:
            rows = self._fence.database.rows("holdings_of", owner_id=self._fence.owner.id)
            self._known = _Read(
                writes,
                {r["node"]: r["quarantined"] for r in rows if r["node"] is not None},
                frozenset((r["space"], r["number"]) for r in rows if r["space"] is not None),
                sorted((r for r in rows if r["id"] is not None), key=lambda r: r["id"]),
            )
        return self._known
