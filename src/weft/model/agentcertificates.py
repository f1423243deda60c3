"""How an agent's certificate is renewed over the mutual TLS that it has; part of the protocol of `weft.model.agentapi`.

POST /v1/certificate/request -> CertificateRequest; the agent makes a key, which never leaves its host
PUT  /v1/certificate         IssuedCertificate -> InstalledCertificate; for the newest request alone
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from weft.model.base import Document

MOST_PEM = 16 << 10
"""Most characters of a request or a certificate; one with hundreds of host names has fewer."""


class CertificateRequest(Document):
    """The agent's request for a new certificate."""

    csr: str = Field(max_length=MOST_PEM, description="PKCS #10 in PEM.")


class IssuedCertificate(Document):
    """The certificate that weft signed for the agent's newest request."""

    certificate: str = Field(max_length=MOST_PEM, description="X.509 in PEM.")


class InstalledCertificate(Document):
    """The certificate that the agent now presents on new connections."""

    serial: str = Field(description="Serial number, in hexadecimal.")
    expires_at: datetime
