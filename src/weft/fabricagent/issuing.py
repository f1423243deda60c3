"""Issues certificates that replace others of weft's authority: the same names and purpose, another key, another time.

The request says nothing but the key: names come from the certificate that is replaced, and a request that asks for
others, or for anything else, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from weft.model.agentcertificates import MOST_PEM
from weft.model.errors import InputError, RefusedError

LONGEST = timedelta(days=60)
"""Validity of certificates. Renewing needs no restart, so it can be frequent; a copied key is useful until then."""
CLOCKS_DIFFER = timedelta(minutes=5)
UNREADABLE = (
    *(ValueError, TypeError, UnsupportedAlgorithm),
    *(x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType),
)
"""What `cryptography` raises, at the latest when a member is read, for a malformed certificate or request."""
_COPIED = (x509.SubjectAlternativeName, x509.ExtendedKeyUsage)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def issued(self, certificate: x509.Certificate) -> bool:
        """Whether this authority signed the certificate."""
        try:
            certificate.verify_directly_issued_by(self.certificate)
        except (InvalidSignature, ValueError, TypeError):
            return False
        return True


def read_authority(key_file: Path, certificates: Path) -> Authority | None:
    """The authority among some trusted certificates that a key belongs to; None: the key belongs to none of them.

    Raises `InputError`: a file can't be read, or isn't what it should be.
    """
    try:
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        allowed = f"the authority's key in PEM without a password ({_words(error)})"
        raise InputError("weft.authority_key", str(key_file), allowed) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise InputError("weft.authority_key", str(key_file), "an elliptic curve key, as `certs` makes it")
    try:
        found = x509.load_pem_x509_certificates(certificates.read_bytes())
    except (OSError, *UNREADABLE) as error:
        raise InputError("ca", str(certificates), f"certificates in PEM ({_words(error)})") from None
    ours = [one for one in found if one.public_key() == key.public_key()]
    return Authority(ours[0], key) if ours else None


def request_for(current: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> str:
    """A request in PEM for another certificate with the names of the current one."""
    builder = x509.CertificateSigningRequestBuilder().subject_name(current.subject)
    if (names := _names(current)) is not None:
        builder = builder.add_extension(names, critical=False)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def renewed(csr: str, current: x509.Certificate, authority: Authority, now: datetime) -> x509.Certificate:
    """A certificate to replace the current one. It is valid for as long as that one was, at most for `LONGEST`, and not
    beyond the end of the authority.

    Raises `RefusedError`, with a sentence that says why.
    """
    request = _checked(csr, current)
    if not authority.issued(current):
        raise RefusedError("the present certificate isn't of the authority whose key weft has")
    if not current.not_valid_before_utc <= now < current.not_valid_after_utc:
        raise RefusedError("the present certificate isn't valid now")
    life = min(current.not_valid_after_utc - current.not_valid_before_utc, LONGEST)
    end = min(now + life, authority.certificate.not_valid_after_utc)
    if end <= current.not_valid_after_utc:
        raise RefusedError(
            "a new certificate would end no later than the present one: the authority itself ends"
        )
    key = request.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    builder = (
        x509.CertificateBuilder()
        .subject_name(current.subject)
        .issuer_name(authority.certificate.subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs=False), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
        )
    )
    for one in current.extensions:
        if isinstance(one.value, _COPIED):
            builder = builder.add_extension(one.value, one.critical)
    return builder.sign(authority.key, hashes.SHA256())


def same_names(one: x509.Certificate | x509.CertificateSigningRequest, other: x509.Certificate) -> bool:
    """Whether both have the same subject and the same host names and addresses, in any order."""
    return one.subject == other.subject and set(_names(one) or ()) == set(_names(other) or ())


def key_usage(signs: bool) -> x509.KeyUsage:
    """Key usage of an authority, or of a certificate that it signs."""
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _checked(csr: str, current: x509.Certificate) -> x509.CertificateSigningRequest:
    if len(csr) > MOST_PEM:
        raise RefusedError(f"the request has {len(csr)} characters, more than {MOST_PEM}")
    try:
        request = x509.load_pem_x509_csr(csr.encode())
        key, signed, asked = request.public_key(), request.is_signature_valid, list(request.extensions)
        same = same_names(request, current)
    except UNREADABLE as error:
        raise RefusedError(f"the request can't be read: {_words(error)}") from None
    if not signed:
        raise RefusedError("the request isn't signed with its own key")
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise RefusedError("the request's key isn't one of the curve P-256")
    if key == current.public_key():
        raise RefusedError("the request has the key of the present certificate, not a new one")
    if not same:
        raise RefusedError("the request has other names than the present certificate")
    if others := [
        one.oid.dotted_string for one in asked if not isinstance(one.value, x509.SubjectAlternativeName)
    ]:
        raise RefusedError(f"the request asks for more than names: extension {', '.join(others[:3])}")
    return request


def _names(of: x509.Certificate | x509.CertificateSigningRequest) -> x509.SubjectAlternativeName | None:
    try:
        return of.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return None


def _words(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) and error.strerror else str(error))[:200] or type(
        error
    ).__name__


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key in PEM, as PKCS #8 without a password."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """The certificate in PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)
