"""Placeholders for keys of a pod in stored texts, so that the keys themselves are stored nowhere."""

from __future__ import annotations

import re

TLS_SEED = "vipu-tls-seed"
"""The key that the TLS files of a pod's V-IPU controller are derived from."""
TLS_AUTHORITY, TLS_CERTIFICATE, TLS_KEY = "vipu-tls-authority", "vipu-tls-certificate", "vipu-tls-key"
TLS_NAMES = (TLS_AUTHORITY, TLS_CERTIFICATE, TLS_KEY)
"""Names of those files: their placeholders are replaced by the PEM in base64."""

KEY_BYTES = 24
"""Length of a key; texts contain it in base64."""
_KEY = re.compile(r"\$\{weft:[a-z-]+-key\}")


def grown(text: str) -> int:
    """How many characters a text grows when its placeholders of keys are substituted; TLS files aren't counted."""
    found = [one for one in _KEY.findall(text) if one != place(TLS_KEY)]
    return sum(KEY_BYTES * 4 // 3 - len(one) for one in found)


def place(name: str) -> str:
    """Placeholder of a key in a server's user data, until the server is created."""
    return f"${{weft:{name}}}"
