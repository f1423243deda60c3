"""The numbers of an owner held by a worker: claimed, returned, kept."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace

from psycopg.types.json import Jsonb

from weft.engine.base.database import Tx
from weft.engine.hold.fence import Fence
from weft.engine.rows.ownerrecord import TakenNumber
from weft.engine.rows.records import StaleNumber
from weft.model.errors import PermanentError
from weft.model.messages import pods
from weft.model.receipt import ReceiptItem


class NumbersHeld(Fence):
    """Spaces and numbers of an owner. No other owner gets a number that may still be in use outside."""

    def number_taken(self, taken: TakenNumber) -> None:
        """Record that someone else uses a number: it is replaced once nothing of the owner is left outside."""
        with self.write() as tx:
            tx.run("number_taken", id=self.owner.id, taken=Jsonb(asdict(taken)))
        self.owner = replace(self.owner, taken=taken)

    @contextmanager
    def next_generation(self) -> Generator[tuple[Tx, int]]:
        """A fenced transaction, under the lock of numbers, that begins the next generation of an owner without an
        order."""
        with self.write(capacity=True) as tx:
            row = tx.row("follow_owner", id=self.owner.id, at=tx.now())
            assert row is not None, "a pod's generations are those of its order"
            yield tx, row["generation"]
        self.owner = replace(self.owner, generation=row["generation"], changed_at=row["changed_at"])

    def hold_number(self, tx: Tx, space: str, number: int) -> None:
        """In a transaction under the lock of numbers. Raises `PermanentError` if another owner has it."""
        who = tx.row("who_holds", space=space, number=number)
        if who is None:
            tx.run("hold_number", space=space, number=number, owner_id=self.owner.id)
        elif who["owner_id"] != self.owner.id:
            name = f"{who['kind']} {who['name']}" if who["name"] else f"owner {who['owner_id']}"
            raise PermanentError(
                f"hold {space} {number}",
                str(self.owner),
                f"{name} has it",
                f"give it another, or release {name}",
            )

    def numbers(self) -> frozenset[tuple[str, int]]:
        """Spaces and numbers held."""
        with self._database.statement() as tx:
            rows = tx.rows("numbers_of", owner_id=self.owner.id)
        return frozenset((r["space"], r["number"]) for r in rows)

    def give_back_numbers(self, numbers: Collection[tuple[str, int]], items: Sequence[ReceiptItem]) -> None:
        """Return numbers that nothing of it uses any more. Args: items: the readings, for the receipt."""
        self.check_ahead()
        with self.write() as tx:
            for space, number in sorted(numbers):
                tx.run("give_back_number", space=space, number=number, owner_id=self.owner.id)
                self.insert_events(tx, [("release", pods.NUMBER_FREE(space=space, number=number), None)])
            read = Jsonb([i.model_dump(mode="json") for i in items])
            tx.run("insert_given_back", owner_id=self.owner.id, nodes=[], at=tx.now(), items=read)
            tx.run("touch_queue", at=tx.now())

    def keep_stale_numbers(self, stale: Iterable[StaleNumber]) -> None:
        """Keep numbers from other owners although the segment is gone; `weft.engine.watch.fabrickeeper` frees them."""
        keys = sorted(
            stale, key=lambda s: (s.fabric, s.manager, s.number)
        )  # locked in the order of `fabrickeeper`
        if not keys:
            return
        with self.write() as tx:
            for key in keys:
                tx.run(
                    "hold_stale_number",
                    fabric=key.fabric,
                    manager=key.manager,
                    number=key.number,
                    owner_id=self.owner.id,
                    reason=key.reason,
                )
                text = f"segment {key.text} stays held: {key.manager}: {key.reason}"
                self.insert_events(tx, [("release", text, None)])
