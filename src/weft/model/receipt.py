"""The receipt: what was read back when a pod was taken back, signed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from weft.model.base import Document


class ReceiptItem(Document):
    """One thing that the pod had, or one plane where traces could be."""

    plane: str = Field(
        description="server, guest, host, port, network, database …, and what a fabric's driver calls its planes, such "
        "as partition, p_key host, p_key leaf, p_key elsewhere."
    )
    subject: str = Field(description="Name and id, or the id of a port.")
    result: Literal["clean", "not clean", "unknown"]
    seen: str = Field(description="What was read, and from where.")
    at: datetime = Field(description="When the reading began.")
    unread: tuple[str, ...] = Field(
        default=(),
        # What was signed before there was this field must read the same forever.
        exclude_if=lambda unread: not unread,
        description="What the result does not cover, because it could not be read or is not yet up to date, each with "
        "the reason; left out if there is nothing.",
    )


class Abandoned(Document):
    """An operator ended a release that did not come to an end: what the items say is not clean may still be there."""

    by: str = Field(description="Name of the operator.")
    at: datetime = Field(description="When it was asked for.")
    reason: str
    kept: tuple[str, ...] = Field(
        default=(),
        description="Numbers that are given to nobody until they are seen free, such as `segment/ib0 101`.",
    )


class Correction(Document):
    """Something that was found after the receipt was signed, though an item of it says that it was gone."""

    kind: str
    where: str
    subject: str = Field(description="Id, or port and segment.")
    found: str = Field(description="What was seen.")
    found_at: datetime
    gone_at: datetime | None = Field(
        default=None, description="When it was seen gone; null: it is still there."
    )


class Receipt(Document):
    """What the signature is over, as canonical JSON (sorted keys, no spaces, UTF-8)."""

    version: Literal[1] = 1
    site: str
    pod_id: str
    pod: str
    project_id: str
    ordered_at: datetime
    released_at: datetime
    nodes: tuple[str, ...]
    spares: tuple[str, ...] = Field(
        default=(),
        # What was signed before there were spares must read the same forever.
        exclude_if=lambda spares: not spares,
        description="Nodes that were held idle for the pod; left out if there were none.",
    )
    given_back: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda nodes: not nodes,
        description="Nodes that the pod gave back before its end; what was read of them then is among the items, with "
        "its time. Left out if there were none.",
    )
    segment: str | None = Field(
        default=None,
        # What was signed before fabrics of other types must read the same forever: it has `pkey`.
        exclude_if=lambda segment: segment is None,
        description="Segment on the fabric as its type writes it; empty: the pod had none (IPUs).",
    )
    pkey: str | None = Field(
        default=None,
        exclude_if=lambda pkey: pkey is None,
        description="What is `segment` now, in receipts of an earlier weft.",
    )
    items: tuple[ReceiptItem, ...]
    clean: bool
    quarantined: tuple[str, ...] = Field(
        default=(), description="Nodes kept back because they weren't seen clean."
    )
    abandoned: Abandoned | None = Field(
        default=None,
        exclude_if=lambda abandoned: abandoned is None,
        description="An operator gave up on seeing all of it gone; left out otherwise. Never with `clean`.",
    )
    late_until: datetime | None = Field(
        default=None,
        exclude_if=lambda late_until: late_until is None,
        description="A worker lost the pod with a request perhaps under way; what that could still have made was "
        "waited for until then, and the items were read after it. Left out if no worker did.",
    )


class SignedReceipt(Document):
    """A receipt with its Ed25519 signature (RFC 8032), both keys and signature in base64."""

    receipt: Receipt
    algorithm: Literal["Ed25519"] = "Ed25519"
    public_key: str
    signature: str
    corrections: tuple[Correction, ...] = Field(
        default=(),
        exclude_if=lambda corrections: not corrections,
        description="What has turned out to be wrong since; not covered by the signature. Left out if nothing has.",
    )
