"""Certificates are renewed with the same names, and a pair of files is never half replaced."""

from __future__ import annotations

import os
import shutil
import ssl
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from tests.helpers.agedcertificates import aged, certificate
from weft.fabricagent import pairs
from weft.fabricagent.config import Tls
from weft.fabricagent.issuing import Authority, certificate_pem, read_authority, renewed, request_for
from weft.fabricagent.renewal import Renewal
from weft.fabricagent.tls import make_certificates
from weft.model.agentcertificates import MOST_PEM, IssuedCertificate
from weft.model.errors import ConflictError, InputError, RefusedError

HOSTS = {"sm1": ["sm1.example.net", "10.0.0.1"]}
Build = x509.CertificateSigningRequestBuilder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    aged(tmp_path, HOSTS)
    return tmp_path


def authority(folder: Path) -> Authority:
    found = read_authority(folder / "ca.key", folder / "ca.pem")
    assert found is not None
    return found


def tls_of(folder: Path) -> Tls:
    return Tls(ca=folder / "ca.pem", certificate=folder / "agent-sm1.pem", key=folder / "agent-sm1.key")


def sign(folder: Path, csr: str) -> IssuedCertificate:
    made = renewed(csr, certificate(folder / "agent-sm1.pem"), authority(folder), datetime.now(UTC))
    return IssuedCertificate(certificate=certificate_pem(made).decode())


def loads(folder: Path, name: str = "agent-sm1") -> None:
    """Raises unless certificate and key belong together."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")


def test_renewed_certificate_has_the_same_names_and_another_key(folder: Path) -> None:
    old, renewal = certificate(folder / "agent-sm1.pem"), Renewal(tls_of(folder))
    issued = sign(folder, renewal.request().csr)
    said = renewal.install(issued)
    new = certificate(folder / "agent-sm1.pem")
    loads(folder)
    assert said.serial == f"{new.serial_number:x}" and new.public_key() != old.public_key()
    for kind in (x509.SubjectAlternativeName, x509.ExtendedKeyUsage, x509.BasicConstraints, x509.KeyUsage):
        assert new.extensions.get_extension_for_class(kind) == old.extensions.get_extension_for_class(kind)
    assert new.subject == old.subject and authority(folder).issued(new)
    assert timedelta(days=59) < new.not_valid_after_utc - datetime.now(UTC) <= timedelta(days=60)
    assert (folder / "agent-sm1.key").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConflictError, match="newest request"):
        renewal.install(issued)


def other(build: Callable[[Build], Build], names: list[str] | None = None) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sm1")])
    hosts = [x509.DNSName(n) for n in names or ["sm1.example.net"]]
    made = Build().subject_name(name).add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    key = ec.generate_private_key(ec.SECP256R1())
    return build(made).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def of_key(folder: Path, key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> str:
    current = certificate(folder / "agent-sm1.pem")
    names = current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    made = Build().subject_name(current.subject).add_extension(names, critical=False)
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def present_key(folder: Path) -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key((folder / "agent-sm1.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def also_an_authority(folder: Path) -> str:
    current = certificate(folder / "agent-sm1.pem")
    names = current.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    made = Build().subject_name(current.subject).add_extension(names, critical=False)
    made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    key = ec.generate_private_key(ec.SECP256R1())
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


def with_names(octets: str) -> Callable[[Path], str]:
    """A request whose host names have these DER octets."""

    def build(folder: Path) -> str:
        names = x509.UnrecognizedExtension(x509.ObjectIdentifier("2.5.29.17"), bytes.fromhex(octets))
        made = Build().subject_name(certificate(folder / "agent-sm1.pem").subject).add_extension(names, False)
        key = ec.generate_private_key(ec.SECP256R1())
        return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()

    return build


def of_another_version(folder: Path) -> str:
    fresh = ec.generate_private_key(ec.SECP256R1())
    made = x509.load_pem_x509_csr(request_for(certificate(folder / "agent-sm1.pem"), fresh).encode())
    octets = made.public_bytes(Encoding.DER).replace(b"\x02\x01\x00", b"\x02\x01\x05", 1)
    label = "CERTIFICATE REQUEST"
    return f"-----BEGIN {label}-----\n{b64encode(octets).decode()}\n-----END {label}-----\n"


def forged(folder: Path) -> str:
    """A request whose signature doesn't fit."""
    fresh = ec.generate_private_key(ec.SECP256R1())
    made = x509.load_pem_x509_csr(request_for(certificate(folder / "agent-sm1.pem"), fresh).encode())
    octets = bytearray(made.public_bytes(Encoding.DER))
    octets[-1] ^= 1
    return x509.load_der_x509_csr(bytes(octets)).public_bytes(Encoding.PEM).decode()


