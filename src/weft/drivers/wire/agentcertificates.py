"""Certificates of agents of any sort, seen on the connections to them, and renewed over these."""

from __future__ import annotations

from typing import TypeVar

import httpx
from cryptography import x509
from pydantic import BaseModel

from weft.drivers.wire.agents import Address, AgentClient, Certificates
from weft.model.agentcertificates import CertificateRequest, InstalledCertificate, IssuedCertificate
from weft.model.errors import PermanentError, UnknownError

SECONDS = 10.0

D = TypeVar("D", bound=BaseModel)


class ExpiredError(UnknownError):
    """The agent's certificate has expired: no connection to it is trusted any more."""


class _Named(BaseModel):
    """The part of a status that every sort of agent has."""

    name: str


class CertificateClient(AgentClient):
    """One agent's certificate. Not thread-safe."""

    most = 16 << 20

    def __init__(self, agent: Address, files: Certificates, sort: str) -> None:
        super().__init__(agent, files)
        self.sort = sort
        self._peer: x509.Certificate | None = None

    def look(self) -> x509.Certificate:
        """The certificate that the agent answers with now, and whose chain and host name were verified.

        Raises:
            ExpiredError: it has expired.
            UnknownError, PermanentError: it can't be seen, or another agent answers.
        """
        self.close()  # a kept connection would show the certificate from before
        named = self._asked("GET", "status", None, _Named)
        if named.name != self.name:
            correct = "correct the agent's url in the site"
            raise PermanentError("read its certificate", self._who, f"it is agent {named.name!r}", correct)
        return self._seen()

    def request(self) -> tuple[CertificateRequest, x509.Certificate]:
        """A request for a new certificate, and the certificate of the connection that it came by. Raises the same
        errors as `look`."""
        request = self._asked("POST", "certificate/request", None, CertificateRequest)
        return request, self._seen()

    def install(self, issued: IssuedCertificate) -> InstalledCertificate:
        """Have the agent replace its certificate. Raises the same errors as `look`, and `ConflictError` if the agent
        doesn't expect this one."""
        return self._asked("PUT", "certificate", issued, InstalledCertificate)

    def _asked(self, method: str, path: str, body: BaseModel | None, kind: type[D]) -> D:
        try:
            return self._ask(method, path, body, kind, SECONDS)
        except UnknownError as error:
            if "certificate has expired" in str(error):
                raise ExpiredError(error.asked, error.of, error.answer, error.then) from error
            raise

    def _seen(self) -> x509.Certificate:
        if self._peer is None:
            raise UnknownError("read its certificate", self._who, "a connection without a certificate")
        return self._peer

    def _exchange(
        self, method: str, path: str, body: BaseModel | None, nonce: str, seconds: float
    ) -> tuple[int, httpx.Headers, bytes]:
        self._peer = None
        return super()._exchange(method, path, body, nonce, seconds)

    def _met(self, answer: httpx.Response) -> None:
        connection = answer.extensions["network_stream"].get_extra_info("ssl_object")
        found = connection.getpeercert(True) if connection is not None else None  # in DER
        try:
            self._peer = x509.load_der_x509_certificate(found) if found else None
        except (ValueError, x509.InvalidVersion) as error:
            raise UnknownError(
                "read its certificate", self._who, f"one that can't be read: {error}"
            ) from None
