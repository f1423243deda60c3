"""The API's certificate and key: whether a server could use them."""

from __future__ import annotations

import ssl
from pathlib import Path

from weft.model.errors import InputError


def check_certificate(certificate: tuple[Path, Path] | None) -> None:
    """Raise `InputError` for a certificate or key that can't be used."""
    if certificate is None:
        return
    try:
        # With a password: without one an encrypted key would be asked for on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*certificate, password="")
    except (OSError, ValueError) as error:  # SSLError is an OSError
        allowed = f"PEM files of a certificate and of its key, not encrypted ({error})"
        raise InputError("--tls-certificate", str(certificate[0]), allowed) from None
