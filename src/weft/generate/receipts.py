"""Signs and verifies receipts: Ed25519 (RFC 8032) over canonical JSON. Pure: keys are arguments, nothing is read.

Canonical JSON here: keys sorted by code point, no spaces, UTF-8 without escapes, as json.dumps writes it; a receipt has
only objects, arrays, strings, whole numbers and booleans, so for it this is RFC 8785.
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

from weft.model.bandwidth import BandwidthCertificate, SignedCertificate, TestResult
from weft.model.errors import InputError
from weft.model.receipt import Receipt, SignedReceipt
from weft.model.storable import storable

CERTIFICATE = "certificate"
"""The member that a signed certificate has instead of `receipt`."""
_DOCUMENT = "bandwidth certificate"
_KEY_BYTES = 32
_SIGNATURE_BYTES = 64


_VERSION = 1
"""The only version of receipts; the meaning of a later version's fields isn't known."""
_GOOD = frozenset({"clean", "kept"})
"""Results that a clean receipt may have."""


@dataclass(frozen=True, slots=True)
class Validity:
    """The result of a verification.

    Attributes:
        valid: whether the receipt is what the key signed.
        trusted: whether the key was given; False if only the key inside the receipt could be used.
        reason: one sentence.
    """

    valid: bool
    trusted: bool
    reason: str


@dataclass(frozen=True, slots=True)
class ReceiptContents:
    """The contents of a signed receipt, apart from its signature.

    Attributes:
        clean: whether it says so, no item contradicts that, and nothing found later still exists.
        contradictions: items of the receipt that contradict a clean result.
        found: what was found after it was signed and hasn't been seen gone; such corrections aren't signed.
    """

    clean: bool
    contradictions: tuple[str, ...]
    found: tuple[str, ...]


def read(text: str) -> dict[str, Any]:
    """A signed receipt as JSON has it.

    Raises `InputError` if it isn't one: no JSON object, a duplicate member (parsers differ in which one they use), a
    number that receipts don't have, an unknown version.
    """
    try:
        document = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_no_number
        )
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise InputError("FILE", text[:60], "a signed receipt as JSON") from None
    if not isinstance(document, dict):
        raise InputError("FILE", text[:60], "a signed receipt, a JSON object")
    if "receipt" in document and CERTIFICATE in document:  # only one is what the signature is of
        raise InputError("FILE", "receipt and certificate", "one of them: the signature is of one document")
    return cast(dict[str, Any], document)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(twice, "given twice", "each member of a receipt once")
    return dict(pairs)


def _no_number(text: str) -> Any:
    raise InputError("receipt", text, "whole numbers: a receipt has no others")


def contents(document: Mapping[str, Any]) -> ReceiptContents:
    """The contents of a document from `read`. Raises `InputError` if they can't be determined."""
    receipt = _object(document, "receipt")
    version, clean = receipt.get("version"), receipt.get("clean")
    if type(version) is not int or version != _VERSION:
        raise InputError("receipt.version", version, f"{_VERSION}: this version of weft knows no other")
    if not isinstance(clean, bool):
        raise InputError("receipt.clean", clean, "true or false")
    items = _objects("receipt.items", receipt.get("items"), "a list of what was read")
    corrections = _objects("corrections", document.get("corrections", []), "a list of what was found later")
    against = [
        f"{item.get('plane')} {item.get('subject')}: {item.get('result')}"
        for item in items
        if item.get("result") not in _GOOD
    ]
    if receipt.get("abandoned") is not None:
        against.append("the release was abandoned")
    if receipt.get("quarantined", []) != []:
        against.append(f"nodes were quarantined: {receipt['quarantined']}")
    found = [
        f"{one.get('kind')} {one.get('subject')} in {one.get('where')}: {one.get('found')}"
        for one in corrections
        if not one.get("gone_at")
    ]
    return ReceiptContents(clean and not against and not found, tuple(against) if clean else (), tuple(found))


def _object(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = document.get(name)
    if not isinstance(value, dict):
        raise InputError(name, value, "a signed receipt, as `weft pod receipt NAME --json` writes it")
    return cast(dict[str, Any], value)


def _objects(field: str, value: object, allowed: str) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in cast(list[object], value)):
        raise InputError(field, type(cast(object, value)).__name__, allowed)
    return cast(list[dict[str, Any]], value)


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
    """The receipt with its signature and public key. Its text is first made storable, so that the stored receipt is the
    signed one."""
    values = receipt.model_dump(mode="json")
    if (kept := storable(values)) != values:
        receipt, values = Receipt.model_validate(kept), kept
    signature = key.sign(canonical(values))
    return SignedReceipt(
        receipt=receipt,
        public_key=public_key_text(key),
        signature=base64.b64encode(signature).decode(),
    )


def sign_certificate(certificate: BandwidthCertificate, key: Ed25519PrivateKey) -> SignedCertificate:
    """The certificate with its signature and public key. It names itself, so that it can't pass for a receipt."""
    signature = key.sign(canonical(certificate.model_dump(mode="json")))
    return SignedCertificate(
        certificate=certificate,
        public_key=public_key_text(key),
        signature=base64.b64encode(signature).decode(),
    )


def certified(document: Mapping[str, Any]) -> TestResult:
    """The result of a certificate from `read`. Raises `InputError` if it isn't one of this version, or contradicts
    itself: it says passed, but has slow pairs, pairs that were not run, or no measurement."""
    certificate = _object(document, CERTIFICATE)
    if certificate.get("document") != _DOCUMENT:
        raise InputError("certificate.document", certificate.get("document"), _DOCUMENT)
    version, result = certificate.get("version"), certificate.get("result")
    if type(version) is not int or version != _VERSION:
        raise InputError("certificate.version", version, f"{_VERSION}: this version of weft knows no other")
    if result not in ("passed", "failed", "incomplete"):
        raise InputError("certificate.result", result, "passed, failed or incomplete")
    flawless = certificate.get("slow") == 0 and certificate.get("not_run") == {}
    flawless = flawless and certificate.get("measured") != 0 and not certificate.get("without_partner")
    return "failed" if result == "passed" and not flawless else result


def verify(document: Mapping[str, Any], trusted_key: str | None = None) -> Validity:
    """Check a signed receipt, or certificate, as it was read from JSON.

    Args:
        document: members of `SignedReceipt` or `SignedCertificate`, as `read` returns it; its `receipt` is checked
            unchanged, so that the signature of one with newer fields stays valid.
        trusted_key: base64 of 32 bytes, or PEM. None: the key inside the receipt, which shows only that the
            receipt wasn't changed after signing, not who signed it.

    Raises `InputError` if the document isn't a signed receipt at all, or the given key is invalid.
    """
    receipt = _object(document, CERTIFICATE if CERTIFICATE in document else "receipt")
    algorithm = document.get("algorithm")
    if algorithm != "Ed25519":
        raise InputError("algorithm", algorithm, "Ed25519")
    inside = _decode("public_key", document.get("public_key"), _KEY_BYTES)
    signature = _decode("signature", document.get("signature"), _SIGNATURE_BYTES)
    given = _read_key(trusted_key) if trusted_key is not None else None
    if given is not None and given != inside:
        return Validity(False, False, "it was signed with a different key")
    try:
        Ed25519PublicKey.from_public_bytes(inside).verify(signature, canonical(receipt))
    except InvalidSignature:
        return Validity(False, given is not None, "the signature doesn't match: it was changed after signing")
    if given is None:
        return Validity(
            True,
            False,
            "unchanged since it was signed; compare the key with your operator's to verify the signer",
        )
    return Validity(True, True, "unchanged since it was signed with the given key")


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
