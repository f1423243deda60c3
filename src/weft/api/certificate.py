"""The server's certificate, reloaded when its files are replaced: renewal needs no restart."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path

from weft.app.servecertificate import check_certificate
from weft.model.errors import InputError
from weft.model.messages import health

log = logging.getLogger("weft")

LOOK_SECONDS = 2.0
"""Seconds between two checks of the files."""


class CertificateReload:
    """Reloads a certificate for connections that begin after its files were replaced.

    Args:
        files: PEM files of a certificate chain and of its key.
        context: the TLS context of the server.
    """

    def __init__(self, files: tuple[Path, Path], context: ssl.SSLContext) -> None:
        self._files, self._context = files, context
        self._seen = self._stamp()
        self._said = ""

    def look(self, again: bool = False) -> None:
        """Load the files if they were replaced.

        An unusable pair is logged once, the old one stays in use, and each call tries again: no fingerprint shows that
        a file's owner or mode, or a limit of the process, was corrected.

        Args:
            again: load them even if unchanged.
        """
        stamp = self._stamp()
        if stamp == self._seen and not again:
            return
        try:
            check_certificate(self._files)
            self._context.load_cert_chain(*self._files, password="")
        except (InputError, OSError, ValueError) as error:
            if again or str(error) != self._said:
                log.error("%s", health.CERTIFICATE_KEPT(text=str(error)))
            self._said = str(error)
        else:
            self._seen, self._said = stamp, ""
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
