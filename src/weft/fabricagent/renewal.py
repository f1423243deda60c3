"""The agent's part in the renewal of its certificate: a new key, a request for it, and the pair once it is signed.

The key is in memory until its certificate has come; an agent that dies in between is asked again later.
"""

from __future__ import annotations

import logging
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec

from weft.fabricagent.config import Tls
from weft.fabricagent.issuing import UNREADABLE, certificate_pem, key_pem, request_for, same_names
from weft.fabricagent.pairs import replace_pair
from weft.model.agentcertificates import CertificateRequest, InstalledCertificate, IssuedCertificate
from weft.model.errors import ConflictError, InputError, RefusedError

log = logging.getLogger("weft.fabricagent")


class Renewal:
    """The renewal of one agent's certificate. Thread-safe; of two requests only the newer one counts."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._lock = threading.Lock()
        self._pending: ec.EllipticCurvePrivateKey | None = None

    def request(self) -> CertificateRequest:
        """Make a key, and ask for a certificate with the names of the present one.

        Raises `RefusedError`: the present one can't be read, or its folder can't be written.
        """
        with self._lock:
            current = self._current()
            for folder in {self._tls.certificate.parent, self._tls.key.parent}:
                if not os.access(folder, os.W_OK):
                    raise RefusedError(
                        f"{folder} can't be written by the agent: add it to ReadWritePaths= of its unit"
                    )
            self._pending = ec.generate_private_key(ec.SECP256R1())
            return CertificateRequest(csr=request_for(current, self._pending))

    def install(self, issued: IssuedCertificate) -> InstalledCertificate:
        """Replace certificate and key; connections that begin afterwards use them.

        Raises:
            ConflictError: it isn't for the newest request, such as after a restart of the agent.
            InputError, RefusedError: it isn't what was asked for; nothing is changed.
        """
        try:
            [certificate] = x509.load_pem_x509_certificates(issued.certificate.encode())
            certificate.public_key()  # its members are parsed when they are read
            list(certificate.extensions)
        except UNREADABLE as error:
            raise InputError("certificate", "its text", f"one certificate in PEM ({error})") from None
        with self._lock:
            key, current = self._pending, self._current()
            if key is None or certificate.public_key() != key.public_key():
                raise ConflictError(
                    "this certificate isn't for the agent's newest request: ask for another one"
                )
            if why := self._wrong(certificate, current):
                raise RefusedError(why)
            try:
                replace_pair(self._tls.certificate, self._tls.key, certificate_pem(certificate), key_pem(key))
            except OSError as error:
                raise RefusedError(f"{self._tls.certificate} can't be replaced: {error}") from error
            self._pending = None
        log.info(
            "the certificate was renewed: serial number %x, until %s",
            certificate.serial_number,
            certificate.not_valid_after_utc.isoformat(),
        )
        return InstalledCertificate(
            serial=f"{certificate.serial_number:x}", expires_at=certificate.not_valid_after_utc
        )

    def _wrong(self, certificate: x509.Certificate, current: x509.Certificate) -> str:
        """Why a certificate can't replace the current one; empty: it can."""
        if not same_names(certificate, current):
            return "the certificate has other names than the present one"
        if not any(_issued(certificate, one) for one in _read(self._tls.ca)):
            return f"the certificate isn't of an authority in {self._tls.ca}"
        if certificate.not_valid_after_utc <= current.not_valid_after_utc:
            return "the certificate ends no later than the present one"
        if certificate.not_valid_before_utc > datetime.now(UTC):
            return "the certificate isn't valid yet by this host's clock"
        return ""

    def _current(self) -> x509.Certificate:
        """The agent's own, first in its file."""
        found = _read(self._tls.certificate)
        if not found:
            raise RefusedError(f"{self._tls.certificate} has no certificate")
        return found[0]


def _read(path: Path) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, *UNREADABLE) as error:
        raise RefusedError(f"{path} can't be read: {error}") from None


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True
