"""Receipts: what was signed is what is verified."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1
from cryptography.hazmat.primitives.asymmetric.ec import generate_private_key as ec_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from weft.generate.receipts import canonical, public_key_text, sign, verify
from weft.model.errors import InputError
from weft.model.receipt import Abandoned, Receipt, SignedReceipt
from weft.testing import examples

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def _receipt() -> Receipt:
    receipt = examples.receipt(
        examples.pod("1f0c9a3b-0000-4000-8000-000000000000", examples.order(), "p", "alice")
    )
    abandoned = Abandoned(by="olga", at=receipt.released_at, reason="the rack is gone")
    return receipt.model_copy(
        update={"spares": ("gpu09",), "abandoned": abandoned, "late_until": receipt.released_at}
    )


def _signed() -> dict[str, Any]:
    return json.loads(sign(_receipt(), KEY).model_dump_json())


def test_signed_receipt_is_valid_after_json() -> None:
    """After another layout of its JSON it is still valid, and trusted with the right key."""
    document = json.loads(json.dumps(_signed(), indent=4, sort_keys=True))
    verdict = verify(document)
    assert (verdict.valid, verdict.trusted) == (True, False)
    verdict = verify(document, public_key_text(KEY))
    assert (verdict.valid, verdict.trusted) == (True, True)
    pem = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    assert verify(document, pem).trusted


def test_equal_receipts_give_equal_bytes() -> None:
    """Canonical JSON is sorted, without spaces, in UTF-8; Ed25519 is deterministic, so the signature is a
    constant."""
    text = canonical({"b": [1, True, None], "a": "ü\n"})
    assert text == '{"a":"ü\\n","b":[1,true,null]}'.encode()
    assert sign(_receipt(), KEY) == sign(_receipt(), KEY)
    assert SignedReceipt.model_validate(_signed()) == sign(_receipt(), KEY)


def test_receipt_is_signed_as_it_can_be_stored() -> None:
    """PostgreSQL can't store NUL, which a service may have answered."""
    abandoned = Abandoned(by="olga", at=_receipt().released_at, reason="a\0b")
    signed = sign(_receipt().model_copy(update={"abandoned": abandoned}), KEY)
    assert signed.receipt.abandoned and signed.receipt.abandoned.reason == "a\ufffdb"
    assert verify(json.loads(signed.model_dump_json())).valid


@pytest.mark.parametrize("field", sorted(Receipt.model_fields))
def test_changed_field_invalidates_the_signature(field: str) -> None:
    """Whichever field it is."""
    document = _signed()
    signed = field in document["receipt"]
    document["receipt"][field] = "changed"
    assert not verify(document).valid
    del document["receipt"][field]
    # `pkey` is what `segment` was called, this pod gave nothing back while it lived, its user released it, and the kind
    # of owner is left out of a pod's receipt: none of them is in it.
    unsigned = {"pkey", "given_back", "cause", "kind"}
    assert verify(document, public_key_text(KEY)).valid == (not signed) == (field in unsigned)


def test_receipt_without_later_fields_stays_valid() -> None:
    """Read and written again it gets no field that wasn't signed."""
    document = json.loads(
        sign(
            _receipt().model_copy(update={"spares": (), "abandoned": None, "late_until": None}), KEY
        ).model_dump_json()
    )
    assert not {"spares", "abandoned", "late_until"} & document["receipt"].keys()
    again = json.loads(SignedReceipt.model_validate(document).model_dump_json())
    assert again == document and verify(again, public_key_text(KEY)).trusted


def test_receipt_signed_by_another_key_is_not_trusted() -> None:
    """Its own key verifies it, but the operator's doesn't."""
    document = _signed()
    document["receipt"]["clean"] = False
    forger = Ed25519PrivateKey.generate()
    forged = json.loads(sign(Receipt.model_validate(document["receipt"]), forger).model_dump_json())
    assert verify(forged).valid
    verdict = verify(forged, public_key_text(KEY))
    assert (verdict.valid, verdict.trusted) == (False, False)
    assert "a different key" in verdict.reason


def test_receipt_of_a_later_version_keeps_its_signature() -> None:
    """Fields unknown to this version are verified, too."""
    receipt = {**_signed()["receipt"], "version": 2, "sanitized": ["nvme0"]}
    signature = base64.b64encode(KEY.sign(canonical(receipt))).decode()
    document = {
        "receipt": receipt,
        "algorithm": "Ed25519",
        "public_key": public_key_text(KEY),
        "signature": signature,
    }
    assert verify(document, public_key_text(KEY)).trusted
    receipt["sanitized"] = []
    assert not verify(document).valid


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"receipt": None}, "receipt"),
        ({"receipt": {"pod": "\ud800"}}, "receipt"),
        ({"algorithm": "none"}, "algorithm"),
        ({"public_key": "AAAA"}, "public_key"),
        ({"public_key": 1}, "public_key"),
        ({"signature": "!"}, "signature"),
        ({"signature": ""}, "signature"),
    ],
)
def test_invalid_receipt_is_bad_input(changes: dict[str, object], field: str) -> None:
    """The error names the member."""
    with pytest.raises(InputError) as raised:
        verify({**_signed(), **changes})
    assert raised.value.field == field


def test_invalid_key_is_bad_input() -> None:
    """Neither base64 of 32 bytes nor an Ed25519 PEM."""
    other = ec_key(SECP256R1()).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for key in ("", "x", "-----BEGIN PUBLIC KEY-----", other.decode()):
        with pytest.raises(InputError, match="key"):
            verify(_signed(), key)


anything = st.recursive(st.none() | st.integers() | st.text(max_size=20), st.lists, max_leaves=4)
members = st.sampled_from(["receipt", "algorithm", "public_key", "signature"]) | st.text(max_size=8)


@given(st.dictionaries(members, anything, max_size=6))
def test_arbitrary_document_never_crashes_the_verifier(document: dict[str, Any]) -> None:
    """Any JSON is judged, or refused as bad input."""
    with contextlib.suppress(InputError):
        assert not verify(document).valid
