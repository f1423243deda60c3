"""Steps about certificates and protocols of weft's own services."""

from __future__ import annotations

import socket
import struct
from datetime import UTC, datetime

from cryptography import x509

from weftacceptance.cloud import Json, LostError, soon
from weftacceptance.steps import Run, Tests, step, weft

_LONGEST = 60
"""Longest lifetime of a certificate in days."""
_OLD = {"sslv3_disabled": 0x0300, "tlsv1_0_disabled": 0x0301, "tlsv1_1_disabled": 0x0302}
_NEW = 0x0303
_CIPHERS = (0xC02F, 0xC02B, 0xC013, 0xC014, 0xC009, 0xC00A, 0x009C, 0x002F, 0x0035, 0x000A)


@step("cert_rotation_test", "security")
def cert_rotation(run: Run) -> Json:
    """Certificates of the fabric agents: none is valid for too long, and after a rotation each agent shows another
    one."""
    tests, fabrics = Tests(), weft(run.operator, "/v1/site")["document"]["fabrics"]
    agents = {a["name"]: str(a["url"]) for f in fabrics.values() for a in f["manager"]["agents"]}
    known = {
        (one["kind"], one["name"]) for one in weft(run.operator, "/v1/site/certificates")["certificates"]
    }

    def shown() -> dict[str, x509.Certificate]:
        return {n: x509.load_der_x509_certificate(run.lab.certificate(url)) for n, url in agents.items()}

    before = shown()
    listed = bool(before) and all(("agent", name) in known for name in before)
    tests.add("cert_inventory_non_empty", listed, f"{len(before)} shown, and listed by weft")
    run.lab.rotate({name: [url.split("/")[2].rsplit(":", 1)[0]] for name, url in agents.items()})
    after = before

    def are_new() -> bool:
        nonlocal after
        after = shown()
        return all(after[name].serial_number != before[name].serial_number for name in before)

    tests.add("rotation_evidence_present", soon(are_new), "another one is shown, by an agent that ran on")
    now = datetime.now(UTC)
    every = [*before.values(), *after.values()]
    lives = [(one.not_valid_after_utc - one.not_valid_before_utc).days for one in every]
    bad = [n for one, n in zip(every, lives, strict=True) if n > _LONGEST or one.not_valid_after_utc <= now]
    tests.add("no_certs_out_of_policy", not bad, f"they live {max(lives, default=0)} days")
    counts = {"certs_inspected": len(every), "rotation_window_days": _LONGEST, "out_of_policy": len(bad)}
    return {**counts, "tests": tests}


@step("insecure_protocols_test", "security")
def insecure_protocols(run: Run) -> Json:
    """A process of weft's API with a certificate accepts TLS 1.2, but neither older protocols nor plain HTTP."""
    tests = Tests()
    with run.lab.api() as where:
        if not soon(lambda: _listens(where), 60) or not _hello(where, _NEW):
            raise LostError("the API doesn't answer by TLS 1.2")
        for name, version in _OLD.items():
            tests.add(name, not _hello(where, version), f"a hello of version {version:#06x} isn't answered")
        tests.add("plain_http_disabled", not _plain(where), "HTTP isn't answered")
        tests.add("tlsv1_2_answered", _hello(where, _NEW), "while TLS 1.2 is")
    return {"endpoints_tested": 1, "tests": tests}


def _listens(where: tuple[str, int]) -> bool:
    try:
        return _hello(where, _NEW)
    except LostError:
        return False


def _said(where: tuple[str, int], words: bytes) -> bytes:
    try:
        with socket.create_connection(where, 5) as peer:
            peer.sendall(words)
            return peer.recv(4096)
    except (ConnectionResetError, TimeoutError):
        return b""
    except OSError as error:
        raise LostError(f"{where[0]}:{where[1]}: {error}") from error


def _hello(where: tuple[str, int], version: int) -> bool:
    """Whether a ClientHello of exactly this version (RFC 5246, 7.4.1.2) is answered with a ServerHello of it.
    Raises `LostError` if nothing listens."""
    ciphers = b"".join(struct.pack(">H", one) for one in _CIPHERS)
    # Extensions, which SSL 3.0 doesn't have: groups, their format, signatures.
    more = bytes.fromhex("000a00060004001d0017000b00020100000d000a00080403040108040201")
    body = struct.pack(">H", version) + bytes(range(32)) + b"\0" + struct.pack(">H", len(ciphers)) + ciphers
    body += b"\1\0" + (struct.pack(">H", len(more)) + more if version > 0x0300 else b"")
    hello = b"\1" + struct.pack(">I", len(body))[1:] + body
    record = b"\x16" + struct.pack(">HH", min(version, 0x0301), len(hello)) + hello
    got = _said(where, record)
    return got[:1] == b"\x16" and got[5:6] == b"\2" and got[9:11] == struct.pack(">H", version)


def _plain(where: tuple[str, int]) -> bool:
    """Whether plain HTTP is answered."""
    return _said(where, b"GET / HTTP/1.1\r\nHost: weft\r\n\r\n").startswith(b"HTTP/")