@pytest.mark.parametrize(
    ("csr", "said"),
    [
        (lambda folder: other(lambda b: b), "other names"),
        (lambda folder: other(lambda b: b, ["sm1.example.net", "weft.example.net"]), "other names"),
        (lambda folder: other(lambda b: b, ["*.example.net"]), "other names"),
        (with_names("3002a300"), "can't be read"),
        (with_names("3003870101"), "can't be read"),
        (with_names(""), "can't be read"),
        (of_another_version, "can't be read: 5"),
        (also_an_authority, "more than names: extension 2.5.29.19"),
        (lambda folder: of_key(folder, rsa.generate_private_key(65537, 1024)), "P-256"),
        (lambda folder: of_key(folder, ec.generate_private_key(ec.SECP192R1())), "P-256"),
        (lambda folder: of_key(folder, present_key(folder)), "not a new one"),
        (forged, "isn't signed"),
        (lambda folder: "x" * (MOST_PEM + 1), "characters"),
        (
            lambda folder: "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n",
            "read",
        ),
        (lambda folder: "", "read"),
    ],
)
def test_request_for_another_certificate_is_refused(
    folder: Path, csr: Callable[[Path], str], said: str
) -> None:
    with pytest.raises(RefusedError, match=said):
        sign(folder, csr(folder))


def test_certificate_of_another_authority_or_time_is_not_renewed(folder: Path, tmp_path: Path) -> None:
    current, fresh = certificate(folder / "agent-sm1.pem"), ec.generate_private_key(ec.SECP256R1())
    csr, now = request_for(current, fresh), datetime.now(UTC)
    make_certificates(tmp_path / "other", HOSTS)
    with pytest.raises(RefusedError, match="isn't of the authority"):
        renewed(csr, current, authority(tmp_path / "other"), now)
    for at in (timedelta(days=-41), timedelta(days=21)):
        with pytest.raises(RefusedError, match="isn't valid now"):
            renewed(csr, current, authority(folder), now + at)


