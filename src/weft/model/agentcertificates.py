"""How an agent's certificate is renewed over the mutual TLS that it has; part of the protocol of `weft.model.agentapi`.

POST /v1/certificate/request -> CertificateRequest; the agent makes a key, which never leaves its host
PUT  /v1/certificate         IssuedCertificate -> InstalledCertificate; for the newest request alone
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from weft.model.base import Document

MOST_PEM = 16 << 10
"""Characters of a request or a certificate: one with hundreds of host names has less."""


class CertificateRequest(Document):
    """What the agent asks to be signed."""

    csr: str = Field(max_length=MOST_PEM, description="PKCS #10 in PEM.")


class IssuedCertificate(Document):
    """What weft has signed."""

    certificate: str = Field(max_length=MOST_PEM, description="X.509 in PEM.")


class InstalledCertificate(Document):
    """What new connections are answered with."""

    serial: str = Field(description="Serial number, in hexadecimal.")
    expires_at: datetime
