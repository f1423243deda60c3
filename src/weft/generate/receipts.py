"""Receipts signed and verified: Ed25519 (RFC 8032) over canonical JSON. Pure: keys come in, nothing is read.

Canonical JSON here: keys sorted by code point, no spaces, UTF-8 without escapes, as json.dumps gives it; a
receipt has only objects, arrays, strings, whole numbers and booleans, so for it this is RFC 8785.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from weft.model.errors import InputError
from weft.model.receipt import Receipt, SignedReceipt

_KEY_BYTES = 32
_SIGNATURE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Verdict:
    """What verifying gave.

    Attributes:
        valid: the receipt is what was signed by the key.
        trusted: the key is one that was given; False if only the key inside the receipt could be used.
        reason: one sentence.
    """

    valid: bool
    trusted: bool
    reason: str


def canonical(receipt: Mapping[str, Any]) -> bytes:
    """The bytes that are signed. Raises `InputError` for text that has no UTF-8."""
    text = json.dumps(receipt, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InputError("receipt", "half a surrogate pair", "text that can be written as UTF-8") from None


def public_key_text(key: Ed25519PrivateKey | Ed25519PublicKey) -> str:
    """The public key as base64 of its 32 bytes."""
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    return base64.b64encode(public.public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def sign(receipt: Receipt, key: Ed25519PrivateKey) -> SignedReceipt:
    """The receipt with its signature and public key."""
    signature = key.sign(canonical(receipt.model_dump(mode="json")))
    return SignedReceipt(
        receipt=receipt,
        public_key=public_key_text(key),
        signature=base64.b64encode(signature).decode(),
    )


def verify(document: Mapping[str, Any], trusted_key: str | None = None) -> Verdict:
    """Check a signed receipt as it was read from JSON.

    Args:
        document: members of `SignedReceipt`; the `receipt` in it is checked as it stands, so that a receipt with
            fields of a later version keeps its signature.
        trusted_key: base64 of 32 bytes, or PEM. None: the key inside the receipt, which shows only that the
            receipt wasn't changed after signing, not who signed it.

    Raises `InputError` if the document isn't a signed receipt at all, or the given key isn't one.
    """
    receipt, algorithm = document.get("receipt"), document.get("algorithm")
    if not isinstance(receipt, dict):
        raise InputError("receipt", receipt, "a signed receipt, as `weft pod receipt NAME --json` writes it")
    if algorithm != "Ed25519":
        raise InputError("algorithm", algorithm, "Ed25519")
    inside = _decode("public_key", document.get("public_key"), _KEY_BYTES)
    signature = _decode("signature", document.get("signature"), _SIGNATURE_BYTES)
    given = _read_key(trusted_key) if trusted_key is not None else None
    if given is not None and given != inside:
        return Verdict(False, False, "it was signed with a different key")
    try:
        Ed25519PublicKey.from_public_bytes(inside).verify(signature, canonical(cast(dict[str, Any], receipt)))
    except InvalidSignature:
        return Verdict(False, given is not None, "the signature doesn't match: it was changed after signing")
    if given is None:
        return Verdict(
            True,
            False,
            "unchanged since it was signed; compare the key with your operator's to verify the signer",
        )
    return Verdict(True, True, "unchanged since it was signed with the given key")


def _read_key(text: str) -> bytes:
    if "-----BEGIN" not in text:
        return _decode("key", text.strip(), _KEY_BYTES)
    try:
        key = load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        raise InputError("key", text[:60], "an Ed25519 public key in PEM") from None
    if not isinstance(key, Ed25519PublicKey):
        raise InputError("key", type(key).__name__, "an Ed25519 public key")
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _decode(field: str, value: object, length: int) -> bytes:
    try:
        raw = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        raw = b""
    if len(raw) != length:
        raise InputError(field, value, f"base64 of {length} bytes")
    return raw
