"""SSH public keys: complete ones are accepted, truncated ones are refused."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from weft.model.sshkeys import wrong_ssh_key

KEYS = {
    "ed25519": ed25519.Ed25519PrivateKey.generate(),
    "rsa": rsa.generate_private_key(65537, 1024),
    "p256": ec.generate_private_key(ec.SECP256R1()),
    "p384": ec.generate_private_key(ec.SECP384R1()),
    "p521": ec.generate_private_key(ec.SECP521R1()),
}


def text_of(name: str) -> str:
    return KEYS[name].public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


@pytest.mark.parametrize("name", KEYS)
def test_complete_key_is_accepted(name: str) -> None:
    assert wrong_ssh_key(text_of(name)) is None
    assert wrong_ssh_key(text_of(name) + " me@home with words") is None


@pytest.mark.parametrize("name", KEYS)
def test_truncated_key_is_refused(name: str) -> None:
    """Also where the rest is valid base64."""
    kind, encoded = text_of(name).split()
    for length in range(4, len(encoded.rstrip("=")), 4):
        assert "cut off" in (wrong_ssh_key(f"{kind} {encoded[:length]}") or "")


def test_key_with_wrong_type_is_refused() -> None:
    encoded = text_of("ed25519").split()[1]
    assert wrong_ssh_key(f"ssh-rsa {encoded}") is not None


def test_short_rsa_key_is_refused() -> None:
    parts = (b"ssh-rsa", b"\x01\x00\x01", b"\x7f" * 64)
    data = b"".join(len(p).to_bytes(4) + p for p in parts)
    assert "1024 bits" in (wrong_ssh_key(f"ssh-rsa {base64.b64encode(data).decode()}") or "")


def test_key_with_excess_padding_is_refused() -> None:
    """Python's and Nova's base64 accept it but sshd doesn't: logins with the key would fail."""
    assert wrong_ssh_key(text_of("ed25519") + "=") is not None


@pytest.mark.parametrize("name", ["p256", "p384", "p521"])
def test_key_with_a_changed_letter_is_refused(name: str) -> None:
    """An ECDSA point that isn't on the curve: Nova would refuse it after nodes were assigned."""
    kind, encoded = text_of(name).split()
    data = bytearray(base64.b64decode(encoded))
    data[-1] ^= 1
    assert wrong_ssh_key(f"{kind} {base64.b64encode(data).decode()}") is not None
