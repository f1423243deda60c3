"""Placeholders for keys of a pod in stored texts, so that the keys themselves are stored nowhere."""

from __future__ import annotations

TLS_SEED = "vipu-tls-seed"
"""The key that the TLS files of a pod's V-IPU controller are derived from."""
TLS_AUTHORITY, TLS_CERTIFICATE, TLS_KEY = "vipu-tls-authority", "vipu-tls-certificate", "vipu-tls-key"
TLS_NAMES = (TLS_AUTHORITY, TLS_CERTIFICATE, TLS_KEY)
"""Names of those files: their placeholders are replaced by the PEM in base64."""


def place(name: str) -> str:
    """Placeholder of a key in a server's user data, until the server is created."""
    return f"${{weft:{name}}}"
