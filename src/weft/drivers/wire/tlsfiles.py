"""PEM files of TLS connections that weft opens: read again when they are replaced, so that renewal needs no restart."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from pathlib import Path
from typing import Protocol

from weft.model.errors import PermanentError
from weft.model.messages import health

log = logging.getLogger(__name__)


class Certificates(Protocol):
    """PEM files of mutual TLS as the site has them."""

    @property
    def ca(self) -> str | None:
        """File of the authority, or None."""
        ...

    @property
    def certificate(self) -> str | None:
        """File of weft's certificate, or None."""
        ...

    @property
    def key(self) -> str | None:
        """File of its key, or None."""
        ...


class RenewedTls:
    """A TLS context that is recreated when its files are replaced. Thread-safe.

    Args:
        then: what to do about files that can't be used, for the error.
    """

    def __init__(self, files: Certificates, then: str) -> None:
        self._files, self._then = files, then
        self._lock = threading.Lock()
        self._stamp: tuple[tuple[int, ...], ...] | None = None
        self._context: ssl.SSLContext | None = None
        self._said = ""

    def newest(self) -> ssl.SSLContext:
        """The context; the same object until the files are replaced by others that can be used.

        Raises `PermanentError` if there are none yet: a half of a pair must not stop what works.
        """
        with self._lock:
            stamp = tuple(map(changed_file, _paths(self._files)))
            if self._context is None or stamp != self._stamp:
                try:
                    self._context = _loaded(self._files)
                    self._stamp, self._said = stamp, ""
                except (OSError, ValueError) as error:  # SSLError is an OSError
                    self._keep(error)
            assert self._context is not None
            return self._context

    def _keep(self, error: Exception) -> None:
        """Stay with the old files. The new ones are tried again with each request: what was wrong may be their owner,
        their mode or a limit of the process, and no fingerprint shows when that is corrected."""
        files = ", ".join(_paths(self._files))
        if self._context is None:
            raise PermanentError("load the certificates", files, str(error), self._then) from error
        if (text := f"{files}: {error}") != self._said:
            self._said = text
            log.error("%s", health.CERTIFICATE_KEPT(text=text))


def pair_problem(files: Certificates) -> str:
    """Why certificate and key can't be used, as files on this host; empty: they can, or there are none to look at."""
    if not files.certificate or not all(map(os.path.exists, _paths(files))):
        return ""
    try:
        _loaded(files)
    except (OSError, ValueError) as error:
        shown = ", ".join(_paths(files))
        return f"{shown} can't be used ({error}): those from before stay in use until weft is restarted"
    return ""


def changed_file(path: str) -> tuple[int, ...]:
    """A fingerprint of a file, which changes when the file is replaced; empty: it can't be read."""
    try:
        found = Path(path).stat()
    except OSError:
        return ()
    return found.st_mtime_ns, found.st_ino, found.st_size


def _paths(files: Certificates) -> list[str]:
    return [path for path in (files.ca, files.certificate, files.key) if path]


def _loaded(files: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=files.ca)
    if files.certificate:
        context.load_cert_chain(files.certificate, files.key, password="")  # it would ask on the terminal
    return context
