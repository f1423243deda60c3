"""The receipt: what was read back when a pod was released, signed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from weft.model.base import Document
from weft.model.owner import OwnerKind


class ReceiptItem(Document):
    """One thing that the pod had, or one plane that could still have traces of it."""

    plane: str = Field(
        description="server, guest, host, port, network, database …, or a plane of the fabric, such as partition, "
        "p_key host, p_key leaf, p_key elsewhere."
    )
    subject: str = Field(description="Name and id, or port id.")
    result: Literal["clean", "not clean", "unknown", "accepted", "kept"] = Field(
        description="accepted: nothing can be read there; what weft requested was accepted. Never in a clean "
        "receipt. kept: it stays as ordered; it now belongs to the project, without weft's mark."
    )
    seen: str = Field(description="What was read, and where.")
    at: datetime = Field(description="When the reading began.")
    unread: tuple[str, ...] = Field(
        default=(),
        # Receipts that were signed before this field existed must always read the same.
        exclude_if=lambda unread: not unread,
        description="What the result doesn't cover, because it could not be read or is not yet up to date, with "
        "reasons; omitted if empty.",
    )
    level: Literal["configuration", "operational", "frames"] | None = Field(
        default=None,
        # Receipts that were signed before this field existed must always read the same.
        exclude_if=lambda level: level is None,
        description="For a former member's port: how close to actual forwarding it was read. configuration: what its "
        "switch or manager is configured with. operational: what the device itself reports as in effect. frames: test "
        "frames were sent there too, and nothing received them. Omitted for everything else.",
    )


class Abandoned(Document):
    """A release that could not finish was ended: whatever the items don't report as clean may still exist."""

    by: str = Field(
        description="Name of the operator, marked `(operator)` if from outside of the project; `weft` if the release "
        "had lasted longer than its limit."
    )
    at: datetime = Field(description="When it was requested.")
    reason: str
    kept: tuple[str, ...] = Field(
        default=(),
        description="Numbers that aren't allocated again until they are seen free, such as `segment/ib0 101`.",
    )


class Correction(Document):
    """Something found after the receipt was signed that contradicts one of its items."""

    kind: str
    where: str
    subject: str = Field(description="Id, or port and segment.")
    found: str = Field(description="What was seen.")
    found_at: datetime
    gone_at: datetime | None = Field(
        default=None, description="When it was seen gone; null if it still exists."
    )


class ReceiptKey(Document):
    """The key that a site's receipts are signed with."""

    algorithm: Literal["Ed25519"] = "Ed25519"
    public_key: str = Field(description="Base64 of its 32 bytes.")


class Receipt(Document):
    """What is signed, as canonical JSON (sorted keys, no spaces, UTF-8)."""

    version: Literal[1] = 1
    site: str
    kind: OwnerKind = Field(
        default="pod",
        # Receipts that were signed when only pods had them must always read the same.
        exclude_if=lambda kind: kind == "pod",
        description="Kind of the owner; omitted for a pod.",
    )
    pod_id: str = Field(description="Id of the pod, or of the other owner.")
    pod: str = Field(description="Its name.")
    project_id: str
    ordered_at: datetime
    released_at: datetime
    cause: str | None = Field(
        default=None,
        # Receipts that were signed before there was a cause must always read the same.
        exclude_if=lambda cause: cause is None,
        description="Why weft released the pod for a drain, as its order said; omitted for other releases.",
    )
    nodes: tuple[str, ...]
    spares: tuple[str, ...] = Field(
        default=(),
        # Receipts that were signed before there were spares must always read the same.
        exclude_if=lambda spares: not spares,
        description="Spare nodes; omitted if there were none.",
    )
    given_back: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda nodes: not nodes,
        description="Nodes that were released before the pod's end; the items include what was read about them then. "
        "Omitted if there were none.",
    )
    segment: str | None = Field(
        default=None,
        # Receipts that were signed before there were other types of fabrics have `pkey`, and must always read the same.
        exclude_if=lambda segment: segment is None,
        description="P_Key or VLAN on the fabric; empty if the pod had none (IPUs).",
    )
    pkey: str | None = Field(
        default=None,
        exclude_if=lambda pkey: pkey is None,
        description="P_Key in receipts of earlier versions, which have no `segment`.",
    )
    items: tuple[ReceiptItem, ...]
    clean: bool
    quarantined: tuple[str, ...] = Field(
        default=(), description="Nodes quarantined because they weren't read back clean."
    )
    abandoned: Abandoned | None = Field(
        default=None,
        exclude_if=lambda abandoned: abandoned is None,
        description="Set if the release was ended before it had finished; omitted otherwise. Never with `clean`.",
    )
    late_until: datetime | None = Field(
        default=None,
        exclude_if=lambda late_until: late_until is None,
        description="Set if a worker lost its hold on the pod, couldn't record what it requested, or got no answer to "
        "a change of a fabric that may take effect later: the items were read after this time, when such a request "
        "could no longer take effect. Omitted otherwise.",
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
        description="What has turned out to be wrong since; not covered by the signature. Omitted if empty.",
    )
