"""The server's certificate, reloaded when its files are replaced: renewal needs no restart."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from weft.model.errors import InputError

log = logging.getLogger("weft")

LOOK_SECONDS = 2.0
"""Between two looks at the files."""


def check_certificate(certificate: tuple[Path, Path] | None) -> None:
    """Raise `InputError` for a certificate or key that can't be used."""
    if certificate is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*certificate)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        allowed = f"PEM files of a certificate and of its key, not encrypted ({error})"
        raise InputError("--tls-certificate", str(certificate[0]), allowed) from None


class Renewal:
    """Reloads a certificate for connections that begin after its files were replaced.

    Args:
        files: PEM files of a certificate chain and of its key.
        context: what the server uses.
    """

    def __init__(self, files: tuple[Path, Path], context: ssl.SSLContext) -> None:
        self._files, self._context = files, context
        self._seen = self._stamp()

    def look(self, again: bool = False) -> None:
        """Load the files if they were replaced. An unusable pair is logged once, and the old one stays in use.

        Args:
            again: load them even if unchanged.
        """
        stamp = self._stamp()
        if stamp == self._seen and not again:
            return
        self._seen = stamp
        try:
            check_certificate(self._files)
            self._context.load_cert_chain(*self._files)
        except (InputError, OSError, ValueError) as error:
            log.error("the new TLS certificate can't be used, the old one stays in use: %s", error)
        else:
            log.info("the TLS certificate %s was loaded again", self._files[0])

    def _stamp(self) -> tuple[object, ...]:
        """Fingerprint of the files, which changes when one is replaced."""
        return tuple(_stamp(file) for file in self._files)


def _stamp(file: Path) -> tuple[int, ...]:
    try:
        found = file.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ino, found.st_size)
