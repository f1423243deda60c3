"""The numbers of an owner held by a worker: claimed, returned, kept. No other owner gets a number that may still be in
use outside."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, replace

from psycopg.types.json import Jsonb

from weft.engine.base.database import Tx
from weft.engine.hold.fence import Fence
from weft.engine.hold.heldnotes import HeldNotes
from weft.engine.rows.ownerrecord import TakenNumber
from weft.engine.rows.records import StaleNumber
from weft.model.errors import PermanentError
from weft.model.messages import pods
from weft.model.receipt import ReceiptItem


class HeldNumbers:
    """Claims, returns and keeps numbers; `Holdings.numbers` has those that are held."""

    def __init__(self, fence: Fence, notes: HeldNotes) -> None:
        self._fence, self._notes = fence, notes

    def taken(self, taken: TakenNumber) -> None:
        """Record that someone else uses a number: it is replaced once nothing of the owner is left outside."""
        with self._notes.write() as tx:
            tx.run("number_taken", id=self._fence.owner.id, taken=Jsonb(asdict(taken)))
        self._fence.owner = replace(self._fence.owner, taken=taken)

    def hold(self, tx: Tx, space: str, number: int) -> None:
        """Claim numbers in a transaction under their lock. Raises `PermanentError` if another owner has it."""
        owner = self._fence.owner
        who = tx.row("who_holds", space=space, number=number)
        if who is None:
            tx.run("hold_number", space=space, number=number, owner_id=owner.id)
        elif who["owner_id"] != owner.id:
            name = f"{who['kind']} {who['name']}" if who["name"] else f"owner {who['owner_id']}"
            raise PermanentError(
                f"hold {space} {number}", str(owner), f"{name} has it", f"give it another, or release {name}"
            )

    def give_back(self, numbers: Collection[tuple[str, int]], items: Sequence[ReceiptItem]) -> None:
        """Return numbers that the owner no longer uses. Args: items: the readings, for the receipt."""
        owner_id = self._fence.owner.id
        self._fence.check_ahead()
        with self._notes.write() as tx:
            for space, number in sorted(numbers):
                tx.run("give_back_number", space=space, number=number, owner_id=owner_id)
                said = pods.NUMBER_FREE(space=space, number=number)
                self._fence.insert_events(tx, [("release", said, None)])
            read = Jsonb([i.model_dump(mode="json") for i in items])
            tx.run("insert_given_back", owner_id=owner_id, nodes=[], at=tx.now(), items=read)
            tx.run("touch_queue", at=tx.now())

    def keep_stale(self, stale: Iterable[StaleNumber]) -> None:
        """Keep numbers from other owners although the segment is gone; `weft.engine.watch.fabrickeeper` frees them."""
        # Locked in the order of `fabrickeeper`.
        keys = sorted(stale, key=lambda s: (s.fabric, s.manager, s.number))
        if not keys:
            return
        with self._notes.write() as tx:
            for key in keys:
                tx.run(
                    "hold_stale_number",
                    fabric=key.fabric,
                    manager=key.manager,
                    number=key.number,
                    owner_id=self._fence.owner.id,
                    reason=key.reason,
                )
                text = f"segment {key.text} stays held: {key.manager}: {key.reason}"
                self._fence.insert_events(tx, [("release", text, None)])
