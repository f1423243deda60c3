"""Keys of a pod: where they stand in texts that are stored, so that they themselves are stored nowhere."""

from __future__ import annotations

TLS_SEED = "vipu-tls-seed"
"""The key that the files of TLS of a pod's V-IPU controller are derived from."""
TLS_AUTHORITY, TLS_CERTIFICATE, TLS_KEY = "vipu-tls-authority", "vipu-tls-certificate", "vipu-tls-key"
TLS_NAMES = (TLS_AUTHORITY, TLS_CERTIFICATE, TLS_KEY)
"""Names of those files: in their places stands base64 of the PEM."""


def place(name: str) -> str:
    """The place of a key in a server's user data, until the server is made."""
    return f"${{weft:{name}}}"
