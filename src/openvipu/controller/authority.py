"""``--tls-init``: a certificate authority of this controller alone, and a certificate for each role.

An authority for each controller isolates controllers: an agent trusts only certificates of its own controller's
authority, and refuses others in the handshake.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from openvipu.model.errors import BadRequest

ROLES = ("controller", "agent", "admin", "user")
"""The certificates' common names: who may do what. Names for host checks: openvipu-<role>."""

_HOST = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.?"
)
"""RFC 1123; the last label begins with a letter, or it would be a wrong address."""

LIFETIME = datetime.timedelta(days=3650)


def create(directory: Path, hosts: Sequence[str]) -> None:
    """Write ``ca.crt``, ``ca.key`` and a pair for each role; BadRequest if the directory has some.

    ``hosts`` are names and addresses under which clients reach the controller, beside localhost.
    """
    for host in hosts:
        _alternative(host)  # before anything is written
    if (directory / "ca.crt").exists():
        raise BadRequest(f"{directory} has a certificate authority already; choose an empty directory")
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_all(directory, hosts)
    except OSError as error:
        raise BadRequest(f"TLS directory {directory} can't be written: {error.strerror}") from None


def _write_all(directory: Path, hosts: Sequence[str]) -> None:
    now = datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("openvipu authority")
    authority = (
        _builder(name, name, key.public_key(), now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    for role in ROLES:
        role_key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(f"openvipu-{role}")]
        if role == "controller":
            names += [_alternative(host) for host in ("localhost", "127.0.0.1", *hosts)]
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            _builder(_name(role), name, role_key.public_key(), now)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(uses, critical=False)
            .sign(key, hashes.SHA256())
        )
        _write(directory, role, certificate, role_key)
    # the authority last: its file marks the directory as complete
    _write(directory, "ca", authority, key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + LIFETIME)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise BadRequest(f"host {host!r} is no host name and no address; give it without a port")
    return x509.DNSName(host)


def _write(
    directory: Path, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> None:
    secret = directory / f"{name}.key"
    secret.touch(mode=0o600)
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    (directory / f"{name}.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
