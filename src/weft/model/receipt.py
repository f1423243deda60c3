"""The receipt: what was read back when a pod was taken back, signed."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from weft.model.base import Document


class ReceiptItem(Document):
    """One thing that the pod had, or one plane where traces could be."""

    plane: str = Field(description="server, port, network, partition, p_key host, p_key leaf, database …")
    subject: str = Field(description="Name and id, or port GUID.")
    result: Literal["clean", "not clean", "unknown"]
    seen: str = Field(description="What was read, and from where.")
    at: datetime


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
        # What was signed before there were spares must read the same for ever.
        exclude_if=lambda spares: not spares,
        description="Nodes that were held idle for the pod; left out if there were none.",
    )
    pkey: str = Field(description="P_Key; empty: the pod had none (IPUs).")
    items: tuple[ReceiptItem, ...]
    clean: bool
    quarantined: tuple[str, ...] = Field(
        default=(), description="Nodes kept back because they weren't seen clean."
    )


class SignedReceipt(Document):
    """A receipt with its Ed25519 signature (RFC 8032), both keys and signature in base64."""

    receipt: Receipt
    algorithm: Literal["Ed25519"] = "Ed25519"
    public_key: str
    signature: str