def test_no_certificate_outlives_its_authority(folder: Path) -> None:
    current, fresh = certificate(folder / "agent-sm1.pem"), ec.generate_private_key(ec.SECP256R1())
    one = authority(folder)
    short = Authority(
        x509.CertificateBuilder()
        .subject_name(one.certificate.subject)
        .issuer_name(one.certificate.subject)
        .public_key(one.key.public_key())
        .serial_number(1)
        .not_valid_before(datetime.now(UTC) - timedelta(days=1))
        .not_valid_after(current.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(one.key, hashes.SHA256()),
        one.key,
    )
    with pytest.raises(RefusedError, match="the authority itself ends"):
        renewed(request_for(current, fresh), current, short, datetime.now(UTC))


def test_agent_installs_only_the_certificate_that_it_requested(folder: Path, tmp_path: Path) -> None:
    """Nothing is replaced by the answer to an older request, a certificate of a strange authority, or other text."""
    renewal, before = Renewal(tls_of(folder)), (folder / "agent-sm1.pem").read_bytes()
    with pytest.raises(ConflictError):
        renewal.install(IssuedCertificate(certificate=before.decode()))
    first = sign(folder, renewal.request().csr)
    second = renewal.request()
    with pytest.raises(ConflictError):
        renewal.install(first)
    with pytest.raises(InputError, match="one certificate in PEM"):
        renewal.install(IssuedCertificate(certificate="no certificate"))
    aged(tmp_path / "other", HOSTS)
    made = renewed(
        second.csr,
        certificate(tmp_path / "other/agent-sm1.pem"),
        authority(tmp_path / "other"),
        datetime.now(UTC),
    )
    with pytest.raises(RefusedError, match="isn't of an authority in"):
        renewal.install(IssuedCertificate(certificate=certificate_pem(made).decode()))
    assert (folder / "agent-sm1.pem").read_bytes() == before
    loads(folder)
    renewal.install(sign(folder, second.csr))  # the newest request is still valid


def test_interruption_between_any_two_steps_leaves_a_working_pair(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For plain files and for files replaced before; a reader always finds certificate and key that belong
    together."""

    class DeathError(BaseException):
        pass

    steps = ("replace", "symlink_to", "mkdir", "rename")
    left = 0

    def mortal(real: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **kwargs: object) -> object:
            nonlocal left
            loads(folder)
            left -= 1
            if left == 0:
                raise DeathError
            return real(*args, **kwargs)

        return step

    for name in steps:
        monkeypatch.setattr(Path, name, mortal(getattr(Path, name)))
    monkeypatch.setattr(pairs.os, "fsync", mortal(os.fsync))
    died = 0
    for again in range(2):
        for at in range(1, 60):
            left = at
            before = (folder / "agent-sm1.pem").read_bytes()
            try:
                make_certificates(folder, HOSTS, renew=True)
            except DeathError:
                died += 1
                loads(folder)
                loads(folder, "weft")
                continue
            assert (folder / "agent-sm1.pem").read_bytes() != before
            break
        else:
            raise AssertionError("it never came to an end")
        assert died > 10 * (again + 1)
    left = 0
    make_certificates(folder, HOSTS, renew=True)
    assert len(list((folder / ".pairs").glob("agent-sm1.pem~*"))) == 2, (
        "pairs of interrupted renewals are removed"
    )


def test_folder_that_cannot_be_written_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(RefusedError, match="ReadWritePaths="):
        Renewal(tls_of(folder)).request()


def test_renewal_keeps_owner_and_mode(folder: Path) -> None:
    """Renewed by root, weft's key still belongs to weft."""
    os.chown(folder / "weft.key", 1234, 1234)
    (folder / "weft.key").chmod(0o640)
    make_certificates(folder, HOSTS, renew=True)
    found = (folder / "weft.key").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 1234, 0o640)
    loads(folder, "weft")


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o700), (0o077, 0o700), (0o077, 0o750), (0o077, 0o770)])
def test_pair_renewed_by_root_is_read_and_renewed_by_the_folders_owner(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, umask: int, mode: int
) -> None:
    """`certs --renew` by root in weft's directory, whatever root's umask is; then weft renews them itself."""
    made = tmp_path_factory.mktemp("pki", numbered=True)
    shutil.copytree(folder, made, dirs_exist_ok=True)
    for path in (made, *made.iterdir()):
        os.chown(path, 0 if mode == 0o770 and path == made else 1234, 1234)
    made.chmod(mode)
    before = os.umask(umask)
    try:
        make_certificates(made, HOSTS, renew=True)
    finally:
        os.umask(before)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.chroot(made)  # root's parent directories can't be entered by others
            os.chdir("/")
            os.setgroups([])
            os.setgid(1234)
            os.setuid(1234)
            make_certificates(Path("/"), HOSTS, renew=True)
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list((made / ".pairs").glob("weft.pem~*"))) == 2
    loads(made)
