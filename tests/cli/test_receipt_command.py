"""`weft receipt verify`: exit code 0 only if the signer is trusted and nothing contradicts the contents."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.cli.conftest import Desk
from weft.cli.receipt import record
from weft.generate.receipts import canonical, public_key_text, sign
from weft.generate.receipts import verify as check
from weft.model.receipt import SignedReceipt

Verify = Callable[..., tuple[int, str]]


@pytest.fixture
def signed(desk: Desk) -> dict[str, Any]:
    """A receipt signed by the site, in `r.json`, and the site's key in `weft.pub`."""
    desk.weft("pod", "create", "-f", desk.pod_file())
    desk.house.finish("train")
    desk.weft("pod", "release", "train")
    desk.house.finish("train")
    Path("r.json").write_text(desk.weft("pod", "receipt", "train", "--json").out)
    Path("weft.pub").write_text(desk.weft("receipt", "key").out)
    return json.loads(Path("r.json").read_text())


@pytest.fixture
def verify(desk: Desk) -> Verify:
    """Writes a document or text to `r.json` and verifies it offline; exit code and output."""

    def run(document: dict[str, Any] | str, *words: str) -> tuple[int, str]:
        Path("r.json").write_text(document if isinstance(document, str) else json.dumps(document))
        done = desk.weft("receipt", "verify", "r.json", *words, cloud=None)
        return done.code, done.out + done.err

    return run


def _own(receipt: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The receipt signed with another key, and that key."""
    key = Ed25519PrivateKey.generate()
    made = sign(SignedReceipt.model_validate(receipt).receipt, key).model_dump(mode="json")
    return made, public_key_text(key)


def _altered(receipt: dict[str, Any], **changes: Any) -> tuple[dict[str, Any], str]:
    """The receipt with changed contents, signed with another key, and that key."""
    key, inside = Ed25519PrivateKey.generate(), receipt["receipt"] | changes
    signature = base64.b64encode(key.sign(canonical(inside))).decode()
    return receipt | {
        "receipt": inside,
        "public_key": public_key_text(key),
        "signature": signature,
    }, public_key_text(key)


def test_receipt_by_the_sites_key_is_accepted(desk: Desk, signed: dict[str, Any], verify: Verify) -> None:
    """The key is given as a file or as text; the service reports the key that is in the receipt."""
    key = Path("weft.pub").read_text().strip()
    assert key == signed["public_key"] == desk.weft("receipt", "key", "--json").json["public_key"]
    for given in ("weft.pub", key):
        code, said = verify(signed, "--key", given)
        assert code == 0 and "content: clean" in said
    assert (
        desk.weft("receipt", "verify", "r.json", "--key", key, "--json", cloud=None).json["trusted"] is True
    )


def test_receipt_says_why_weft_released_the_pod(signed: dict[str, Any]) -> None:
    """In the signed part, after a drain; other receipts have no such line."""
    cause = "maintenance of gpu01 began at 2027-02-01T00:00Z: the pod is released, as its order says"
    own, key = _altered(signed, cause=cause)
    assert record(own).fields["cause"] == cause and "cause" not in record(signed).fields
    assert check(own, key).valid and not check(own | {"receipt": signed["receipt"]}, key).valid


def test_unknown_signer_is_refused(signed: dict[str, Any], verify: Verify) -> None:
    """A tenant can sign anything with its own key: without a trusted key only --self-signed accepts it."""
    forged, key = _own(signed)
    for document in (signed, forged):
        code, said = verify(document)
        assert code == 1 and "signer: UNKNOWN" in said
        assert verify(document, "--self-signed")[0] == 0
    assert verify(forged, "--key", "weft.pub")[0] == 1
    assert verify(signed, "--key", key)[0] == 1
    assert verify(signed, "--key", "nonsense")[0] == 2
    assert verify(signed, "--key", key, "--self-signed")[0] == 2


def test_changed_receipt_is_refused(signed: dict[str, Any], verify: Verify) -> None:
    signed["receipt"]["nodes"] = ["gpu99"]
    assert verify(signed, "--key", "weft.pub")[0] == 1
    assert verify(signed, "--self-signed")[0] == 1


def test_open_correction_is_shown_and_refused(signed: dict[str, Any], verify: Verify) -> None:
    """Corrections found later aren't signed; they count until they were seen gone."""
    correction = {
        "kind": "server",
        "where": "main",
        "subject": "abc",
        "found": "it runs on gpu01",
        "found_at": "2026-11-28T00:00:00Z",
    }
    for gone, wanted in ((None, 1), ("2026-11-28T01:00:00Z", 0)):
        code, said = verify(signed | {"corrections": [correction | {"gone_at": gone}]}, "--key", "weft.pub")
        assert code == wanted and ("it runs on gpu01" in said) is (wanted == 1)
    assert verify(signed | {"corrections": "none"}, "--key", "weft.pub")[0] == 2


@pytest.mark.parametrize("result", ["not clean", "unknown", "accepted", "of a later version"])
def test_clean_receipt_with_an_unclean_item_is_refused(
    result: str, signed: dict[str, Any], verify: Verify
) -> None:
    items = signed["receipt"]["items"]
    document, key = _altered(signed, items=[*items, items[0] | {"result": result}])
    code, said = verify(document, "--key", key)
    assert code == 1 and f": {result}" in said and "contradicts" in said


def test_clean_receipt_of_an_abandoned_release_is_refused(signed: dict[str, Any], verify: Verify) -> None:
    abandoned = {"by": "root", "at": "2026-11-28T00:00:00Z", "reason": "power", "kept": []}
    document, key = _altered(signed, abandoned=abandoned)
    code, said = verify(document, "--key", key)
    assert code == 1 and "the release was abandoned" in said


def test_unclean_receipt_is_refused(signed: dict[str, Any], verify: Verify) -> None:
    document, key = _altered(signed, clean=False)
    code, said = verify(document, "--key", key)
    assert code == 1 and "NOT CLEAN" in said


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"version": 2}, "receipt.version"),
        ({"version": True}, "receipt.version"),
        ({"version": "1"}, "receipt.version"),
        ({"clean": 1}, "receipt.clean"),
        ({"items": {}}, "receipt.items"),
        ({"items": ["clean"]}, "receipt.items"),
    ],
)
def test_receipt_of_an_unknown_version_is_refused(
    changes: dict[str, Any], field: str, signed: dict[str, Any], verify: Verify
) -> None:
    """Exit code 2 with the field, even if the signature is trusted."""
    document, key = _altered(signed, **changes)
    code, said = verify(document, "--key", key)
    assert code == 2 and field in said


