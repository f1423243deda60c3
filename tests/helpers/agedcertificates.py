"""Certificates of weft's authority as they are some time after they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

from cryptography import x509

from weft.fabricagent import tls


def aged(folder: Path, agents: Mapping[str, Sequence[str]], left: int = 20, renew: bool = False) -> None:
    """Runs `certs` as of 40 days ago, with a lifetime that leaves `left` days."""
    with patch.object(tls, "CLOCKS_DIFFER", timedelta(days=40)):
        tls.make_certificates(folder, agents, days=left, renew=renew)


def certificate(path: Path) -> x509.Certificate:
    """The first certificate of a file."""
    return x509.load_pem_x509_certificates(path.read_bytes())[0]
