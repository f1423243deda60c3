"""Certificates for the fabric agents and their client, from a small authority of their own.

Keys are P-256. A server certificate carries its host names and addresses, a client certificate only its common name.
Operators with an authority of their own don't need this module.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from weft.fabricagent.issuing import CLOCKS_DIFFER, LONGEST, certificate_pem, key_pem, key_usage
from weft.fabricagent.pairs import replace_pair
from weft.model.errors import InputError
from weft.model.ids import check_name

_NAME = re.compile(
    r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.?"
)
"""A host name (RFC 1123); its last label has a letter first, or it would be a wrong address."""
AUTHORITY_DAYS = 3650
DAYS = LONGEST_DAYS = LONGEST.days


def make_certificates(
    folder: Path,
    agents: Mapping[str, Sequence[str]],
    client: str = "weft",
    days: int = DAYS,
    renew: bool = False,
    new_authority: bool = False,
) -> list[Path]:
    """Create what is missing: `ca.pem`/`ca.key`, `agent-NAME.pem`/`.key` for each agent, `CLIENT.pem`/`.key`.

    Args:
        folder: created if missing. Keys are readable by their owner only.
        agents: agent's name -> host names and IP addresses that it is reached at.
        renew: recreate the agents' and the client's certificates, but never the authority.
        new_authority: recreate the authority and everything else; agents with old certificates can't be
        reached any more.

    Returns the files written. Raises InputError for an empty list of hosts, and for an authority whose certificate
    or key is elsewhere: it is never replaced without being asked for.
    """
    check_name("--client", client)
    for name, hosts in agents.items():
        check_name("--agent", name)
        if not hosts:
            raise InputError("--agent", name, "NAME=HOST[,HOST...], at least one host name or address")
        for host in hosts:
            if not _is_host(host):
                allowed = (
                    "a host name or an address, such as sm1.example, 10.0.0.1 or fd00::1, without a port"
                )
                raise InputError("--agent", f"{name}={host}", allowed)
    if client == "ca" or client.startswith("agent-"):
        raise InputError("--client", client, f"another name: {client}.pem isn't the client's")
    if folder.exists() and not folder.is_dir():
        raise InputError("--dir", str(folder), "a folder, which may not exist yet")
    folder.mkdir(parents=True, exist_ok=True)
    again = renew or new_authority
    due = [(folder / f"agent-{name}.pem", name, hosts) for name, hosts in agents.items()]
    due = [row for row in (*due, (folder / f"{client}.pem", client, ())) if again or not row[0].exists()]
    if not due and (folder / "ca.pem").exists():
        return []  # the authority's key may stay where it is kept
    authority, key, written = _new_authority(folder) if new_authority else _authority(folder)
    for path, name, hosts in due:
        written += _issue(path, name, hosts, authority, key, days)
    return written


def _is_host(text: str) -> bool:
    """Whether clients can reach something at this host: an address, or a name of DNS labels."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return len(text) < 254 and _NAME.fullmatch(text) is not None
    return True


def _authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey, list[Path]]:
    path, key_path = folder / "ca.pem", folder / "ca.key"
    there = [one for one in (path, key_path) if one.exists()]
    if not there:
        return _new_authority(folder)
    if len(there) == 1:
        [missing] = {path, key_path} - {*there}
        raise InputError(
            "--dir",
            str(folder),
            f"a folder with {missing.name} beside {there[0].name}: bring it back while certificates are made, or "
            "replace "
            "the authority and all its certificates with --new-authority",
        )
    try:
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise InputError("--dir", str(folder), "ca.pem and ca.key in PEM without a password") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise InputError("--dir", str(key_path), "the elliptic curve key of ca.pem, as made by this command")
    return certificate, key, []


def _new_authority(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey, list[Path]]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "weft fabric agents")])
    certificate = (
        _builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(key_usage(signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate, key, _write(folder / "ca.pem", certificate, key)


def _issue(
    path: Path,
    common_name: str,
    hosts: Sequence[str],
    authority: x509.Certificate,
    authority_key: ec.EllipticCurvePrivateKey,
    days: int,
) -> list[Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    usage = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = (
        _builder(name, authority.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(key_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
        )
    )
    if hosts:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([_host(h) for h in hosts]), critical=False
        )
    return _write(path, builder.sign(authority_key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _write(path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> list[Path]:
    key_path = path.with_suffix(".key")
    replace_pair(path, key_path, certificate_pem(certificate), key_pem(key))
    return [path, key_path]
