"""Orders that may be sent again: the pod that an `Idempotency-Key` stands for.

https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from weft.engine.base.database import Database
from weft.model.errors import InputError, TemporaryError
from weft.model.messages.orders import instead
from weft.model.order import Order

KEPT_FOR = timedelta(days=1)
"""How long a key is remembered; used again later, it counts as a new one."""
UNMADE_KEPT_FOR = timedelta(hours=1)
"""How long the key of an order that made no pod is kept, since it was refused or its process ended: longer than orders
take, and a caller has no more rows than it can write in that time."""
FIELD = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class OrderKey:
    """A key of one user and project. Args: key: as the client sent it."""

    project_id: str
    user_id: str
    key: str


class OrderKeys:
    """Any number of API processes may use the same rows. Each method raises `TemporaryError` without a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pod_of(self, key: OrderKey, order: Order) -> UUID:
        """The id of the pod that this key's order has, or is to get. The first order with the key decides.

        Raises `InputError` if another order was sent with the key.
        """
        digest = digest_of(order)
        given = {"project_id": key.project_id, "user_id": key.user_id, "key": key.key}
        with self._database.transaction() as tx:
            tx.run("keep_order_key", **given, digest=digest, pod_id=uuid4(), kept=KEPT_FOR.total_seconds())
            row = tx.row("order_key", **given)
        assert row is not None, "a row that this transaction has written or seen"
        if bytes(row["digest"]) != digest:
            raise InputError(FIELD, key.key, instead("a new key: another order was sent with this one"))
        return row["pod_id"]

    def is_made(self, pod_id: UUID, name: str) -> bool:
        """Whether an earlier order with the key made its pod.

        Raises `TemporaryError` while that order is being placed: it may still be refused.
        """
        row = self._database.row("ordered_once", id=pod_id)
        if row is not None and not row["confirmed"]:
            why = "the same order is being placed"
            raise TemporaryError(f"place pod {name}", "weft", why, "order again with the same key", delay=2.0)
        return row is not None


def digest_of(order: Order) -> bytes:
    """SHA-256 of what an order asks for; a later version's fields, left out of it, don't count."""
    return hashlib.sha256(order.model_dump_json(exclude_defaults=True).encode()).digest()
