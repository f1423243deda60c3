"""Warnings about certificates that expire, early enough to renew them. Pure: text and time are arguments."""

from __future__ import annotations

from datetime import datetime, timedelta

from cryptography import x509

LONGEST_WARNING = timedelta(days=90)
REMEDY = "renew it with `weft fabric-agent certs --dir DIR --renew`"
"""What to do about the agents' certificates, and weft's own for them."""


def expiry_problems(pem: bytes, name: str, now: datetime, remedy: str = REMEDY) -> list[str]:
    """A sentence for each certificate that has expired, isn't valid yet, or is in the last third of its life (at most
    90 days).

    Args:
        remedy: what to do about an expired certificate; empty: the sentence doesn't say.
    """
    try:
        certificates = x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        return [f"certificate {name} can't be read: {error}"]
    return [text for c in certificates if (text := _problem(c, name, now, remedy))]


def _problem(certificate: x509.Certificate, name: str, now: datetime, remedy: str) -> str:
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    until = f"{ends:%Y-%m-%d %H:%M} UTC"
    if now >= ends:
        return f"certificate {name} expired at {until}{remedy and f': {remedy}'}"
    if now < begins:
        return f"certificate {name} is not valid before {begins:%Y-%m-%d %H:%M} UTC: check this host's clock"
    left = ends - now
    if left < min((ends - begins) / 3, LONGEST_WARNING):
        return f"certificate {name} expires at {until}, in {left.days} days{remedy and f': {remedy}'}"
    return ""


def end_of(pem: bytes) -> float | None:
    """When the first certificate of a PEM file, its owner's, expires, in seconds since 1970; None: it has no
    certificate."""
    try:
        return x509.load_pem_x509_certificates(pem)[0].not_valid_after_utc.timestamp()
    except ValueError:
        return None
