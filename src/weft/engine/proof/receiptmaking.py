"""Makes a receipt from what was read back at a release."""

from __future__ import annotations

from collections.abc import Collection

from weft.engine.proof.readback import OVER, ReadBack
from weft.engine.rows.ownerrecord import OwnerRecord
from weft.engine.rows.records import PodRecord
from weft.model.messages.message import Message
from weft.model.receipt import Abandoned, Receipt, ReceiptItem

CLEAN = ("clean", "kept")


def make_receipt(
    owner: OwnerRecord,
    read: ReadBack,
    given_back: tuple[tuple[str, ...], tuple[ReceiptItem, ...]] = ((), ()),
    abandoned: Abandoned | None = None,
    quarantined: Collection[str] = (),
    cause: Message | None = None,
) -> Receipt:
    """The receipt to be signed.

    Args:
        given_back: nodes that a pod freed before its end, and what was read then of them, or of numbers.
        cause: why weft released it without a request; None: it was requested, or its lease ended.
    """
    pod = owner if isinstance(owner, PodRecord) else None
    again = {(i.plane, i.subject) for i in read.items}
    items = (
        *(i for i in given_back[1] if (i.plane, i.subject) not in again or i.result != "kept"),
        *read.items,
    )
    return Receipt(
        site=owner.scope.site,
        kind=owner.kind,
        pod_id=str(owner.id),
        pod=owner.name,
        project_id=owner.project_id,
        ordered_at=owner.created_at,
        released_at=read.at,
        cause=None if cause is None else str(cause),
        nodes=pod.nodes if pod else (),
        spares=pod.spares if pod else (),
        segment=(pod.plan.allotment.segment or "") if pod else None,
        given_back=given_back[0],
        items=tuple(_without_details(i) for i in items),
        clean=abandoned is None and all(i.result in CLEAN for i in items),
        quarantined=tuple(sorted(quarantined)),
        abandoned=abandoned,
        late_until=owner.late_until,
    )


def _without_details(item: ReceiptItem) -> ReceiptItem:
    """The item as its project may read it, without a host's other occupants and services' answers."""
    texts = {"not clean": "it still exists, or isn't the pod's alone", "unknown": "it could not be read"}
    return item if item.result in OVER else item.model_copy(update={"seen": texts[item.result]})
