"""Certificates of a pod's V-IPU controller, derived like its keys: created on demand, stored nowhere.

A pod has a CA of its own, which signs one certificate, the controller's: weft trusts no other there, and another pod's
controller can't impersonate this one. The same seed gives the same keys; the certificates may differ each time, since
their signatures are randomized.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from weft.model.podkeys import TLS_AUTHORITY, TLS_CERTIFICATE, TLS_KEY, TLS_NAMES, TLS_SEED
from weft.ports.podkeys import PodKeys

SERVER_NAME = "openvipu-controller"
"""The name in the certificate. It is the same in all pods: the CA is the pod's own."""

_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Order of the curve P-256 (SEC 2, 2.4.2)."""
_FROM, _TO = datetime(2020, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""No expiry of their own (RFC 5280, 4.1.2.5): they are valid as long as the pod has the controller."""


def text_of(keys: PodKeys, pod_id: str, name: str) -> str:
    """What replaces the placeholder `name` in user data: a key unchanged, a TLS file as base64 of its PEM."""
    if name not in TLS_NAMES:
        return keys.key(pod_id, name)
    return base64.b64encode(_files(keys.key(pod_id, TLS_SEED))[name]).decode()


def authority(keys: PodKeys, pod_id: str) -> bytes:
    """PEM of the CA that a pod's controller is verified with."""
    return _files(keys.key(pod_id, TLS_SEED))[TLS_AUTHORITY]


def _files(seed: str) -> dict[str, bytes]:
    root, leaf = _key(seed, "authority"), _key(seed, "controller")
    # a name of its own: another pod's authority is recognized before any signature is checked
    issuer = _name(
        f"weft pod authority {x509.SubjectKeyIdentifier.from_public_key(root.public_key()).digest.hex()}"
    )
    signed = (
        _builder(issuer, issuer, root, 1)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(root, SHA256())
    )
    names = x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)])
    certificate = (
        _builder(_name("controller"), issuer, leaf, 2)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(root, SHA256())
    )
    return {
        TLS_AUTHORITY: signed.public_bytes(Encoding.PEM),
        TLS_CERTIFICATE: certificate.public_bytes(Encoding.PEM),
        TLS_KEY: leaf.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    }


def _key(seed: str, what: str) -> ec.EllipticCurvePrivateKey:
    """A key of P-256: 48 bytes, 16 more than its size, leave no bias (FIPS 186-5, A.2.1)."""
    derived = HKDF(algorithm=SHA256(), length=48, salt=None, info=f"weft/tls/{what}".encode())
    number = int.from_bytes(derived.derive(seed.encode())) % (_ORDER - 1) + 1
    return ec.derive_private_key(number, ec.SECP256R1())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, serial: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(_FROM)
        .not_valid_after(_TO)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
