"""SSH public keys by their parts (RFC 4253 §6.6, RFC 5656 §3.1, RFC 8709 §4), so that a truncated one is detected."""

from __future__ import annotations

import base64
import binascii

_PARTS = {
    "ssh-rsa": (None, None),  # e, n
    "ssh-ed25519": (32,),
    "ecdsa-sha2-nistp256": (8, 65),  # name of the curve, point
    "ecdsa-sha2-nistp384": (8, 97),
    "ecdsa-sha2-nistp521": (8, 133),
}
"""Type -> bytes of each part after the type's own name; None: any number."""
LEAST_RSA_BITS = 1024
"""OpenSSH refuses shorter ones."""


def wrong_ssh_key(text: str) -> str | None:
    """What is allowed instead of a key that Nova or servers would refuse; None: the key is complete.

    Args:
        text: one line as in `authorized_keys`: type, base64, and maybe a comment.
    """
    kind, encoded = (*text.split(" ", 2), "")[:2]
    whole = (
        f"a complete {kind} key, as ssh-keygen writes it into the file .pub; this one is cut off or damaged"
    )
    try:
        data = base64.b64decode(encoded, validate=True)
        parts = _split(data)
    except (binascii.Error, ValueError):
        return whole
    if base64.b64encode(data).decode() != encoded:
        return whole  # sshd reads base64 strictly, and would ignore the line
    sizes = _PARTS.get(kind)
    if sizes is None or parts[:1] != [kind.encode()] or len(parts) != len(sizes) + 1:
        return whole
    if any(size not in (None, len(part)) for size, part in zip(sizes, parts[1:], strict=True)):
        return whole
    if kind == "ssh-rsa" and (bits := int.from_bytes(parts[2]).bit_length()) < LEAST_RSA_BITS:
        return f"an RSA key of {LEAST_RSA_BITS} bits or more; this one has {bits}"
    return None if _is_read(f"{kind} {encoded}") else whole


def _is_read(text: str) -> bool:
    """Whether Nova's reader takes it: with a wrong letter, an ECDSA key is often no point of its curve."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_ssh_public_key

    try:
        load_ssh_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


def shortened(text: str) -> str:
    """The key cut to the length that errors show."""
    return f"{text[:40]}…" if len(text) > 40 else text


def _split(data: bytes) -> list[bytes]:
    """Length-prefixed strings. Raises `ValueError` if they don't end where the data does."""
    found: list[bytes] = []
    while data:
        size = int.from_bytes(data[:4])
        if len(data) < 4 + size:
            raise ValueError("cut off")
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found