def test_receipt_with_a_duplicate_member_is_refused(signed: dict[str, Any], verify: Verify) -> None:
    """At any depth: readers differ in which of the two they use."""
    text = json.dumps(signed)
    twice = '{"receipt": {"clean": true, "pod": "other"}, ' + text[1:]
    within = text.replace('"clean": true', '"clean": false, "clean": true', 1)
    for document, field in ((twice, "receipt"), (within, "clean")):
        code, said = verify(document, "--key", "weft.pub")
        assert code == 2 and field in said


@pytest.mark.parametrize(
    "text", ["{}", "[]", "no", "", "[" * 100000, '{"receipt": {"clean": NaN}}', '{"receipt": {"a": 1.5}}']
)
def test_invalid_receipt_is_reported(text: str, desk: Desk, verify: Verify) -> None:
    assert verify(text)[0] == 2


def test_missing_file_is_reported(desk: Desk) -> None:
    assert desk.weft("receipt", "verify", "nix.json", cloud=None).code == 2


def test_document_that_is_receipt_and_certificate_is_refused(signed: dict[str, Any], verify: Verify) -> None:
    """Only one of them is signed, and a reader of the other would take it for signed."""
    forged = signed | {"certificate": {"document": "bandwidth certificate"}}
    code, said = verify(forged, "--key", "weft.pub")
    assert code == 2 and "one of them: the signature is of one document" in said


def test_clean_receipt_with_quarantined_nodes_is_refused(signed: dict[str, Any], verify: Verify) -> None:
    """A node is quarantined if it wasn't read back clean."""
    document, key = _altered(signed, quarantined=["gpu01"])
    code, said = verify(document, "--key", key)
    assert code == 1 and "contradicts that it is clean: nodes were quarantined: ['gpu01']" in said


@pytest.mark.parametrize("corrections", [{}, "", 0, False, None])
def test_corrections_that_are_not_a_list_are_refused(
    signed: dict[str, Any], verify: Verify, corrections: object
) -> None:
    """Only an empty list says that nothing was found."""
    code, said = verify(signed | {"corrections": corrections}, "--key", "weft.pub")
    assert code == 2 and "a list of what was found later" in said


def test_correction_with_an_empty_end_is_open(signed: dict[str, Any], verify: Verify) -> None:
    """An empty text isn't a time at which it was seen gone."""
    one = {"kind": "server", "where": "main", "subject": "x", "found": "it runs", "gone_at": ""}
    code, said = verify(signed | {"corrections": [one]}, "--key", "weft.pub")
    assert code == 1 and "found after it was signed, and not seen gone" in said
