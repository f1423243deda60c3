"""The TLS of an agent's server."""

from __future__ import annotations

import ssl

from weft.fabricagent.config import Tls
from weft.model.errors import InputError


def server_context(tls: Tls) -> ssl.SSLContext:
    """TLS that requires a client certificate of our CA.

    Raises:
        InputError: a file that can't be read or isn't PEM.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(tls.certificate, tls.key, password="")  # it would ask on the terminal
    except (OSError, ValueError) as error:  # SSLError is an OSError
        raise InputError(
            "tls.certificate", f"{tls.certificate}, {tls.key}", f"a PEM pair ({error})"
        ) from error
    try:
        context.load_verify_locations(tls.ca)
    except (OSError, ssl.SSLError) as error:
        raise InputError("tls.ca", str(tls.ca), f"a PEM file ({error})") from error
    return context
