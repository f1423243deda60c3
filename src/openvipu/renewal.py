"""TLS files that are replaced while a program runs: what begins afterwards uses the new ones, without a restart."""

from __future__ import annotations

import logging
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import grpc

from openvipu.model.errors import BadRequest
from openvipu.rpctls import Tls

log = logging.getLogger("openvipu")

LOOK_SECONDS = 1.0
"""Least seconds between two looks at the files."""


class Renewal:
    """Keeps TLS files' newest contents. Thread-safe. Unusable files are logged once; the old ones stay in use.

    Args:
        tls: as it was read; without files it stays as it is.
    """

    def __init__(self, tls: Tls) -> None:
        self._tls, self._seen = tls, _stamps(tls.files)
        self._looked, self._said = time.monotonic(), ""
        self._lock = threading.Lock()

    def newest(self) -> Tls:
        """The files as they are, looked at again after `LOOK_SECONDS`; the last usable ones if they are broken."""
        with self._lock:
            now = time.monotonic()
            if self._tls.files and now - self._looked >= LOOK_SECONDS:
                self._looked = now
                self._look()
            return self._tls

    def _look(self) -> None:
        stamps = _stamps(self._tls.files)
        if stamps == self._seen:
            return
        try:
            new = self._tls.again()
            check(new)
        except (BadRequest, OSError, ValueError) as error:  # ssl.SSLError is an OSError
            # Tried again at the next look: it may be an owner or a mode, which no fingerprint shows.
            if str(error) != self._said:
                log.error("the new TLS files can't be used, the old ones stay in use: %s", error)
            self._said = str(error)
        else:
            if _stamps(self._tls.files) != stamps:
                return  # they are being replaced right now: the next look reads them
            self._tls = new
            log.warning("TLS files were replaced and are in use: %s", ", ".join(map(str, new.files)))
            self._seen, self._said = stamps, ""


def check(tls: Tls) -> None:
    """Raise OSError or ValueError unless the files hold an authority and, with a key, a certificate of that key."""
    authority, *pair = tls.files
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_verify_locations(authority)
    if pair:
        context.load_cert_chain(pair[0], pair[1])


def _stamps(files: tuple[Path, ...]) -> tuple[tuple[int, ...], ...]:
    """Values of files that change when a file is replaced."""
    stamps: list[tuple[int, ...]] = []
    for file in files:
        try:
            found = file.stat()
        except OSError:
            stamps.append(())
        else:
            stamps.append((found.st_mtime_ns, found.st_ino, found.st_size))
    return tuple(stamps)


def server_credentials(tls: Tls) -> grpc.ServerCredentials:
    """Credentials of a server whose handshakes use the newest files. Mutual: a client without a certificate of the
    authority is turned away in the handshake."""
    renewal, used = Renewal(tls), [tls]

    def newer() -> grpc.ServerCertificateConfiguration | None:
        """gRPC asks before each handshake; None: as before."""
        newest = renewal.newest()
        if newest is used[0]:
            return None
        used[0] = newest
        return newest.server_configuration()

    fetcher: Any = newer  # grpc's types leave out the None that its documentation asks for
    return grpc.dynamic_ssl_server_credentials(tls.server_configuration(), fetcher, tls.mutual)
